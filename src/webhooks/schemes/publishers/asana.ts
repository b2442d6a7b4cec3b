import type { Handshake, HandshakeRequest } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { headerOf } from '../values.ts';

const HEADER = 'X-Hook-Secret';

// What is echoed into a header is one word. Asana sends 64 hex digits; a key of a few letters could be guessed.
const SECRET = /^[A-Za-z0-9._~+/=-]{16,256}$/;

/** Sent once, unsigned and empty, while a webhook is made: it brings the key that events are signed with. */
const hookSecret: Handshake = {
  name: HEADER,
  method: 'POST',
  needsVerification: false,
  recognises: ({ headers }) => headerOf(headers, HEADER) !== undefined,
  offeredKey: secretIn,
  answer(request) {
    const secret = secretIn(request);
    if (secret === undefined) return undefined;
    return { statusCode: 200, contentType: 'text/plain', body: '', headers: { 'x-hook-secret': secret } };
  },
};

function secretIn({ headers }: HandshakeRequest): string | undefined {
  const secret = headerOf(headers, HEADER) ?? '';
  return SECRET.test(secret) ? secret : undefined;
}

/** Each webhook has its own key, sent only in its handshake. Every eight hours a delivery without events arrives. */
export const asana: PublisherSpec = {
  name: 'Asana',
  headers: [{ signature: 'X-Hook-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.body],
  eventType: { none: 'a delivery is a list of events, each with its own' },
  eventId: { none: 'neither a delivery nor its events have one' },
  handshakes: [hookSecret],
  sample: jsonSample({
    events: [{ action: 'changed', resource: { gid: '1337', resource_type: 'task' }, change: { field: 'completed' } }],
  }),
  source: 'https://developers.asana.com/docs/webhooks-guide, read 2026-11',
};
