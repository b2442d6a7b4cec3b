import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_O_TO_R: readonly PublisherRow[] = [
  {
    name: 'Okta',
    title: 'Okta event hooks',
    // Nothing is signed. The URL is tested once with a GET, which is answered only if it contains the token too.
    header: 'Authorization',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: '{field:data.events.0.eventType}',
    eventId: '{field:eventId}',
    handshakes: [
      {
        name: 'X-Okta-Verification-Challenge',
        method: 'GET',
        isSigned: true,
        when: ['{header:x-okta-verification-challenge}'],
        answer: { json: { verification: '{header:x-okta-verification-challenge}' } },
      },
    ],
    sample:
      '{"eventType":"com.okta.event_hook","eventTypeVersion":"1.0","eventId":"85b60edb-4263-4e13-993b-818e26201052","eventTime":"2026-11-12T21:05:33.000Z","data":{"events":[{"uuid":"f1d0b993-cc19-11ed-a688-db22c99ef6c4","eventType":"user.session.start","severity":"INFO"}]}}',
    clickPath: [
      'Start Sluice with the key, open **Workflow**, **Event Hooks**, **Create Event Hook** and enter `{URL}`.',
      'Enter `Authorization` as authentication field, and the key as authentication secret.',
      'Choose the events, save, and press **Verify**.',
    ],
    keyIs: 'the **Authentication secret** of the event hook',
    retries: { when: 'if the answer is 5xx or takes more than 3 seconds', howOften: 'once at most' },
    note: 'If the secret is `Basic` and the base64 of `user:password`, use the scheme `Basic` instead, which does not answer the test.',
    source: 'https://developer.okta.com/docs/concepts/event-hooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Onfleet',
    // SHA-512. The key is written as hex and used as bytes.
    header: 'X-Onfleet-Signature',
    algorithm: 'sha512',
    keyEncoding: 'hex',
    eventType: '{field:triggerName}',
    eventId: { none: 'only what the event is about has one, in taskId' },
    handshakes: [{ name: 'check', method: 'GET', when: ['{query:check}'], answer: { text: '{query:check}' } }],
    sample:
      '{"taskId":"11z1BbsQUZFHD1XAd~emDDeK","workerId":null,"actionContext":{"type":"CREATE","id":"yAM*fDkztrT3gUcz9mNDgNOL"},"triggerId":9,"triggerName":"taskCreated","time":1793610843210,"data":{"task":{"id":"11z1BbsQUZFHD1XAd~emDDeK","shortId":"emDDeK","state":0}}}',
    clickPath: [
      'Open **Settings**, **API & Webhooks**, show the **webhook secret** and copy it: it is the key.',
      'Start Sluice with it, and add a webhook with `{URL}` and a trigger; Onfleet tests it at once.',
    ],
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://docs.onfleet.com/reference/secrets, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'the form of the test of the URL, GET with check; the signature is documented',
  },
  {
    name: 'Paystack',
    header: 'x-paystack-signature',
    algorithm: 'sha512',
    eventType: '{field:event}',
    eventId: { none: 'data.id is that of the transaction, which has several events' },
    sample:
      '{"event":"charge.success","data":{"id":302961,"domain":"live","status":"success","reference":"qTPrJoy9Bx","amount":10000,"gateway_response":"Approved by Financial Institution","paid_at":"2026-11-12T10:00:00.000Z","channel":"card","currency":"NGN","customer":{"id":68324,"email":"ada@example.com","customer_code":"CUS_qo38as2hpsgk2r0"}}}',
    clickPath: [
      'Open **Settings**, **API Keys & Webhooks** and enter `{URL}` as **Live Webhook URL**.',
      'Copy the **Secret Key** of the same mode, which is the key; a new one changes both.',
    ],
    retries: {
      when: 'if the answer is not 200',
      howOften:
        'in live mode every 3 minutes four times, then each hour for 72 hours; in test mode each hour for 10 hours',
      source: 'https://paystack.com/docs/payments/webhooks/, as others quote it, read 2026-11-29',
    },
    source: 'https://paystack.com/docs/payments/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Persona',
    // While a secret is rotated, two lists are sent, separated by a space: t=…,v1=… t=…,v1=….
    header: 'Persona-Signature',
    form: 't={timestamp},v1={signature} ...',
    signs: '{timestamp}.{body}',
    eventType: '{field:data.attributes.name}',
    eventId: '{field:data.id}',
    sample:
      '{"data":{"type":"event","id":"evt_XGuQbRhJ4bJdVhZkfX8aTfNz","attributes":{"name":"inquiry.completed","created-at":"2026-11-02T09:14:03.210Z","redacted-at":null,"payload":{"data":{"type":"inquiry","id":"inq_qYdzTQ5ND1FKkgEvMPG1cvfj","attributes":{"status":"completed","reference-id":"user-42"}}}}}}',
    clickPath: [
      'Open **Webhooks** in the dashboard and press **Create webhook**.',
      'Enter `{URL}`, choose the events and enable it.',
      'Copy the **webhook secret**, all of its text: it is the key.',
    ],
    retries: {
      when: 'a delivery that failed',
      howOften: '4 times: after 3, 18, 83 and 258 seconds, counted in `Persona-Webhook-Attempts-Made`',
      source: 'https://docs.withpersona.com/docs/best-practices, read 2026-11-29',
    },
    source: 'https://docs.withpersona.com/docs/webhooks-best-practices, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Plivo',
    // V3, for POST to a URL without a query. A comma separates the signatures of several auth tokens.
    header: 'X-Plivo-Signature-V3',
    form: '{signature},...',
    signs: '{url}?{form}.{header:X-Plivo-Signature-V3-Nonce}',
    encoding: 'base64',
    eventType: '{field:Event}',
    eventId: { none: 'only the call or the message has one' },
    acceptedResponse: { contentType: 'text/xml', body: '<Response/>' },
    sample:
      'CallStatus=ringing&CallUUID=97ceeb52-58b6-11e1-86da-77300b68f8bb&Direction=inbound&Event=StartApp&From=14155550100&To=14155550101',
    sampleType: 'application/x-www-form-urlencoded',
    clickPath: [
      'Copy the **Auth Token** from the overview page of the console: it is the key.',
      'Open the application under **Voice** or **Messaging** and enter `{URL}`, without a query, with the method POST.',
    ],
    retries: {
      when: 'messages that are not answered with 2xx within 8 seconds',
      howOften:
        'after 60, 120 and 240 seconds, each from the one before; callbacks of calls once, unless the URL says otherwise',
      source:
        'https://support.plivo.com/hc/en-us/articles/360041344652 and https://docs.plivo.com/docs/voice/concepts/callback-configurations, read 2026-11-29',
    },
    source: 'plivo 4.79.0 (dist/utils/v3Security.js), read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Polar',
    // Standard Webhooks, but with the whole text of the secret as the key.
    header: 'webhook-signature',
    form: 'v1,{signature} ...',
    signs: '{id}.{timestamp}.{body}',
    encoding: 'base64',
    timestamp: 'webhook-timestamp',
    id: 'webhook-id',
    eventType: '{field:type}',
    eventId: '{header:webhook-id}',
    sample:
      '{"type":"order.paid","timestamp":"2026-11-02T09:14:03.210Z","data":{"id":"7b6c1f0a-0f2e-4a52-9d0d-1c1d2e3f4a5b","created_at":"2026-11-02T09:14:02.000Z","status":"paid","total_amount":1000,"currency":"usd","customer_id":"992fae2a-2a17-4b7a-8d9e-e287cf90131b","product_id":"d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23"}}',
    clickPath: [
      'Open **Settings**, **Webhooks** and press **Add Endpoint**.',
      'Enter `{URL}`, keep the format **Raw**, and set or generate a **Secret**: all of its text is the key.',
    ],
    retries: {
      when: 'if there is no 2xx within 10 seconds',
      howOften: 'up to 10 times; after 10 failures in a row it disables the endpoint',
    },
    source: 'https://polar.sh/docs/integrate/webhooks/delivery and @polar-sh/sdk 0.49.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Primer',
    // For a day after a rotation, the second header is signed with the other secret. signedAt is the signature's time.
    header: ['X-Signature-Primary', 'X-Signature-Secondary'],
    encoding: 'base64',
    timestamp: '{field:signedAt}',
    eventType: '{field:eventType}',
    eventId: { none: 'only the payment has one, in payment.id' },
    // As long as all retries take, because it is not known whether each is signed again.
    toleranceSeconds: 2400,
    sample:
      '{"eventType":"PAYMENT.STATUS","date":"2026-11-12T10:00:00.367687","signedAt":"1794650400","notificationConfig":{"id":"cc51f9f0-7e1c-492b-9d37-f83a818f6070","description":"Payment webhook"},"version":"2.4","payment":{"id":"DdRZ6YY0","date":"2026-11-12T09:59:59.167687","dateUpdated":"2026-11-12T10:00:00.267687","amount":3000,"currencyCode":"GBP","customerId":"cust-123","orderId":"order-123","status":"SETTLED"}}',
    clickPath: [
      'Open **Developers**, **Webhooks**, press **Add webhook**, choose the type and enter `{URL}`.',
      'Copy the **signing secret**: it is the key.',
    ],
    retries: { when: 'if there is no 2xx within 10 seconds', howOften: 'up to 5 times in about 31 minutes' },
    source: 'https://primer.io/docs/api-reference/get-started/configure-webhooks, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that it is SHA-256 is as a third party has it; the rest is documented',
  },
  {
    name: 'PrometheusAlertmanager',
    title: 'Prometheus Alertmanager',
    // Nothing is signed. A reminder has the body of the first notification, byte for byte.
    header: 'Authorization',
    form: 'Bearer {signature}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: '{field:status}',
    eventId: { none: 'a reminder has the body of the first notification, and so starts no run' },
    sample:
      '{"receiver":"sluice","status":"firing","alerts":[{"status":"firing","labels":{"alertname":"HighLatency","severity":"page","instance":"web-1"},"annotations":{"summary":"p99 above 2 s"},"startsAt":"2026-11-27T10:00:00.000Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prometheus:9090/graph?g0.expr=…","fingerprint":"b1a7c0d90a1b2c3d"}],"groupLabels":{"alertname":"HighLatency"},"commonLabels":{"alertname":"HighLatency","severity":"page"},"commonAnnotations":{"summary":"p99 above 2 s"},"externalURL":"http://alertmanager:9093","version":"4","groupKey":"{}:{alertname=\\"HighLatency\\"}","truncatedAlerts":0}',
    clickPath: [
      'Add a receiver with `webhook_configs` to `alertmanager.yml`, with `{URL}` as `url`, and point a route at it.',
      'Under it, `http_config`, `authorization`, write your key as `credentials`, and reload.',
    ],
    retries: {
      when: 'if the answer is 5xx or does not come, never after a 4xx',
      howOften: 'until the next interval of the group',
    },
    source: 'https://prometheus.io/docs/alerting/latest/configuration/#webhook_config, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Pusher',
    title: 'Pusher Channels',
    // X-Pusher-Key names the key, and is not signed.
    header: 'X-Pusher-Signature',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, none of which has one' },
    sample: '{"time_ms":1793610843210,"events":[{"channel":"presence-room-1","name":"member_added","user_id":"42"}]}',
    clickPath: [
      'Open **Webhooks** of the app in the dashboard and add `{URL}` with an event type.',
      'Open **App Keys** and copy the **secret** of the oldest key: it signs.',
    ],
    retries: { when: 'if the answer is no 2xx', howOften: 'with growing pauses, for 5 minutes' },
    source: 'https://pusher.com/docs/channels/server_api/webhooks/ and pusher 5.3.4, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'QuickBooks',
    title: 'QuickBooks Online (Intuit)',
    aliases: ['Intuit'],
    header: 'intuit-signature',
    encoding: 'base64',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample:
      '[{"specversion":"1.0","id":"88cd52aa-33b6-4351-9aa4-47572edbd068","source":"intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=","type":"qbo.invoice.created.v1","datacontenttype":"application/json","time":"2026-11-27T10:31:25.179Z","intuitentityid":"95","intuitaccountid":"310687","data":{}}]',
    clickPath: [
      'Open **My Hub**, **App dashboard** at developer.intuit.com, the app, **Webhooks**.',
      'Enter `{URL}` and choose what it is told of.',
      'Save and press **Show Token**: the verifier token is the key, one for development and one for production.',
    ],
    retries: {
      when: 'after 408, 500, 502, 503 and 504',
      howOften: 'after 20, 30 and 50 minutes, and then gives the endpoint up',
      source:
        'https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks/managing-webhooks-notifications, as others quote it, read 2026-11-29',
    },
    source:
      'https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks/managing-webhooks-notifications, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that it is base64 is as three receivers have it; header and key are documented',
  },
  {
    name: 'Razorpay',
    // The id is not signed. Retries of older events keep the old secret after a rotation.
    header: 'X-Razorpay-Signature',
    keyIsChosen: true,
    id: 'x-razorpay-event-id',
    eventType: '{field:event}',
    eventId: '{header:x-razorpay-event-id}',
    sample:
      '{"entity":"event","account_id":"acc_BFQ7uQEaa7j2z7","event":"payment.captured","contains":["payment"],"payload":{"payment":{"entity":{"id":"pay_NqX4r8bV0wWcPq","entity":"payment","amount":50000,"currency":"INR","status":"captured","order_id":"order_NqX4k2mT7yLsAd","method":"upi","captured":true,"email":"ada@example.com","contact":"+919900000000","created_at":1794650300}}},"created_at":1794650301}',
    clickPath: [
      'Open **Account & Settings**, **Webhooks** and press **+ Add New Webhook**.',
      'Enter `{URL}` and your key as **Secret**; without one nothing is signed.',
      'Choose the events and press **Create Webhook**.',
    ],
    retries: {
      when: 'if there is no 2xx within 5 seconds',
      howOften: 'with growing pauses for 24 hours, and then disables the webhook',
    },
    source:
      'https://razorpay.com/docs/webhooks/validate-test/ and https://github.com/razorpay/razorpay-node/blob/master/test/utils/razorpay-utils.spec.js, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Recurly',
    // Segments have no names: first the time, then signatures. The key looks like hex and is used as text.
    header: 'recurly-signature',
    form: '{timestamp},{signature},...',
    signs: '{timestamp}.{body}',
    unit: 'milliseconds',
    eventType: '{field:event_type}',
    eventId: { none: 'the id in the body is that of what it is about' },
    sample:
      '{"id":"rjxwmwedwqug","object_type":"account","site_id":"qc326l1hl8k9","event_type":"created","event_time":"2026-11-02T09:14:03Z","account_code":"ada-42"}',
    clickPath: [
      'Open **Integrations**, **Webhooks** and press **New Endpoint**.',
      'Enter `{URL}` and choose **JSON**: XML is never signed.',
      'Open the endpoint and copy its **secret key**.',
    ],
    retries: { when: 'if the answer is no 2xx', howOften: 'up to 10 times with growing pauses' },
    source:
      'https://docs.recurly.com/recurly-subscriptions/docs/signature-verification and the tests of recurly-client-ruby, read 2026-11',
    certainty: 'vector',
  },
];
