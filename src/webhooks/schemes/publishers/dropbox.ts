import { echo, type Handshake } from '../handshake.ts';
import { type PublisherSpec, part } from '../spec.ts';

/** Sent once, unsigned, when the URI is registered. */
const challenge: Handshake = {
  name: 'challenge',
  method: 'GET',
  needsVerification: false,
  recognises: ({ query }) => query.has('challenge'),
  answer: ({ query }) => echo(query.get('challenge')),
};

export const dropbox: PublisherSpec = {
  name: 'Dropbox',
  headers: [{ signature: 'X-Dropbox-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.body],
  eventType: { none: 'a delivery only names the accounts in which something changed' },
  eventId: { none: 'neither a delivery nor what changed has one' },
  handshakes: [challenge],
  source: 'https://www.dropbox.com/developers/reference/webhooks, read 2026-11',
};
