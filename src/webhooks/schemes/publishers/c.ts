import { part } from '../spec.ts';
import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_C: readonly PublisherRow[] = [
  {
    name: 'CalCom',
    title: 'Cal.com',
    header: 'X-Cal-Signature-256',
    keyIsChosen: true,
    eventType: '{field:triggerEvent}',
    eventId: { none: 'only the booking has one, in payload.uid' },
    sample:
      '{"triggerEvent":"BOOKING_CREATED","createdAt":"2026-11-12T09:30:00.538Z","payload":{"type":"60min","title":"60min between Pro Example and Ada Lovelace","startTime":"2026-11-20T09:30:00Z","uid":"bFJeNb2uX8ANpT3JL5EfXw","bookingId":91,"status":"ACCEPTED"}}',
    clickPath: [
      'Open **Settings**, **Developer**, **Webhooks** and press **New**.',
      'Enter `{URL}` as **Subscriber URL**, choose the events, and enter your key as **Secret**.',
    ],
    keyIs: 'the **Secret** of the webhook; without one the header is `no-secret-provided`, which is refused',
    retries: {
      none: 'its documentation says nothing of them',
      source: 'https://cal.com/docs/developing/guides/automation/webhooks, read 2026-11-29',
    },
    source:
      'https://cal.com/docs/developing/guides/automation/webhooks and https://github.com/calcom/cal.com (packages/features/webhooks/lib/sendPayload.ts), read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Chargify',
    title: 'Maxio Advanced Billing (Chargify)',
    aliases: ['Maxio'],
    // The bodies are forms. An older header with MD5 is sent too, and not read.
    header: 'X-Chargify-Webhook-Signature-Hmac-Sha-256',
    eventType: '{field:event}',
    eventId: '{field:id}',
    sample: 'id=81309408&event=payment_success&payload[site][subdomain]=acme&payload[subscription][id]=15',
    sampleType: 'application/x-www-form-urlencoded',
    clickPath: [
      'Open **Config**, **Settings**, **Webhooks** of the site and switch webhooks on.',
      'Add `{URL}` with the events you want.',
      'Copy the **site shared key** from the same settings.',
    ],
    keyIs: 'the **site shared key**',
    retries: {
      when: 'if there is no 200 within about 15 seconds',
      howOften:
        '4 times: after 10, 15, 90 and 180 seconds, each from the one before; after 25 failures in a row it pauses the endpoint, and after 48 hours disables it',
      source: 'https://maxio-chargify.zendesk.com/hc/en-us/articles/5405357509645-Webhooks-Reference, read 2026-11-29',
    },
    source: 'https://gist.github.com/moklett/7456242, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'all of it is as a gist of Chargify’s co-founder and three receivers have it',
  },
  {
    name: 'CheckoutCom',
    title: 'Checkout.com',
    header: 'Cko-Signature',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":"evt_az5sblvku4ge3dwpztvyizgcau","type":"payment_approved","version":"1.0.1","created_on":"2026-11-12T10:00:00Z","data":{"id":"pay_mbabizu24mvu3mela5njyhpit4","reference":"ORD-5023-4E89","amount":6540,"currency":"USD"}}',
    clickPath: [
      'Open **Developers**, **Webhooks** in the dashboard and press **Create configuration**.',
      'Enter a name and `{URL}`, and choose the events.',
      'Copy the **Signature key**, or enter one of your own.',
    ],
    keyIs: 'the **Signature key** of the webhook',
    retries: {
      when: 'if there is no 2xx within 10 seconds',
      howOften: '8 times in about 30 hours, with pauses from 5 minutes to 12 hours',
    },
    source:
      'https://www.checkout.com/docs/developer-resources/webhooks/manage-webhooks/set-up-your-webhook-receiver, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Checkr',
    // The credential of the account is the key.
    header: 'X-Checkr-Signature',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":"1002d6bca6acdfcbb8442178","object":"event","type":"report.completed","created_at":"2026-11-02T09:14:03Z","data":{"object":{"id":"4722c07dd9a10c3985ae432a","object":"report","status":"clear"}}}',
    clickPath: [
      'Open **Account Settings**, **Developer Settings** in the dashboard.',
      'Add `{URL}` under **Webhooks**.',
      'The key is the API key of the same environment; for partners, the OAuth client secret.',
    ],
    keyIs: 'the **API key** of the account, or the client secret of a partner’s app',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://docs.checkr.com/apis/webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'header, hex and which key signs are as about eight verifiers of third parties have them',
  },
  {
    name: 'CircleCI',
    // A list of versions; so far v1 is the only one.
    header: 'circleci-signature',
    form: 'v1={signature},...',
    keyIsChosen: true,
    eventType: '{field:type}',
    eventId: '{field:id}',
    eventIdSource:
      'https://circleci.com/docs/outbound-webhooks/ (id: identifies the event where requests are repeated), read 2026-11',
    sample:
      '{"type":"workflow-completed","id":"3888f21b-eaa7-38e3-8f3d-75a63bba8895","happened_at":"2026-11-27T10:49:34.317Z","project":{"name":"web","slug":"github/acme/web"},"workflow":{"id":"fda08377-fe7e-46b1-8992-3a7aaecac9c3","name":"build-test-deploy","status":"success"}}',
    clickPath: [
      'Open **Projects**, the **…** of the project, **Project Settings**, **Webhooks** and press **Add Webhook**.',
      'Enter a name, `{URL}` and your key as **Secret token**.',
      'Choose **Workflow Completed** or **Job Completed** and press **Test Ping Event**.',
    ],
    keyIs: 'the **Secret token** of the webhook; without one nothing is signed',
    retries: { when: 'if there is no 2xx within 10 seconds', howOften: 'later; its pages name no number' },
    source: 'https://circleci.com/docs/outbound-webhooks/, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'ClickUp',
    header: 'X-Signature',
    eventType: '{field:event}',
    eventId: { none: 'only what changed has one, in history_items' },
    sample:
      '{"event":"taskCreated","task_id":"c0j","webhook_id":"7689a169-a000-4985-8676-6902b96d6627","history_items":[{"id":"2800763136717140857","type":1,"date":"1793610843000","field":"status"}]}',
    clickPath: [
      'ClickUp has no screen for signed webhooks: send `POST https://api.clickup.com/api/v2/team/{team_id}/webhook` with `{URL}` as `endpoint`, and the events.',
      'Copy `webhook.secret` from the answer.',
    ],
    keyIs: '`webhook.secret` of the answer that created the webhook',
    retries: {
      when: 'if the answer is an error or takes more than 7 seconds',
      howOften: 'up to 5 attempts for each event; after 100 events that failed the webhook is suspended',
    },
    note: 'The webhook action of an automation is another feature, which signs nothing.',
    source: 'https://developer.clickup.com/docs/webhooksignature, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'ConfigCat',
    // One signature by each of the keys. Nothing separates the parts, so id and time need fixed lengths. Each request
    // has its own id. The key looks like base64 and is used as text.
    header: 'X-ConfigCat-Webhook-Signature-V1',
    form: '{signature},...',
    signs: [{ ...part.header('x-configcat-webhook-id'), length: 32 }, part.timestamp, part.body],
    encoding: 'base64',
    timestamp: 'X-ConfigCat-Webhook-Timestamp',
    timestampLength: 10,
    eventType: { none: 'the body is a template of your own' },
    eventId: { none: 'only the request has one, and a retry has another' },
    sample:
      '{"config":"Main","environment":"Production","changedBy":"Ada (ada@example.com)","changes":[{"settingKey":"myAwesomeFeature1","event":"changed"}]}',
    clickPath: [
      'Open **Webhooks** at app.configcat.com and press **+ ADD WEBHOOK**.',
      'Choose config and environment, the method POST and a body, and enter `{URL}`.',
      'Open the signing keys on the same page and copy the primary key.',
    ],
    keyIs: 'the **primary signing key**, all of it, `configcat_whsk_` included',
    retries: {
      when: 'if the answer is no 2xx',
      howOften: 'up to 5 times, with varying pauses',
      source: 'https://configcat.com/docs/advanced/notifications-webhooks/, read 2026-11-29',
    },
    source: 'https://configcat.com/docs/advanced/notifications-webhooks/, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Cronofy',
    // Several signatures are sent while the client secret is rotated.
    header: 'Cronofy-HMAC-SHA256',
    form: '{signature},...',
    encoding: 'base64',
    eventType: '{field:notification.type}',
    eventId: { none: 'only the channel has one, in channel.channel_id' },
    sample:
      '{"notification":{"type":"change","changes_since":"2026-11-27T10:24:24Z"},"channel":{"channel_id":"chn_54cf7c7cb4ad4c1027000001","filters":{}}}',
    clickPath: [
      'Open the application in the developer dashboard and copy its client secret.',
      'Send `POST https://api.cronofy.com/v1/channels` with `{URL}` as `callback_url`, and the access token of a user.',
      'Cronofy sends a delivery of the type `verification` at once.',
    ],
    keyIs: 'the **client secret** of the application',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://github.com/cronofy/notification-hmac-examples and cronofy 3.8.4, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'CustomerIo',
    title: 'Customer.io',
    // Like Slack's, but without a prefix of the signature.
    header: 'X-CIO-Signature',
    signs: 'v0:{timestamp}:{body}',
    timestamp: 'X-CIO-Timestamp',
    eventType: '{field:metric}',
    eventId: '{field:event_id}',
    sample:
      '{"event_id":"01E4C4CT6YDC7Y5M7FE1GWWPQJ","object_type":"email","metric":"delivered","timestamp":1794650400,"data":{"customer_id":"42","recipient":"ada@example.com","delivery_id":"dgTGBwAAAW5k2r8xAAE=","subject":"Welcome"}}',
    clickPath: [
      'Open **Data & Integrations**, **Integrations**, **Reporting Webhooks** and press **Add Reporting Webhook**.',
      'Enter `{URL}` and choose the events.',
      'Copy the **Webhook signing key** and press **Save and Enable Webhook**.',
    ],
    keyIs: 'the **Webhook signing key** of the workspace',
    retries: {
      when: 'if there is no 2xx within 4 seconds',
      howOften: 'with growing pauses, for 7 days; later events wait meanwhile',
    },
    note: 'Webhooks that a campaign sends are signed with a key that Customer.io does not show.',
    source: 'https://docs.customer.io/integrations/api/webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'what is signed, and hex, are as several receivers of third parties have them; header, key and algorithm are documented',
  },
];
