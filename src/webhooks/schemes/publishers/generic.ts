import type { SignatureSpec } from '../spec.ts';

/** For senders of one's own: what most publishers do. */
export const generic: SignatureSpec = {
  name: 'Generic',
  headers: [{ signature: 'X-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  isPrefixOptional: true,
  payload: { strategy: 'RawBody' },
  source: 'no publisher: a convention of this service, 2026-11',
};
