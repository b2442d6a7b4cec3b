import { part } from '../spec.ts';
import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_H_TO_L: readonly PublisherRow[] = [
  {
    name: 'Heroku',
    header: 'Heroku-Webhook-Hmac-SHA256',
    encoding: 'base64',
    keyIsChosen: true,
    eventType: '{field:resource}',
    eventId: '{field:id}',
    sample:
      '{"action":"create","created_at":"2026-11-27T10:00:00Z","id":"01234567-89ab-cdef-0123-456789abcdef","data":{"id":"bc7a9f27-0f5c-4a4d-bbd1-0a3f5d9e9b77","app":{"name":"my-app"},"status":"succeeded","version":42},"resource":"release"}',
    clickPath: [
      'Open the app, **More**, **View webhooks** and press **Create Webhook**.',
      'Enter a name, `{URL}` and your key as **Secret**, and choose the events.',
      'Choose the level **sync**, which is the one with retries.',
    ],
    keyIs: 'the **Secret** of the webhook',
    retries: {
      when: 'with the level sync, until the answer is a 2xx',
      howOften: 'its pages that we read name no number; with the level notify never',
    },
    source: 'https://devcenter.heroku.com/articles/app-webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'base64 is as five receivers of third parties have it; header, algorithm and body are documented',
  },
  {
    name: 'Increase',
    // Standard Webhooks, but with the text of the secret as the key.
    header: 'webhook-signature',
    form: 'v1,{signature} ...',
    signs: '{id}.{timestamp}.{body}',
    encoding: 'base64',
    keyIsChosen: true,
    timestamp: 'webhook-timestamp',
    id: 'webhook-id',
    eventType: '{field:category}',
    eventId: '{field:id}',
    sample:
      '{"id":"event_001dzz0r20rzr4zrhrr1364hy80","created_at":"2026-11-02T09:14:03Z","category":"transaction.created","associated_object_type":"transaction","associated_object_id":"transaction_uyrp7fld2ium70oa7oi","type":"event"}',
    clickPath: [
      'Open **Developers**, **Event Subscriptions** in the dashboard and create one with `{URL}`.',
      'Set your key as **shared secret**; all of its text signs, `whsec_` too.',
      'If deliveries come with the header `Increase-Webhook-Signature`, the scheme is `IncreaseLegacy`.',
    ],
    retries: { when: 'if the answer is no 2xx', howOften: 'up to 7 times with growing pauses' },
    source: 'https://increase.com/documentation/webhooks and increase 0.583.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'IncreaseLegacy',
    title: 'Increase, older scheme',
    header: 'Increase-Webhook-Signature',
    form: 't={timestamp},v1={signature}',
    signs: '{timestamp}.{body}',
    unit: 'rfc3339',
    keyIsChosen: true,
    eventType: '{field:category}',
    eventId: '{field:id}',
    sample:
      '{"id":"event_001dzz0r20rzr4zrhrr1364hy80","created_at":"2026-11-02T09:14:03Z","category":"transaction.created","associated_object_type":"transaction","associated_object_id":"transaction_uyrp7fld2ium70oa7oi","type":"event"}',
    clickPath: [
      'Open **Developers**, **Event Subscriptions** in the dashboard and find the one with `{URL}`.',
      'The key is its **shared secret**, all of its text.',
    ],
    retries: { when: 'if the answer is no 2xx', howOften: 'up to 7 times with growing pauses' },
    note: 'What Increase’s packages verify today is the scheme `Increase`.',
    source:
      'https://increase.com/documentation/webhooks and the tests of Increase’s Python and Java packages, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Klaviyo',
    // The time in the header is an HTTP date, signed as sent. It is not read: in a captured delivery it was hours off.
    header: 'Klaviyo-Signature',
    signs: [part.body, { ...part.header('klaviyo-timestamp'), length: 29 }],
    keyIsChosen: true,
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample:
      '{"meta":{"timestamp":"2026-11-27T10:00:00.101159+00:00","klaviyo_webhook_id":"01KP4928STE8FKCWB6WDHZ4ZB7"},"data":[{"topic":"event:klaviyo.opened_email","external_id":"73WCCK7JKtE","payload":{"data":{"id":"73WCCK7JKtE","type":"event"}}}]}',
    clickPath: [
      'Klaviyo has no screen for this: send `POST https://a.klaviyo.com/api/webhooks` with a key that has the scope `webhooks:write`.',
      'Give `{URL}` as `endpoint_url`, your key of 16 characters or more as `secret_key`, and the topics.',
    ],
    keyIs: 'the `secret_key` of the webhook',
    retries: {
      when: 'a delivery that failed',
      howOften: 'with growing pauses of up to an hour; after 48 hours of failures it disables the webhook',
      source:
        'https://developers.klaviyo.com/en/docs/working_with_system_webhooks, as others quote it, read 2026-11-29',
    },
    note: 'A webhook action in a flow is another feature, which signs nothing.',
    source: 'https://developers.klaviyo.com/en/docs/working_with_system_webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'the order of body and time, and hex, are as four verifiers of third parties have them; headers and algorithm are documented',
  },
  {
    name: 'Knock',
    // Like Stripe's, but milliseconds, s and base64.
    header: 'x-knock-signature',
    form: 't={timestamp},s={signature}',
    signs: '{timestamp}.{body}',
    encoding: 'base64',
    unit: 'milliseconds',
    eventType: '{field:type}',
    eventId: { none: 'only what the event is about has one, in data.id' },
    sample:
      '{"__typename":"Event","type":"message.undelivered","created_at":"2026-11-12T17:12:59.958652Z","data":{"__typename":"Message","id":"2Cm5oCgNz3xJ8lqUe4h0f1sZ9kB","status":"undelivered","recipient":"user_1","workflow":"welcome"}}',
    clickPath: [
      'Open **Platform**, **Webhooks** in the environment and press **Create webhook**.',
      'Enter `{URL}` and choose the events.',
      'Open the webhook and copy its secret key.',
    ],
    keyIs: 'the **Secret key** of the webhook',
    retries: { when: 'if the answer is 3xx, 4xx or 5xx', howOften: '8 attempts in all' },
    note: 'Knock publishes its addresses: <https://docs.knock.app/developer-tools/outbound-webhooks/overview>.',
    source: 'https://docs.knock.app/developer-tools/outbound-webhooks/overview, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'LaunchDarkly',
    header: 'X-LD-Signature',
    keyIsChosen: true,
    eventType: '{field:kind}',
    eventId: '{field:_id}',
    sample:
      '{"_id":"57c0a8e29969090743529965","date":1793610843210,"kind":"flag","name":"New checkout","titleVerb":"turned on the flag","accesses":[{"action":"updateOn","resource":"proj/default:env/production:flag/new-checkout"}]}',
    clickPath: [
      'Open **Organization settings**, **Integrations**, **Webhooks** and press **Add integration**.',
      'Enter a name and `{URL}`, check **Sign this webhook** and enter your key.',
      'Accept the terms and press **Save settings**.',
    ],
    keyIs: 'the secret under **Sign this webhook**; without one nothing is signed',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://launchdarkly.com/docs/home/infrastructure/webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'that it is the hex of an HMAC-SHA256 of the body is as about seven receivers of third parties have it; the header is documented',
  },
  {
    name: 'LemonSqueezy',
    title: 'Lemon Squeezy',
    header: 'X-Signature',
    keyIsChosen: true,
    eventType: '{field:meta.event_name}',
    eventId: { none: 'only what the event is about has one, in data.id' },
    sample:
      '{"meta":{"event_name":"order_created"},"data":{"type":"orders","id":"1","attributes":{"order_number":1,"currency":"USD","total":1199,"status":"paid"}}}',
    clickPath: [
      'Open **Settings**, **Webhooks** of the store and press **+**.',
      'Enter `{URL}` as **Callback URL** and your key, of 40 characters at most, as **Signing secret**.',
      'Choose the events and save.',
    ],
    keyIs: 'the **Signing secret** of the webhook',
    retries: { when: 'if the answer is not 200', howOften: 'up to 3 times' },
    source: 'https://docs.lemonsqueezy.com/help/webhooks/signing-requests, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'LinkedIn',
    // No token contains the text before the body, so the answer to a challenge cannot be the signature of a delivery.
    header: 'X-LI-Signature',
    signs: 'hmacsha256={body}',
    eventType: '{field:type}',
    eventId: { none: 'a delivery is a list of notifications, each with its own' },
    handshakes: [
      // Sent unsigned when the URL is saved, and every two hours.
      {
        name: 'challengeCode',
        method: 'GET',
        when: ['{query:challengeCode}'],
        answer: {
          json: {
            challengeCode: '{query:challengeCode}',
            challengeResponse: { hmac: '{query:challengeCode}', as: 'hex' },
          },
        },
      },
    ],
    sample:
      '{"type":"ORGANIZATION_SOCIAL_ACTION_NOTIFICATIONS","notifications":[{"notificationId":51744838,"organizationalEntity":"urn:li:organization:2414183","action":"COMMENT","lastModifiedAt":1794650400123}]}',
    clickPath: [
      'Copy the **Client Secret** from the tab **Auth** of your app at linkedin.com/developers, and start Sluice with it.',
      'Press **Create webhook** on the tab **Webhooks**, which only approved uses have, and enter `{URL}`; LinkedIn tests it at once.',
    ],
    keyIs: 'the **Client Secret** of the app',
    retries: { when: 'if the answer is no 2xx', howOften: 'its pages name no number' },
    source: 'https://learn.microsoft.com/en-us/linkedin/shared/api-guide/webhook-validation, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'hex, and that nothing is in front of it in the header; what is signed, and the challenge, are documented',
  },
  {
    name: 'Lob',
    header: 'Lob-Signature',
    signs: '{timestamp}.{body}',
    timestamp: 'Lob-Signature-Timestamp',
    unit: 'milliseconds',
    eventType: '{field:event_type.id}',
    eventId: '{field:id}',
    sample:
      '{"id":"evt_d95ff8ffd2b5cfb4","body":{"id":"psc_d2d10a2e9cba991c","object":"postcard"},"reference_id":"psc_d2d10a2e9cba991c","event_type":{"id":"postcard.in_transit","resource":"postcards","object":"event_type"},"date_created":"2026-11-02T09:14:03.210Z","object":"event"}',
    clickPath: [
      'Open **Webhooks** in the dashboard, choose **Test** or **Live** and press **Create**.',
      'Enter a description and `{URL}`, choose the events and save.',
      'Open the webhook and copy its **secret**.',
    ],
    keyIs: 'the **secret** of the webhook',
    retries: { when: 'if the answer is no 2xx', howOften: 'its pages that we read name no number' },
    source: 'https://help.lob.com/print-and-mail/getting-data-and-results/using-webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'all of the signature, and that its time is in milliseconds, are as several verifiers that cite Lob’s page have them',
  },
];
