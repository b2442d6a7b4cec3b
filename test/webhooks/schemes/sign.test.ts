import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Verdict } from '../../../src/webhooks/gate.ts';
import { coversBody, hasPart } from '../../../src/webhooks/schemes/layout.ts';
import { type SignedDelivery, type SigningRequest, signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';
import { sign as octokitSign, verify as octokitVerify } from '../../oracles/octokit.ts';
import {
  bodyFor,
  builtIn,
  contentTypeFor,
  deliveryOf,
  judge,
  judgeOf,
  KEYS,
  lowerCase,
  NOW,
  OTHER_KEYS,
  OTHER_SIGNING_KEYS,
  received,
  SIGNABLE_SCHEMES,
  SIGNING_KEYS,
  signsMembers,
} from './fixtures.ts';

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';
const URL_SIGNED = 'https://hooks.example.com/flows/api/webhook/in?a=1';

const jsonBodies = fc.dictionary(fc.string(), fc.jsonValue()).map((value) => Buffer.from(JSON.stringify(value)));
const formBodies = fc
  .array(fc.tuple(fc.string({ minLength: 1 }), fc.string({ unit: 'grapheme' })))
  .map((pairs) => Buffer.from(new URLSearchParams(pairs).toString()));
const anyBytes = fc.uint8Array().map((bytes) => Buffer.from(bytes));
const deliveryIds = fc.string({ unit: fc.constantFrom(...'abcdef0123456789-_'), minLength: 1 });
// Ten digits in seconds, as every publisher sends since 2001.
const instants = fc.integer({ min: 1e12, max: 9_999_999_999_999 });

function keepsSomethingInBody(spec: SignatureSpec): boolean {
  return spec.timestamp?.in === 'body' || signsObject(spec);
}

function signsObject({ signs }: SignatureSpec): boolean {
  return signs.some((it) => typeof it !== 'string' && it.part === 'body' && it.isJsonObject === true);
}

/** Whether it has a part in JSON that a form has no place for. */
function keepsSomethingInJson(spec: SignatureSpec): boolean {
  const { timestamp, signatureFields = [] } = spec;
  if (signatureFields.some(({ formField }) => formField === undefined)) return true;
  return signsObject(spec) || (timestamp?.in === 'body' && timestamp.field.formField === undefined);
}

/** Bodies for a scheme that signs members of the body, with any value in the member that allows any. */
function bodiesWithFields(spec: SignatureSpec): fc.Arbitrary<Buffer> {
  const text = bodyFor(spec, '').toString();
  return fc
    .string({ unit: 'grapheme' })
    .map((reference) => Buffer.from(text.replace('"TestPayment-1407325143704"', () => JSON.stringify(reference))));
}

function requests(spec: SignatureSpec): fc.Arbitrary<SigningRequest> {
  const isOfFields = signsMembers(spec.signs);
  const bodies = fc.oneof(
    ...(isOfFields
      ? [fc.record({ body: bodiesWithFields(spec), contentType: fc.constant(contentTypeFor(spec)) })]
      : contents(spec)),
  );
  return fc.record({ content: bodies, timestampMs: instants, deliveryId: deliveryIds }).map(({ content, ...rest }) => ({
    spec,
    key: SIGNING_KEYS[spec.name] ?? '',
    url: URL_SIGNED,
    ...content,
    ...rest,
  }));
}

function contents(spec: SignatureSpec) {
  return [
    fc.record({ body: jsonBodies, contentType: fc.constantFrom(JSON_TYPE, undefined) }),
    ...(keepsSomethingInBody(spec) || keepsSomethingInJson(spec)
      ? []
      : [fc.record({ body: anyBytes, contentType: fc.constant(undefined) })]),
    ...(keepsSomethingInJson(spec) ? [] : [fc.record({ body: formBodies, contentType: fc.constant(FORM_TYPE) })]),
  ];
}

function verifierOf(spec: SignatureSpec): (signed: SignedDelivery) => Promise<Verdict> {
  const webhookPublicUrl = hasPart(spec.signs, 'url') && hasPart(spec.signs, 'body') ? URL_SIGNED : undefined;
  const verdictOf = judgeOf({ inputs: { webhookSignatureScheme: spec.name, webhookPublicUrl }, key: KEYS[spec.name] });
  return (signed) => verdictOf(received(signed));
}

/** The same signature with one digit changed, whatever the encoding. */
function otherDigit(text: string, fromEnd: number): string {
  // Before a quotation mark, the last base64 digit cannot be just any.
  const at = text.length - fromEnd - (text.endsWith('"') ? 2 : 0);
  return `${text.slice(0, at)}${text[at] === '0' ? '1' : '0'}${text.slice(at + 1)}`;
}

/** The same in a body that ends with the signature. */
function otherDigitIn(body: string, fromEnd: number): string {
  const [end = ''] = /"[\]}]+$/.exec(body) ?? [];
  return `${otherDigit(body.slice(0, body.length - end.length), fromEnd)}${end}`;
}

describe.each(SIGNABLE_SCHEMES)('$name', (spec) => {
  it('verifies what it signs, and tells when it was signed', async () => {
    const verdictOf = verifierOf(spec);
    await fc.assert(
      fc.asyncProperty(requests(spec), async (request) => {
        const verdict = await verdictOf(signDelivery(request));
        expect(verdict).toMatchObject({ passed: true, evidence: { isVerified: true, usedPreviousKey: false } });
        const unitMs = ['seconds', 'detect', 'httpDate'].includes(spec.timestamp?.unit ?? '') ? 1000 : 1;
        const expected = spec.timestamp && Math.floor(request.timestampMs / unitMs) * unitMs;
        expect(verdict.evidence?.signedTimestamp?.ms).toBe(expected);
      }),
      { numRuns: 20 },
    );
  });

  it('refuses it under any other key', async () => {
    const signed = signDelivery({ ...signingRequest(spec), key: OTHER_SIGNING_KEYS[spec.name] ?? '' });
    expect(await verifierOf(spec)(signed)).toMatchObject({ passed: false, reason: 'signature_mismatch' });
  });

  it('refuses it when one digit of the signature is another', async () => {
    const signed = signDelivery(signingRequest(spec));
    const header = spec.headers[0]?.signature;
    const verdictOf = verifierOf(spec);
    for (const fromEnd of [4, 10, 12]) {
      const verdict = await verdictOf(
        header === undefined
          ? { ...signed, body: Buffer.from(otherDigitIn(signed.body.toString(), fromEnd)) }
          : { ...signed, headers: { ...signed.headers, [header]: otherDigit(signed.headers[header] ?? '', fromEnd) } },
      );
      expect(verdict).toMatchObject({ passed: false, reason: 'signature_mismatch', evidence: { isVerified: false } });
    }
  });

  it('verifies it with the previous key, and says so', async () => {
    const signed = signDelivery(signingRequest(spec));
    const verdict = await judge(
      { inputs: { webhookSignatureScheme: spec.name }, key: OTHER_KEYS[spec.name], previousKey: KEYS[spec.name] },
      received(signed),
    );
    expect(verdict).toMatchObject({ passed: true, evidence: { isVerified: true, usedPreviousKey: true } });
  });

  it('refuses what carries no signature', async () => {
    const delivery = deliveryOf({ body: '{"a":1}', headers: { 'content-type': JSON_TYPE } });
    const verdict = await judge({ inputs: { webhookSignatureScheme: spec.name }, key: KEYS[spec.name] }, delivery);
    expect(verdict).toMatchObject({ passed: false, reason: 'signature_missing' });
  });
});

it.each(SIGNABLE_SCHEMES.filter(coversBody))(
  'refuses a delivery of $name when one bit of the body is another',
  async (spec) => {
    const [signed, verdictOf] = [signDelivery(signingRequest(spec)), verifierOf(spec)];
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: signed.body.length * 8 - 1 }), async (bit) => {
        const body = Buffer.from(signed.body);
        body.writeUInt8(body.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
        expect((await verdictOf({ ...signed, body })).passed).toBe(false);
      }),
    );
  },
);

