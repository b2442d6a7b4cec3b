import { headTest } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the secret of the API key; the URL is the callbackURL, byte for byte. */
export const trello: PublisherSpec = {
  name: 'Trello',
  headers: [{ signature: 'X-Trello-Webhook' }],
  algorithm: 'sha1',
  encoding: 'base64',
  signs: [part.body, part.url],
  eventType: { path: ['action', 'type'] },
  eventId: { path: ['action', 'id'] },
  handshakes: [headTest],
  sample: jsonSample({
    action: { id: '51f9424bcd6e040f3c002412', type: 'updateCard', data: { card: { name: 'Ship it' } } },
    model: { id: '4eea4ffc91e31d174600004a', name: 'Trello Development' },
  }),
  source: 'https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/, read 2026-11',
};
