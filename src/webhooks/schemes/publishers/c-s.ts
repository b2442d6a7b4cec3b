import { part } from '../spec.ts';
import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_C_TO_S: readonly PublisherRow[] = [
  {
    name: 'Chargebee',
    // Nothing is signed: there are only user and password.
    header: 'Authorization',
    form: 'Basic {signature}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    others: { isUserAndPassword: true },
    eventType: '{field:event_type}',
    eventId: '{field:id}',
    sample:
      '{"id":"ev_16BHbhF4s42tO2lK","occurred_at":1793610843,"source":"admin_console","object":"event","api_version":"v2","event_type":"subscription_created","content":{"subscription":{"id":"8avVGOkx8U1MX","status":"active"}}}',
    clickPath: [
      'Open **Settings**, **Configure Chargebee**, **Webhooks** and press **Add Webhook**.',
      'Enter `{URL}` and turn on **Protect webhook URL with basic authentication**.',
      'Enter a username and a password, and save.',
    ],
    keyIs: 'the username and the password with a colon between them, as `user:password`',
    note: 'Nothing is signed: where an event matters, read it again from the API by its id.',
    retries: {
      when: 'after an error or a timeout',
      howOften: '7 times: after 2, 6 and 30 minutes, 1 and 5 hours, 1 and 2 days, each from the one before',
      source:
        'https://support.chargebee.com/support/solutions/articles/257941-at-which-rate-can-we-expect-the-webhook-calls-in-chargebee-will-there-be-any-performance-disruption, read 2026-11',
    },
    source:
      'https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings and chargebee 3.33.0 (npm), read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Contentful',
    // A header lists the signed headers, including itself and the time. Other headers must not be trusted.
    header: 'X-Contentful-Signature',
    signs: [
      part.method,
      '\n',
      part.path,
      '\n',
      part.headers('x-contentful-signed-headers', 'x-contentful-timestamp'),
      '\n',
      part.body,
    ],
    timestamp: 'X-Contentful-Timestamp',
    unit: 'milliseconds',
    requiresTimestamp: true,
    eventType: '{header:X-Contentful-Topic}',
    eventId: { none: 'sys.id is that of the entry' },
    sample:
      '{"sys":{"type":"Entry","id":"5KsDBWseXY6QegucYAoacS","space":{"sys":{"type":"Link","linkType":"Space","id":"cfexampleapi"}},"revision":3},"fields":{"title":{"en-US":"Hello"}}}',
    sampleType: 'application/vnd.contentful.management.v1+json',
    sampleHeaders: { 'x-contentful-topic': 'ContentManagement.Entry.publish' },
    clickPath: [
      'Open **Settings**, **Webhooks**, the tab **Settings**, press **Enable request verification** and copy the signing secret.',
      'Open **Webhooks**, add one with `{URL}` and choose its events.',
    ],
    keyIs: 'the signing secret of the space, which is shown once',
    retries: {
      when: 'a delivery that failed',
      howOften: 'twice, 30 seconds apart, unless the space has a retry policy of its own',
      source: 'https://www.contentful.com/developers/docs/webhooks/retry-policy/, read 2026-11-29',
    },
    note: 'The URL must have no query, and only letters, digits, `-`, `_`, `.` and `/` in its path. The package of Contentful accepts 30 seconds.',
    source:
      'https://www.contentful.com/developers/docs/extensibility/webhooks/request-verification and @contentful/node-apps-toolkit 3.16.1, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Keygen',
    // HTTP signatures from before RFC 9421. The delivery does not decide which headers are signed, or how; the digest
    // is computed from the body.
    header: 'Keygen-Signature',
    signs: '(request-target): post {target}\nhost: {host}\ndate: {timestamp}\ndigest: sha-256={sha256:body:base64}',
    algorithm: 'ed25519',
    encoding: 'base64',
    keyEncoding: 'hex',
    timestamp: 'Date',
    unit: 'httpDate',
    others: {
      multiValue: {
        delimiter: ',',
        keyValueSeparator: '=',
        valueKeys: ['signature'],
        acceptsMultiple: false,
        isQuoted: true,
        isTrimmed: true,
      },
    },
    eventType: '{field:data.attributes.event}',
    eventId: '{field:data.id}',
    sample:
      '{"data":{"id":"a4b3f5de-6d1e-4b0c-9f57-2b6c7d8e9f01","type":"webhook-events","attributes":{"endpoint":"https://example.com/hooks","payload":"{}","event":"license.created","status":"DELIVERING"}}}',
    clickPath: [
      'Open **Webhooks**, **New webhook endpoint** and enter `{URL}`; keep the signature algorithm **ed25519**.',
      'Open **Settings** and copy the **Ed25519 public key** of the account: it is the key.',
    ],
    keyIs: 'the **Ed25519 public key** of the account, 64 hex digits',
    retries: {
      when: 'if the answer is no 2xx, and not after a timeout or without a connection',
      howOften: 'up to 15 times with growing pauses, the first of 10 to 100 minutes',
      newlySigned: true,
      source: 'https://github.com/keygen-sh/keygen-api (app/workers/webhook_worker.rb), read 2026-11-29',
    },
    note: 'An endpoint with another signature algorithm is refused.',
    source:
      'https://keygen.sh/docs/api/webhooks/ and https://github.com/keygen-sh/keygen-api (signature_methods.rb), read 2026-11',
    certainty: 'documented',
    noVector: '2026-11-29',
  },
  {
    name: 'MicrosoftGraph',
    title: 'Microsoft Graph',
    // Change and lifecycle notifications. Nothing is signed: each item of the list contains the text of its
    // subscription. A list may hold items of several subscriptions, so every item must contain it. The content of rich
    // notifications is encrypted, and their validationTokens are not read.
    header: '{field:value.*.clientState}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: { none: 'a delivery is a list of notifications, each with its own' },
    eventId: { none: 'a delivery is a list of notifications, and few of them have an id' },
    handshakes: [
      // Sent unsigned when a subscription is made. Any other sender just gets the sent text back, and nothing starts.
      {
        name: 'validationToken',
        method: 'POST',
        when: ['{query:validationToken}'],
        answer: { text: '{query:validationToken}' },
        echoesSentence: true,
      },
    ],
    sample:
      '{"value":[{"subscriptionId":"76619225-ff6b-4489-96ca-4ef547e78b22","subscriptionExpirationDateTime":"2026-11-05T22:11:09.952Z","clientState":"-","changeType":"created","resource":"Users/622eaaff-0683-4862-9de4-f2ec83c2bd98/Messages/AAMkAGI2TAAA=","tenantId":"84bd8158-6d4d-4958-8b9f-9d6445542f95","resourceData":{"@odata.type":"#Microsoft.Graph.Message","id":"AAMkAGI2TAAA="}}]}',
    clickPath: [
      'There is no screen: start Sluice with the trigger, then make the subscription with `POST https://graph.microsoft.com/v1.0/subscriptions`.',
      'Give `{URL}` as `notificationUrl`, and as `lifecycleNotificationUrl` too, and the key as `clientState`.',
      'Renew it with `PATCH /subscriptions/{id}` before its `expirationDateTime`.',
    ],
    keyIs:
      'the `clientState` of the subscription, a long random text of your own; make every subscription of this URL with it',
    retries: { when: 'if the answer is no 2xx within 10 seconds', howOften: 'for up to 4 hours' },
    note: 'A delivery passes only if every item of `value` has the right `clientState`; it is not kept, so that a flow reads `[redacted]` there.',
    source: 'https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Mixpanel',
    // Cohort sync. A large cohort comes in several requests with one session.
    header: 'Authorization',
    form: 'Basic {signature}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    others: { isUserAndPassword: true },
    eventType: '{field:action}',
    eventId: { none: 'parameters.mixpanel_session_id is that of a sync, which takes several requests' },
    sample:
      '{"action":"add_members","parameters":{"mixpanel_project_id":"12345","mixpanel_cohort_name":"Active users","mixpanel_cohort_id":"678","mixpanel_session_id":"9f2b3d","members":[{"email":"ada@example.com","mixpanel_distinct_id":"u-1"}],"page_info":{"total_pages":1,"page_count":1}}}',
    clickPath: [
      'Open **Data Management**, **Integrations**, **Custom Webhook** and press **Add connection**.',
      'Enter a name, `{URL}`, a user and a password; without them nothing protects the URL.',
      'Open a cohort, choose **Export to** and the connection.',
    ],
    keyIs: 'the user and the password with a colon between them, as `user:password`',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://docs.mixpanel.com/docs/cohort-sync/webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'SparkPost',
    // The batch id is the same in each attempt, but is not signed.
    header: 'Authorization',
    form: 'Basic {signature}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    others: { isUserAndPassword: true },
    id: 'X-MessageSystems-Batch-ID',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: '{header:X-MessageSystems-Batch-ID}',
    sample:
      '[{"msys":{"message_event":{"type":"delivery","event_id":"92356927693813856","message_id":"000443ee14578172be22","rcpt_to":"ada@example.com","timestamp":"1793610843"}}}]',
    clickPath: [
      'Open **Configuration**, **Webhooks** and press **Create Webhook**.',
      'Enter a name and `{URL}` as **Target**, choose **Basic Auth** and enter a username and a password.',
      'Start Sluice, choose the events and save: SparkPost sends a test at once.',
    ],
    keyIs: 'the username and the password with a colon between them, as `user:password`',
    retries: { when: 'if the answer is not 200 within 10 seconds', howOften: 'for 8 hours' },
    note: 'The test that comes when the webhook is saved, `[{"msys":{}}]`, starts a run; `"webhookWhen": "body[0].msys != {}"` filters it.',
    source: 'https://developers.sparkpost.com/api/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Auth0',
    title: 'Auth0 (log streams)',
    // Nothing is signed: the whole header is the token that was entered.
    header: 'Authorization',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: { none: 'a delivery is a list of log entries, each with its own' },
    eventId: { none: 'a delivery is a list of log entries, each with its own' },
    sample:
      '[{"log_id":"90020261112100000000","data":{"date":"2026-11-12T10:00:00.000Z","type":"s","client_id":"c1","user_id":"auth0|1"}}]',
    clickPath: [
      'Open **Monitoring**, **Streams**, **Create Stream**, **Custom Webhook** and enter a name.',
      '**Payload URL** is `{URL}`, **Authorization Token** the key, **Content Format** JSON Array. Save.',
    ],
    keyIs: 'the **Authorization Token** as it is entered, with any word in front of it',
    retries: {
      when: 'what it could not deliver',
      howOften: 'up to three times, and again from the start until the stream is paused after 7 days',
      source: 'https://auth0.com/docs/logs/streams, read 2026-11',
    },
    source: 'https://auth0.com/docs/customize/log-streams/custom-log-streams, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Postmark',
    // Nothing is signed: HTTP Basic, as it was entered for the webhook.
    header: 'Authorization',
    form: 'Basic {signature}',
    signs: '',
    algorithm: 'token',
    others: { isUserAndPassword: true },
    keyIsChosen: true,
    eventType: '{field:RecordType}',
    eventId: { none: 'MessageID is that of the message, of which each event tells' },
    sample:
      '{"RecordType":"Delivery","ServerID":23,"MessageStream":"outbound","MessageID":"883953f4-6105-42a2-a16a-77a8eac79483","Recipient":"ada@example.com","DeliveredAt":"2026-11-02T09:14:03Z"}',
    logs: '{trigger.body.RecordType} arrived',
    clickPath: [
      'Choose a user name and a password: `openssl rand -hex 32` makes a good one.',
      'Open your server, the message stream, **Webhooks**, **Add webhook**. Enter `{URL}` and, under **Basic auth credentials**, the same user name and password.',
    ],
    retries: {
      when: 'if the answer is not 200, and not after 403',
      howOften: 'inbound messages ten times in about 10.5 hours; for other kinds we found no number',
      source:
        'https://postmarkapp.com/support/article/understanding-inbound-webhook-retries-in-postmark, read 2026-11-29',
    },
    trigger: { webhookHmacKey: 'env:POSTMARK_CREDENTIALS' },
    source: 'https://postmarkapp.com/developer/webhooks/webhooks-overview, read 2026-11',
    certainty: 'documented',
  },
];
