import { part } from '../spec.ts';
import type { PublisherRow } from './row.ts';

export const ROWS_T_TO_X: readonly PublisherRow[] = [
  {
    name: 'Tally',
    header: 'Tally-Signature',
    encoding: 'base64',
    keyIsChosen: true,
    eventType: '{field:eventType}',
    eventId: '{field:eventId}',
    sample:
      '{"eventId":"a4cb511e-d513-4fa5-baee-b815d718dfd1","eventType":"FORM_RESPONSE","createdAt":"2026-11-27T15:00:00.000Z","data":{"responseId":"2wgx4n","submissionId":"2wgx4n","respondentId":"dwQKYm","formId":"VwbNEw","formName":"Contact","createdAt":"2026-11-27T15:00:00.000Z","fields":[{"key":"question_mVGEg3","label":"E-mail","type":"INPUT_EMAIL","value":"ada@example.com"}]}}',
    clickPath: [
      'Open the form, **Integrations**, **Webhooks**, **Connect**.',
      'Enter `{URL}` and your key as signing secret; without one nothing is signed.',
    ],
    retries: {
      when: 'if there is no 2xx within 10 seconds',
      howOften: '5 times: after 5 and 30 minutes and 1, 6 and 24 hours',
      source: 'https://developers.tally.so/api-reference/endpoint/webhooks/events/retry, read 2026-11-29',
    },
    source: 'https://developers.tally.so/api-reference/endpoint/webhooks/post.md, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'header and base64 are as several receivers have them; that there is a signing secret is documented',
  },
  {
    name: 'Telnyx',
    // API version 2. The key is public, not a secret.
    header: 'telnyx-signature-ed25519',
    signs: '{timestamp}|{body}',
    algorithm: 'ed25519',
    encoding: 'base64',
    keyEncoding: 'base64',
    timestamp: 'telnyx-timestamp',
    eventType: '{field:data.event_type}',
    eventId: '{field:data.id}',
    sample:
      '{"data":{"event_type":"message.received","id":"b301ed3f-1490-491f-995f-6e64e69674d4","occurred_at":"2026-11-12T10:00:00.000+00:00","payload":{"direction":"inbound","from":{"phone_number":"+13125550001","carrier":"T-Mobile USA","line_type":"Wireless"},"id":"84cca175-9755-4859-b67f-4730d7f58aa3","text":"Hello from Telnyx!","to":[{"phone_number":"+17735550002","status":"webhook_delivered"}],"type":"SMS","record_type":"message"},"record_type":"event"},"meta":{"attempt":1,"delivered_to":"https://example.com/hooks"}}',
    clickPath: [
      'Open **Keys & Credentials**, **Public Key** in the portal and copy it: it is the key, 44 characters.',
      'Open the connection, messaging profile or application and enter `{URL}` as **Webhook URL**, with API version 2.',
    ],
    retries: {
      when: 'messaging webhooks that are not answered with 2xx within 2 seconds',
      howOften: 'up to 3 attempts for each URL, then the failover URL where there is one',
      source: 'https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks, read 2026-11',
    },
    source: 'https://developers.telnyx.com/api-reference/callbacks/ and telnyx 7.24.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'TikTok',
    title: 'TikTok for Developers',
    // For TikTok; TikTok Shop is a different system.
    header: 'TikTok-Signature',
    form: 't={timestamp},s={signature}',
    signs: '{timestamp}.{body}',
    eventType: '{field:event}',
    eventId: { none: 'the body has none' },
    sample:
      '{"client_key":"bwo2m45353a6k85","event":"video.publish.completed","create_time":1793610843,"user_openid":"act.example12345Example12345Example","content":"{\\"share_id\\":\\"video.6974245311675353080.VDCxrcMJ\\"}"}',
    clickPath: [
      'Open **Manage apps**, the app, **Webhooks** and enter `{URL}` as **Callback URL**.',
      'Copy the **Client secret** of the app: it is the key.',
    ],
    retries: {
      when: 'if the answer is not 200',
      howOften: 'with growing pauses for up to 72 hours',
      source: 'https://developers.tiktok.com/doc/webhooks-overview/, read 2026-11-29',
    },
    source: 'https://developers.tiktok.com/doc/webhooks-verification, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Webflow',
    header: 'x-webflow-signature',
    signs: '{timestamp}:{body}',
    timestamp: 'x-webflow-timestamp',
    unit: 'milliseconds',
    eventType: '{field:triggerType}',
    eventId: { none: 'only what the event is about has one, in payload.id' },
    sample:
      '{"triggerType":"form_submission","payload":{"name":"Contact Us","siteId":"65427cf400e02b306eaa049c","data":{"First Name":"Ada","email":"ada@example.com"},"submittedAt":"2026-11-02T09:14:03.210Z","id":"6321ca84df3949bfc6752327","formId":"65429eadebe8a9f3a30f62d0"}}',
    clickPath: [
      'Send `POST https://api.webflow.com/v2/sites/{site_id}/webhooks` with the OAuth token of an app: webhooks of the dashboard are not signed.',
      'Give `{URL}` as `url`, and one `triggerType`.',
      'Copy the **Client secret** of the app from **Workspace settings**, **Apps & Integrations**: it is the key.',
    ],
    retries: {
      when: 'what could not be delivered',
      howOften: 'at most 3 attempts in all',
      source: 'https://developers.webflow.com/data/changelog/webhook-retries, read 2026-11',
    },
    source: 'https://developers.webflow.com/data/docs/working-with-webhooks and webflow-api 3.3.4, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Wise',
    // One key pair signs for every receiver, so a delivery to another receiver verifies too.
    header: 'X-Signature-SHA256',
    algorithm: 'rsaSha256',
    encoding: 'base64',
    eventType: '{field:event_type}',
    eventId: { none: 'only the delivery has one, in a header that is not signed' },
    sample:
      '{"data":{"resource":{"type":"transfer","id":49983981,"profile_id":16055450,"account_id":14124090},"current_state":"processing","previous_state":"incoming_payment_waiting","occurred_at":"2026-11-27T10:12:50Z"},"subscription_id":"90aa8e14-4ef1-4a56-861c-f3c9cde097ea","event_type":"transfers#state-change","schema_version":"2.0.0","sent_at":"2026-11-27T10:12:50Z"}',
    clickPath: [
      'Open **Your account**, **Integrations and tools**, **Webhooks** and create one with `{URL}` and an event.',
      'Copy the public key from docs.wise.com, of production or of the sandbox: it is the key.',
    ],
    retries: { when: 'if there is no 2xx within 5 seconds', howOften: 'at most 25 times in two weeks' },
    note: 'Wise signs for all receivers with one key: compare `body.subscription_id` with your own in `webhookWhen`.',
    source:
      'https://docs.wise.com/guides/developer/webhooks/event-handling and https://github.com/transferwise/digital-signatures-examples, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'WooCommerce',
    // The topic is not signed, and neither is the delivery id, which is new each time.
    header: 'X-WC-Webhook-Signature',
    encoding: 'base64',
    keyIsChosen: true,
    eventType: '{header:X-WC-Webhook-Topic}',
    eventId: { none: 'X-WC-Webhook-Delivery-ID is new each time' },
    // Sent unsigned, as a form, when the webhook is saved.
    handshakes: [
      { name: 'webhook_id', method: 'POST', when: ['{form:webhook_id}', 'no {header:X-WC-Webhook-Signature}'] },
    ],
    sample:
      '{"id":727,"number":"727","status":"processing","currency":"EUR","total":"29.35","date_created_gmt":"2026-11-12T10:00:00","billing":{"first_name":"Ada","email":"ada@example.com"},"line_items":[{"id":315,"name":"Tea","quantity":2,"total":"6.00"}]}',
    sampleHeaders: {
      'x-wc-webhook-topic': 'order.created',
    },
    clickPath: [
      'Open **WooCommerce**, **Settings**, **Advanced**, **Webhooks**, **Add webhook**.',
      'Set **Active**, choose the topic, enter `{URL}` and your key, without `&`, `<`, `>` and quotes, as **Secret**, and save.',
    ],
    retries: {
      none: 'never; after more than 5 failures in a row, which are answers but 2xx, 301 and 302, it disables the webhook',
      source:
        'https://github.com/woocommerce/woocommerce (plugins/woocommerce/includes/class-wc-webhook.php), read 2026-11-29',
    },
    note: 'WooCommerce never repeats a delivery that failed, and disables the webhook after more than 5 in a row.',
    source:
      'https://github.com/woocommerce/woocommerce (plugins/woocommerce/includes/class-wc-webhook.php), read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'WorkOS',
    // Looks like Stripe’s, but with milliseconds, and a space after the comma.
    header: 'WorkOS-Signature',
    form: 't={timestamp}, v1={signature}',
    signs: '{timestamp}.{body}',
    unit: 'milliseconds',
    eventType: '{field:event}',
    eventId: '{field:id}',
    sample:
      '{"id":"event_01FKJ843CVE8F7BXQSPFH0M53V","event":"dsync.user.created","data":{"id":"directory_user_01E1X1B89NH8Z3SDFJR4H7RGX7","object":"directory_user","directory_id":"directory_01ECAZ4NV9QMV47GW873HDCX74","first_name":"Ada","last_name":"Example","state":"active"},"created_at":"2026-11-02T09:14:03.210Z"}',
    clickPath: [
      'Open **Webhooks** in the dashboard and press **Create Webhook**.',
      'Enter `{URL}`, choose the events and save.',
      'Open the webhook and copy its **secret**: it is the key.',
    ],
    retries: { when: 'if the answer is no 2xx', howOften: 'up to 12 times in 3 days' },
    source: 'https://workos.com/docs/events/data-syncing/webhooks and @workos-inc/node 8.13.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'X',
    title: 'X (Twitter)',
    aliases: ['Twitter'],
    // Base64 after sha256=. A token that is hashed for the handshake must never be a possible body of a delivery.
    header: 'x-twitter-webhooks-signature',
    form: 'sha256={signature}',
    signs: [{ ...part.body, isJsonObject: true }],
    encoding: 'base64',
    eventType: { none: 'the member beside for_user_id names it' },
    eventId: { none: 'only what the event is about has one' },
    // Sent unsigned when the webhook is registered, and every hour.
    handshakes: [
      {
        name: 'crc_token',
        method: 'GET',
        when: ['{query:crc_token}'],
        answer: { json: { response_token: { hmac: '{query:crc_token}', as: 'base64', prefix: 'sha256=' } } },
      },
    ],
    sample:
      '{"for_user_id":"2244994945","tweet_create_events":[{"created_at":"Fri Nov 27 10:00:00 +0000 2026","id_str":"1728760000000000001","text":"Hello","user":{"id_str":"12","screen_name":"jack"}}]}',
    clickPath: [
      'Copy the API key secret from **Keys and tokens** of the app in the developer console: it is the key. Start Sluice with it.',
      'Register `{URL}` with `POST /2/webhooks`; it has to be https without a port, and X tests it at once.',
    ],
    retries: {
      when: 'if there is no 200 within 3 seconds',
      howOften: 'with the enterprise tier up to three times in 5 minutes; for other tiers we found no page',
      source:
        'https://developer.x.com/en/docs/x-api/enterprise/account-activity-api/guides/activity-retries, read 2026-11-29',
    },
    source: 'https://docs.x.com/x-api/webhooks/quickstart, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Xero',
    // The key looks like base64 and is used as text. Answers must be empty.
    header: 'x-xero-signature',
    encoding: 'base64',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, none of which has one' },
    // Some are signed wrongly, and must get 401.
    handshakes: [
      { name: 'intent to receive', method: 'POST', isSigned: true, when: ['{field:events} = []'], failsEmpty: true },
    ],
    acceptedResponse: { contentType: 'text/plain', body: '' },
    sample:
      '{"events":[{"resourceUrl":"https://api.xero.com/api.xro/2.0/Contacts/717f2bfc-c6d4-41fd-b238-3f2f0c0cf777","resourceId":"717f2bfc-c6d4-41fd-b238-3f2f0c0cf777","eventDateUtc":"2026-11-12T01:15:39.902","eventType":"UPDATE","eventCategory":"CONTACT","tenantId":"c2cc9b6e-9458-4c7d-93cc-f02b81b0594f","tenantType":"ORGANISATION"}],"firstEventSequence":1,"lastEventSequence":1,"entropy":"S0m3r4Nd0mt3xt"}',
    clickPath: [
      'Open **My Apps** at developer.xero.com, your app, **Webhooks**, choose the events and enter `{URL}`.',
      'Copy the **Webhooks key**: it is the key. Start Sluice with it.',
      'Press **Send ‘Intent to receive’** and wait until the status is OK.',
    ],
    retries: {
      when: 'if the answer is not an empty 200 within 5 seconds',
      howOften: 'for up to 24 hours, and then disables the webhook',
    },
    source: 'https://developer.xero.com/documentation/webhooks/configuring-your-server, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that the text of the key signs is as public receivers have it; the rest is documented',
  },
  {
    name: 'Zapier',
    title: 'Webhooks by Zapier',
    // Nothing is signed. You configure the headers in the Zap; we chose the name of this one.
    header: 'X-Webhook-Token',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: { none: 'the body is what the Zap makes it' },
    eventId: { none: 'the body is what the Zap makes it' },
    sample:
      '{"trigger_event":"new_form_submission","form_id":"12","email":"ada@example.com","submitted_at":"2026-11-02T09:14:03Z"}',
    clickPath: [
      'Add the action **Webhooks by Zapier** with the event **POST** to the Zap.',
      'Enter `{URL}`, choose **Json**, and add the header `X-Webhook-Token` with your key under **Headers**.',
      'Test the step.',
    ],
    retries: {
      when: 'after 5xx, where **Autoreplay** is turned on',
      howOften: 'on a schedule; the page names no number; a Zap whose runs of 7 days failed to 95% is paused',
      source: 'https://docs.zapier.com/platform/manage/api-outage, read 2026-11-29',
    },
    source:
      'https://help.zapier.com/hc/en-us/articles/8496326446989-Send-webhooks-in-Zaps, as guides of third parties tell it, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that nothing is signed, and that the header is free, is as third parties have it',
  },
];