it.each(SIGNABLE_SCHEMES.filter(({ timestamp }) => timestamp !== undefined))(
  'refuses a delivery of $name when the timestamp is another',
  async (spec) => {
    const signed = signDelivery(signingRequest(spec));
    const later = (text: string) => text.replaceAll('1700000000', '1700000001').replaceAll('22:13:20', '22:13:21');
    const headers = Object.fromEntries(Object.entries(signed.headers).map(([name, value]) => [name, later(value)]));
    const verdict = await verifierOf(spec)({ ...signed, headers, body: Buffer.from(later(signed.body.toString())) });
    expect(verdict).toMatchObject({ passed: false, reason: 'signature_mismatch' });
  },
);

function signingRequest(spec: SignatureSpec): SigningRequest {
  return {
    spec,
    key: SIGNING_KEYS[spec.name] ?? '',
    body: bodyFor(spec, '{"name":"Zoë","list":[1,2,3]}'),
    url: URL_SIGNED,
    timestampMs: NOW,
    deliveryId: 'msg_1',
    contentType: contentTypeFor(spec),
  };
}

describe('what a delivery looks like', () => {
  it('is the header that these publishers document', () => {
    const shapes = SIGNABLE_SCHEMES.map((spec) => [spec.name, signDelivery(signingRequest(spec)).headers] as const);
    const masked = shapes.map(([name, headers]) => [name, lowerCase(maskDigests(headers))]);
    expect(Object.fromEntries(masked)).toMatchObject({
      GitHub: { 'x-hub-signature-256': 'sha256=<64 hex>', 'x-github-delivery': 'msg_1' },
      GitHubLegacy: { 'x-hub-signature': 'sha1=<40 hex>', 'x-github-delivery': 'msg_1' },
      Bitbucket: { 'x-hub-signature': 'sha256=<64 hex>', 'x-request-uuid': 'msg_1' },
      Stripe: { 'stripe-signature': 't=1700000000,v1=<64 hex>' },
      Slack: { 'x-slack-signature': 'v0=<64 hex>', 'x-slack-request-timestamp': '1700000000' },
      Shopify: { 'x-shopify-hmac-sha256': '<44 base64>', 'x-shopify-webhook-id': 'msg_1' },
      Twilio: { 'x-twilio-signature': '<28 base64>', 'i-twilio-idempotency-token': 'msg_1' },
      Square: { 'x-square-hmacsha256-signature': '<44 base64>' },
      Zoom: { 'x-zm-signature': 'v0=<64 hex>', 'x-zm-request-timestamp': '1700000000' },
      Linear: { 'linear-signature': '<64 hex>', 'linear-delivery': 'msg_1' },
      Dropbox: { 'x-dropbox-signature': '<64 hex>' },
      Mailgun: {},
      MicrosoftTeams: { authorization: 'HMAC <44 base64>' },
      Atlassian: { 'x-hub-signature': 'sha256=<64 hex>', 'x-atlassian-webhook-identifier': 'msg_1' },
      Calendly: { 'calendly-webhook-signature': 't=1700000000,v1=<64 hex>' },
      Generic: { 'x-signature': 'sha256=<64 hex>' },
      StandardWebhooks: {
        'webhook-signature': 'v1,<44 base64>',
        'webhook-timestamp': '1700000000',
        'webhook-id': 'msg_1',
      },
      Meta: { 'x-hub-signature-256': 'sha256=<64 hex>' },
      Discord: { 'x-signature-ed25519': '<128 hex>', 'x-signature-timestamp': '1700000000' },
      Twitch: {
        'twitch-eventsub-message-signature': 'sha256=<64 hex>',
        'twitch-eventsub-message-timestamp': '2023-11-14T22:13:20.000Z',
        'twitch-eventsub-message-id': 'msg_1',
      },
      Trello: { 'x-trello-webhook': '<28 base64>' },
      Asana: { 'x-hook-signature': '<64 hex>' },
      Zendesk: {
        'x-zendesk-webhook-signature': '<44 base64>',
        'x-zendesk-webhook-signature-timestamp': '2023-11-14T22:13:20.000Z',
      },
      Paddle: { 'paddle-signature': 'ts=1700000000;h1=<64 hex>' },
      Typeform: { 'typeform-signature': 'sha256=<44 base64>' },
      Vercel: { 'x-vercel-signature': '<40 hex>' },
      Sentry: { 'sentry-hook-signature': '<64 hex>', 'request-id': 'msg_1' },
      PagerDuty: { 'x-pagerduty-signature': 'v1=<64 hex>' },
      Line: { 'x-line-signature': '<44 base64>' },
      CoinbaseCommerce: { 'x-cc-webhook-signature': '<64 hex>' },
      Intercom: { 'x-hub-signature': 'sha1=<40 hex>' },
      HubSpot: { 'x-hubspot-signature-v3': '<44 base64>', 'x-hubspot-request-timestamp': '1700000000000' },
      DocuSign: { 'x-docusign-signature-1': '<44 base64>' },
      Box: {
        'box-signature-primary': '<44 base64>',
        'box-delivery-timestamp': '2023-11-14T22:13:20.000Z',
        'box-delivery-id': 'msg_1',
      },
      Adyen: {},
      Telegram: { 'x-telegram-bot-api-secret-token': 'key 7 of Telegram' },
      GitLab: { 'x-gitlab-token': 'key 7 of GitLab', 'idempotency-key': 'msg_1' },
      SendGrid: {
        'x-twilio-email-event-webhook-signature': expect.any(String),
        'x-twilio-email-event-webhook-timestamp': '1700000000',
      },
    });
  });

  it('keeps the body of a Linear delivery whose timestamp is right already, byte for byte', () => {
    const body = Buffer.from(`{"webhookTimestamp":${NOW},"type":"Issue"}`);
    expect(signDelivery({ ...signingRequest(builtIn('Linear')), body }).body).toEqual(body);
    const stale = Buffer.from('{"webhookTimestamp":1,"type":"Issue"}');
    expect(signDelivery({ ...signingRequest(builtIn('Linear')), body: stale }).body).toEqual(body);
  });

  it('has the signature of Mailgun in the JSON object, or in the form', () => {
    const spec = builtIn('Mailgun');
    const json = signDelivery({ ...signingRequest(spec), body: Buffer.from('{"event-data":{"event":"opened"}}') });
    expect(JSON.parse(json.body.toString())).toEqual({
      'event-data': { event: 'opened' },
      signature: {
        timestamp: '1700000000',
        token: expect.stringMatching(/^[0-9a-f]{50}$/),
        signature: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    const body = Buffer.from('event=opened&token=old&%74oken=older');
    const form = signDelivery({ ...signingRequest(spec), body, contentType: FORM_TYPE });
    const fields = [...new URLSearchParams(form.body.toString()).keys()];
    expect(fields).toEqual(['event', 'timestamp', 'token', 'signature']);
  });

  it('puts the hash of a Twilio body into the URL unless the body is a form', () => {
    const request = signingRequest(builtIn('Twilio'));
    expect(signDelivery(request).url).toMatch(/\?a=1&bodySHA256=[0-9a-f]{64}$/);
    expect(signDelivery({ ...request, url: 'https://h.example/in#rc=2' }).url).toMatch(
      /\/in\?bodySHA256=[0-9a-f]{64}$/,
    );
    expect(signDelivery({ ...request, body: Buffer.from('a=1'), contentType: FORM_TYPE }).url).toBe(URL_SIGNED);
    expect(signDelivery({ ...request, body: Buffer.alloc(0) }).url).toBe(URL_SIGNED);
  });

  it('says why a body does not suit a scheme that writes into it', () => {
    const request = { ...signingRequest(builtIn('Mailgun')), body: Buffer.from('[1]') };
    expect(() => signDelivery(request)).toThrow('JSON object');
    expect(() => signDelivery({ ...request, contentType: 'multipart/form-data; boundary=X' })).toThrow('multipart');
    expect(() => signDelivery({ ...signingRequest(builtIn('Linear')), contentType: FORM_TYPE })).toThrow('JSON');
  });
});

it('takes a Generic signature with its prefix or without, and with no other', async () => {
  const { body } = signingRequest(builtIn('Generic'));
  const digest = createHmac('sha256', KEYS.Generic ?? '')
    .update(body)
    .digest('hex');
  const judgeWith = (signature: string) =>
    judge(
      { inputs: { webhookSignatureScheme: 'Generic' }, key: KEYS.Generic },
      deliveryOf({ body, headers: { 'x-signature': signature } }),
    );
  expect(await judgeWith(`sha256=${digest}`)).toMatchObject({ passed: true });
  expect(await judgeWith(digest)).toMatchObject({ passed: true });
  expect(await judgeWith(`sha1=${digest}`)).toMatchObject({ passed: false, reason: 'signature_malformed' });
});

describe('compared with the publisher’s own code', () => {
  const request = { ...signingRequest(builtIn('GitHub')), body: Buffer.from('Hello, World!') };

  it('signs as @octokit/webhooks-methods does, with the example of GitHub’s documentation', async () => {
    const key = "It's a Secret to Everybody";
    const signature = signDelivery({ ...request, key }).headers['X-Hub-Signature-256'] ?? '';
    expect(signature).toBe('sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17');
    expect(await octokitSign(key, 'Hello, World!')).toBe(signature);
  });

  it('agrees with it on any text and key', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ minLength: 1, unit: 'grapheme' }),
        fc.string({ minLength: 1 }),
        async (text, key) => {
          const signed = signDelivery({ ...request, key, body: Buffer.from(text) });
          expect(await octokitVerify(key, text, signed.headers['X-Hub-Signature-256'] ?? '')).toBe(true);
        },
      ),
      { numRuns: 30 },
    );
  });
});

function maskDigests(headers: Readonly<Record<string, string>>): Record<string, string> {
  const masked = Object.entries(headers)
    .filter(([name]) => name !== 'content-type')
    .map(([name, value]): [string, string] => [
      name,
      value
        .replace(/[0-9a-f]{40,}/, (digest) => `<${digest.length} hex>`)
        .replace(/[A-Za-z0-9+/]{27,43}=/, (digest) => `<${digest.length} base64>`),
    ]);
  return Object.fromEntries(masked);
}
