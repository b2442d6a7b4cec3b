import { URL_ENCODED_FORM } from '../../../model/form.ts';
import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_A_TO_B: readonly PublisherRow[] = [
  {
    name: 'Ably',
    header: 'X-Ably-Signature',
    encoding: 'base64',
    eventType: { none: 'a delivery is a list of events, each with its own' },
    eventId: { none: 'a delivery is a list of events, each with its own' },
    sample:
      '{"items":[{"webhookId":"ABcDEf","source":"channel.message","serial":"a7bcdEFghIjklm123456789:4","data":{"channelId":"my-channel-4","messages":[{"id":"ABcDefgHIj:1:0","name":"greeting","data":"hello"}]}}]}',
    clickPath: [
      'Open your app in the dashboard, **Integrations**, **New integration rule**, **Webhook**.',
      'Enter `{URL}` and choose the request mode **Batched**.',
      'Choose a key under **Sign with key** and copy its secret, the part after the colon.',
    ],
    keyIs: 'the secret of the API key that signs: the part after the colon',
    retries: { when: 'a batch that fails', howOften: 'with growing pauses, for 5 minutes' },
    note: 'Ably signs batched requests alone, and only with a key under **Sign with key**.',
    source: 'https://ably.com/docs/platform/integrations/webhooks#security, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Affirm',
    // Affirm's pages name the header both with and without X-.
    header: 'X-Affirm-Signature',
    otherHeaders: [{ signature: 'Affirm-Signature' }],
    form: 't={timestamp},v0={signature},...',
    signs: '{timestamp}.{body}',
    algorithm: 'sha512',
    eventType: '{field:event}',
    eventId: { none: 'only the checkout has one, in checkout_token' },
    sample: 'checkout_token=ABCDEFGHIJKL0123&event=confirmed&order_id=JKLM4321&total=5000',
    sampleType: 'application/x-www-form-urlencoded',
    clickPath: [
      'Affirm has no screen for webhooks: ask its merchant support to register `{URL}` with the events you want.',
      'Copy the **private API key** from the merchant dashboard.',
    ],
    keyIs: 'the **private API key** of the merchant account',
    retries: NO_PAGE_ON_RETRIES,
    source:
      'https://docs.affirm.com/developers/docs/webhook-best-practices and https://docs.affirm.com/developers/edit/checking-webhook-signatures, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'the dot, the hex and the name of the header are as two verifiers of third parties have them; two pages of Affirm contradict each other',
  },
  {
    name: 'AfterShip',
    // Returns and Warranty have another header and secret. Accounts from before October 2022 may send an older form.
    header: 'aftership-hmac-sha256',
    otherHeaders: [{ signature: 'as-signature-hmac-sha256' }],
    encoding: 'base64',
    eventType: '{field:event}',
    eventId: '{field:event_id}',
    sample:
      '{"event":"tracking_update","event_id":"fa62ebb9-0bb4-44cb-a1c9-c9d2f8a5b001","msg":{"id":"53aa94fc55ece21582000004","tracking_number":"906587618687","slug":"dhl","tag":"InTransit"},"ts":1795773600}',
    clickPath: [
      'Open **Settings**, **Webhooks** in AfterShip Tracking.',
      'Press **Add webhook URL**, enter `{URL}` and choose the events.',
      'Copy the webhook secret from the same page.',
    ],
    keyIs: 'the **webhook secret** of the account',
    retries: {
      when: 'if the answer is no 2xx',
      howOften: 'up to 14 attempts, each after twice the pause, from 30 seconds',
    },
    source: 'https://www.aftership.com/docs/tracking/webhook/webhook-signature, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Airtable',
    // A ping without data. Its time is the time of the change, so a retry may be old.
    header: 'X-Airtable-Content-MAC',
    form: 'hmac-sha256={signature}',
    keyEncoding: 'base64',
    eventType: { none: 'a delivery only says that something in a base changed' },
    eventId: { none: 'a delivery only says that something in a base changed' },
    // Anything but an empty answer makes Airtable repeat it.
    acceptedResponse: { contentType: 'text/plain', body: '' },
    sample:
      '{"base":{"id":"app00000000000001"},"webhook":{"id":"ach00000000000001"},"timestamp":"2026-11-02T09:14:03.210Z"}',
    clickPath: [
      'Airtable has no screen for this: send `POST https://api.airtable.com/v0/bases/{baseId}/webhooks` with a personal access token that has the scope `webhook:manage`.',
      'Give `{URL}` as `notificationUrl`, and copy `macSecretBase64` from the answer: it is never shown again.',
      'Refresh the webhook before seven days have passed, or it expires.',
    ],
    keyIs: '`macSecretBase64` of the answer that created the webhook',
    retries: {
      when: 'if the answer is not an empty 200 or 204',
      howOften: 'with growing pauses; we found no number of attempts',
    },
    source: 'https://airtable.com/developers/web/api/webhooks-overview, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'header, prefix and hex are as pyairtable and Airtable’s forum have them',
  },
  {
    name: 'Airwallex',
    header: 'x-signature',
    signs: '{timestamp}{body}',
    timestamp: 'x-timestamp',
    unit: 'milliseconds',
    // With another number of digits, one could belong to the timestamp or to the body.
    timestampLength: 13,
    eventType: '{field:name}',
    eventId: '{field:id}',
    eventIdSource:
      'https://www.airwallex.com/docs/developer-tools/webhooks/webhooks-overview.md (id: stable, so that an event is processed once), read 2026-11',
    sample:
      '{"id":"evt_hkdmr7v9rg1j58ky8re","name":"payment_intent.succeeded","account_id":"acct_1","data":{"object":{"id":"int_hkdmr7v9rg1j58ky8re","amount":99.99,"currency":"USD","status":"SUCCEEDED"}}}',
    clickPath: [
      'Open **Settings**, **Developer**, **Webhooks** and press **New webhook**.',
      'Enter a name, `{URL}` and an API version, and choose the events.',
      'Open the new webhook and copy its secret, which is the key.',
    ],
    retries: { when: 'if the answer is not 200 in time', howOften: 'with growing pauses, for about 3 days' },
    source: 'https://www.airwallex.com/docs/developer-tools/webhooks/listen-for-webhook-events.md, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'that time and body are joined without a separator, and hex, are as five receivers of third parties have them',
  },
  {
    name: 'Ashby',
    header: 'Ashby-Signature',
    form: 'sha256={signature}',
    keyIsChosen: true,
    eventType: '{field:action}',
    eventId: { none: 'only what the event is about has one, in data' },
    sample:
      '{"action":"candidateHire","data":{"application":{"id":"4e9a1a52-6f2e-4d3f-9a4a-0a3f2b1c5d6e","status":"Hired","candidate":{"id":"0f3a4b5c-7d8e-4f90-a1b2-c3d4e5f60718","name":"Ada Lovelace"}}}}',
    clickPath: [
      'Open **Admin**, **Integrations**, **Webhooks**, **New Webhook**.',
      'Choose the type, enter `{URL}`, and your key as **Secret token**.',
    ],
    keyIs: 'the **Secret token** of the webhook; without one nothing is signed',
    retries: {
      when: 'if the answer is not 2xx',
      howOften: 'up to 10 attempts in all, the first again after 10 seconds, each pause about twice the one before',
      source: 'https://developers.ashbyhq.com/docs/retries, read 2026-11',
    },
    source: 'https://developers.ashbyhq.com/docs/authenticating-webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'AuthorizeNet',
    title: 'Authorize.Net',
    header: 'X-ANET-Signature',
    form: 'sha512={signature}',
    algorithm: 'sha512',
    encoding: 'hexUpper',
    eventType: '{field:eventType}',
    eventId: '{field:notificationId}',
    sample:
      '{"notificationId":"2f1c8a34-6d5e-4a0b-9f6f-0c1d2e3f4a5b","eventType":"net.authorize.payment.authcapture.created","eventDate":"2026-11-02T09:14:03.2101234Z","webhookId":"63d6fea2-aa13-4b1d-a204-f5fbc15942b7","payload":{"responseCode":1,"authAmount":45,"entityName":"transaction","id":"60020981676"}}',
    clickPath: [
      'Open **Account**, **Business Settings**, **Notification Settings**, **Webhooks** and press **Add Endpoint**.',
      'Enter `{URL}`, choose the events and the status **Active**, and save.',
      'Open **Account**, **Settings**, **Security Settings**, **API Credentials and Keys** and make a **Signature Key**.',
    ],
    keyIs: 'the **Signature Key**, 128 characters that look like hex and are used as text',
    retries: NO_PAGE_ON_RETRIES,
    source: 'https://developer.authorize.net/api/reference/features/webhooks.html, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed:
      'header and digest are as its forum has them; receivers disagree on whether the text of the key signs, as here, or the bytes that it is the hex of',
  },
  {
    name: 'Autodesk',
    title: 'Autodesk Platform Services',
    aliases: ['AutodeskForge'],
    // SHA-1 is the only algorithm.
    header: 'x-adsk-signature',
    form: 'sha1hash={signature}',
    algorithm: 'sha1',
    keyIsChosen: true,
    eventType: '{field:hook.event}',
    eventId: { none: 'only the hook has one, in hook.hookId' },
    sample:
      '{"version":"1.0","resourceUrn":"urn:adsk.wipprod:fs.file:vf.abc?version=1","hook":{"hookId":"0f60f6a0-996c-11e7-abf3-51d68cff984c","event":"dm.version.added","system":"data","status":"active"},"payload":{"name":"plan.rvt","ext":"rvt","version":"1"}}',
    clickPath: [
      'Create an app at aps.autodesk.com and get a two-legged token for it.',
      'Send `POST https://developer.api.autodesk.com/webhooks/v1/tokens` with `{"token":"…"}`, your key of 32 to 64 letters and digits.',
      'Send `POST …/webhooks/v1/systems/data/events/dm.version.added/hooks` with `{URL}` as `callbackUrl`, and a scope.',
    ],
    keyIs: 'the **secret token** of the app; without one nothing is signed',
    retries: {
      when: 'if there is no 2xx within 6 seconds',
      howOften: '4 times in 48 hours or more, and then disables the webhook',
    },
    source:
      'https://aps.autodesk.com/en/docs/webhooks/v1/tutorials/how-to-verify-payload-signature/ and https://github.com/autodesk-platform-services/aps-webhooks-signature, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'BigCommerce',
    // Standard Webhooks, but with the text of the client secret as the key.
    header: 'webhook-signature',
    form: 'v1,{signature} ...',
    signs: '{id}.{timestamp}.{body}',
    encoding: 'base64',
    timestamp: 'webhook-timestamp',
    id: 'webhook-id',
    eventType: '{field:scope}',
    eventId: '{header:webhook-id}',
    sample:
      '{"store_id":"11111","producer":"stores/abcde","scope":"store/order/statusUpdated","data":{"type":"order","id":173331},"hash":"3f9ea420af83450d7ef9f78b08c8af25b2213637","created_at":1794650400}',
    clickPath: [
      'Create an API account under **Settings**, **Store-level API accounts** and keep its **Client secret**.',
      'Send `POST https://api.bigcommerce.com/stores/{hash}/v3/hooks` with a `scope` and `{URL}` as `destination`.',
    ],
    keyIs: 'the **Client secret** of the API account that made the webhook',
    retries: {
      when: 'if the answer is no 2xx',
      howOften: '11 times in about 48 hours, and then deactivates the webhook',
    },
    source: 'https://developer.bigcommerce.com/docs/integrations/webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Bolt',
    header: 'X-Bolt-Hmac-Sha256',
    encoding: 'base64',
    eventType: { none: 'the pages that we read do not say where' },
    eventId: { none: 'the pages that we read do not say where' },
    clickPath: [
      'Open **Administration**, **Webhooks** in the merchant dashboard and enter `{URL}`.',
      'Open **Administration**, **API** and copy the **Signing Secret**.',
    ],
    keyIs: 'the **Signing Secret** of the account',
    retries: NO_PAGE_ON_RETRIES,
    source:
      'https://help.bolt.com/developers/webhooks/hook-verification/ and https://help.bolt.com/gaming/guide/bolt-webhooks/validate-authenticity, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Braintree',
    // The public key before the bar selects the key pair; the base64 of an XML document is signed as it is. SHA-1 is
    // the only algorithm. The challenge of its old API is not answered: that would sign a text which the sender
    // chooses.
    header: '{field:bt_signature}',
    form: '{*}|{signature}&...',
    signs: '{field:bt_payload}',
    algorithm: 'sha1',
    keyEncoding: 'hex',
    eventType: { none: 'it is in the XML of bt_payload' },
    eventId: { none: 'a notification has none' },
    sample:
      'bt_payload=PG5vdGlmaWNhdGlvbj48dGltZXN0YW1wIHR5cGU9ImRhdGV0aW1lIj4yMDI2LTExLTI3VDEwOjAwOjAwWjwvdGltZXN0YW1wPjxraW5kPmNoZWNrPC9raW5kPjxzdWJqZWN0PjxjaGVjayB0eXBlPSJib29sZWFuIj50cnVlPC9jaGVjaz48L3N1YmplY3Q%2BPC9ub3RpZmljYXRpb24%2B',
    sampleType: URL_ENCODED_FORM,
    clickPath: [
      'Open **API** under the gear, and copy the **Private Key** from **API keys**.',
      'Make the key from it: `printf %s "$PRIVATE_KEY" | sha1sum`, the 40 hex digits alone.',
      'Open **Webhooks**, press **Create new webhook**, enter `{URL}` and tick the notifications.',
    ],
    keyIs: 'the SHA-1 of the **Private Key**, in hex',
    retries: {
      when: 'if no 2xx comes within 30 seconds',
      howOften: 'each hour, for up to 24 hours in production and 3 in the sandbox',
    },
    note: 'The notification is the base64 of XML in `body.bt_payload`; its time is in there, where no tolerance reads it.',
    source: 'https://developer.paypal.com/braintree/docs/guides/webhooks/parse and braintree 3.40.0, read 2026-11',
    certainty: 'package',
  },
  {
    name: 'Brevo',
    aliases: ['Sendinblue'],
    // Nothing is signed. The id in the body is that of the webhook.
    header: 'Authorization',
    form: 'Bearer {signature}',
    signs: '',
    algorithm: 'token',
    keyIsChosen: true,
    eventType: '{field:event}',
    eventId: { none: 'the id in the body is that of the webhook' },
    sample:
      '{"event":"delivered","email":"ada@example.com","id":26224,"date":"2026-11-12 10:00:00","ts":1794650400,"message-id":"<202611121000.1234567@smtp-relay.mailin.fr>","subject":"Welcome"}',
    clickPath: [
      'Open **Settings**, **Webhooks**, **Outbound webhooks** and create one.',
      'Enter `{URL}` and choose the events.',
      'Choose the authentication **Token** and enter your key.',
    ],
    keyIs: 'the **Token** of the webhook',
    retries: {
      when: 'after a timeout or 429, and after no other 4xx or 5xx',
      howOften: '4 times: after 10 minutes, 1, 2 and 8 hours, each from the one before',
      source: 'https://developers.brevo.com/docs/retry-mechanism.md, read 2026-11',
    },
    source: 'https://developers.brevo.com/docs/secured-webhooks, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Buildkite',
    header: 'X-Buildkite-Signature',
    form: 'timestamp={timestamp},signature={signature}',
    signs: '{timestamp}.{body}',
    eventType: '{header:X-Buildkite-Event}',
    eventId: { none: 'only what the event is about has one, such as build.id' },
    sample:
      '{"event":"build.finished","build":{"id":"f62a1b4d-10f9-4790-bc1c-e2c3a0c80983","number":42,"state":"passed","branch":"main"},"pipeline":{"id":"49801950-1df0-474f-bb56-ad6a930c5cb9","slug":"web"}}',
    sampleHeaders: { 'x-buildkite-event': 'build.finished' },
    clickPath: [
      'Open **Settings**, **Notification Services** and press **Add** next to **Webhook**.',
      'Enter `{URL}`, and choose under **Token** that it sends `X-Buildkite-Signature`; otherwise the token itself is sent.',
      'Choose the events, press **Add Webhook Notification** and copy the token.',
    ],
    keyIs: 'the **Token** of the notification service',
    retries: {
      none: 'its documentation says nothing of them',
      source: 'https://buildkite.com/docs/apis/webhooks/pipelines, read 2026-11-29',
    },
    source: 'https://buildkite.com/docs/apis/webhooks/pipelines, read 2026-11',
    certainty: 'documented',
  },
];
