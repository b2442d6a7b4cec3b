import { NO_PAGE_ON_RETRIES, type StandardRow } from './row.ts';

export const STANDARD_ROWS: readonly StandardRow[] = [
  {
    name: 'ConstantContact',
    title: 'Constant Contact',
    // For partners. The header has a token whose content is the raw body: RFC 7797. The time is in the token's header.
    standard: 'Jwt',
    form: { carrier: 'detached', time: { in: 'header', name: 'ts' } },
    fixed: {
      webhookSignatureHeader: 'X-CTCT-WEBHOOK-SIG',
      webhookJwksUrl: 'https://developer.constantcontact.com/.well-known/jwks.json',
      webhookRequireTimestamp: true,
    },
    asks: {},
    eventType: '{field:event_type}',
    eventId: { none: 'an event names the account only, in url' },
    sample:
      '{"url":"https://api.cc.email/v3/partner/accounts/a07e1my9tbxo/plan","api_key":"40a0b12-342b-436d-97c3-000000000000","event_type":"tier.increase"}',
    clickPath: [
      'There is no screen: partners subscribe with `PUT /v3/partner/webhooks/subscriptions/{topic_id}` of the Partner API.',
      'Give `{URL}` as `hook_uri`. There is no key to copy: Sluice fetches the public ones.',
    ],
    retries: NO_PAGE_ON_RETRIES,
    note: 'The keys are those for all partners: check that `api_key` is yours.',
    source: 'https://developer.constantcontact.com/api_guide/webhook_authenticity.html, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11',
  },
  {
    name: 'JiraConnect',
    title: 'Jira Connect apps',
    // The claim qsh binds the token to method and path. Browsers get tokens with the same secret but another qsh.
    standard: 'Jwt',
    form: { requiredClaims: ['exp', 'iat', 'qsh'], urlHash: { claim: 'qsh', of: 'atlassian' } },
    fixed: {
      webhookSignatureHeader: 'Authorization',
      webhookHeaderValuePrefix: 'JWT ',
      webhookRequireTimestamp: true,
    },
    asks: { webhookJwtIssuer: 'the clientKey of the site' },
    eventType: '{field:webhookEvent}',
    eventId: { none: 'X-Atlassian-Webhook-Identifier is not signed' },
    sample:
      '{"timestamp":1795773600000,"webhookEvent":"jira:issue_updated","issue":{"id":"99291","key":"JRA-20002","fields":{"summary":"Hello"}},"user":{"accountId":"99:27935d01"}}',
    sampleHeaders: { 'x-atlassian-webhook-identifier': 'a1b2c3' },
    clickPath: [
      'Declare the webhook with `{URL}`, and authentication of type `jwt`, in the `atlassian-connect.json` of the app.',
      'Receive the `installed` callback with the app, and take `clientKey` and `sharedSecret` from it.',
    ],
    keyIs: 'the `sharedSecret` of the installation, which changes when the app is installed again',
    retries: {
      when: 'after 408, 409, 425, 429, 5xx, a timeout or no connection',
      howOften:
        'up to 5 times, 5 to 15 minutes apart, counted in `X-Atlassian-Webhook-Retry`; after half an hour of failures each delivery once',
      source: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/, as others quote it, read 2026-11-29',
    },
    note: 'The body is not signed. The URL must have no query. A new app is made with Forge, not with Connect, which ends in 2026.',
    source:
      'https://developer.atlassian.com/cloud/jira/software/security-for-connect-apps/ and @atlassian/atlassian-jwt 2.2.0, read 2026-11',
    certainty: 'package',
    noVector: '2026-11',
  },
  {
    name: 'Kinde',
    // The whole body is the token. The same keys also sign user tokens, which have other claims.
    standard: 'Jwt',
    form: { carrier: 'body', requiredClaims: ['event_id', 'type', 'data'] },
    fixed: {},
    asks: { webhookJwksUrl: 'https://example.kinde.com/.well-known/jwks' },
    eventType: '{field:type}',
    eventId: '{field:event_id}',
    clickPath: [
      'Open **Settings**, **Webhooks** and press **Add webhook**.',
      'Enter a name and `{URL}`, choose the events and save.',
      'There is no key to copy: write your subdomain into `webhookJwksUrl`.',
    ],
    retries: {
      when: 'if the answer is not 200',
      howOften: 'at once, after 5 and 30 seconds, 2 and 10 minutes, 1 and 4 hours, then every 12 hours up to 36',
    },
    note: 'A flow reads what the token says, as `body.type` and `body.data`; the token itself is not kept. The header `webhook-id` is not signed.',
    source: 'https://docs.kinde.com/integrate/webhooks/about-webhooks/ and @kinde/webhooks 1.0.0, read 2026-11',
    certainty: 'package',
    noVector: '2026-11',
  },
  {
    name: 'MessageBird',
    title: 'MessageBird (older platform)',
    // The token hashes URL and body. It expires after a minute.
    standard: 'Jwt',
    form: {
      requiredClaims: ['exp', 'nbf', 'jti'],
      time: { in: 'claims', name: 'nbf' },
      urlHash: { claim: 'url_hash', of: 'url' },
    },
    fixed: {
      webhookSignatureHeader: 'MessageBird-Signature-JWT',
      webhookJwtIssuer: 'MessageBird',
      webhookJwtBodyHashClaim: 'payload_hash',
      webhookRequireTimestamp: true,
    },
    asks: {},
    eventType: { none: 'each product has a convention of its own' },
    eventId: { none: 'only what the event is about has one' },
    sample:
      '{"id":"eef0ab57a9e049be946f3821568c2b2e","href":"https://rest.messagebird.com/messages/eef0ab57a9e049be946f3821568c2b2e","recipient":"31612345678","status":"delivered","statusDatetime":"2026-11-12T10:00:00+00:00","reference":"order-42"}',
    clickPath: [
      'Open **Developers**, **API settings** and copy the **Signing key**.',
      'Enter `{URL}` as the webhook URL of the product.',
    ],
    keyIs: 'the **Signing key** of the account',
    retries: NO_PAGE_ON_RETRIES,
    note: 'The new platform, Bird, signs in another way.',
    source: 'https://github.com/messagebird/messagebird-nodejs (webhook-signature-jwt, 4.0.1), read 2026-11',
    certainty: 'vector',
  },
  {
    name: 'Monday',
    title: 'monday.com',
    // The token contains its URL and expiry, and nothing about the body.
    standard: 'Jwt',
    form: { requiredClaims: ['aud', 'exp', 'iat'] },
    fixed: {
      webhookSignatureHeader: 'Authorization',
      webhookHeaderValuePrefix: '',
      webhookRequireTimestamp: true,
    },
    asks: { webhookJwtAudience: '{URL}' },
    eventType: '{field:event.type}',
    eventId: '{field:event.triggerUuid}',
    handshakes: [
      // Sent when the webhook is made. It is not documented whether with a token.
      {
        name: 'challenge',
        method: 'POST',
        when: ['{field:challenge}', 'no {field:event}'],
        answer: { json: { challenge: '{field:challenge}' } },
      },
    ],
    sample:
      '{"event":{"userId":9603417,"boardId":1771812698,"pulseId":1772099344,"pulseName":"Create blog post","columnId":"status","type":"update_column_value","triggerTime":"2026-11-02T09:14:03.210Z","subscriptionId":73759690,"triggerUuid":"3eb0e5b5a2d1c6d7e8f90a1b2c3d4e5f"}}',
    clickPath: [
      'Start Sluice with the **Signing Secret** of an app as the key: monday.com tests the URL at once.',
      'Make the webhook with the mutation `create_webhook`, `{URL}` and an OAuth token of that app.',
    ],
    keyIs:
      'the **Signing Secret** of the app; for the events of the app itself, such as its installation, the **Client Secret**',
    retries: { when: 'if it is not acknowledged', howOften: 'once a minute for 30 minutes' },
    note: 'Webhooks that are added on the screen of a board bring no token, and are refused.',
    source:
      'https://developer.monday.com/apps/docs/authorization-header, https://developer.monday.com/apps/docs/advanced-concepts and https://developer.monday.com/api-reference/docs/webhooks, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11',
  },
  {
    name: 'FusionAuth',
    // Signed with a key of the Key Master: a secret, or a key pair whose public half verifies.
    standard: 'Jwt',
    form: { requiredClaims: ['request_body_sha256'] },
    fixed: {
      webhookSignatureHeader: 'X-FusionAuth-Signature-JWT',
      webhookJwtBodyHashClaim: 'request_body_sha256',
      webhookRequireTimestamp: false,
    },
    asks: {},
    eventType: '{field:event.type}',
    eventId: '{field:event.id}',
    sample:
      '{"event":{"createInstant":1795773600000,"id":"1ceffdea-2748-43d6-8972-004e5fffc8e8","instanceId":"4c4f459a-cff5-4b11-95e8-8027759d2526","type":"kickstart.success"}}',
    clickPath: [
      'Make a key under **Settings**, **Key Master**: HMAC, RSA or EC.',
      'Open **Settings**, **Webhooks**, add one with `{URL}`, turn on **Sign events** under **Security** and choose the key.',
    ],
    keyIs: 'the secret of the HMAC key, or the public key in PEM or as a JSON Web Key',
    retries: {
      when: 'if there is no 2xx, where enough other webhooks of the event have succeeded',
      howOften: 'up to three more times',
      source: 'https://fusionauth.io/docs/extend/events-and-webhooks/writing-a-webhook, read 2026-11-29',
    },
    note: 'With RSA or EC keys the scheme `Jwt` can fetch the public keys instead: `webhookJwksUrl` with `/.well-known/jwks.json`, and the same header and claim.',
    source: 'https://fusionauth.io/docs/extend/events-and-webhooks/signing, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11-29',
  },
  {
    name: 'Netlify',
    // The token has no time, and uses HS256.
    standard: 'Jwt',
    form: {},
    fixed: {
      webhookSignatureHeader: 'X-Webhook-Signature',
      webhookJwtIssuer: 'netlify',
      webhookJwtBodyHashClaim: 'sha256',
      webhookRequireTimestamp: false,
    },
    asks: {},
    eventType: '{field:state}',
    eventId: { none: 'only the deploy has one' },
    sample: '{"id":"673b1f0c2a","site_id":"5f2a","state":"ready","name":"docs","url":"https://docs.example.com"}',
    logs: 'deploy {trigger.body.state} of {trigger.body.name}',
    clickPath: [
      'Choose a secret: `openssl rand -hex 32` makes a good one.',
      'Open **Project configuration**, **Notifications**, **Deploy notifications**, **Add notification**, **HTTP POST request**. Enter `{URL}` and the secret as the **JWS secret token**.',
    ],
    retries: {
      none: 'its documentation says nothing of them',
      source: 'https://docs.netlify.com/site-deploys/notifications/, read 2026-11',
    },
    trigger: { webhookHmacKey: 'env:NETLIFY_SECRET' },
    source: 'https://docs.netlify.com/site-deploys/notifications/, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11-29',
  },
  {
    name: 'Plaid',
    // ES256, with one key of Plaid for all its customers.
    standard: 'Jwt',
    form: {},
    fixed: {
      webhookSignatureHeader: 'Plaid-Verification',
      webhookJwtBodyHashClaim: 'request_body_sha256',
      webhookRequireTimestamp: true,
    },
    asks: {},
    eventType: '{field:webhook_code}',
    eventId: { none: 'only the item has one' },
    sample:
      '{"webhook_type":"ITEM","webhook_code":"WEBHOOK_UPDATE_ACKNOWLEDGED","item_id":"wz666MBjYWTp2PDzzggYhM6oWWmBb","error":null,"environment":"production"}',
    logs: '{trigger.body.webhook_code} arrived',
    clickPath: [
      'Enter `{URL}` as the webhook URL when you create a Link token.',
      `Ask Plaid for its key with the id that the first delivery names (\`kid\` in the header of its token): \`curl https://production.plaid.com/webhook_verification_key/get -H 'content-type: application/json' -d '{"client_id": "…", "secret": "…", "key_id": "…"}'\`. Put the member \`key\` of the answer, a JSON Web Key, into the variable.`,
    ],
    retries: {
      when: 'if there is no 200 within 10 seconds',
      howOften:
        'for 24 hours, first after 30 seconds, then after four times the pause before; not where more than 90% of a day failed',
      source: 'https://plaid.com/docs/api/webhooks/, read 2026-11-29',
    },
    source: 'https://plaid.com/docs/api/webhooks/webhook-verification/, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11-29',
  },
  {
    name: 'Vonage',
    standard: 'Jwt',
    form: {},
    fixed: {
      webhookSignatureHeader: 'Authorization',
      webhookHeaderValuePrefix: 'Bearer ',
      webhookJwtBodyHashClaim: 'payload_hash',
      webhookRequireTimestamp: true,
    },
    asks: {},
    eventType: { none: 'each API has a form of its own' },
    eventId: { none: 'only what the event is about has one' },
    sample:
      '{"message_uuid":"aaaaaaaa-bbbb-cccc-dddd-0123456789ab","to":"447700900000","from":"447700900001","timestamp":"2026-11-02T09:14:03Z","status":"delivered","channel":"sms"}',
    logs: 'a webhook of Vonage arrived',
    clickPath: [
      'Open **API settings** of the dashboard, and copy the **signature secret**; its method has to be SHA-256.',
      'Enter `{URL}` as the URL of the webhooks of your application, and turn on signed webhooks.',
    ],
    retries: {
      when: 'after 429 or 5xx',
      howOften: 'for 24 hours, first after 5 seconds, then after twice the pause before, up to 15 minutes',
      source: 'https://api.support.vonage.com/hc/en-us/articles/360028543292, read 2026-11-29',
    },
    trigger: { webhookHmacKey: 'env:VONAGE_SIGNATURE_SECRET' },
    source: 'https://developer.vonage.com/en/getting-started/concepts/webhooks, read 2026-11',
    certainty: 'documented',
    noVector: '2026-11-29',
  },
];
