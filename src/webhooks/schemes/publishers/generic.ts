import { type PublisherSpec, part } from '../spec.ts';

/** For senders of one's own: what most publishers do. */
export const generic: PublisherSpec = {
  name: 'Generic',
  keyIsChosen: true,
  headers: [{ signature: 'X-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  isPrefixOptional: true,
  signs: [part.body],
  eventType: { none: 'each sender has a convention of its own' },
  eventId: { none: 'each sender has a convention of its own' },
  source: 'no publisher: a convention of this service, 2026-11',
};
