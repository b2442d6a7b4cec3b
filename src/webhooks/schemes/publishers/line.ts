import type { Handshake } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { jsonObject } from '../values.ts';

/** Sent, signed, when someone presses Verify next to the URL: a delivery without events. */
const verify: Handshake = {
  name: 'Verify',
  method: 'POST',
  needsVerification: true,
  recognises({ body }) {
    const { events } = jsonObject(body);
    return Array.isArray(events) && events.length === 0;
  },
  answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
};

/** Messaging API. The key is the channel secret. A redelivery says so in its body, which is then another body. */
export const line: PublisherSpec = {
  name: 'Line',
  headers: [{ signature: 'X-Line-Signature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.body],
  eventType: { none: 'a delivery is a list of events, each with its own' },
  eventId: { none: 'a delivery is a list of events, each with its own' },
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
