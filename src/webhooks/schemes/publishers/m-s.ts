import { URL_ENCODED_FORM } from '../../../model/form.ts';
import { part } from '../spec.ts';
import type { PublisherRow } from './row.ts';
import { STANDARD_WEBHOOKS } from './standard-webhooks.ts';

export const ROWS_M_TO_S: readonly PublisherRow[] = [
  {
    name: 'Mailgun',
    // Signs only ten digits and fifty characters, joined without a separator: with other lengths, one signature would
    // fit several pairs. Events come as JSON; routes and legacy webhooks as forms. A subaccount's event is signed with
    // its own key and, as parent-signature, with that of the primary account.
    header: [
      { path: ['signature', 'signature'], formField: 'signature' },
      { path: ['signature', 'parent-signature'], formField: 'parent-signature' },
    ],
    signs: [part.timestamp, part.token({ path: ['signature', 'token'], formField: 'token', length: 50 })],
    timestamp: { path: ['signature', 'timestamp'], formField: 'timestamp', length: 10 },
    eventType: '{field:event-data.event}',
    eventId: '{field:event-data.id}',
    sample: '{"event-data":{"event":"opened","id":"ase7i2zsRYeDXztHGENqRA","recipient":"alice@example.com"}}',
    logs: "{trigger.body['event-data'].event} for {trigger.body['event-data'].recipient}",
    clickPath: [
      'In the control panel open **Webhooks** under **Sending**, choose the domain and add `{URL}` for each event.',
      "The key is the **HTTP webhook signing key** of the account, not an API key. `GET /v5/accounts/http_signing_key` of Mailgun's API shows it too.",
    ],
    toleranceSeconds: 32400,
    trigger: {
      webhookHmacKey: 'env:MAILGUN_SIGNING_KEY',
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'after any answer but 200 and 406',
      howOften: 'after 5, 10 and 15 minutes and 1, 2 and 4 hours',
      source: 'read 2026-11',
    },
    source: 'https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Meta',
    title: 'Meta (WhatsApp, Instagram, Messenger, Threads)',
    aliases: ['Facebook', 'WhatsApp', 'Instagram', 'Messenger', 'Threads'],
    // The key is the app secret; characters outside ASCII are sent escaped.
    header: 'X-Hub-Signature-256',
    form: 'sha256={signature}',
    eventType: '{field:object}',
    eventId: { none: 'only the objects that changed have one' },
    handshakes: [
      // Sent once, unsigned, when the callback URL is saved, with the token that was entered next to it.
      {
        name: 'hub.challenge',
        method: 'GET',
        whenAny: ['{query:hub.mode}', '{query:hub.challenge}'],
        verifyToken: '{query:hub.verify_token}',
        must: ['{query:hub.mode} = subscribe'],
        answer: { text: '{query:hub.challenge}' },
      },
    ],
    sample:
      '{"object":"whatsapp_business_account","entry":[{"id":"102290129340398","changes":[{"field":"messages","value":{"messaging_product":"whatsapp"}}]}]}',
    logs: '{trigger.body.object} arrived',
    clickPath: [
      'In the App Dashboard **App settings**, **Basic** shows the **App secret**, which is the key.',
      'Invent a verify token, a long random text, and start Sluice with the trigger below.',
      '**Webhooks** (for WhatsApp **WhatsApp**, **Configuration**): **Callback URL** `{URL}`, **Verify token** the same text. Meta sends a GET with `hub.challenge`; Sluice answers it if the token matches. Then subscribe to fields.',
    ],
    trigger: {
      webhookHmacKey: 'env:META_APP_SECRET',
      webhookVerifyToken: 'env:META_VERIFY_TOKEN',
    },
    retries: {
      when: 'after any answer but 200',
      howOften: 'for WhatsApp with growing intervals for up to seven days',
      source:
        'according to [Hookdeck](https://hookdeck.com/webhooks/platforms/guide-to-whatsapp-webhooks-features-and-best-practices)',
    },
    source: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'MicrosoftTeams',
    title: 'Microsoft Teams',
    // Outgoing webhooks.
    header: 'Authorization',
    form: 'HMAC {signature}',
    encoding: 'base64',
    keyEncoding: 'base64',
    eventType: '{field:type}',
    eventId: '{field:id}',
    // Shown in the channel; Teams shows anything but a message as an error.
    acceptedResponse: { contentType: 'application/json', body: '{"type":"message","text":"Received."}' },
    logs: "{has(trigger.body.text) ? trigger.body.text : 'a test'}",
    clickPath: [
      'In Teams choose the team, **•••**, **Manage team**, **Apps**, **Create an outgoing webhook**.',
      '**Name** is what people @mention. **Callback URL**: `{URL}`. Select **Create**.',
      'Teams shows the **security token** once. It is the key, in base64.',
    ],
    retries: {
      none: 'its documentation says nothing of them; Teams waits 5 seconds, and shows an error in the channel otherwise',
      source:
        'https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook, read 2026-11-29',
    },
    trigger: {
      webhookSlug: 'teams',
      webhookHmacKey: 'env:TEAMS_SECURITY_TOKEN',
      webhookDuplicateResponse: null,
    },
    source:
      'https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Paddle',
    title: 'Paddle Billing',
    // Several h1 are sent while a secret is rotated; Paddle's own package reads only the last.
    header: 'Paddle-Signature',
    form: 'ts={timestamp};h1={signature};...',
    signs: '{timestamp}:{body}',
    eventType: '{field:event_type}',
    eventId: '{field:event_id}',
    eventIdSource:
      'https://developer.paddle.com/webhooks/about/how-webhooks-work (event_id as the key against duplicates), read 2026-11',
    sample:
      '{"event_id":"evt_01hv8x2acma2gz7he8kg2s0hna","event_type":"transaction.completed","notification_id":"ntf_01hv8x2af22vrrz5k7bx4ms6kx","data":{"id":"txn_01hv8wptq8987qeep44cyrewp9","status":"completed","currency_code":"USD"}}',
    logs: '{trigger.body.event_type} arrived',
    clickPath: [
      '**Developer tools**, **Notifications**, **New destination**, type **Webhook**.',
      '**URL**: `{URL}`. Choose the events.',
      '**Edit destination** shows the **secret key** (`pdl_ntfset_…`), which is the key.',
    ],
    trigger: {
      webhookSlug: 'paddle',
      webhookHmacKey: 'env:PADDLE_WEBHOOK_SECRET',
    },
    retries: {
      when: 'what is not answered with 200 within 5 seconds',
      howOften: 'up to 60 times in three days, 20 of them in the first hour; in a sandbox three times in 15 minutes',
      source:
        'according to [Hookdeck](https://hookdeck.com/webhooks/platforms/how-to-solve-paddle-webhook-timeout-errors)',
    },
    source: '@paddle/paddle-node-sdk 3.10.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'PagerDuty',
    // Webhooks v3. Several v1 are sent while a secret is rotated.
    header: 'X-PagerDuty-Signature',
    form: 'v1={signature},...',
    eventType: '{field:event.event_type}',
    eventId: '{field:event.id}',
    sample:
      '{"event":{"id":"5ac64822-4adc-4fda-ade0-410becf0de4f","event_type":"incident.triggered","resource_type":"incident","data":{"id":"PGR0VU2","type":"incident","title":"A little bump in the road"}}}',
    logs: '{trigger.body.event.event_type} arrived',
    clickPath: [
      '**Integrations**, **Generic Webhooks (v3)**, **New Webhook**.',
      '**Webhook URL**: `{URL}`. Choose scope and events.',
      'The secret is shown once after **Add Webhook**; it is the key.',
    ],
    trigger: {
      webhookHmacKey: 'env:PAGERDUTY_WEBHOOK_SECRET',
    },
    retries: {
      when: 'after 5xx, 429 or no answer within 5 seconds',
      howOften: 'up to four times within about 20 minutes',
      source: 'https://github.com/PagerDuty/developer-docs/blob/main/docs/webhooks/02-Behavior.md, read 2026-11',
    },
    source: 'https://developer.pagerduty.com/docs/verifying-webhook-signatures, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'PayPal',
    // The checksum is a CRC-32. Anyone can make another body with the same one, so the body does not count as signed.
    // The key of the trigger is the id of the webhook.
    header: 'PayPal-Transmission-Sig',
    signs: '{id}|{timestamp}|{key}|{crc32:body}',
    algorithm: 'rsaSha256',
    encoding: 'base64',
    timestamp: 'PayPal-Transmission-Time',
    unit: 'rfc3339',
    id: 'PayPal-Transmission-Id',
    others: {
      certificate: {
        url: { header: 'PayPal-Cert-Url' },
        host: /api(?:-m)?\.paypal\.com/,
        path: /\/v1\/notifications\/certs\/CERT-[0-9a-f]+(?:-[0-9a-f]+)*/i,
        commonName: /^(?:(?!sandbox\.)[a-z0-9-]+\.)+paypal\.com$/,
        sandbox: { host: /api(?:-m)?\.sandbox\.paypal\.com/, commonName: /^(?:[a-z0-9-]+\.)+paypal\.com$/ },
        keyIs: 'the id of a webhook, which PayPal shows next to it',
        keyForm: /[A-Z0-9]{8,50}/,
      },
    },
    eventType: '{field:event_type}',
    eventId: '{field:id}',
    logs: '{trigger.body.event_type} arrived',
    clickPath: [
      'Developer Dashboard, **Apps & Credentials**, your app, **Add Webhook**.',
      '**Webhook URL**: `{URL}`. Choose the events.',
      'The **Webhook ID** next to the URL is the key of the trigger. It is not a secret: it names the webhook, and PayPal signs it.',
    ],
    toleranceSeconds: 3600,
    trigger: {
      webhookHmacKey: 'env:PAYPAL_WEBHOOK_ID',
    },
    retries: {
      when: 'what is not answered with 2xx',
      howOften: 'up to 25 times in three days',
      source: 'read 2026-11',
    },
    source:
      'https://developer.paypal.com/api/rest/webhooks/rest, and deliveries and a certificate of the sandbox in the tests and samples of paypal/PayPal-Java-SDK, PayPal-node-SDK and PayPal-Python-SDK, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'SendGrid',
    // The event webhook. The key is the verification key that SendGrid shows, a public key in base64; the body ends with CR LF.
    header: 'X-Twilio-Email-Event-Webhook-Signature',
    signs: '{timestamp}{body}',
    algorithm: 'ecdsaP256',
    encoding: 'base64',
    timestamp: 'X-Twilio-Email-Event-Webhook-Timestamp',
    // With another number of digits, one could belong to the timestamp or to the body.
    timestampLength: 10,
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample: '[{"email":"hello@example.com","event":"delivered","sg_event_id":"ZGVsaXZlcmVk","timestamp":1700000000}]',
    logs: '{size(trigger.body)} events arrived',
    clickPath: [
      '**Settings**, **Mail Settings**, **Event Webhook**, **Create new webhook**.',
      '**Post URL**: `{URL}`. Choose the events.',
      '**Signature Verification**, **Enable**: the **verification key** is the key of the trigger.',
    ],
    trigger: {
      webhookHmacKey: 'env:SENDGRID_VERIFICATION_KEY',
    },
    retries: {
      when: 'what is not answered within 10 seconds',
      howOften: 'with growing intervals for up to 24 hours',
      source:
        'according to [Hookdeck](https://hookdeck.com/webhooks/platforms/guide-to-sendgrid-webhooks-features-and-best-practices)',
    },
    source: '@sendgrid/eventwebhook 8.0.0, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Sentry',
    // The key is the client secret of the integration. Sentry-Hook-Timestamp and Request-ID are not signed.
    header: 'Sentry-Hook-Signature',
    id: 'Request-ID',
    eventType: '{header:Sentry-Hook-Resource}',
    eventId: '{header:Request-ID}',
    sample:
      '{"action":"created","installation":{"uuid":"a8e5d37a-696c-4c54-adb5-b3f28d64c7de"},"data":{"issue":{"id":"1170820242","title":"ReferenceError: heck is not defined","project":{"slug":"shop"}}}}',
    sampleHeaders: { 'sentry-hook-resource': 'issue' },
    logs: '{trigger.body.action} in Sentry',
    clickPath: [
      '**Settings**, **Custom Integrations**, **Create New Integration**, **Internal Integration**.',
      '**Webhook URL**: `{URL}`. Choose the permissions and webhooks, or **Alert Rule Action**.',
      '**Client Secret** on the page of the integration is the key.',
    ],
    retries: {
      none: 'its documentation says nothing of them; it waits 1 second, and after 1 000 timeouts within 24 hours sends no more',
      source: 'https://docs.sentry.io/organization/integrations/integration-platform/webhooks/, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:SENTRY_CLIENT_SECRET',
      webhookReplayToleranceSeconds: 300,
    },
    source: 'https://docs.sentry.io/organization/integrations/integration-platform/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Shopify',
    // X-Shopify-Triggered-At is not signed, so it is not read as a timestamp. Headers of Events deliveries have no X-.
    header: 'X-Shopify-Hmac-SHA256',
    encoding: 'base64',
    id: 'X-Shopify-Webhook-Id',
    otherHeaders: [{ signature: 'Shopify-Hmac-SHA256', deliveryId: 'Shopify-Webhook-Id' }],
    eventType: ['{header:X-Shopify-Topic}', '{header:Shopify-Topic}'],
    eventId: ['{header:X-Shopify-Webhook-Id}', '{header:Shopify-Webhook-Id}'],
    sample: '{"id":820982911946154,"name":"#9999","currency":"USD","total_price":"403.00","line_items":[]}',
    sampleHeaders: { 'x-shopify-topic': 'orders/create', 'x-shopify-shop-domain': 'example.myshopify.com' },
    logs: "{trigger.headers['x-shopify-topic']} from {trigger.headers['x-shopify-shop-domain']}",
    clickPath: [
      'For one store: **Settings**, **Notifications**, **Webhooks**, **Create webhook** in the admin. Choose event and JSON format. **URL**: `{URL}`. The key is shown on the same page, below the webhooks.',
      'For an app: subscribe in its configuration or over the Admin API. The key is the **client secret** of the app.',
    ],
    trigger: {
      webhookHmacKey: 'env:SHOPIFY_CLIENT_SECRET',
    },
    retries: {
      when: 'what is not answered with 2xx within 5 seconds',
      howOften: 'up to 8 times within 4 hours',
      newlySigned: false,
      source: 'read 2026-11',
    },
    source:
      'https://shopify.dev/docs/apps/build/webhooks/verify-deliveries and @shopify/shopify-api 13.1.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Slack',
    // The key looks like hex and is used as text.
    header: 'X-Slack-Signature',
    form: 'v0={signature}',
    signs: 'v0:{timestamp}:{body}',
    timestamp: 'X-Slack-Request-Timestamp',
    others: { document: { path: ['payload'], mediaType: URL_ENCODED_FORM } },
    eventType: '{field:event.type}',
    eventId: '{field:event_id}',
    eventIdSource:
      'https://docs.slack.dev/apis/events-api (event_id: unique across all workspaces, the same in retries), read 2026-11',
    handshakes: [
      // Sent once, signed, when the URL for the events of an app is saved.
      {
        name: 'url_verification',
        method: 'POST',
        isSigned: true,
        when: ['{field:type} = url_verification'],
        answer: { json: { challenge: '{field:challenge}' } },
      },
      // Sent unsigned now and then to test the certificate of a command's URL. Other fields in it are never acted on,
      // so the answer is always empty.
      { name: 'ssl_check', method: 'POST', when: ['{form:ssl_check} = 1'] },
    ],
    sample:
      '{"type":"event_callback","team_id":"T061EG9R6","event_id":"Ev9UQ52YNA","event":{"type":"app_mention","user":"U061F7AUR","text":"ship it","channel":"C0LAN2Q65","ts":"1515449522.000016"}}',
    logs: "{has(trigger.body.event) ? trigger.body.event.type : 'a command'} arrived",
    clickPath: [
      'Open your app at <https://api.slack.com/apps>. **Basic Information**, **App Credentials** shows the **Signing Secret**.',
      'Start Sluice with the trigger below, because Slack checks the URL when you save it.',
      '**Event Subscriptions**: switch it on and enter `{URL}` as **Request URL**. Slack sends `url_verification`, Sluice answers it.',
      'Subscribe to events, save, and reinstall the app if its scopes changed. Slash commands and interactivity have their own URL fields; the same trigger verifies them.',
    ],
    trigger: {
      webhookHmacKey: 'env:SLACK_SIGNING_SECRET',
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'an event that is not answered within 3 seconds',
      howOften: 'at once, after a minute and after five minutes',
      newlySigned: true,
      source: 'read 2026-11',
    },
    source: 'https://docs.slack.dev/authentication/verifying-requests-from-slack, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Square',
    // The signed URL is the one in Square's console, byte for byte.
    header: 'X-Square-HmacSha256-Signature',
    signs: '{url}{body}',
    encoding: 'base64',
    eventType: '{field:type}',
    eventId: '{field:event_id}',
    eventIdSource: 'https://developer.squareup.com/docs/webhooks (event_id: to bypass what repeats), read 2026-11',
    presets: ['square'],
    logs: "{has(trigger.body.type) ? trigger.body.type : 'a test'} arrived",
    clickPath: [
      'Open the Developer Console and your application. **Webhooks**, **Subscriptions**, **Add subscription**.',
      '**Notification URL**: `{URL}`. Choose the API version and the events, and save.',
      'Open the subscription. **Signature key**, **Show** has the key.',
    ],
    trigger: {
      webhookHmacKey: 'env:SQUARE_SIGNATURE_KEY',
    },
    retries: {
      when: 'what is not answered with 2xx within 10 seconds',
      howOften: 'for up to 72 hours',
      source: 'read 2026-11',
    },
    source: 'https://developer.squareup.com/docs/webhooks/step3validate, read 2026-11',
    certainty: 'package',
  },
  STANDARD_WEBHOOKS,
  {
    name: 'Stripe',
    // The key is the whole whsec_… text. Segments v0 belong to test mode and never count.
    header: 'Stripe-Signature',
    form: 't={timestamp},v1={signature},...',
    signs: '{timestamp}.{body}',
    eventType: '{field:type}',
    eventId: '{field:id}',
    eventIdSource: 'https://docs.stripe.com/webhooks#handle-duplicate-events, read 2026-11',
    presets: ['stripe'],
    sample:
      '{"id":"evt_1Pgc76DZ","object":"event","type":"payment_intent.succeeded","livemode":false,"data":{"object":{"id":"pi_3Pgc75","object":"payment_intent","amount":4200,"currency":"eur","status":"succeeded"}}}',
    logs: '{trigger.body.type}: {trigger.body.id}',
    clickPath: [
      'Open **Workbench**, tab **Webhooks**, and create a new destination.',
      'Choose the API version and the events, then **Webhook** as the type of destination. **Endpoint URL**: `{URL}`.',
      'Open the destination and reveal its **signing secret** (`whsec_…`). Each endpoint has its own secret, and sandboxes and live mode use different ones.',
    ],
    trigger: {
      webhookHmacKey: 'env:STRIPE_WEBHOOK_SECRET',
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'a delivery that failed',
      howOften: 'in live mode for up to three days, with growing intervals; in a sandbox three times within hours',
      newlySigned: true,
      source: 'read 2026-11',
    },
    source: 'https://docs.stripe.com/webhooks#verify-manually, read 2026-11',
    certainty: 'package',
  },
];
