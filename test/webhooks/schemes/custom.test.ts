import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import type { SignatureAlgorithm, SignatureEncoding, SignedPayloadStrategy } from '../../../src/model/manifest.ts';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { customSpec } from '../../../src/webhooks/schemes/custom.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { PayloadBuilder } from '../../../src/webhooks/schemes/spec.ts';
import { deliveryOf, judge, NOW, received, settingsOf } from './fixtures.ts';

const KEY = 'a custom key';
const BODY = '{"signature":{"timestamp":"1700000000","token":"tok"}}';
const URL_SIGNED = 'https://hooks.example.com/in?a=1';
const HEADER = 'X-Custom-Signature';

const builders: Record<string, PayloadBuilder> = {
  bodyThenTimestamp: ({ delivery, timestamp, publicUrl }) =>
    Buffer.concat([delivery.body, Buffer.from(`|${timestamp}|${publicUrl}`)]),
};

/** Each strategy with the fields that it needs, and the text that it signs. */
const STRATEGIES: Record<SignedPayloadStrategy, { fields: WebhookInputs; text: string; form?: string }> = {
  RawBody: { fields: {}, text: BODY },
  TimestampDotBody: { fields: { webhookTimestampHeader: 'X-Time' }, text: `1700000000.${BODY}` },
  ColonDelimited: {
    fields: { webhookTimestampHeader: 'X-Time', webhookSignedPayloadVersion: 'v7' },
    text: `v7:1700000000:${BODY}`,
  },
  UrlPlusSortedForm: { fields: {}, text: `${URL_SIGNED}1ab c`, form: 'a=b+c&1=' },
  UrlPlusBody: { fields: {}, text: `${URL_SIGNED}${BODY}` },
  TimestampPlusToken: { fields: {}, text: '1700000000tok' },
  Custom: {
    fields: { webhookCustomStrategyName: 'bodyThenTimestamp', webhookTimestampHeader: 'X-Time' },
    text: `${BODY}|1700000000|${URL_SIGNED}`,
  },
};

const DIGESTS: Record<SignatureEncoding, (digest: Buffer) => string> = {
  hexLower: (digest) => digest.toString('hex'),
  hexUpper: (digest) => digest.toString('hex').toUpperCase(),
  base64: (digest) => digest.toString('base64'),
  base64Url: (digest) => digest.toString('base64url'),
};

const settings = settingsOf({ payloadBuilders: builders });

function custom(fields: WebhookInputs): WebhookInputs {
  return { webhookSignatureScheme: 'Custom', webhookSignatureHeader: HEADER, ...fields };
}

function digest(text: string, algorithm: SignatureAlgorithm = 'sha256'): Buffer {
  return createHmac(algorithm, KEY).update(text).digest();
}

/** A delivery with this signature header and other parts. */
function carrying(signature: string, parts: { headers?: Record<string, string>; body?: string } = {}) {
  return deliveryOf({
    requestUrl: URL_SIGNED,
    body: parts.body ?? BODY,
    headers: { [HEADER]: signature, 'content-type': 'application/json', ...parts.headers },
  });
}

function verdictOn(fields: WebhookInputs, delivery: ReturnType<typeof carrying>) {
  return judge({ inputs: custom(fields), key: KEY, settings }, delivery);
}

const hex = (text: string) => digest(text).toString('hex');

