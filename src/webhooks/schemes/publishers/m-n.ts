import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_M_TO_N: readonly PublisherRow[] = [
  {
    name: 'Mandrill',
    title: 'Mailchimp Transactional (Mandrill)',
    // A form with one field that holds a list of events as JSON. The URL is signed byte for byte.
    header: 'X-Mandrill-Signature',
    signs: '{url}{form}',
    algorithm: 'sha1',
    encoding: 'base64',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, and each has only the id of its message' },
    // Sent when the URL is saved: HEAD, and if that fails, an empty list signed with a publicly known key.
    handshakes: [
      { name: 'HEAD', method: 'HEAD' },
      { name: 'empty list', method: 'POST', when: ['{form:mandrill_events} = []'] },
    ],
    sample:
      'mandrill_events=%5B%7B%22event%22%3A%22open%22%2C%22ts%22%3A1794650400%2C%22_id%22%3A%228606637d7dd6467d81c3cac7dbbb0ab5%22%2C%22msg%22%3A%7B%22email%22%3A%22ada%40example.com%22%2C%22state%22%3A%22sent%22%7D%7D%5D',
    sampleType: 'application/x-www-form-urlencoded',
    clickPath: [
      'Open **Settings**, **Webhooks** in Mandrill, press **Add a Webhook**, choose the events and enter `{URL}`.',
      'Copy the **Key** from the list: it is the key. Webhooks of audiences in Mailchimp are not signed.',
    ],
    retries: {
      when: 'a batch that failed',
      howOften: 'we found no number; it can be given up by hand',
      source:
        'https://mandrill.zendesk.com/hc/en-us/articles/205583277-Can-I-stop-a-failed-webhook-batch-from-retrying-, read 2026-11-29',
    },
    source:
      'https://mandrill.zendesk.com/hc/en-us/articles/360039232513-How-to-Authenticate-Webhook-Requests, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'MercadoPago',
    title: 'Mercado Pago',
    // The body is not signed, only the id of the payment in the query. Packages of other years read ts as milliseconds.
    header: 'x-signature',
    form: 'ts={timestamp},v1={signature}',
    signs: 'id:{query:data.id};request-id:{header:x-request-id};ts:{timestamp};',
    unit: 'detect',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":112233445566,"live_mode":true,"type":"payment","date_created":"2026-11-02T09:14:03.000-03:00","user_id":987654321,"api_version":"v1","action":"payment.updated","data":{"id":"1234567890"}}',
    clickPath: [
      'Open **Your integrations**, the application, **Webhooks**, **Configure notifications**.',
      'Enter `{URL}` for test and for production mode, choose the events, save and copy the **secret signature**: it is the key.',
    ],
    retries: {
      when: 'if there is no 200 or 201 within 22 seconds',
      howOften: 'with growing pauses; its pages differ, the shortest after 30 seconds, 5 and 30 minutes',
      source:
        'https://www.mercadopago.com.br/developers/en/docs/your-integrations/notifications/webhooks, as others quote it, read 2026-11-29',
    },
    note: 'Take the id from the query and fetch the payment: whoever has one delivery can send it with another body. A QR Code notification is not signed, and one without `data.id` in its query is refused.',
    source:
      'mercadopago 3.6.1 and https://www.mercadopago.com.br/developers/en/docs/your-integrations/notifications/webhooks, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Merge',
    header: 'X-Merge-Webhook-Signature',
    encoding: 'base64Url',
    eventType: '{field:hook.event}',
    eventId: { none: 'hook.id is that of the subscription' },
    sample:
      '{"hook":{"id":"dcfc6c4b-8a21-4aa5-8b5a-1b8e6b8a1111","event":"candidate.created","target":"https://example.com/hook"},"linked_account":{"id":"3ac95cde-7c7e-4eef-afec-c207a7c3b8d6","integration":"Greenhouse","integration_slug":"greenhouse","category":"ats","end_user_origin_id":"acme","status":"COMPLETE"},"data":{"id":"521b18c2-4d01-4297-b451-19858d07c133"}}',
    clickPath: [
      'Open **Advanced configuration**, **Webhooks** and press **+ Webhook**.',
      'Enter `{URL}` and choose the event.',
      'Copy the signature key from **Security** on the same page: it is the key.',
    ],
    retries: {
      when: 'after 5xx, or without an answer within 30 seconds',
      howOften: 'up to two more times',
      source: 'https://help.merge.dev/en/articles/5720975-automatic-webhook-retries, read 2026-11-29',
    },
    source: 'https://docs.merge.dev/basics/webhooks/merge-webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that it is base64url is as two third parties have it; a guide of Merge compares standard base64',
  },
  {
    name: 'ModernTreasury',
    title: 'Modern Treasury',
    header: 'X-Signature',
    eventType: '{field:event}',
    eventId: { none: 'only what the event is about has one, in data.id' },
    sample:
      '{"event":"completed","data":{"id":"c7e6bcd7-4a6c-4b1d-9c6f-2f9f5c1f8a77","object":"payment_order","type":"ach","amount":10000,"direction":"credit","status":"completed","currency":"USD","live_mode":true,"created_at":"2026-11-12T10:00:00Z"}}',
    clickPath: [
      'Open **Developers**, **Webhooks**, press **Add endpoint** and enter `{URL}`.',
      'Copy the **Webhook key**: it is the key.',
    ],
    retries: {
      when: 'if there is no 2xx within 5 seconds',
      howOften: 'with growing pauses; its pages name no number',
      source: 'https://docs.moderntreasury.com/reference/webhooks, read 2026-11-29',
    },
    source:
      'modern-treasury 3.3.0 and https://github.com/Modern-Treasury/modern-treasury-node/blob/main/tests/api-resources/webhooks.test.ts, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'MongoDbAtlas',
    title: 'MongoDB Atlas',
    // The alert keeps its id when it is acknowledged or closed.
    header: 'X-MMS-Signature',
    algorithm: 'sha1',
    encoding: 'base64',
    keyIsChosen: true,
    eventType: '{header:X-MMS-Event}',
    eventId: { none: 'the id in the body is that of the alert' },
    sample:
      '{"id":"533dc19ce4b00835ff81e2eb","groupId":"535683b3794d371327b","eventTypeName":"OUTSIDE_METRIC_THRESHOLD","status":"OPEN","created":"2026-11-27T10:00:00Z","updated":"2026-11-27T10:00:00Z","alertConfigId":"533dc40ae4b00835ff81eaee","metricName":"OPCOUNTER_CMD","humanReadable":"…"}',
    sampleHeaders: { 'x-mms-event': 'alert.open' },
    clickPath: [
      'Open **Project Settings**, **Integrations**, **Webhook Settings** and press **Configure**.',
      'Enter `{URL}` and your key as **webhook secret**; without one nothing is signed.',
      'Add **Webhook** as a notification method in the settings of the alert.',
    ],
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://www.mongodb.com/docs/atlas/tutorial/webhook-integration/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Mux',
    header: 'mux-signature',
    form: 't={timestamp},v1={signature},...',
    signs: '{timestamp}.{body}',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"type":"video.asset.ready","object":{"type":"asset","id":"0201p02fGKPE7MrbC269XRD7LpcHhrmbu0002"},"id":"3a56ac3d-33da-4366-855b-f592d898409d","environment":{"name":"Production","id":"j0863n"},"data":{"id":"0201p02fGKPE7MrbC269XRD7LpcHhrmbu0002","status":"ready","duration":23.8,"aspect_ratio":"16:9","playback_ids":[{"policy":"public","id":"4RtBnbIJ6RslSv00nqsv5xkAFa"}],"created_at":"1794650000"},"created_at":"2026-11-12T10:00:00.000000Z","accessor":null,"request_id":null,"attempts":[]}',
    clickPath: [
      'Open **Settings**, **Webhooks** of the environment, press **Create new webhook** and enter `{URL}`.',
      'Copy its **Signing Secret**: it is the key.',
    ],
    retries: {
      when: 'if the answer is no 2xx',
      howOften: 'with growing pauses for 24 hours',
      source: 'https://www.mux.com/docs/core/listen-for-webhooks, as others quote it, read 2026-11-29',
    },
    source: 'https://www.mux.com/docs/core/verify-webhook-signatures and @mux/mux-node 15.3.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'NewRelic',
    title: 'New Relic',
    // Nothing is signed. New Relic sends the headers that you configure; we chose this name. The body is a template.
    header: 'X-Webhook-Token',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: '{field:state}',
    eventId: { none: 'the id in the body is that of the issue' },
    sample:
      '{"id":"3a8f2c1e-6b0a-4a0c-9f4f-0b8f3f7d1111","issueUrl":"https://radar-api.service.newrelic.com/accounts/1/issues/3a8f2c1e","title":"CPU above 90 %","priority":"CRITICAL","state":"ACTIVATED","trigger":"STATE_CHANGE","totalIncidents":1,"createdAt":1795773600000,"updatedAt":1795773600000,"workflowName":"Sluice"}',
    clickPath: [
      'Open **Alerts**, **Destinations**, **Webhook** and enter a name and `{URL}`.',
      'Add the custom header `X-Webhook-Token` with your key, press **Test connection** and save.',
      'Choose the destination in a workflow.',
    ],
    retries: NO_PAGE_ON_RETRIES,
    source:
      'https://github.com/newrelic/docs-website/blob/develop/src/content/docs/alerts/get-notified/notification-integrations.mdx, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Notion',
    // The key is the full text of the token that Notion sends when a subscription is made. The operator must see it to
    // paste it, so it is not learned.
    header: 'X-Notion-Signature',
    form: 'sha256={signature}',
    eventType: '{field:type}',
    eventId: '{field:id}',
    sample:
      '{"id":"367cba44-b6f3-4c92-81e7-6a2e9659efd4","timestamp":"2026-11-12T15:34:18.363Z","workspace_id":"13950b26-c203-4f3b-b97d-93ec06319565","subscription_id":"29d75c0d-5546-4414-8459-7b7a92f1fc4b","integration_id":"0ef2e755-4912-8096-91c1-00376a88a5ca","type":"page.created","authors":[{"id":"c7c11cca-1d73-471d-9b6e-bdef51470190","type":"person"}],"attempt_number":1,"entity":{"id":"153104cd-477e-809d-8dc4-ff2d96ae3090","type":"page"},"data":{"parent":{"id":"36cc9195-760f-4fff-a67e-3a46c559b176","type":"database"}}}',
    clickPath: [
      'Start Sluice with any text as key and `"webhookEnforcementMode": "Audit"`.',
      'Open **Webhooks** of your integration, press **Create a subscription**, enter `{URL}` and choose the events.',
      'Notion sends `verification_token`: read it in the body of the delivery, at `/flows`, and paste it under **Verify**.',
      'Make it the key, all of it with `secret_`, and set the mode to `Enforce`.',
    ],
    retries: {
      when: 'a delivery that failed',
      howOften: 'up to 8 times with growing pauses, the last about 24 hours after the event',
      source: 'https://developers.notion.com/reference/webhooks-events-delivery, as others quote it, read 2026-11-29',
    },
    note: 'The token stays in the stored delivery until its retention is over, and in the input of its run: delete both.',
    source: '@notionhq/client 5.26.0 (README and signWebhookPayload), read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Npm',
    title: 'npm hooks',
    // It is not known whether the registry still sends them: newer versions of npm have no command for hooks.
    header: 'X-Npm-Signature',
    form: 'sha256={signature}',
    keyIsChosen: true,
    eventType: '{field:event}',
    eventId: { none: 'the body has none' },
    sample:
      '{"event":"package:publish","name":"example-package","type":"package","version":"1.0.0","hookOwner":{"username":"example"},"payload":{"name":"example-package"},"change":{"version":"1.2.3"},"time":1793610843210}',
    clickPath: ['Run `npm hook add PACKAGE {URL} KEY` with npm up to version 10.', 'See it in `npm hook ls`.'],
    retries: NO_PAGE_ON_RETRIES,
    source:
      'npm-hook-receiver 1.0.0, sign-payload 1.0.0 and https://docs.npmjs.com/cli/v10/commands/npm-hook, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Nylas',
    // Bare hex over the bytes as sent. The body of a retry contains its number, so the signature differs.
    header: 'X-Nylas-Signature',
    eventType: '{field:type}',
    eventId: '{field:id}',
    // Sent unsigned when the webhook is made or activated.
    handshakes: [
      { name: 'challenge', method: 'GET', when: ['{query:challenge}'], answer: { text: '{query:challenge}' } },
    ],
    sample:
      '{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"5b1a7c0d-9f3c-4a2a-8d0f-4a4bb2f8a001","time":1795773600,"webhook_delivery_attempt":1,"data":{"application_id":"app-1","object":{"id":"msg-1","grant_id":"grant-1","subject":"Hello","object":"message"}}}',
    clickPath: [
      'Start Sluice with any text as key: Nylas shows the right one once the webhook is made.',
      'Open **Notifications** of the application, enter `{URL}` and choose the triggers.',
      'Copy the webhook secret, which is shown only once: it is the key.',
    ],
    retries: {
      when: 'after 408, 429, 502, 503, 504 or 507, or without an answer within 10 seconds',
      howOften: '3 attempts in all',
      source:
        'https://developer.nylas.com/docs/cookbook/use-cases/build/retry-failed-webhooks/, the statuses as others quote them, read 2026-11-29',
    },
    source:
      'https://developer.nylas.com/docs/reference/api/webhook-notifications/post-webhook-destinations/, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'that it is hex is as a gist of one who works there and two receivers have it; header, key and challenge are documented',
  },
];
