import { URL_ENCODED_FORM } from '../../../model/form.ts';
import type { Handshake } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { bodyReader, jsonObject, mediaTypeOf } from '../values.ts';

/** Sent once, signed, when the URL of an app's events is saved. */
const urlVerification: Handshake = {
  name: 'url_verification',
  method: 'POST',
  needsVerification: true,
  recognises: ({ body }) => jsonObject(body).type === 'url_verification',
  answer({ body }) {
    const { challenge } = jsonObject(body);
    if (typeof challenge !== 'string') return undefined;
    return { statusCode: 200, contentType: 'application/json', body: JSON.stringify({ challenge }) };
  },
};

/**
 * Sent unsigned now and then to test the certificate of a command's URL. Other fields with `ssl_check` are never work to
 * do, so that the answer is the same and empty.
 */
const sslCheck: Handshake = {
  name: 'ssl_check',
  method: 'POST',
  needsVerification: false,
  recognises({ headers, body }) {
    if (mediaTypeOf(headers) !== URL_ENCODED_FORM) return false;
    return bodyReader(headers, body)({ path: [], formField: 'ssl_check' }) === '1';
  },
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** The key looks like hex and is used as text. */
export const slack: PublisherSpec = {
  name: 'Slack',
  headers: [{ signature: 'X-Slack-Signature', timestamp: 'X-Slack-Request-Timestamp' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'v0=',
  signs: ['v0:', part.timestamp, ':', part.body],
  timestamp: { in: 'header', unit: 'seconds' },
  eventType: { path: ['event', 'type'] },
  eventId: { path: ['event_id'] },
  eventIdSource:
    'https://docs.slack.dev/apis/events-api (event_id: unique across all workspaces, the same in retries), read 2026-11',
  handshakes: [urlVerification, sslCheck],
  sample: jsonSample({
    type: 'event_callback',
    team_id: 'T061EG9R6',
    event_id: 'Ev9UQ52YNA',
    event: { type: 'app_mention', user: 'U061F7AUR', text: 'ship it', channel: 'C0LAN2Q65', ts: '1515449522.000016' },
  }),
  source: 'https://docs.slack.dev/authentication/verifying-requests-from-slack, read 2026-11',
};
