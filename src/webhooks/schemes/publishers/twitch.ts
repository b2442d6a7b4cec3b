import { echo, type Handshake } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';
import { jsonObject } from '../values.ts';

/** Sent once, signed like any message, when a subscription is made. */
const callbackVerification: Handshake = {
  name: 'webhook_callback_verification',
  method: 'POST',
  needsVerification: true,
  recognises: ({ headers }) => headers['twitch-eventsub-message-type'] === 'webhook_callback_verification',
  answer: ({ body }) => echo(jsonObject(body).challenge),
};

/** EventSub. Id and timestamp are signed with the body; the type of the message is not. A revocation is a delivery. */
export const twitch: PublisherSpec = {
  name: 'Twitch',
  keyIsChosen: true,
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
  signs: [part.deliveryId, part.timestamp, part.body],
  timestamp: { in: 'header', unit: 'rfc3339' },
  eventType: { headers: ['Twitch-Eventsub-Subscription-Type'] },
  eventId: { headers: ['Twitch-Eventsub-Message-Id'] },
  eventIdSource: 'https://dev.twitch.tv/docs/eventsub/#handling-duplicate-events, read 2026-11',
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
    { 'twitch-eventsub-message-type': 'notification', 'twitch-eventsub-subscription-type': 'channel.follow' },
  ),
  source: 'https://dev.twitch.tv/docs/eventsub/handling-webhook-events, read 2026-11',
};
