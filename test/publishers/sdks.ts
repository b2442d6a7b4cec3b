import { createHmac } from 'node:crypto';
import { sign as octokitSign, verify as octokitVerify } from '../oracles/octokit.ts';
import {
  adyenHmac,
  askRivet,
  bolt,
  boxUtils,
  boxWebhooks,
  hubSpot,
  LinearWebhookClient,
  legacyOctokit,
  Mailgun,
  SvixWebhook,
  shopify,
  shopifyRuntime,
  squareHelper,
  squareHmac,
  stripe,
  twilio,
} from '../oracles/publishers.ts';
import { Webhook as StandardWebhook } from '../oracles/standard-webhooks.ts';
import { builtIn } from '../webhooks/schemes/fixtures.ts';
import { BY_HAND } from './by-hand.ts';

/** A delivery to the URL, before or after signing. Header names are lower case. */
export interface Signed {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Sdk {
  readonly scheme: string;
  /** The package, or why there is none. */
  readonly sdk: string;
  readonly key: string;
  /** The key that signs, if it is not the key that verifies. */
  readonly signingKey?: string;
  /** A key that the package can read, if it cannot read every text. */
  readonly otherKey?: string;
  readonly contentType: string;
  /** Without the parts that the signature adds. */
  readonly body: string;
  /** Headers that the publisher's code needs in addition to the signature. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether `sign` is the package's; otherwise it follows the publisher's documents, and the package confirms it. */
  readonly canSign: boolean;
  sign(delivery: Signed, key: string, at: Date): Promise<Signed> | Signed;
  /** The package's verdict; absent if it has no verifier. */
  verify?(delivery: Signed, key: string): Promise<boolean> | boolean;
}

const JSON_TYPE = 'application/json';
const TEXT = '{"text":"hello Zoë 🎉","amount":4200}';
const FORM = 'AccountSid=AC1&Body=hello+Zo%C3%AB&From=%2B14155550100&Media=b&Media=a&Empty=';
const SILENT = { level: 0, log: async () => {} };
const UUID = '6f1d8a4e-0c57-4a7b-9c11-2f6c3c1f9d55';

const hexOf = (key: string, text: string) => createHmac('sha256', key).update(text).digest('hex');
const seconds = (at: Date) => Math.floor(at.getTime() / 1000);
const withHeaders = (delivery: Signed, headers: Record<string, string>): Signed => ({
  ...delivery,
  headers: { ...delivery.headers, ...headers },
});
/** Whether a verifier that throws for wrong signatures did not throw. */
function accepts(verify: () => unknown): boolean {
  try {
    verify();
    return true;
  } catch {
    return false;
  }
}

function octokit(scheme: string, sdk: string, header: string): Sdk {
  return {
    scheme,
    sdk,
    key: `secret of ${scheme} ü`,
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: async (delivery, key) => withHeaders(delivery, { [header]: await octokitSign(key, delivery.body) }),
    verify: ({ headers, body }, key) => octokitVerify(key, body, headers[header] ?? ''),
  };
}

function timestamped(scheme: string, sdk: string, header: string): Sdk {
  return {
    scheme,
    sdk,
    key: 'whsec_not_base64_but_text',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: (delivery, secret, at) => {
      const options = { payload: delivery.body, secret, timestamp: seconds(at) };
      return withHeaders(delivery, { [header]: stripe.webhooks.generateTestHeaderString(options) });
    },
    verify: ({ headers, body }, key) =>
      accepts(() => stripe.webhooks.constructEvent(Buffer.from(body), headers[header] ?? '', key)) &&
      accepts(() => stripe.webhooks.signature.verifyHeader(Buffer.from(body), headers[header] ?? '', key, 300)),
  };
}

function standardWebhooks(sdk: string, Webhook: typeof StandardWebhook | typeof SvixWebhook): Sdk {
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  return {
    scheme: 'StandardWebhooks',
    sdk,
    key,
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: (delivery, secret, at) => {
      const signature = new Webhook(secret).sign('msg_1', at, delivery.body);
      const timestamp = String(seconds(at));
      return withHeaders(delivery, {
        'webhook-id': 'msg_1',
        'webhook-timestamp': timestamp,
        'webhook-signature': signature,
      });
    },
    verify: ({ headers, body }, secret) => accepts(() => new Webhook(secret).verify(body, { ...headers })),
  };
}

/** Slack and Zoom sign the same text. */
function colonDelimited(scheme: string, sdk: string, names: { signature: string; timestamp: string }) {
  return {
    scheme,
    sdk,
    key: '8f742231b10e8888abcd99yyyzzz85a5',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: false,
    sign: (delivery: Signed, key: string, at: Date) =>
      withHeaders(delivery, {
        [names.timestamp]: String(seconds(at)),
        [names.signature]: `v0=${hexOf(key, `v0:${seconds(at)}:${delivery.body}`)}`,
      }),
  };
}

function repeatedAsArrays(form: string): object {
  const fields = new URLSearchParams(form);
  return Object.fromEntries(
    [...new Set(fields.keys())].map((name) => {
      const values = fields.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

/** The package takes the fields of the `signature` object in a Mailgun body. */
function mailgunSignature(body: string): { timestamp: string; token: string; signature: string } {
  return JSON.parse(body).signature;
}

/** The single notification in an Adyen standard webhook. */
function adyenItem(body: string): object {
  return JSON.parse(body).notificationItems[0].NotificationRequestItem;
}

const HUBSPOT_TIME = 'x-hubspot-request-timestamp';

export const SDKS: readonly Sdk[] = [
  octokit('GitHub', '@octokit/webhooks-methods', 'x-hub-signature-256'),
  {
    ...octokit('GitHubLegacy', '@octokit/webhooks-methods 3, the last with SHA-1', 'x-hub-signature'),
    sign: async (delivery, secret) =>
      withHeaders(delivery, {
        'x-hub-signature': await legacyOctokit.sign({ secret, algorithm: 'sha1' }, delivery.body),
      }),
    verify: ({ headers, body }, key) => legacyOctokit.verify(key, body, headers['x-hub-signature'] ?? ''),
  },
  octokit('Bitbucket', '@octokit/webhooks-methods, whose bytes are the same (Bitbucket has none)', 'x-hub-signature'),
  octokit('Meta', '@octokit/webhooks-methods: Meta signs the same bytes', 'x-hub-signature-256'),
  octokit('Atlassian', '@octokit/webhooks-methods, whose bytes are the same (Atlassian has none)', 'x-hub-signature'),
  timestamped('Stripe', 'stripe', 'stripe-signature'),
  timestamped('Calendly', 'stripe, whose bytes are the same (Calendly has none)', 'calendly-webhook-signature'),
  {
    ...colonDelimited('Slack', '@slack/bolt', {
      signature: 'x-slack-signature',
      timestamp: 'x-slack-request-timestamp',
    }),
    verify: ({ headers, body }, signingSecret) =>
      accepts(() => bolt.verifySlackRequest({ signingSecret, body, headers })),
  },
  {
    scheme: 'Shopify',
    sdk: '@shopify/shopify-api',
    key: 'shpss_secret',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    headers: {
      'x-shopify-topic': 'orders/create',
      'x-shopify-shop-domain': 'example.myshopify.com',
      'x-shopify-api-version': '2026-10',
      'x-shopify-webhook-id': UUID,
    },
    sign: async (delivery, key) =>
      withHeaders(delivery, { 'x-shopify-hmac-sha256': await shopifyRuntime.createSHA256HMAC(key, delivery.body) }),
    verify: async ({ headers, body, url }, apiSecretKey) => {
      const config = {
        apiKey: 'key',
        apiVersion: '2026-10',
        hostName: 'hooks.example.com',
        isEmbeddedApp: false,
        logger: SILENT,
      };
      const { webhooks } = shopify.shopifyApi({ ...config, apiSecretKey });
      return (await webhooks.validate({ rawBody: body, rawRequest: { method: 'POST', url, headers } })).valid;
    },
  },
  {
    scheme: 'Twilio',
    sdk: 'twilio, for a form',
    key: '12345',
    body: FORM,
    canSign: true,
    contentType: 'application/x-www-form-urlencoded',
    sign: (delivery, token) => {
      const params = repeatedAsArrays(delivery.body);
      const signature = twilio.getExpectedTwilioSignature(token, delivery.url, params);
      return withHeaders(delivery, { 'x-twilio-signature': signature });
    },
    verify: ({ headers, body, url }, token) =>
      twilio.validateRequest(token, headers['x-twilio-signature'] ?? '', url, repeatedAsArrays(body)),
  },
  {
    scheme: 'Twilio',
    sdk: 'twilio, for JSON',
    key: '12345',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: (delivery, token) => {
      const url = `${delivery.url}?bodySHA256=${twilio.getExpectedBodyHash(delivery.body)}`;
      const signature = twilio.getExpectedTwilioSignature(token, url, {});
      return { ...withHeaders(delivery, { 'x-twilio-signature': signature }), url };
    },
    verify: ({ headers, body, url }, token) =>
      twilio.validateRequestWithBody(token, headers['x-twilio-signature'] ?? '', url, body),
  },
  {
    scheme: 'Square',
    sdk: 'square',
    key: 'signature key',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: async (delivery, key) => {
      const signature = await squareHmac.createHmacOverride(`${delivery.url}${delivery.body}`, key);
      return withHeaders(delivery, { 'x-square-hmacsha256-signature': signature });
    },
    verify: ({ headers, body, url }, signatureKey) =>
      squareHelper.WebhooksHelper.verifySignature({
        requestBody: body,
        signatureHeader: headers['x-square-hmacsha256-signature'] ?? '',
        signatureKey,
        notificationUrl: url,
      }),
  },
  {
    ...colonDelimited('Zoom', '@zoom/rivet, running', {
      signature: 'x-zm-signature',
      timestamp: 'x-zm-request-timestamp',
    }),
    body: '{"event":"meeting.started","payload":{"object":{"topic":"hello Zoë 🎉"}}}',
    verify: async (delivery, key) => (await askRivet(delivery, key)).status === 200,
  },
  {
    scheme: 'Linear',
    sdk: '@linear/sdk',
    key: 'lin_wh_secret',
    contentType: JSON_TYPE,
    canSign: false,
    body: '{"action":"create","type":"Issue","data":{"title":"hello Zoë"}}',
    sign: (delivery, key, at) => {
      const body = JSON.stringify({ ...JSON.parse(delivery.body), webhookTimestamp: at.getTime() });
      return { ...withHeaders(delivery, { 'linear-signature': hexOf(key, body) }), body };
    },
    verify: ({ headers, body }, secret) =>
      accepts(() => new LinearWebhookClient(secret).verify(Buffer.from(body), headers['linear-signature'] ?? '')),
  },
  {
    scheme: 'Mailgun',
    sdk: 'mailgun-js',
    key: 'signing key',
    contentType: JSON_TYPE,
    canSign: false,
    body: '{"event-data":{"event":"opened","recipient":"hello@example.com"}}',
    sign: (delivery, key, at) => {
      const token = hexOf('token', String(at.getTime())).slice(0, 50);
      const timestamp = String(seconds(at));
      const signature = { timestamp, token, signature: hexOf(key, `${timestamp}${token}`) };
      return { ...delivery, body: JSON.stringify({ ...JSON.parse(delivery.body), signature }) };
    },
    // A new client each time, because it remembers tokens.
    verify: ({ body }, apiKey) => {
      const { timestamp, token, signature } = mailgunSignature(body);
      return new Mailgun({ apiKey, domain: 'example.com', mute: true }).validateWebhook(timestamp, token, signature);
    },
  },
  standardWebhooks('standardwebhooks', StandardWebhook),
  standardWebhooks('svix', SvixWebhook),
  {
    scheme: 'Dropbox',
    sdk: 'no package: the dropbox SDK verifies nothing',
    key: 'app secret',
    canSign: false,
    contentType: JSON_TYPE,
    body: '{"list_folder":{"accounts":["dbid:hello"]}}',
    sign: (delivery, key) => withHeaders(delivery, { 'x-dropbox-signature': hexOf(key, delivery.body) }),
  },
  {
    scheme: 'MicrosoftTeams',
    sdk: 'no package: as Microsoft’s sample signs',
    contentType: JSON_TYPE,
    body: TEXT,
    key: Buffer.alloc(32, 9).toString('base64'),
    canSign: false,
    sign: (delivery, key) => {
      const digest = createHmac('sha256', Buffer.from(key, 'base64')).update(delivery.body).digest('base64');
      return withHeaders(delivery, { authorization: `HMAC ${digest}` });
    },
  },
  {
    scheme: 'Adyen',
    sdk: '@adyen/api-library',
    key: '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056',
    otherKey: '00782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056',
    contentType: JSON_TYPE,
    body: builtIn('Adyen').sample?.body ?? '',
    canSign: true,
    sign: (delivery, key) => {
      const body = JSON.parse(delivery.body);
      const [{ NotificationRequestItem: item }] = body.notificationItems;
      item.additionalData = { hmacSignature: adyenHmac.calculateHmac(item, key) };
      return { ...delivery, body: JSON.stringify(body) };
    },
    verify: ({ body }, key) => adyenHmac.validateHMAC(adyenItem(body), key),
  },
  {
    scheme: 'Box',
    sdk: 'box-node-sdk',
    key: 'SamplePrimaryKey of Box',
    contentType: JSON_TYPE,
    body: TEXT,
    headers: { 'box-signature-version': '1', 'box-signature-algorithm': 'HmacSHA256' },
    canSign: true,
    sign: async (delivery, key, at) => {
      const timed = withHeaders(delivery, { 'box-delivery-timestamp': at.toISOString() });
      const signature = await boxUtils.computeWebhookSignature(timed.body, timed.headers, key);
      return withHeaders(timed, { 'box-signature-primary': signature ?? '' });
    },
    verify: ({ headers, body }, key) => boxWebhooks.validateMessage(body, headers, key),
  },
  {
    scheme: 'HubSpot',
    sdk: '@hubspot/api-client',
    key: 'client secret of HubSpot',
    contentType: JSON_TYPE,
    body: TEXT,
    canSign: true,
    sign: (delivery, clientSecret, at) => {
      const options = { clientSecret, url: delivery.url, requestBody: delivery.body, timestamp: at.getTime() };
      return withHeaders(delivery, {
        [HUBSPOT_TIME]: String(options.timestamp),
        'x-hubspot-signature-v3': hubSpot.getSignature('POST', 'v3', options),
      });
    },
    verify: ({ headers, body, url }, clientSecret) =>
      hubSpot.isValid({
        signatureVersion: 'v3',
        clientSecret,
        url,
        requestBody: body,
        timestamp: Number(headers[HUBSPOT_TIME]),
        signature: headers['x-hubspot-signature-v3'],
      }),
  },
  ...BY_HAND,
];
