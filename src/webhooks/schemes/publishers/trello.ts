import type { Handshake } from '../handshake.ts';
import type { SignatureSpec } from '../spec.ts';

/** Sent once, unsigned and empty, when a webhook is made. */
const head: Handshake = {
  name: 'HEAD',
  method: 'HEAD',
  needsVerification: false,
  recognises: () => true,
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** The key is the secret of the API key; the URL is the callbackURL, byte for byte. */
export const trello: SignatureSpec = {
  name: 'Trello',
  headers: [{ signature: 'X-Trello-Webhook' }],
  algorithm: 'sha1',
  encoding: 'base64',
  payload: { strategy: 'UrlPlusBody', endsWithUrl: true },
  handshakes: [head],
  source: 'https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/, read 2026-11',
};
