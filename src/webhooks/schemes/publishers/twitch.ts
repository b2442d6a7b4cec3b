import { echo, type Handshake } from '../handshake.ts';
import { jsonSample, type SignatureSpec } from '../spec.ts';
import { isObject, parseJson } from '../values.ts';

/** Sent once, signed like any message, when a subscription is made. */
const callbackVerification: Handshake = {
  name: 'webhook_callback_verification',
  method: 'POST',
  needsVerification: true,
  recognises: ({ headers }) => headers['twitch-eventsub-message-type'] === 'webhook_callback_verification',
  answer({ body }) {
    const json = parseJson(body);
    return isObject(json) ? echo(json.challenge) : undefined;
  },
};

/** EventSub. Id and timestamp are signed with the body; the type of the message is not. A revocation is a delivery. */
export const twitch: SignatureSpec = {
  name: 'Twitch',
  headers: [
    {
      signature: 'Twitch-Eventsub-Message-Signature',
      timestamp: 'Twitch-Eventsub-Message-Timestamp',
      deliveryId: 'Twitch-Eventsub-Message-Id',
    },
  ],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  payload: { strategy: 'TimestampDotBody', delimiter: '', startsWithDeliveryId: true },
  timestamp: { in: 'header', unit: 'rfc3339' },
  eventType: { headers: ['Twitch-Eventsub-Subscription-Type'] },
  handshakes: [callbackVerification],
  sample: jsonSample(
    {
      subscription: {
        id: 'f1c2a387-161a-49f9-a165-0f21d7a4e1c4',
        type: 'channel.follow',
        version: '2',
        status: 'enabled',
      },
      event: { user_id: '1337', user_login: 'awesome_user', broadcaster_user_login: 'cooler_user' },
    },
    { 'twitch-eventsub-message-type': 'notification' },
  ),
  source: 'https://dev.twitch.tv/docs/eventsub/handling-webhook-events, read 2026-11',
};
