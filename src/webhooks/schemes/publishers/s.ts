import { NO_PAGE_ON_RETRIES, type PublisherRow } from './row.ts';

export const ROWS_S: readonly PublisherRow[] = [
  {
    name: 'Sanity',
    // Looks like Stripe’s, but milliseconds and base64url without padding.
    header: 'sanity-webhook-signature',
    form: 't={timestamp},v1={signature}',
    signs: '{timestamp}.{body}',
    encoding: 'base64Url',
    unit: 'milliseconds',
    keyIsChosen: true,
    eventType: { none: 'the body is what your projection makes of a document' },
    eventId: { none: 'the body is what your projection makes of a document' },
    sample: '{"_id":"resume","_type":"page","_rev":"9Kq1","title":"Hello"}',
    clickPath: [
      'Open the project at sanity.io/manage, **API**, **Webhooks** and press **Create webhook**.',
      'Enter `{URL}`, dataset, trigger and projection, and your key as secret under **Advanced settings**.',
    ],
    retries: {
      when: 'after 429 or 5xx',
      howOften: 'twice, 30 seconds apart',
      source: 'https://www.sanity.io/docs/changelog/50ec6abf-fe0c-475b-ae72-314148860132.md, read 2026-11',
    },
    source: 'https://github.com/sanity-io/webhook-toolkit and @sanity/webhook 4.0.4, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Segment',
    // Of a batch only the first event is signed.
    header: 'X-Signature',
    algorithm: 'sha1',
    keyIsChosen: true,
    eventType: '{field:type}',
    eventId: '{field:messageId}',
    sample:
      '{"version":"1","type":"track","event":"Order Completed","messageId":"ajs-5a9bd1cd5c5b5a4d","userId":"019mr8mf4r","properties":{"order_id":"o-1042","total":27.5},"timestamp":"2026-11-12T10:00:08.276Z"}',
    clickPath: [
      'Open **Connections**, **Catalog**, **Webhooks (Actions)** and connect it to a source.',
      'Enter your key as **Shared secret** under **Settings**; without one nothing is signed.',
      'Add a mapping with `{URL}`, with **batching off**, and enable both: batches are refused.',
    ],
    retries: {
      when: 'a call that failed',
      howOften: 'with growing pauses for 4 hours',
      source: 'https://segment.com/docs/connections/destinations/, read 2026-11-29',
    },
    source: 'https://segment.com/docs/connections/destinations/catalog/actions-webhook/, read 2026-11',
    certainty: 'documented',
  },
  {
    name: 'Sendbird',
    header: 'x-sendbird-signature',
    eventType: '{field:category}',
    eventId: { none: 'only what the event is about has one, such as message_id' },
    sample:
      '{"category":"group_channel:message_send","app_id":"ABCD1234-0000-4000-8000-000000000001","sender":{"user_id":"ada","nickname":"Ada"},"message_id":75,"payload":{"message":"Hello","created_at":1793610843210},"channel":{"channel_url":"sendbird_group_channel_1","name":"Room"}}',
    clickPath: [
      'Open **Settings**, **Chat**, **Webhooks** in the dashboard and turn them on.',
      'Enter `{URL}` and choose the events.',
      'Copy the **master API token** from **Settings**, **Application**, **General**: it is the key, and opens everything else too.',
    ],
    retries: {
      when: 'if there is no answer within 5 seconds',
      howOften: 'the same request up to three times',
      newlySigned: false,
    },
    source: 'https://sendbird.com/docs/chat/platform-api/v3/webhook/webhook-overview, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'its page says SHA-256 of body and token; that it is HMAC in hex is as its sample code is quoted',
  },
  {
    name: 'Shippo',
    header: 'Shippo-Auth-Signature',
    form: 't={timestamp},v1={signature}',
    signs: '{timestamp}.{body}',
    eventType: '{field:event}',
    eventId: { none: 'the body has none' },
    sample:
      '{"event":"track_updated","test":false,"data":{"carrier":"usps","tracking_number":"9205590164917312751089","tracking_status":{"object_id":"3f1a","status":"TRANSIT","status_date":"2026-11-27T10:00:00Z","status_details":"In transit"},"transaction":"70ae8117ee1749e393f249d5b77c45e0"}}',
    clickPath: [
      'Open **Settings**, **API**, **Webhooks** and press **Add webhook**.',
      'Choose the event and the mode and enter `{URL}`.',
      'Ask support to turn on HMAC: the secret that you get is the key, and without it nothing is signed.',
    ],
    retries: {
      when: 'if there is no answer within 3 seconds',
      howOften: 'once; any answer ends its attempts',
      source: 'a copy of its documentation, read 2026-11-29',
    },
    source: 'https://docs.goshippo.com/tracking/webhook-security, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'header, signed text and hex are as five receivers have them',
  },
  {
    name: 'SinchConversation',
    title: 'Sinch Conversation API',
    // Nonce and time follow the body. Numbers, Voice and Verification sign in other ways.
    header: 'x-sinch-webhook-signature',
    signs: '{body}.{header:x-sinch-webhook-signature-nonce}.{timestamp}',
    encoding: 'base64',
    keyIsChosen: true,
    timestamp: 'x-sinch-webhook-signature-timestamp',
    eventType: { none: 'the member of the body that is there beside app_id names it' },
    eventId: { none: 'only what the event is about has one, such as message.id' },
    sample:
      '{"app_id":"01EB37HMH1M6SV18BSNS3G135H","accepted_time":"2026-11-12T10:00:00.813615Z","project_id":"e2df3a34-a71b-4448-9db5-a8d2baad28e4","message":{"id":"01EQ8235TD19N21XQTH12B145D","direction":"TO_APP","contact_message":{"text_message":{"text":"Hi!"}},"channel_identity":{"channel":"SMS","identity":"48123456789","app_id":""},"conversation_id":"01EQ4174TGGY5B1VPTPGHW19R0","contact_id":"01EQ4174WMDB8008EFT4M30481","accept_time":"2026-11-12T10:00:00.718Z"},"message_metadata":""}',
    clickPath: [
      'Open **Conversation API**, **Apps**, your app in the dashboard.',
      'Press **Add webhook**, enter `{URL}` and your key as **Secret token**, and choose the triggers.',
    ],
    retries: NO_PAGE_ON_RETRIES,
    source:
      'https://github.com/sinch/sinch-sdk-node/blob/main/packages/sdk-client/tests/utils/authorization.helper.test.ts, read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Squarespace',
    // The key is written as hex and used as bytes. Deliveries come at least once, in any order.
    header: 'Squarespace-Signature',
    keyEncoding: 'hex',
    eventType: '{field:topic}',
    eventId: '{field:id}',
    eventIdSource:
      'https://developers.squarespace.com/webhooks/notification-delivery (id: to be tracked, because one may come again), read 2026-11',
    sample:
      '{"id":"5c2ba184b63ed3cb411ce2b1","websiteId":"5f3c3d55ac435e1a051f77b3","subscriptionId":"5f3c2155d947844beedda991","topic":"order.create","createdOn":"2026-11-27T22:18:00+00:00","data":{"orderId":"585d498fdee9f31a60284a37"}}',
    clickPath: [
      'Get an OAuth token of the site: an API key is not enough.',
      'Send `POST https://api.squarespace.com/1.0/webhook_subscriptions` with `{URL}` as `endpointUrl`, and topics.',
      'Copy `secret` from the answer, which shows it once: it is the key.',
    ],
    retries: { when: 'if the answer is no 2xx in time', howOften: 'several times for up to 48 hours' },
    source: 'https://developers.squarespace.com/commerce-apis/webhooks/verifying-notifications, read 2026-11',
    certainty: 'unconfirmed',
    unconfirmed: 'that the header is hex is as one receiver has it; the rest is documented',
  },
];
