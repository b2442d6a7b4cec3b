import { URL_ENCODED_FORM } from '../../../model/form.ts';
import { part } from '../spec.ts';
import type { PublisherRow } from './row.ts';

export const ROWS_D_TO_L: readonly PublisherRow[] = [
  {
    name: 'Discord',
    // Interactions and webhook events. The key is the application's public key.
    header: 'X-Signature-Ed25519',
    signs: '{timestamp}{body}',
    algorithm: 'ed25519',
    keyEncoding: 'hex',
    timestamp: 'X-Signature-Timestamp',
    // With another number of digits, one could belong to the timestamp or to the body.
    timestampLength: 10,
    eventType: '{field:type}',
    eventId: '{field:id}',
    handshakes: [
      // Sent signed, and with wrong signatures too, when a URL is saved and now and then afterwards. Events of the
      // other kind of webhook also have type 1, but contain an event.
      {
        name: 'PING',
        method: 'POST',
        isSigned: true,
        when: ['{field:type} = 1', 'no {field:event}'],
        answer: { json: { type: 1 } },
      },
      {
        name: 'PING of webhook events',
        method: 'POST',
        isSigned: true,
        when: ['{field:type} = 0'],
        answer: { status: 204 },
      },
    ],
    // Announces an answer within 15 minutes; Discord shows anything else as a failure.
    acceptedResponse: { contentType: 'application/json', body: '{"type":5}' },
    sample:
      '{"id":"846462639134605312","application_id":"845027738276462632","type":2,"data":{"id":"846462639134605313","name":"deploy","type":1}}',
    logs: '/{trigger.body.data.name} arrived',
    clickPath: [
      'In the Developer Portal open your application. **General Information** shows the **Public Key**, which is the key.',
      'Start Sluice with the trigger below, because Discord tests the URL when you save it.',
      '**General Information**, **Interactions Endpoint URL**: `{URL}`. For events instead: **Webhooks**, **Endpoint**.',
    ],
    retries: {
      when: 'events that are not answered within 3 seconds',
      howOften:
        'with growing pauses for up to 10 minutes; after too many failures it sends no more, and a mail; for interactions we found no page',
      source: 'https://docs.discord.com/developers/events/webhook-events, as others quote it, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:DISCORD_PUBLIC_KEY',
      webhookDuplicateResponse: null,
    },
    source: 'https://docs.discord.com/developers/interactions/overview, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'DocuSign',
    title: 'DocuSign Connect',
    // One header for each key of the account, up to a hundred; we read as many as a rotation may need.
    header: Array.from({ length: 10 }, (_, at) => `X-DocuSign-Signature-${at + 1}`),
    encoding: 'base64',
    eventType: '{field:event}',
    eventId: { none: 'only the envelope has one, in data.envelopeId' },
    sample:
      '{"event":"envelope-completed","retryCount":0,"generatedDateTime":"2026-11-20T12:00:00.0000000Z","data":{"accountId":"4b8f","envelopeId":"a6b1e4f4-9c0c-4b2f-8c7f-1b1d5f3a2e10"}}',
    logs: '{trigger.body.event} of {trigger.body.data.envelopeId}',
    clickPath: [
      'eSignature Admin, **Integrations**, **Connect**, **Connect Keys**, **Add Secret Key**. The key is shown once.',
      '**Connect**, **Add Configuration**, **Custom**: **URL to publish** `{URL}`, data format JSON.',
      'Tick **Include HMAC Signature**, and choose the events.',
    ],
    trigger: {
      webhookSlug: 'docusign',
      webhookHmacKey: 'env:DOCUSIGN_CONNECT_KEY',
    },
    retries: {
      when: 'a delivery that failed',
      howOften: 'with growing intervals, from 15 seconds to days, for up to seven days or 45 attempts',
      source: 'according to [Baton](https://iambaton.com/resources/docusign-webhook-silent-failures)',
    },
    source: 'https://developers.docusign.com/platform/webhooks/connect/validate, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Dropbox',
    header: 'X-Dropbox-Signature',
    eventType: { none: 'a delivery only names the accounts in which something changed' },
    eventId: { none: 'neither a delivery nor what changed has one' },
    // Sent once, unsigned, when the URI is registered.
    handshakes: [
      { name: 'challenge', method: 'GET', when: ['{query:challenge}'], answer: { text: '{query:challenge}' } },
    ],
    logs: '{has(trigger.body.list_folder) ? size(trigger.body.list_folder.accounts) : 0} accounts have changes',
    clickPath: [
      'Open your app in the App Console. **Settings** shows the **App secret**, which is the key.',
      'Start Sluice with the trigger below, because Dropbox tests the URI once and does not repeat the test.',
      '**Webhooks**, **Webhook URIs**: add `{URL}`. Dropbox sends a GET with a `challenge`; Sluice answers it.',
    ],
    trigger: {
      webhookHmacKey: 'env:DROPBOX_APP_SECRET',
      webhookReplayToleranceSeconds: null,
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'what is not answered with exactly 200 within 10 seconds',
      howOften: 'for about ten minutes',
      source: 'read 2026-11',
    },
    source: 'https://www.dropbox.com/developers/reference/webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Generic',
    title: 'Your own sender',
    header: 'X-Signature',
    form: 'sha256={signature}',
    others: { isPrefixOptional: true },
    keyIsChosen: true,
    eventType: { none: 'each sender has a convention of its own' },
    eventId: { none: 'each sender has a convention of its own' },
    logs: 'a delivery arrived',
    clickPath: [
      'Sign the exact bytes of the body with HMAC-SHA256 and send the digest as lower-case hex: `X-Signature: sha256=<hex>`. The prefix may be left out. The URL is `{URL}`.',
      'Put something that is different each time into the body, such as an id: a body that was accepted within the last day counts as a duplicate.',
    ],
    retries: { none: 'the sender decides' },
    trigger: {
      webhookSlug: 'generic',
      webhookHmacKey: 'env:PARTNER_KEY',
      webhookDuplicateResponse: null,
    },
    source: 'no publisher: a convention of this service, 2026-11',
    certainty: 'documented',
  },
  {
    name: 'GitHub',
    header: 'X-Hub-Signature-256',
    form: 'sha256={signature}',
    keyIsChosen: true,
    id: 'X-GitHub-Delivery',
    others: { document: { path: ['payload'], mediaType: URL_ENCODED_FORM } },
    eventType: '{header:X-GitHub-Event}',
    eventId: '{header:X-GitHub-Delivery}',
    presets: ['github'],
    sample:
      '{"ref":"refs/heads/main","before":"6113728f27ae82c7b1a177c8d03f9e96e0adf246","after":"59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5","repository":{"id":186853002,"name":"hello-world","full_name":"octocat/hello-world","private":false},"sender":{"login":"octocat"},"pusher":{"name":"octocat","email":"octocat@example.com"},"commits":[{"id":"59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5","message":"Update README","author":{"name":"octocat"}}]}',
    sampleHeaders: { 'x-github-event': 'push' },
    logs: "{trigger.headers['x-github-event']} by {trigger.body.sender.login}",
    clickPath: [
      'Open the repository (or the organisation), then **Settings**, **Webhooks**, **Add webhook**. You need admin access.',
      '**Payload URL**: `{URL}`. **Content type**: `application/json`. Of the form, `trigger.body` is its field `payload`.',
      '**Secret**: a long random text, for example from `openssl rand -hex 32`. GitHub does not show it again.',
      'Choose the events and save. GitHub sends a `ping` event at once, which starts a run like any other delivery.',
    ],
    retries: {
      none: 'never; it waits 10 seconds, and a delivery that failed is sent again by hand, under **Recent Deliveries**, or over its API',
      source: 'https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:GITHUB_WEBHOOK_SECRET',
      webhookDuplicateResponse: null,
    },
    source: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'GitHubLegacy',
    title: 'GitHub, SHA-1',
    header: 'X-Hub-Signature',
    form: 'sha1={signature}',
    algorithm: 'sha1',
    keyIsChosen: true,
    id: 'X-GitHub-Delivery',
    others: { document: { path: ['payload'], mediaType: URL_ENCODED_FORM } },
    eventType: '{header:X-GitHub-Event}',
    eventId: '{header:X-GitHub-Delivery}',
    sample:
      '{"ref":"refs/heads/main","repository":{"id":186853002,"name":"hello-world","full_name":"octocat/hello-world","private":false},"sender":{"login":"octocat"}}',
    sampleHeaders: { 'x-github-event': 'push' },
    logs: "{trigger.headers['x-github-event']} arrived",
    clickPath: [
      'Set up the webhook as for [GitHub](github.md). GitHub sends the SHA-1 signature next to the SHA-256 one, so you need this scheme only for senders that copy the old format and have nothing else. The URL is `{URL}`.',
    ],
    retries: {
      none: 'never; it waits 10 seconds, and a delivery that failed is sent again by hand, under **Recent Deliveries**, or over its API',
      source: 'https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries, read 2026-11-29',
    },
    trigger: {
      webhookSlug: 'github-legacy',
      webhookHmacKey: 'env:LEGACY_SENDER_SECRET',
      webhookDuplicateResponse: null,
    },
    source: 'https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'GitLab',
    // A secret token is sent as it is and signs nothing; with a signing token, this is Standard Webhooks.
    header: 'X-Gitlab-Token',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    id: 'Idempotency-Key',
    eventType: '{header:X-Gitlab-Event}',
    eventId: '{header:Idempotency-Key}',
    keyForm: {
      prefix: 'whsec_',
      row: {
        header: 'webhook-signature',
        form: 'v1,{signature} ...',
        signs: '{id}.{timestamp}.{body}',
        encoding: 'base64',
        keyEncoding: 'whsec',
        timestamp: 'webhook-timestamp',
        id: 'webhook-id',
        eventId: '{header:webhook-id}',
        eventIdSource:
          'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (webhook-id: the same when sent again), read 2026-11',
        source: 'https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944, read 2026-11',
      },
    },
    sample:
      '{"object_kind":"push","ref":"refs/heads/main","checkout_sha":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7","project":{"id":15,"name":"Diaspora","path_with_namespace":"mike/diaspora"}}',
    sampleHeaders: { 'x-gitlab-event': 'Push Hook' },
    logs: '{trigger.body.object_kind} arrived',
    clickPath: [
      'Project or group, **Settings**, **Webhooks**, **Add new webhook**.',
      '**URL**: `{URL}`.',
      '**Signing token** (`whsec_…`) if your GitLab has it, otherwise **Secret token**: a long random text of your choice. Use either as the key. Choose the triggers.',
    ],
    retries: {
      when: 'some deliveries that failed',
      howOften:
        'we found no number; it waits 10 seconds; after 4 failures in a row it disables the webhook for a minute and longer, up to a day, and after 40 until someone turns it on',
      source: 'https://docs.gitlab.com/user/project/integrations/webhooks/, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:GITLAB_WEBHOOK_TOKEN',
      webhookReplayToleranceSeconds: 300,
    },
    source:
      'https://docs.gitlab.com/user/project/integrations/webhooks/ and https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'HubSpot',
    // Version 3 of the signature; versions 1 and 2 have no time. Nothing separates the parts, but the method is known,
    // and the thirteen digits of the time come last. The URL is signed with some characters decoded.
    header: 'X-HubSpot-Signature-v3',
    signs: [part.method, { ...part.url, decoded: ":/?@!$'()*,;" }, part.body, part.timestamp],
    encoding: 'base64',
    timestamp: 'X-HubSpot-Request-Timestamp',
    unit: 'milliseconds',
    timestampLength: 13,
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample:
      '[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1700000000000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123}]',
    logs: '{size(trigger.body)} events arrived',
    clickPath: [
      'Your app, **Auth**: **Client secret** is the key.',
      '**Webhooks**, **Target URL**: `{URL}`. Create the subscriptions and activate them.',
    ],
    trigger: {
      webhookHmacKey: 'env:HUBSPOT_CLIENT_SECRET',
    },
    retries: {
      when: 'a delivery that failed, but not after 400, 401, 403, 404 or 405',
      howOften: 'up to ten times within 24 hours',
      source:
        'according to [Insight Sales](https://insightsalesglobal.com/blog/hubspot-webhooks-retry) and [its community](https://community.hubspot.com/t5/APIs-Integrations/Webhooks-response/td-p/277558)',
    },
    source:
      'https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation and @hubspot/api-client 13.5.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Intercom',
    // The key is the client secret of the app. SHA-1 is the only algorithm.
    header: 'X-Hub-Signature',
    form: 'sha1={signature}',
    algorithm: 'sha1',
    eventType: '{field:topic}',
    eventId: '{field:id}',
    // HEAD when the URL is saved; a signed ping for a test by hand.
    handshakes: [
      { name: 'HEAD', method: 'HEAD' },
      { name: 'ping', method: 'POST', isSigned: true, when: ['{field:topic} = ping'] },
    ],
    sample:
      '{"type":"notification_event","app_id":"a86dr8yl","id":"notif_ccd8a4d0-f965-11e3-a367-c779cae3e1b3","topic":"conversation.user.created","data":{"type":"notification_event_data","item":{"type":"conversation","id":"1"}}}',
    logs: '{trigger.body.topic} arrived',
    clickPath: [
      'Developer Hub, your app, **Basic information**: **Client secret** is the key.',
      'Start Sluice with the trigger below: Intercom sends a `HEAD` to the URL first, and a signed `ping` as a test; Sluice answers both.',
      '**Webhooks**, **Endpoint URL**: `{URL}`. Choose the topics.',
    ],
    retries: {
      when: 'a notification that failed',
      howOften:
        'we found no number; after 1 000 errors in a row within 15 minutes it pauses for 15 minutes, and after 7 days of errors it suspends a private app',
      source: 'https://developers.intercom.com/docs/webhooks/webhook-notifications, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:INTERCOM_CLIENT_SECRET',
    },
    source:
      'https://asyncapi.apis.io/asyncapis/intercom/intercom-webhooks-asyncapi/ and published verifiers, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'all of it: signature, HEAD and ping are as published verifiers of third parties have them',
  },
  {
    name: 'Line',
    title: 'LINE',
    // Messaging API. The key is the channel secret. A redelivery says so in its body, so the body differs.
    header: 'X-Line-Signature',
    encoding: 'base64',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    // A signed delivery without events, sent when you press Verify next to the URL.
    handshakes: [{ name: 'Verify', method: 'POST', isSigned: true, when: ['{field:events} = []'] }],
    sample:
      '{"destination":"U8e742f61d673b39c7fff3cecb7536ef0","events":[{"type":"message","webhookEventId":"01FZ74A0TDDPYRVKNK77XKC3ZR","deliveryContext":{"isRedelivery":false},"message":{"id":"444573844083572737","type":"text","text":"hello"}}]}',
    logs: '{size(trigger.body.events)} events arrived',
    clickPath: [
      'LINE Developers Console, your Messaging API channel, **Basic settings**: **Channel secret** is the key.',
      '**Messaging API**, **Webhook URL**: `{URL}`. Switch **Use webhook** on.',
      '**Verify** sends a signed delivery without events, which Sluice answers.',
    ],
    retries: {
      when: 'what is not answered with 200, where **Webhook redelivery** is turned on',
      howOften: 'we found no number',
      source: 'https://developers.line.biz/en/docs/partner-docs/error-notification, read 2026-11-29',
    },
    trigger: {
      webhookHmacKey: 'env:LINE_CHANNEL_SECRET',
    },
    source:
      'https://developers.line.biz/en/docs/messaging-api/receiving-messages/ and @line/bot-sdk 11.0.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Linear',
    // The header linear-timestamp is not signed; the time in the body counts.
    header: 'Linear-Signature',
    timestamp: '{field:webhookTimestamp}',
    unit: 'milliseconds',
    requiresTimestamp: true,
    id: 'Linear-Delivery',
    eventType: '{header:Linear-Event}',
    eventId: '{header:Linear-Delivery}',
    logs: "{has(trigger.body.type) ? trigger.body.type : 'a test'} arrived",
    clickPath: [
      '**Settings**, **API**, **Webhooks**, **New webhook**. You need to be an admin of the workspace.',
      '**URL**: `{URL}`. Choose the resource types and create the webhook.',
      'The **signing secret** (`lin_wh_…`) is on the page of the webhook.',
    ],
    trigger: {
      webhookHmacKey: 'env:LINEAR_WEBHOOK_SECRET',
      webhookNonceHeader: null,
    },
    retries: {
      when: 'what is not answered with exactly 200 within 5 seconds',
      howOften: 'after a minute, an hour and six hours',
      source: 'read 2026-11',
    },
    source: 'https://linear.app/developers/webhooks and @linear/sdk 98.0.0, read 2026-11',
    certainty: 'package',
  },
];