describe.each(Object.keys(STRATEGIES) as SignedPayloadStrategy[])('strategy %s', (strategy) => {
  const { fields, text, form } = STRATEGIES[strategy];
  const contentType = form === undefined ? 'application/json' : 'application/x-www-form-urlencoded';
  const body = form ?? BODY;
  const headers = { 'X-Time': '1700000000', 'content-type': contentType };
  const inputs = { ...fields, webhookSignedPayloadStrategy: strategy };

  it('signs the documented bytes', async () => {
    expect(await verdictOn(inputs, carrying(hex(text), { headers, body }))).toMatchObject({ passed: true });
    expect(await verdictOn(inputs, carrying(hex(`${text} `), { headers, body }))).toMatchObject({
      reason: 'signature_mismatch',
    });
  });

  for (const algorithm of ['sha1', 'sha256', 'sha384', 'sha512'] as const) {
    it.each(Object.keys(DIGESTS) as SignatureEncoding[])(
      `verifies ${algorithm} in %s, and signs the same`,
      async (encoding) => {
        const all = custom({ ...inputs, webhookSignatureAlgorithm: algorithm, webhookSignatureEncoding: encoding });
        const signature = DIGESTS[encoding](digest(text, algorithm));
        const verdict = await judge({ inputs: all, key: KEY, settings }, carrying(signature, { headers, body }));
        expect(verdict).toMatchObject({ passed: true, evidence: { scheme: 'Custom' } });

        const signed = signDelivery({
          spec: customSpec(all, settings.schemes.payloadBuilders),
          key: KEY,
          body: Buffer.from(body),
          url: URL_SIGNED,
          timestampMs: NOW,
          deliveryId: 'id',
          contentType,
        });
        expect(await judge({ inputs: all, key: KEY, settings }, received(signed))).toMatchObject({ passed: true });
        if (strategy !== 'TimestampPlusToken') expect(signed.headers[HEADER]).toBe(signature);
        const tampered = {
          ...signed,
          headers: { ...signed.headers, [HEADER]: DIGESTS[encoding](digest('x', algorithm)) },
        };
        expect(await judge({ inputs: all, key: KEY, settings }, received(tampered))).toMatchObject({
          reason: 'signature_mismatch',
        });
      },
    );
  }
});

