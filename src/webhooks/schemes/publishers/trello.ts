import type { Handshake } from '../handshake.ts';
import { jsonSample, type SignatureSpec } from '../spec.ts';

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
  eventType: { path: ['action', 'type'] },
  eventId: { path: ['action', 'id'] },
  handshakes: [head],
  sample: jsonSample({
    action: { id: '51f9424bcd6e040f3c002412', type: 'updateCard', data: { card: { name: 'Ship it' } } },
    model: { id: '4eea4ffc91e31d174600004a', name: 'Trello Development' },
  }),
  source: 'https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/, read 2026-11',
};
