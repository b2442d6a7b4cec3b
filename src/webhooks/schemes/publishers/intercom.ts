import { type Handshake, headTest } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { jsonObject } from '../values.ts';

/** Sent, signed, when someone sends a test. */
const ping: Handshake = {
  name: 'ping',
  method: 'POST',
  needsVerification: true,
  recognises: ({ body }) => jsonObject(body).topic === 'ping',
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** The key is the client secret of the app. SHA-1 is the only algorithm. */
export const intercom: PublisherSpec = {
  name: 'Intercom',
  headers: [{ signature: 'X-Hub-Signature' }],
  algorithm: 'sha1',
  encoding: 'hexLower',
  prefix: 'sha1=',
  signs: [part.body],
  eventType: { path: ['topic'] },
  eventId: { path: ['id'] },
  handshakes: [headTest, ping],
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
