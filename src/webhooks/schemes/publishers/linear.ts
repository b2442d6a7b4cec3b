import { type PublisherSpec, part } from '../spec.ts';

/** The header linear-timestamp is not signed; the one that counts is in the body. */
export const linear: PublisherSpec = {
  name: 'Linear',
  headers: [{ signature: 'Linear-Signature', deliveryId: 'Linear-Delivery' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.body],
  timestamp: { in: 'body', field: { path: ['webhookTimestamp'], isNumber: true }, unit: 'milliseconds' },
  requiresTimestamp: true,
  eventType: { headers: ['Linear-Event'] },
  eventId: { headers: ['Linear-Delivery'] },
  source: 'https://linear.app/developers/webhooks and @linear/sdk 98.0.0, read 2026-11',
};
