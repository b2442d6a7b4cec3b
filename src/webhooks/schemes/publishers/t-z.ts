import { URL_ENCODED_FORM } from '../../../model/form.ts';
import { part } from '../spec.ts';
import type { PublisherRow } from './row.ts';

export const ROWS_T_TO_Z: readonly PublisherRow[] = [
  {
    name: 'Telegram',
    title: 'Telegram bots',
    // Nothing is signed: the key is the secret_token given to setWebhook, and is sent with every update.
    header: 'X-Telegram-Bot-Api-Secret-Token',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: { none: 'the member next to update_id names it' },
    eventId: '{field:update_id}',
    sample:
      '{"update_id":10000,"message":{"message_id":1365,"date":1700000000,"chat":{"id":1111111,"type":"private"},"text":"/start"}}',
    logs: 'update {trigger.body.update_id} arrived',
    clickPath: [
      'Choose a secret token: 1 to 256 characters of `A-Z`, `a-z`, `0-9`, `_` and `-`. `openssl rand -hex 32` makes a good one.',
      '`curl "https://api.telegram.org/bot$BOT_TOKEN/setWebhook" -d url={URL} -d secret_token="$TELEGRAM_SECRET_TOKEN"`. Not the token of the bot: that one is never sent to you.',
    ],
    retries: {
      when: 'if the answer is no 2xx',
      howOften: 'for a time; its documentation names no number',
      source: 'https://core.telegram.org/bots/api#setwebhook, as its clients quote it, read 2026-11-29',
    },
    trigger: {
      webhookSlug: 'telegram',
      webhookHmacKey: 'env:TELEGRAM_SECRET_TOKEN',
    },
    source: 'https://core.telegram.org/bots/api#setwebhook, as quoted by its clients, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Trello',
    // The key is the secret of the API key; the signed URL is the callbackURL, byte for byte.
    header: 'X-Trello-Webhook',
    signs: '{body}{url}',
    algorithm: 'sha1',
    encoding: 'base64',
    eventType: '{field:action.type}',
    eventId: '{field:action.id}',
    handshakes: [{ name: 'HEAD', method: 'HEAD' }],
    sample:
      '{"action":{"id":"51f9424bcd6e040f3c002412","type":"updateCard","data":{"card":{"name":"Ship it"}}},"model":{"id":"4eea4ffc91e31d174600004a","name":"Trello Development"}}',
    logs: '{trigger.body.action.type} arrived',
    clickPath: [
      'Webhooks are made over the API. You need the API key of your Power-Up, its **secret** (the key of the trigger), and a token.',
      'Start Sluice with the trigger below: Trello sends a HEAD to the URL first, Sluice answers it.',
      'Send `POST https://api.trello.com/1/webhooks/` with `key`, `token`, `idModel` and `callbackURL` (`{URL}`).',
    ],
    trigger: {
      webhookHmacKey: 'env:TRELLO_API_SECRET',
    },
    retries: {
      when: 'what is not answered within 30 seconds',
      howOften: 'three times',
      source: 'https://github.com/trello-archive/api-docs/issues/53, read 2026-11',
    },
    source: 'https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Twilio',
    // SHA-1 is the only algorithm that Twilio offers.
    header: 'X-Twilio-Signature',
    signs: [{ ...part.url, hasPortVariants: true }, part.sortedForm],
    algorithm: 'sha1',
    encoding: 'base64',
    id: 'I-Twilio-Idempotency-Token',
    eventType: { none: 'each product tells it in fields of its own' },
    eventId: '{header:I-Twilio-Idempotency-Token}',
    // Any other document makes the console report error 12300.
    acceptedResponse: { contentType: 'text/xml', body: '<Response/>' },
    sample: 'AccountSid=AC123&Body=Hello+there&From=%2B14155550100&MessageSid=SM123&To=%2B14155550199',
    sampleType: URL_ENCODED_FORM,
    logs: 'message from {trigger.body.From}',
    clickPath: [
      'In the console open **Phone Numbers**, **Active Numbers**, your number. Under **Messaging**, **A message comes in**: webhook, method POST, `{URL}`. Calls, services and status callbacks have their own URL fields.',
      'The key is the **Auth Token** of the account, which the console shows. The secret of an API key does not work.',
    ],
    trigger: {
      webhookHmacKey: 'env:TWILIO_AUTH_TOKEN',
    },
    retries: { when: 'if it could not connect within 5 seconds', howOften: 'once by default', source: 'read 2026-11' },
    source: 'https://www.twilio.com/docs/usage/webhooks/webhooks-security and twilio 6.2.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Twitch',
    title: 'Twitch EventSub',
    // The type of the message is not signed. A revocation is a delivery too.
    header: 'Twitch-Eventsub-Message-Signature',
    form: 'sha256={signature}',
    signs: '{id}{timestamp}{body}',
    keyIsChosen: true,
    timestamp: 'Twitch-Eventsub-Message-Timestamp',
    unit: 'rfc3339',
    id: 'Twitch-Eventsub-Message-Id',
    eventType: '{header:Twitch-Eventsub-Subscription-Type}',
    eventId: '{header:Twitch-Eventsub-Message-Id}',
    eventIdSource: 'https://dev.twitch.tv/docs/eventsub/#handling-duplicate-events, read 2026-11',
    handshakes: [
      // Sent once, signed like any message, when a subscription is made.
      {
        name: 'webhook_callback_verification',
        method: 'POST',
        isSigned: true,
        when: ['{header:twitch-eventsub-message-type} = webhook_callback_verification'],
        answer: { text: '{field:challenge}' },
      },
    ],
    sample:
      '{"subscription":{"id":"f1c2a387-161a-49f9-a165-0f21d7a4e1c4","type":"channel.follow","version":"2","status":"enabled"},"event":{"user_id":"1337","user_login":"awesome_user","broadcaster_user_login":"cooler_user"}}',
    sampleHeaders: {
      'twitch-eventsub-message-type': 'notification',
      'twitch-eventsub-subscription-type': 'channel.follow',
    },
    logs: '{trigger.body.subscription.type} arrived',
    clickPath: [
      'Subscriptions are made over the API: `POST https://api.twitch.tv/helix/eventsub/subscriptions` with an app access token.',
      'In `transport` give `"method": "webhook"`, `callback` (`{URL}`; HTTPS on port 443) and `secret`: 10 to 100 characters of your choice, not the client secret.',
      'Sluice must run by then: Twitch sends a signed `webhook_callback_verification`, Sluice answers it.',
    ],
    retries: {
      when: 'a message that may not have arrived',
      howOften: 'we found no number; after too many failures it revokes the subscription',
      source: 'https://dev.twitch.tv/docs/eventsub/handling-webhook-events, read 2026-11-29',
    },
    toleranceSeconds: 600,
    trigger: {
      webhookSlug: 'twitch',
      webhookHmacKey: 'env:TWITCH_EVENTSUB_SECRET',
    },
    source: 'https://dev.twitch.tv/docs/eventsub/handling-webhook-events, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Typeform',
    // Elsewhere this prefix is used for hex; here base64 follows.
    header: 'Typeform-Signature',
    form: 'sha256={signature}',
    encoding: 'base64',
    keyIsChosen: true,
    eventType: '{field:event_type}',
    eventId: '{field:event_id}',
    sample:
      '{"event_id":"01H3Q2W5ZK8M","event_type":"form_response","form_response":{"form_id":"lT4Z3j","token":"a3a12ec67a1365927098a606107fac15","answers":[]}}',
    logs: 'form {trigger.body.form_response.form_id} was answered',
    clickPath: [
      'Open the form, **Connect**, **Webhooks**, **Add a webhook**.',
      '**Endpoint**: `{URL}`. **Edit**, **Secret**: a long random text of your choice, which is the key.',
      'Switch the webhook on.',
    ],
    trigger: {
      webhookHmacKey: 'env:TYPEFORM_WEBHOOK_SECRET',
    },
    retries: {
      when: 'after 408, 423, 429 or 503',
      howOften: 'every 2 to 3 minutes for up to ten hours',
      source:
        'according to [Hookdeck](https://hookdeck.com/webhooks/platforms/guide-to-typeform-webhooks-features-and-best-practices)',
    },
    source: 'https://trigger.dev/docs/webhooks/providers/typeform and published verifiers, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'all of it: the signature is as published verifiers of third parties have it',
  },
  {
    name: 'Vercel',
    // The key is the secret of the webhook; of an integration, its client secret. SHA-1 is the only algorithm.
    header: 'X-Vercel-Signature',
    algorithm: 'sha1',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":"uev_01H3Q2W5","type":"deployment.succeeded","createdAt":1700000000000,"payload":{"deployment":{"id":"dpl_2bNq","name":"shop","url":"shop-2bnq.vercel.app"}}}',
    logs: '{trigger.body.type} arrived',
    clickPath: [
      'Team **Settings**, **Webhooks**, **Create Webhook** (Pro and Enterprise). For an integration: its settings.',
      '**Endpoint URL**: `{URL}`. Choose the events.',
      'The secret is shown once; it is the key. Webhooks of an integration are signed with its client secret.',
    ],
    trigger: {
      webhookHmacKey: 'env:VERCEL_WEBHOOK_SECRET',
    },
    retries: {
      when: 'what is not answered within 30 seconds',
      howOften: 'with growing intervals for up to 24 hours',
      source:
        'according to [Hookdeck](https://github.com/hookdeck/webhook-skills/blob/main/skills/vercel-webhooks/references/overview.md)',
    },
    source:
      'https://github.com/vercel/example-marketplace-integration (app/webhook/route.ts, Vercel’s own) and https://trigger.dev/docs/webhooks/providers/vercel, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Zendesk',
    // The key is the signing secret of the webhook. A webhook without a body signs only the timestamp.
    header: 'X-Zendesk-Webhook-Signature',
    signs: '{timestamp}{body}',
    encoding: 'base64',
    timestamp: 'X-Zendesk-Webhook-Signature-Timestamp',
    unit: 'rfc3339',
    id: 'X-Zendesk-Webhook-Invocation-Id',
    eventType: '{field:type}',
    eventId: '{header:X-Zendesk-Webhook-Invocation-Id}',
    sample:
      '{"id":"01H3Q2W5","type":"zen:event-type:ticket.created","subject":"zen:ticket:35436","detail":{"id":"35436","subject":"My printer is on fire","status":"OPEN"}}',
    logs: '{trigger.body.type} arrived',
    clickPath: [
      '**Admin Center**, **Apps and integrations**, **Webhooks**, **Create webhook**. Choose events, or a trigger or automation.',
      '**Endpoint URL**: `{URL}`. **Request method** POST, **Request format** JSON.',
      'After the webhook is made, **Reveal secret** shows the signing secret, which is the key. It is used as text, although it looks like base64.',
    ],
    trigger: {
      webhookHmacKey: 'env:ZENDESK_WEBHOOK_SECRET',
      webhookNonceHeader: null,
    },
    retries: {
      when: 'after some statuses alone',
      howOften: 'up to three times',
      source:
        'according to [Hookdeck](https://hookdeck.com/webhooks/platforms/guide-to-zendesk-webhooks-features-and-best-practices)',
    },
    source: 'https://developer.zendesk.com/documentation/webhooks/verifying/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Zoom',
    header: 'X-Zm-Signature',
    form: 'v0={signature}',
    signs: 'v0:{timestamp}:{body}',
    timestamp: 'X-Zm-Request-Timestamp',
    eventType: '{field:event}',
    eventId: { none: 'only the object that the event is about has one' },
    handshakes: [
      // Sent when the URL is saved and every 72 hours afterwards; signed like any event.
      {
        name: 'endpoint.url_validation',
        method: 'POST',
        isSigned: true,
        when: ['{field:event} = endpoint.url_validation'],
        answer: {
          json: {
            plainToken: '{field:payload.plainToken}',
            encryptedToken: { hmac: '{field:payload.plainToken}', as: 'hex' },
          },
        },
      },
    ],
    presets: ['zoom'],
    logs: "{has(trigger.body.event) ? trigger.body.event : 'a test'} arrived",
    clickPath: [
      'In the Zoom App Marketplace open **Manage**, your app, **Features**, **Access**. That page also shows the **Secret Token**.',
      'Start Sluice with the trigger below, because Zoom validates the URL.',
      'Switch on **Event Subscriptions**, add one, choose the events, enter `{URL}` as **Event notification endpoint URL**, and save. Zoom sends `endpoint.url_validation`, signed; Sluice answers it. Zoom repeats this every 72 hours.',
    ],
    toleranceSeconds: 6000,
    trigger: {
      webhookHmacKey: 'env:ZOOM_SECRET_TOKEN',
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'what is not answered with 200 or 204 within 3 seconds',
      howOften: 'after 5 minutes, 20 minutes later and 60 minutes later',
      source: 'read 2026-11',
    },
    source: 'https://developers.zoom.us/docs/api/webhooks/, read 2026-11',
    certainty: 'documented',
  },
];
