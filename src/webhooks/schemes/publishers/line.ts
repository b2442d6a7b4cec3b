import type { Handshake } from '../handshake.ts';
import { jsonSample, type SignatureSpec } from '../spec.ts';
import { isObject, parseJson } from '../values.ts';

/** Sent, signed, when someone presses Verify next to the URL: a delivery without events. */
const verify: Handshake = {
  name: 'Verify',
  method: 'POST',
  needsVerification: true,
  recognises({ body }) {
    const json = parseJson(body);
    return isObject(json) && Array.isArray(json.events) && json.events.length === 0;
  },
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** Messaging API. The key is the channel secret. A redelivery says so in its body, which is then another body. */
export const line: SignatureSpec = {
  name: 'Line',
  headers: [{ signature: 'X-Line-Signature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  payload: { strategy: 'RawBody' },
  handshakes: [verify],
  sample: jsonSample({
    destination: 'U8e742f61d673b39c7fff3cecb7536ef0',
    events: [
      {
        type: 'message',
        webhookEventId: '01FZ74A0TDDPYRVKNK77XKC3ZR',
        deliveryContext: { isRedelivery: false },
        message: { id: '444573844083572737', type: 'text', text: 'hello' },
      },
    ],
  }),
  source:
    'https://developers.line.biz/en/docs/messaging-api/receiving-messages/ and @line/bot-sdk 11.0.0, read 2026-11',
};
