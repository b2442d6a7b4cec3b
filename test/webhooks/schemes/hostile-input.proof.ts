import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { builtIn, deliveryOf, judge, KEYS, NOW, received } from './fixtures.ts';

const pieces = fc.constantFrom(
  'v1=',
  'v1,',
  'v0=',
  't=',
  't=1700000000',
  ',',
  ' ',
  '=',
  'HMAC ',
  'sha256=',
  'sha1=',
  '==',
  'a'.repeat(64),
  'é',
  '\u0000',
  '🎉',
);
const texts = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.array(pieces, { maxLength: 200 }).map((list) => list.join('')),
  fc.tuple(pieces, fc.constantFrom(1, 10, 10_000)).map(([piece, count]) => piece.repeat(count)),
);
const contentTypes = fc.oneof(
  fc.constantFrom(
    'application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=X',
    'multipart/form-data',
    'multipart/form-data; boundary=""',
    ';;;',
  ),
  texts,
);
const bodies = fc.oneof(
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  texts.map((text) => Buffer.from(text)),
  fc.json().map((text) => Buffer.from(text)),
  fc.jsonValue().map((signature) => Buffer.from(JSON.stringify({ signature, webhookTimestamp: signature }))),
  fc
    .constantFrom('['.repeat(50_000), '{"a":'.repeat(20_000), '&'.repeat(5000), '--X'.repeat(5000), '%'.repeat(5000))
    .map((text) => Buffer.from(text)),
);

const CUSTOM: WebhookInputs = {
  webhookSignatureScheme: 'Custom',
  webhookSignatureHeader: 'X-Any',
  webhookHeaderValuePrefix: 'HMAC ',
  webhookSignatureMultiValueDelimiter: ',',
  webhookAcceptedVersions: ['v1', 'v0'],
  webhookAcceptMultipleSignatures: true,
  webhookSignaturePrefix: 'sha256=',
  webhookTimestampValueKey: 't',
  webhookSignedPayloadStrategy: 'TimestampDotBody',
};

const cases = [
  ...BUILT_IN_SCHEMES.map((spec) => ({
    name: spec.name,
    inputs: { webhookSignatureScheme: spec.name } as WebhookInputs,
    headers: [...spec.headers, ...(spec.requestForm?.headers ?? [])].flatMap((family) => Object.values(family).flat()),
    key: KEYS[spec.name],
  })),
  { name: 'Custom', inputs: CUSTOM, headers: ['X-Any'], key: 'key' },
];

describe.each(cases)('$name', ({ inputs, headers, key }) => {
  it('refuses any header and any body with a reason, and never throws', async () => {
    const names = headers.filter((name) => name !== undefined);
    const values = fc.record(Object.fromEntries(names.map((name) => [name, texts])), { requiredKeys: [] });
    await fc.assert(
      fc.asyncProperty(values, contentTypes, bodies, async (sent, contentType, body) => {
        const delivery = deliveryOf({
          headers: { ...(sent as Record<string, string>), 'content-type': contentType },
          body,
        });
        const verdict = await judge({ inputs, key }, delivery);
        expect(verdict).toMatchObject({ passed: false, reason: expect.stringMatching(/^(signature|timestamp)_/) });
      }),
      { numRuns: 60 },
    );
  });
});

it('reads own headers only: an object’s inherited names are no headers', async () => {
  const inputs = { webhookSignatureScheme: 'Custom', webhookSignatureHeader: 'constructor' };
  expect(await judge({ inputs, key: 'key' }, deliveryOf())).toMatchObject({ reason: 'signature_missing' });
});

it('refuses a header of more segments than any rotation needs, even with a right one among them', async () => {
  const spec = builtIn('Stripe');
  const request = {
    spec,
    key: KEYS.Stripe ?? '',
    body: Buffer.from('{}'),
    url: 'http://a.example/',
    timestampMs: NOW,
    deliveryId: 'x',
  };
  const delivery = received(signDelivery(request));
  const line = delivery.headers['stripe-signature'] ?? '';
  const judgeWith = (count: number) =>
    judge(
      { inputs: { webhookSignatureScheme: 'Stripe' }, key: KEYS.Stripe },
      { ...delivery, headers: { 'stripe-signature': `${line}${',v0=1'.repeat(count)}` } },
    );
  expect(await judgeWith(30)).toMatchObject({ passed: true });
  expect(await judgeWith(31)).toMatchObject({ passed: false, reason: 'signature_malformed' });
});

it('compares a right candidate behind malformed and wrong ones', async () => {
  const spec = builtIn('Stripe');
  const request = {
    spec,
    key: KEYS.Stripe ?? '',
    body: Buffer.from('{}'),
    url: 'http://a.example/',
    timestampMs: NOW,
    deliveryId: 'x',
  };
  const delivery = received(signDelivery(request));
  const right = delivery.headers['stripe-signature']?.split(',v1=')[1] ?? '';
  const headers = { 'stripe-signature': `v1=zz,v1=${'0'.repeat(64)},t=1700000000,v1,v1=${right},v1=` };
  const verdict = await judge(
    { inputs: { webhookSignatureScheme: 'Stripe' }, key: KEYS.Stripe },
    { ...delivery, headers },
  );
  expect(verdict).toMatchObject({ passed: true });
});

describe('the reason', () => {
  it.each([
    ['GitHub', {}, 'signature_missing'],
    ['GitHub', { 'x-hub-signature-256': '' }, 'signature_malformed'],
    ['GitHub', { 'x-hub-signature-256': 'sha256=' }, 'signature_malformed'],
    ['GitHub', { 'x-hub-signature-256': '0'.repeat(64) }, 'signature_malformed'],
    ['GitHub', { 'x-hub-signature-256': `sha256=${'0'.repeat(62)}` }, 'signature_malformed'],
    ['GitHub', { 'x-hub-signature-256': `sha256=${'g'.repeat(64)}` }, 'signature_malformed'],
    ['GitHub', { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` }, 'signature_mismatch'],
    ['GitHub', { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}, sha256=${'0'.repeat(64)}` }, 'signature_malformed'],
    ['Stripe', { 'stripe-signature': 't=1700000000' }, 'signature_malformed'],
    ['Stripe', { 'stripe-signature': `t=1700000000,v1=${'0'.repeat(64)}` }, 'signature_mismatch'],
    ['Stripe', { 'stripe-signature': `v1=${'0'.repeat(64)}` }, 'timestamp_missing'],
    ['Slack', { 'x-slack-signature': `v0=${'0'.repeat(64)}` }, 'timestamp_missing'],
    ['MicrosoftTeams', { authorization: `Bearer ${'0'.repeat(44)}` }, 'signature_malformed'],
    ['StandardWebhooks', { 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` }, 'timestamp_missing'],
    [
      'StandardWebhooks',
      { 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`, 'webhook-timestamp': '1' },
      'signature_malformed',
    ],
    ['Linear', { 'linear-signature': '0'.repeat(64) }, 'signature_mismatch'],
  ])('of a %s delivery with %j is %s', async (name, headers, reason) => {
    const verdict = await judge(
      { inputs: { webhookSignatureScheme: name }, key: KEYS[name] },
      deliveryOf({ headers: headers as Record<string, string>, body: '{}' }),
    );
    expect(verdict).toMatchObject({ passed: false, reason });
  });
});
