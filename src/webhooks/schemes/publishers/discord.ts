import type { Handshake } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { jsonObject } from '../values.ts';

/** Sent when the URL of interactions is saved and now and then after, signed, and with wrong signatures too. */
const ping: Handshake = {
  name: 'PING',
  method: 'POST',
  needsVerification: true,
  // An event of the other kind of webhook has type 1 too, and what happened in it.
  recognises({ body }) {
    const { type, event } = jsonObject(body);
    return type === 1 && event === undefined;
  },
  answer: () => ({ statusCode: 200, contentType: 'application/json', body: '{"type":1}' }),
};

/** The same for the URL of webhook events. */
const eventsPing: Handshake = {
  name: 'PING of webhook events',
  method: 'POST',
  needsVerification: true,
  recognises: ({ body }) => jsonObject(body).type === 0,
  answer: () => ({ statusCode: 204, contentType: 'text/plain', body: '' }),
};

/** Interactions and webhook events. The key is the application's public key. */
export const discord: PublisherSpec = {
  name: 'Discord',
  headers: [{ signature: 'X-Signature-Ed25519', timestamp: 'X-Signature-Timestamp' }],
  algorithm: 'ed25519',
  encoding: 'hexLower',
  signs: [part.timestamp, part.body],
  // Ten digits: with any other number of them a digit could be the timestamp's or the body's.
  timestamp: { in: 'header', unit: 'seconds', length: 10 },
  keyEncoding: 'hex',
  eventType: { path: ['type'] },
  eventId: { path: ['id'] },
  handshakes: [ping, eventsPing],
  // Shows that an answer follows within 15 minutes; anything else is shown as a failure.
  acceptedResponse: { contentType: 'application/json', body: '{"type":5}' },
  sample: jsonSample({
    id: '846462639134605312',
    application_id: '845027738276462632',
    type: 2,
    data: { id: '846462639134605313', name: 'deploy', type: 1 },
  }),
  source: 'https://docs.discord.com/developers/interactions/overview, read 2026-11',
};
