import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the signing secret of the webhook. A webhook that sends no body signs the timestamp alone. */
export const zendesk: PublisherSpec = {
  name: 'Zendesk',
  headers: [
    {
      signature: 'X-Zendesk-Webhook-Signature',
      timestamp: 'X-Zendesk-Webhook-Signature-Timestamp',
      deliveryId: 'X-Zendesk-Webhook-Invocation-Id',
    },
  ],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.timestamp, part.body],
  timestamp: { in: 'header', unit: 'rfc3339' },
  eventType: { path: ['type'] },
  eventId: { headers: ['X-Zendesk-Webhook-Invocation-Id'] },
  sample: jsonSample({
    id: '01H3Q2W5',
    type: 'zen:event-type:ticket.created',
    subject: 'zen:ticket:35436',
    detail: { id: '35436', subject: 'My printer is on fire', status: 'OPEN' },
  }),
  source: 'https://developer.zendesk.com/documentation/webhooks/verifying/, read 2026-11',
};
