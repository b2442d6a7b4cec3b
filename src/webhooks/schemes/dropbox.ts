import type { Handshake } from './handshake.ts';
import type { SignatureSpec } from './spec.ts';

// What is echoed to whoever asks must not be anything that a browser could run.
const CHALLENGE = /^[A-Za-z0-9._~+/=-]{1,256}$/;

/** Sent once, unsigned, when the URI is registered. */
const challenge: Handshake = {
  name: 'challenge',
  method: 'GET',
  needsVerification: false,
  recognises: ({ query }) => query.has('challenge'),
  answer({ query }) {
    const text = query.get('challenge');
    if (text === null || !CHALLENGE.test(text)) return undefined;
    return { statusCode: 200, contentType: 'text/plain', body: text, headers: { 'x-content-type-options': 'nosniff' } };
  },
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