describe('the effect of each field', () => {
  it('webhookSignatureHeader: the header is read in any case', async () => {
    expect(await verdictOn({}, carrying(hex(BODY)))).toMatchObject({ passed: true });
    const verdict = await verdictOn({ webhookSignatureHeader: 'X-Other' }, carrying(hex(BODY)));
    expect(verdict).toMatchObject({ reason: 'signature_missing', detail: 'header X-Other is absent' });
  });

  it('webhookSignatureAlgorithm: SHA-256 where none is named; SHA-1 needs the switch', async () => {
    const sha512 = digest(BODY, 'sha512').toString('hex');
    expect(await verdictOn({ webhookSignatureAlgorithm: 'sha512' }, carrying(sha512))).toMatchObject({ passed: true });
    expect(await verdictOn({}, carrying(sha512))).toMatchObject({ reason: 'signature_malformed' });
    const inputs = custom({ webhookSignatureAlgorithm: 'sha1' });
    const strict = settingsOf({}, { allowLegacySha1: false });
    const sha1 = carrying(digest(BODY, 'sha1').toString('hex'));
    expect(await judge({ inputs, key: KEY, settings: strict }, sha1)).toMatchObject({ reason: 'sha1_not_allowed' });
  });

  it('webhookSignatureEncoding: base64 does not accept hex', async () => {
    const base64 = digest(BODY).toString('base64');
    expect(await verdictOn({ webhookSignatureEncoding: 'base64' }, carrying(base64))).toMatchObject({ passed: true });
    expect(await verdictOn({}, carrying(base64))).toMatchObject({ reason: 'signature_malformed' });
  });

  it('webhookSignaturePrefix: is demanded', async () => {
    const fields = { webhookSignaturePrefix: 'sig:' };
    expect(await verdictOn(fields, carrying(`sig:${hex(BODY)}`))).toMatchObject({ passed: true });
    expect(await verdictOn(fields, carrying(hex(BODY)))).toMatchObject({ reason: 'signature_malformed' });
  });

  it('webhookHeaderValuePrefix: is demanded in front of the whole line, in any case', async () => {
    const fields = { webhookHeaderValuePrefix: 'HMAC ' };
    expect(await verdictOn(fields, carrying(`HMAC ${hex(BODY)}`))).toMatchObject({ passed: true });
    expect(await verdictOn(fields, carrying(`hmac ${hex(BODY)}`))).toMatchObject({ passed: true });
    expect(await verdictOn(fields, carrying(hex(BODY)))).toMatchObject({ reason: 'signature_malformed' });
  });

  const list = { webhookSignatureMultiValueDelimiter: ';', webhookSignatureValueKey: 's' };

  it('webhookSignatureMultiValueDelimiter and webhookSignatureValueKey: pick a segment', async () => {
    expect(await verdictOn(list, carrying(`x=1;s=${hex(BODY)};y`))).toMatchObject({ passed: true });
    expect(await verdictOn(list, carrying(`x=${hex(BODY)}`))).toMatchObject({ reason: 'signature_malformed' });
    expect(await verdictOn(list, carrying(hex(BODY)))).toMatchObject({ reason: 'signature_malformed' });
  });

  it('webhookSignatureKeyValueSeparator: separates key and value', async () => {
    const fields = { ...list, webhookSignatureKeyValueSeparator: '->' };
    expect(await verdictOn(fields, carrying(`x=1;s->${hex(BODY)}`))).toMatchObject({ passed: true });
    expect(await verdictOn(fields, carrying(`s=${hex(BODY)}`))).toMatchObject({ reason: 'signature_malformed' });
  });

  it('webhookAcceptMultipleSignatures: every matching segment is a candidate, else the first alone', async () => {
    const two = carrying(`s=${hex('other')};s=${hex(BODY)}`);
    expect(await verdictOn(list, two)).toMatchObject({ reason: 'signature_mismatch' });
    expect(await verdictOn({ ...list, webhookAcceptMultipleSignatures: true }, two)).toMatchObject({ passed: true });
  });

  it('webhookAcceptedVersions: names the accepted segment keys, others are ignored', async () => {
    const fields = { webhookSignatureMultiValueDelimiter: ',', webhookAcceptedVersions: ['v1', 'v2'] };
    expect(await verdictOn(fields, carrying(`v0=${hex(BODY)},v2=${hex(BODY)}`))).toMatchObject({ passed: true });
    expect(await verdictOn(fields, carrying(`v0=${hex(BODY)}`))).toMatchObject({ reason: 'signature_malformed' });
    const both = { ...fields, webhookSignatureValueKey: 'v2' };
    expect(await verdictOn(both, carrying(`v1=${hex(BODY)}`))).toMatchObject({ passed: true });
  });

  it('webhookSignedPayloadDelimiter: separates timestamp and body', async () => {
    const headers = { 'X-Time': '1700000000' };
    const fields = { webhookTimestampHeader: 'X-Time', webhookSignedPayloadDelimiter: '|' };
    const dot = { ...fields, webhookSignedPayloadStrategy: 'TimestampDotBody' } as const;
    expect(await verdictOn(dot, carrying(hex(`1700000000|${BODY}`), { headers }))).toMatchObject({ passed: true });
    const colon = {
      ...fields,
      webhookSignedPayloadStrategy: 'ColonDelimited',
      webhookSignedPayloadVersion: 'v0',
    } as const;
    expect(await verdictOn(colon, carrying(hex(`v0|1700000000|${BODY}`), { headers }))).toMatchObject({ passed: true });
    const none = { ...dot, webhookSignedPayloadDelimiter: '' };
    expect(await verdictOn(none, carrying(hex(`1700000000${BODY}`), { headers }))).toMatchObject({ passed: true });
  });

  it('webhookTimestampHeader and webhookTimestampValueKey: say where the signed timestamp is', async () => {
    const strategy = { webhookSignedPayloadStrategy: 'TimestampDotBody' } as const;
    const inHeader = await verdictOn(
      { ...strategy, webhookTimestampHeader: 'X-Time' },
      carrying(hex(`1700000000123.${BODY}`), { headers: { 'X-Time': '1700000000123' } }),
    );
    expect(inHeader).toMatchObject({ passed: true, evidence: { signedTimestamp: { ms: 1_700_000_000_123 } } });
    const inSegment = await verdictOn(
      { ...strategy, ...list, webhookTimestampValueKey: 't' },
      carrying(`t=1700000000;s=${hex(`1700000000.${BODY}`)}`),
    );
    expect(inSegment).toMatchObject({ passed: true, evidence: { signedTimestamp: { ms: NOW } } });
    const absent = await verdictOn({ ...strategy, webhookTimestampHeader: 'X-Time' }, carrying(hex(`1.${BODY}`)));
    expect(absent).toMatchObject({ passed: false, reason: 'timestamp_missing' });
  });

  it('webhookTimestampHeader with a strategy that does not sign it: is not a signed timestamp', async () => {
    const headers = { 'X-Time': '1' };
    const verdict = await verdictOn({ webhookTimestampHeader: 'X-Time' }, carrying(hex(BODY), { headers }));
    expect(verdict.passed).toBe(true);
    expect(verdict.evidence).not.toHaveProperty('signedTimestamp');
  });

  it('webhookRequireTimestamp: a builder’s timestamp that is absent is refused, else it may be absent', async () => {
    const text = `${BODY}|undefined|${URL_SIGNED}`;
    const fields = { ...STRATEGIES.Custom.fields, webhookSignedPayloadStrategy: 'Custom' } as const;
    expect(await verdictOn(fields, carrying(hex(text)))).toMatchObject({ passed: true });
    expect(await verdictOn({ ...fields, webhookRequireTimestamp: true }, carrying(hex(text)))).toMatchObject({
      reason: 'timestamp_missing',
    });
  });
});

