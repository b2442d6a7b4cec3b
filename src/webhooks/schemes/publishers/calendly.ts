import { type PublisherSpec, part } from '../spec.ts';

export const calendly: PublisherSpec = {
  name: 'Calendly',
  keyIsChosen: true,
  headers: [{ signature: 'Calendly-Webhook-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ',', keyValueSeparator: '=', valueKeys: ['v1'], acceptsMultiple: true },
  signs: [part.timestamp, '.', part.body],
  timestamp: { in: 'signature', valueKey: 't', unit: 'seconds' },
  eventType: { path: ['event'] },
  eventId: { none: 'only what the event is about has one, in payload.uri' },
  source: 'https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures, read 2026-11',
};
