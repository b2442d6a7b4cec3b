import { echo, type Handshake } from '../handshake.ts';
import type { SignatureSpec } from '../spec.ts';

/** Sent once, unsigned, when the URI is registered. */
const challenge: Handshake = {
  name: 'challenge',
  method: 'GET',
  needsVerification: false,
  recognises: ({ query }) => query.has('challenge'),
  answer: ({ query }) => echo(query.get('challenge')),
};

export const dropbox: SignatureSpec = {
  name: 'Dropbox',
  headers: [{ signature: 'X-Dropbox-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  payload: { strategy: 'RawBody' },
  handshakes: [challenge],
  source: 'https://www.dropbox.com/developers/reference/webhooks, read 2026-11',
};