describe('fields that make no sense are refused, by name', () => {
  const list = { webhookSignatureMultiValueDelimiter: ',', webhookSignatureValueKey: 'v1' };
  it.each<[string, WebhookInputs]>([
    ['webhookSignatureHeader', { webhookSignatureHeader: undefined }],
    ['webhookSignatureHeader', { webhookSignatureHeader: '' }],
    ['webhookSignatureHeader', { webhookSignatureHeader: 'X-Signature: ' }],
    ['webhookTimestampHeader', { webhookTimestampHeader: 'not a name' }],
    ['webhookSignatureMultiValueDelimiter', { ...list, webhookSignatureMultiValueDelimiter: '' }],
    ['webhookSignatureKeyValueSeparator', { ...list, webhookSignatureKeyValueSeparator: '' }],
    ['webhookSignatureKeyValueSeparator', { ...list, webhookSignatureKeyValueSeparator: ',' }],
    ['webhookSignatureKeyValueSeparator', { webhookSignatureKeyValueSeparator: '=' }],
    ['webhookSignatureValueKey', { webhookSignatureMultiValueDelimiter: ',' }],
    ['webhookSignatureValueKey', { webhookSignatureValueKey: 'v1' }],
    ['webhookAcceptedVersions', { webhookAcceptedVersions: ['v1'] }],
    ['webhookAcceptedVersions', { ...list, webhookAcceptedVersions: [] }],
    ['webhookAcceptedVersions', { ...list, webhookAcceptedVersions: ['v2'] }],
    ['webhookAcceptMultipleSignatures', { webhookAcceptMultipleSignatures: true }],
    ['webhookTimestampValueKey', { webhookTimestampValueKey: 't', webhookSignedPayloadStrategy: 'TimestampDotBody' }],
    [
      'webhookTimestampValueKey',
      { ...list, webhookTimestampValueKey: 'v1', webhookSignedPayloadStrategy: 'TimestampDotBody' },
    ],
    [
      'webhookTimestampValueKey',
      {
        ...list,
        webhookTimestampValueKey: 't',
        webhookTimestampHeader: 'X-Time',
        webhookSignedPayloadStrategy: 'TimestampDotBody',
      },
    ],
    ['webhookTimestampHeader', { webhookSignedPayloadStrategy: 'TimestampDotBody' }],
    ['webhookTimestampHeader', { webhookSignedPayloadStrategy: 'ColonDelimited', webhookSignedPayloadVersion: 'v0' }],
    [
      'webhookSignedPayloadVersion',
      { webhookSignedPayloadStrategy: 'ColonDelimited', webhookTimestampHeader: 'X-Time' },
    ],
    ['webhookSignedPayloadVersion', { webhookSignedPayloadVersion: 'v0' }],
    ['webhookSignedPayloadDelimiter', { webhookSignedPayloadDelimiter: '.' }],
    ['webhookCustomStrategyName', { webhookSignedPayloadStrategy: 'Custom' }],
    ['webhookCustomStrategyName', { webhookSignedPayloadStrategy: 'Custom', webhookCustomStrategyName: 'unheard of' }],
    ['webhookCustomStrategyName', { webhookCustomStrategyName: 'bodyThenTimestamp' }],
    ['webhookPublicUrl', { webhookPublicUrl: '/in' }],
  ])('%s in %j', async (field, fields) => {
    const error = await verdictOn(fields, carrying('')).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(GateConfigurationError);
    expect(error).toMatchObject({ field });
  });
});
