import type { Handshake } from '../handshake.ts';
import { jsonSample, type SignatureSpec } from '../spec.ts';
import { isObject, parseJson } from '../values.ts';

/** Sent, unsigned and empty, when the URL is saved. */
const head: Handshake = {
  name: 'HEAD',
  method: 'HEAD',
  needsVerification: false,
  recognises: () => true,
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** Sent, signed, when someone sends a test. */
const ping: Handshake = {
  name: 'ping',
  method: 'POST',
  needsVerification: true,
  recognises({ body }) {
    const json = parseJson(body);
    return isObject(json) && json.topic === 'ping';
  },
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** The key is the client secret of the app. SHA-1 is the only algorithm. */
export const intercom: SignatureSpec = {
  name: 'Intercom',
  headers: [{ signature: 'X-Hub-Signature' }],
  algorithm: 'sha1',
  encoding: 'hexLower',
  prefix: 'sha1=',
  payload: { strategy: 'RawBody' },
  handshakes: [head, ping],
  sample: jsonSample({
    type: 'notification_event',
    app_id: 'a86dr8yl',
    id: 'notif_ccd8a4d0-f965-11e3-a367-c779cae3e1b3',
    topic: 'conversation.user.created',
    data: { type: 'notification_event_data', item: { type: 'conversation', id: '1' } },
  }),
  unconfirmed: 'all of it: signature, HEAD and ping are as published verifiers of third parties have them',
  source:
    'https://asyncapi.apis.io/asyncapis/intercom/intercom-webhooks-asyncapi/ and published verifiers, read 2026-11',
};
