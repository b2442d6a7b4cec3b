import { createHmac } from 'node:crypto';
import type { Handshake } from '../handshake.ts';
import { type PublisherSpec, part } from '../spec.ts';
import { isObject, jsonObject } from '../values.ts';

// No colon: the answer is made with the key and hash of x-zm-signature, so that someone who may choose the text freely gets
// the signature of any "v0:<timestamp>:<body>" from it.
const PLAIN_TOKEN = /^[A-Za-z0-9_-]{1,128}$/;

/** Sent when the URL is saved and every 72 hours after; signed like any event. */
const urlValidation: Handshake = {
  name: 'endpoint.url_validation',
  method: 'POST',
  needsVerification: true,
  recognises: ({ body }) => jsonObject(body).event === 'endpoint.url_validation',
  answer({ body, keys, usedPreviousKey }) {
    const { payload } = jsonObject(body);
    const plainToken = isObject(payload) ? payload.plainToken : undefined;
    // Zoom checks the answer with the token that it signed the question with.
    const key = usedPreviousKey === true ? keys.previous : keys.current;
    if (typeof plainToken !== 'string' || !PLAIN_TOKEN.test(plainToken) || key === undefined) return undefined;
    const encryptedToken = createHmac('sha256', key).update(plainToken).digest('hex');
    return { statusCode: 200, contentType: 'application/json', body: JSON.stringify({ plainToken, encryptedToken }) };
  },
};

export const zoom: PublisherSpec = {
  name: 'Zoom',
  headers: [{ signature: 'X-Zm-Signature', timestamp: 'X-Zm-Request-Timestamp' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'v0=',
  signs: ['v0:', part.timestamp, ':', part.body],
  timestamp: { in: 'header', unit: 'seconds' },
  eventType: { path: ['event'] },
  eventId: { none: 'only the object that the event is about has one' },
  handshakes: [urlValidation],
  source: 'https://developers.zoom.us/docs/api/webhooks/, read 2026-11',
};
