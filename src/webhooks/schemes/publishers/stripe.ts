import type { SignatureSpec } from '../spec.ts';

/** The key is the whole `whsec_…` text. Segments `v0` are of test mode and never count. */
export const stripe: SignatureSpec = {
  name: 'Stripe',
  headers: [{ signature: 'Stripe-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ',', keyValueSeparator: '=', valueKeys: ['v1'], acceptsMultiple: true },
  payload: { strategy: 'TimestampDotBody' },
  timestamp: { in: 'signature', valueKey: 't', unit: 'seconds' },
  source: 'https://docs.stripe.com/webhooks#verify-manually, read 2026-11',
};
