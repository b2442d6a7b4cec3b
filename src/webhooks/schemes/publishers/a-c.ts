import { part } from '../spec.ts';
import type { PublisherRow } from './row.ts';

const ADYEN_ITEM = ['notificationItems', '0', 'NotificationRequestItem'] as const;

/** A member of Adyen's single notification; nothing would sign a second notification. */
const ofAdyen = (path: string, options?: Parameters<typeof part.field>[1]) =>
  part.field([...ADYEN_ITEM, ...path.split('.')], options);

export const ROWS_A_TO_C: readonly PublisherRow[] = [
  {
    name: 'Adyen',
    // Standard payment webhooks sign some of their members, but not the date, the reason or whether it is a test.
    header: [{ path: [...ADYEN_ITEM, 'additionalData', 'hmacSignature'] }],
    signs: [
      // The other form signs bytes that begin with a brace.
      ofAdyen('pspReference', { form: /^[A-Za-z0-9]/ }),
      ':',
      ofAdyen('originalReference', { isOptional: true }),
      ':',
      ofAdyen('merchantAccountCode'),
      ':',
      ofAdyen('merchantReference', { isOptional: true, isFree: true }),
      ':',
      ofAdyen('amount.value'),
      ':',
      ofAdyen('amount.currency'),
      ':',
      ofAdyen('eventCode'),
      ':',
      ofAdyen('success'),
    ],
    encoding: 'base64',
    keyEncoding: 'hex',
    // Webhooks of the newer products: banking, management, disputes.
    requestForm: {
      header: 'HmacSignature',
      signs: [{ ...part.body, isJsonObject: true }],
      encoding: 'base64',
      keyEncoding: 'hex',
      eventType: '{field:type}',
      eventId: { none: 'only what the event is about has one, in data.id' },
    },
    eventType: '{field:notificationItems.0.NotificationRequestItem.eventCode}',
    // Together with the type, it identifies a notification.
    eventId: '{field:notificationItems.0.NotificationRequestItem.pspReference}',
    // Anything else makes Adyen repeat the notification.
    acceptedResponse: { contentType: 'text/plain', body: '[accepted]' },
    sample:
      '{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"7914073381342284","merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","amount":{"value":1130,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}]}',
    logs: '{trigger.body.notificationItems[0].NotificationRequestItem.eventCode} arrived',
    clickPath: [
      'Customer Area, **Developers**, **Webhooks**, **Create new webhook**, **Standard webhook**.',
      '**Server configuration**: URL `{URL}`, method **JSON**.',
      '**Security**, **HMAC Key**, **Generate**: the key, in hex. Save the configuration.',
    ],
    trigger: {
      webhookHmacKey: 'env:ADYEN_HMAC_KEY',
    },
    retries: {
      when: 'a delivery that failed',
      howOften:
        'three times at first, then after 2, 5, 10, 15 and 30 minutes and 1, 2, 4 and 8 hours, for up to 30 days',
      source: 'https://docs.adyen.com/development-resources/webhooks/troubleshoot, read 2026-11',
    },
    source: '@adyen/api-library 32.1.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Asana',
    // Each webhook has its own key, sent only in its handshake. A delivery without events arrives every eight hours.
    header: 'X-Hook-Signature',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'neither a delivery nor its events have one' },
    handshakes: [
      // Sent once, unsigned and empty, while a webhook is made. It hands over the key that signs events.
      {
        name: 'X-Hook-Secret',
        method: 'POST',
        when: ['{header:x-hook-secret}'],
        key: '{header:x-hook-secret}',
        answer: { headers: { 'x-hook-secret': '{header:x-hook-secret}' } },
      },
    ],
    sample:
      '{"events":[{"action":"changed","resource":{"gid":"1337","resource_type":"task"},"change":{"field":"completed"}}]}',
    logs: '{size(trigger.body.events)} changes',
    clickPath: [
      'Start Sluice with the trigger below. It has no key yet: every delivery gets 401 `key_not_configured`.',
      'Create the webhook over the API at once: `POST https://app.asana.com/api/1.0/webhooks` with `resource` and `target` (`{URL}`).',
      'While that request is open, Asana sends a key in `X-Hook-Secret`. Sluice stores it and sends it back. `learnedKey` of the trigger in `GET /flows/api/flows` says that it has one.',
    ],
    retries: { when: 'what is not answered within 10 seconds', howOften: 'for up to 24 hours', source: 'read 2026-11' },
    source: 'https://developers.asana.com/docs/webhooks-guide, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Atlassian',
    title: 'Jira Cloud',
    aliases: ['Jira'],
    // Admin webhooks. The prefix names the method. It may become a stronger one; a weaker one is never accepted.
    header: 'X-Hub-Signature',
    form: 'sha256={signature}',
    others: {
      alternatives: [
        { algorithm: 'sha384', prefix: 'sha384=' },
        { algorithm: 'sha512', prefix: 'sha512=' },
      ],
    },
    keyIsChosen: true,
    id: 'X-Atlassian-Webhook-Identifier',
    eventType: '{field:webhookEvent}',
    eventId: '{header:X-Atlassian-Webhook-Identifier}',
    presets: ['atlassian'],
    logs: "{has(trigger.body.webhookEvent) ? trigger.body.webhookEvent : 'a test'} arrived",
    clickPath: [
      'As a Jira administrator open the settings, **System**, **WebHooks**, **Create a WebHook**. (`/rest/webhooks/1.0/webhook` makes the same kind.)',
      '**URL**: `{URL}`. **Secret**: enter one, or let Jira generate it; it is not shown again. Choose events and a JQL filter, and create it.',
    ],
    retries: {
      when: 'after 408, 409, 425, 429, 5xx, a timeout or no connection',
      howOften:
        'up to 5 times, 5 to 15 minutes apart, counted in `X-Atlassian-Webhook-Retry`; after half an hour of failures each delivery once',
      source: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/, as others quote it, read 2026-11-29',
    },
    trigger: {
      webhookSlug: 'jira',
      webhookHmacKey: 'env:JIRA_WEBHOOK_SECRET',
    },
    source: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Bitbucket',
    title: 'Bitbucket Cloud',
    // The name of GitHub's old header, the algorithm of its new one.
    header: 'X-Hub-Signature',
    form: 'sha256={signature}',
    keyIsChosen: true,
    id: 'X-Request-UUID',
    eventType: '{header:X-Event-Key}',
    eventId: '{header:X-Request-UUID}',
    // The button "Test connection" of Bitbucket Data Center, which signs in the same way; the test itself is unsigned.
    handshakes: [
      {
        name: 'test',
        method: 'POST',
        when: ['{field:test} = true', 'no {field:eventKey}', 'no {field:repository}'],
      },
    ],
    presets: ['bitbucket'],
    logs: "{'x-event-key' in trigger.headers ? trigger.headers['x-event-key'] : 'a test'} arrived",
    clickPath: [
      'Open the repository, then **Repository settings**, **Webhooks**, **Add webhook**.',
      '**URL**: `{URL}`. **Secret**: a long random text. Choose the triggers (repository push by default) and save.',
    ],
    trigger: {
      webhookSlug: 'bitbucket',
      webhookHmacKey: 'env:BITBUCKET_WEBHOOK_SECRET',
      webhookReplayToleranceSeconds: 300,
      webhookNonceHeader: null,
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'after 5xx, or without an answer within 10 seconds',
      howOften: 'up to two more times, counted in `X-Attempt-Number`',
      source: 'read 2026-11',
    },
    source: 'https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Box',
    // Both keys sign, so that they can be replaced one at a time. The body comes first, then the timestamp.
    header: ['Box-Signature-Primary', 'Box-Signature-Secondary'],
    signs: [{ ...part.body, hasEscapedForm: true }, part.timestamp],
    encoding: 'base64',
    timestamp: 'Box-Delivery-Timestamp',
    unit: 'rfc3339Offset',
    id: 'Box-Delivery-Id',
    eventType: '{field:trigger}',
    eventId: '{header:Box-Delivery-Id}',
    sample:
      '{"type":"webhook_event","id":"eb0c4e06-751f-442c-86f8-fd5bb404dbec","trigger":"FILE.UPLOADED","source":{"id":"73835521473","type":"file","name":"contract.pdf"}}',
    sampleHeaders: { 'box-signature-version': '1', 'box-signature-algorithm': 'HmacSHA256' },
    logs: '{trigger.body.trigger} arrived',
    clickPath: [
      'Box Developer Console, your app, **Webhooks**, **Manage signature keys**: generate the **primary** and the **secondary** key.',
      '**Create webhook**, V2: **URL address** `{URL}`. Choose the content and the triggers.',
    ],
    toleranceSeconds: 600,
    trigger: {
      webhookHmacKey: 'env:BOX_PRIMARY_KEY',
      webhookNonceHeader: null,
    },
    retries: {
      when: 'what is not answered with 2xx within 30 seconds',
      howOften: 'up to ten times, first after 5 minutes, then with growing intervals',
      source:
        'https://github.com/box/developer.box.com/blob/main/content/guides/webhooks/handle/retries.md, read 2026-11',
    },
    source: 'https://developer.box.com/guides/webhooks/v2/signatures-v2/ and box-node-sdk 10.12.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Calendly',
    header: 'Calendly-Webhook-Signature',
    form: 't={timestamp},v1={signature},...',
    signs: '{timestamp}.{body}',
    keyIsChosen: true,
    eventType: '{field:event}',
    eventId: { none: 'only what the event is about has one, in payload.uri' },
    logs: "{has(trigger.body.event) ? trigger.body.event : 'a test'} arrived",
    clickPath: [
      'Calendly has no form for this: create the subscription over its API, with a personal access token and your own signing key.',
      'Send `POST https://api.calendly.com/webhook_subscriptions` with `url` (`{URL}`), `events`, `organization`, `scope` and `signing_key`, a long random text.',
    ],
    trigger: {
      webhookHmacKey: 'env:CALENDLY_SIGNING_KEY',
      webhookDuplicateResponse: null,
    },
    retries: {
      when: 'a delivery that failed',
      howOften: 'for 24 hours, with growing intervals',
      source: 'read 2026-11',
    },
    source: 'https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'CoinbaseCommerce',
    title: 'Coinbase Commerce',
    header: 'X-CC-Webhook-Signature',
    eventType: '{field:event.type}',
    eventId: '{field:event.id}',
    sample:
      '{"id":1,"attempt_number":1,"event":{"id":"24934862-d980-46cb-9402-43c81b0cdba6","type":"charge:created","data":{"code":"66BEOV2A"}}}',
    logs: '{trigger.body.event.type} arrived',
    clickPath: [
      '**Settings**, **Notifications**, **Webhook subscriptions**, **Add an endpoint**.',
      'URL: `{URL}`.',
      '**Show shared secret**: it is the key.',
    ],
    trigger: {
      webhookHmacKey: 'env:COINBASE_COMMERCE_SECRET',
    },
    retries: {
      when: 'after any answer but 200',
      howOften: 'for up to three days, at most an hour apart',
      source: 'read 2026-11',
    },
    source: 'https://docs.cdp.coinbase.com/commerce/api-arcitecture/webhooks-security, read 2026-11',
    certainty: 'documented',
  },
];
