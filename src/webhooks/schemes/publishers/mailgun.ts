import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/**
 * Signs ten digits and fifty characters and nothing else, joined without a separator: with other lengths one signature
 * would fit several pairs. Events come as JSON; routes and legacy webhooks as forms. The key is the HTTP webhook signing
 * key. A subaccount's event is signed with its own key and, as parent-signature, with the primary account's.
 */
export const mailgun: PublisherSpec = {
  name: 'Mailgun',
  headers: [],
  signatureFields: [
    { path: ['signature', 'signature'], formField: 'signature' },
    { path: ['signature', 'parent-signature'], formField: 'parent-signature' },
  ],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.timestamp, part.token({ path: ['signature', 'token'], formField: 'token', length: 50 })],
  timestamp: {
    in: 'body',
    field: { path: ['signature', 'timestamp'], formField: 'timestamp', length: 10 },
    unit: 'seconds',
  },
  eventType: { path: ['event-data', 'event'] },
  eventId: { path: ['event-data', 'id'] },
  sample: jsonSample({
    'event-data': { event: 'opened', id: 'ase7i2zsRYeDXztHGENqRA', recipient: 'alice@example.com' },
  }),
  source: 'https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks, read 2026-11',
};
