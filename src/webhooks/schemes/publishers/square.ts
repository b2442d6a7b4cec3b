import { type PublisherSpec, part } from '../spec.ts';

/** The URL is the one in Square's console, byte for byte. */
export const square: PublisherSpec = {
  name: 'Square',
  headers: [{ signature: 'X-Square-HmacSha256-Signature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.url, part.body],
  eventType: { path: ['type'] },
  eventId: { path: ['event_id'] },
  eventIdSource: 'https://developer.squareup.com/docs/webhooks (event_id: to bypass what repeats), read 2026-11',
  source: 'https://developer.squareup.com/docs/webhooks/step3validate, read 2026-11',
};
