import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign as signWith } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { customSpec } from '../../../src/webhooks/schemes/custom.ts';
import { coverageOf, gradeOf, isInPlace } from '../../../src/webhooks/schemes/layout.ts';
import { NotationError, parseForm, parseSigned } from '../../../src/webhooks/schemes/notation.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { part } from '../../../src/webhooks/schemes/spec.ts';
import { deliveryOf, judge, NOW, received } from './fixtures.ts';

const KEY = 'a key of more than sixteen bytes';
const BODY = '{"event":"post.published","data":{"id":"7"}}';
const URL_SIGNED = 'https://hooks.example.com/in/here?order=a%20b&x=1';
const SECONDS = '1700000000';

const custom = (fields: WebhookInputs): WebhookInputs => ({
  webhookSignatureScheme: 'Custom',
  webhookSignatureHeader: 'X-Sig',
  webhookHmacKey: 'env:KEY',
  ...fields,
});
const hex = (text: string, key: string | Buffer = KEY) => createHmac('sha256', key).update(text).digest('hex');

function delivery(headers: Record<string, string>, parts: { body?: string; url?: string } = {}) {
  const url = new URL(parts.url ?? URL_SIGNED);
  return deliveryOf({
    path: `${url.pathname}${url.search}`,
    requestUrl: parts.url ?? URL_SIGNED,
    body: parts.body ?? BODY,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

function verdict(fields: WebhookInputs, sent: ReturnType<typeof delivery>, key = KEY) {
  return judge({ inputs: custom(fields), key }, sent);
}

describe('what is signed, as text', () => {
  it.each([
    ['{body}', [part.body]],
    ['v0:{timestamp}:{body}', ['v0:', part.timestamp, ':', part.body]],
    ['{id}.{timestamp}.{body}', [part.deliveryId, '.', part.timestamp, '.', part.body]],
    ['{{{body}}}', ['{', part.body, '}']],
    ['{header:X-Ts}\n{query:a:b}', [part.header('x-ts'), '\n', part.query('a:b')]],
    ['{method}{url}{path}{sha256:body}', [part.method, part.url, part.path, part.bodyHash]],
  ])('%s', (text, parts) => {
    expect(parseSigned(text)).toEqual(parts);
  });

  it.each(['{bod}', '{Body}', '{body', 'body}', '{header:}', '{header:a b}', '{sha256:url}', '{}', '{toString}'])(
    'refuses %s',
    (text) => {
      expect(() => parseSigned(text)).toThrow(NotationError);
    },
  );
});

describe('the form of a header, as text', () => {
  const list = (delimiter: string, keyValueSeparator: string | undefined, valueKeys: string[], rest: object = {}) => ({
    prefix: undefined,
    headerValuePrefix: undefined,
    multiValue: { delimiter, keyValueSeparator, valueKeys, acceptsMultiple: false, isTrimmed: false, ...rest },
    timestampKey: undefined,
  });
  const single = { prefix: undefined, headerValuePrefix: undefined, multiValue: undefined, timestampKey: undefined };
  const many = { acceptsMultiple: true };

  it.each([
    ['{signature}', single],
    ['sha256={signature}', { ...single, prefix: 'sha256=' }],
    ['HMAC {signature}', { ...single, headerValuePrefix: 'HMAC ' }],
    ['t={timestamp},v1={signature}', { ...list(',', '=', ['v1']), timestampKey: 't' }],
    ['ts={timestamp};h1={signature};...', { ...list(';', '=', ['h1'], many), timestampKey: 'ts' }],
    ['v1,{signature} ...', list(' ', ',', ['v1'], many)],
    ['v1={signature},...', list(',', '=', ['v1'], many)],
    ['sha256={signature}, t={timestamp}', { ...list(', ', '=', ['sha256'], { isTrimmed: true }), timestampKey: 't' }],
    ['{timestamp},{signature}', { ...list(',', undefined, ['1']), timestampKey: '0' }],
    ['{*}|{signature}', list('|', undefined, ['1'])],
    ['{signature},...', list(',', undefined, ['0'], many)],
    ['{*}|{signature}&...', list('|', undefined, ['1'], { ...many, setDelimiter: '&' })],
    [
      't={timestamp},v1={signature} ...',
      { ...list(',', '=', ['v1'], { ...many, setDelimiter: ' ' }), timestampKey: 't' },
    ],
    ['v1={signature},v2={signature}', list(',', '=', ['v1', 'v2'], many)],
    [
      'Signature t={timestamp},v1={signature}',
      { ...list(',', '=', ['v1']), headerValuePrefix: 'Signature ', timestampKey: 't' },
    ],
  ])('%s', (text, form) => {
    expect(parseForm(text)).toEqual(form);
  });

  it.each([
    'sha256',
    '{digest}',
    '{signature}=',
    't={timestamp}v1={signature}',
    't={timestamp},v1={signature};v2={signature}',
    't={timestamp},{signature}',
    't={timestamp},t2={timestamp},v1={signature}',
    '{signature},{timestamp},...',
    't={timestamp},v1={signature}...',
    'v1={signature}, and more',
  ])('refuses %s', (text) => {
    expect(() => parseForm(text)).toThrow(NotationError);
  });
});

/** Fields, the headers of a right delivery, and the same headers with an error. */
const FORMS: Record<string, { fields: WebhookInputs; headers: Record<string, string>; wrong: Record<string, string> }> =
  {
    'Ghost: spaces around segments, the body and then milliseconds': {
      fields: {
        webhookSignatureForm: 'sha256={signature}, t={timestamp}',
        webhookSignedPayload: '{body}{timestamp}',
        webhookTimestampUnit: 'milliseconds',
      },
      headers: { 'X-Sig': `sha256=${hex(`${BODY}1700000000123`)}, t=1700000000123` },
      wrong: { 'X-Sig': `sha256=${hex(`${BODY}1700000000123`)}, t=1700000000124` },
    },
    'the same by the older fields': {
      fields: {
        webhookSignatureMultiValueDelimiter: ',',
        webhookSignatureValueKey: 'sha256',
        webhookTimestampValueKey: 't',
        webhookSignedPayload: '{body}{timestamp}',
      },
      headers: { 'X-Sig': `sha256=${hex(`${BODY}1700000000123`)}, t=1700000000123` },
      wrong: { 'X-Sig': `sha256=${hex(`${BODY}1700000000124`)}, t=1700000000123` },
    },
    'a list without keys': {
      fields: { webhookSignatureForm: '{signature},...' },
      headers: { 'X-Sig': `${hex('other')},${hex(BODY)}` },
      wrong: { 'X-Sig': `${hex('other')},${hex('another')}` },
    },
    'lists behind one another': {
      fields: { webhookSignatureForm: 't={timestamp},v1={signature} ...', webhookSignedPayload: '{timestamp}.{body}' },
      headers: { 'X-Sig': `t=${SECONDS},v1=${hex('other')} t=${SECONDS},v1=${hex(`${SECONDS}.${BODY}`)}` },
      wrong: { 'X-Sig': `t=${SECONDS},v1=${hex('other')} t=1,v1=${hex(`${SECONDS}.${BODY}`)}` },
    },
    'a list by places': {
      fields: { webhookSignatureForm: '{timestamp},{signature}', webhookSignedPayload: '{timestamp}{body}' },
      headers: { 'X-Sig': `${SECONDS},${hex(`${SECONDS}${BODY}`)}` },
      wrong: { 'X-Sig': `${hex(`${SECONDS}${BODY}`)},${SECONDS}` },
    },
    'several headers, any of which may match': {
      fields: { webhookSignatureHeader: ['X-Sig', 'X-Sig-2', 'X-Sig-3'] },
      headers: { 'X-Sig': hex('other'), 'X-Sig-3': hex(BODY) },
      wrong: { 'X-Sig': hex('other'), 'X-Sig-4': hex(BODY) },
    },
    'a header and the body': {
      fields: { webhookSignedPayload: '{header:X-Ts}.{body}' },
      headers: { 'X-Ts': 'at noon', 'X-Sig': hex(`at noon.${BODY}`) },
      wrong: { 'X-Ts': 'at night', 'X-Sig': hex(`at noon.${BODY}`) },
    },
    'parameters of the query and a header': {
      fields: {
        webhookSignedPayload: 'id:{query:order};request:{header:x-request};ts:{timestamp};',
        webhookTimestampHeader: 'X-Ts',
      },
      headers: { 'X-Ts': SECONDS, 'X-Request': 'r', 'X-Sig': hex(`id:a b;request:r;ts:${SECONDS};`) },
      wrong: { 'X-Ts': SECONDS, 'X-Request': 'r', 'X-Sig': hex(`id:a%20b;request:r;ts:${SECONDS};`) },
    },
    'method, path and the hash of the body': {
      fields: { webhookSignedPayload: '{method}\n{path}\n{sha256:body}' },
      headers: { 'X-Sig': hex(`POST\n/in/here\n${createHash('sha256').update(BODY).digest('hex')}`) },
      wrong: { 'X-Sig': hex(`POST\n/in/here?order=a%20b&x=1\n${createHash('sha256').update(BODY).digest('hex')}`) },
    },
    'members of the body': {
      fields: { webhookSignedPayload: '{field:event}|{field:data.id}' },
      headers: { 'X-Sig': hex('post.published|7') },
      wrong: { 'X-Sig': hex('post.published|8') },
    },
    'id, time of RFC 3339 and the body': {
      fields: {
        webhookSignedPayload: '{id}.{timestamp}.{body}',
        webhookDeliveryIdHeader: 'X-Id',
        webhookTimestampHeader: 'X-Ts',
        webhookTimestampUnit: 'rfc3339',
      },
      headers: { 'X-Id': 'i1', 'X-Ts': '2023-11-14T22:13:20Z', 'X-Sig': hex(`i1.2023-11-14T22:13:20Z.${BODY}`) },
      wrong: { 'X-Id': 'i1', 'X-Ts': '2023-11-14T22:13:20', 'X-Sig': hex(`i1.2023-11-14T22:13:20.${BODY}`) },
    },
    'a literal brace': {
      fields: { webhookSignedPayload: '{{{body}}}' },
      headers: { 'X-Sig': hex(`{${BODY}}`) },
      wrong: { 'X-Sig': hex(BODY) },
    },
  };

describe.each(Object.entries(FORMS))('%s', (_name, { fields, headers, wrong }) => {
  it('verifies what was signed so, and nothing else', async () => {
    expect(await verdict(fields, delivery(headers))).toMatchObject({ passed: true });
    expect(await verdict(fields, delivery(wrong))).toMatchObject({ passed: false });
    if (!/field:|order/.test(fields.webhookSignedPayload ?? '')) {
      expect(await verdict(fields, delivery(headers, { body: `${BODY} ` }))).toMatchObject({ passed: false });
    }
  });

  it('is signed by `sluice send` as it is verified', async () => {
    const spec = customSpec(custom(fields), new Map());
    const request = { spec, key: KEY, body: Buffer.from(BODY), url: URL_SIGNED, timestampMs: NOW, deliveryId: 'i' };
    const signed = signDelivery({ ...request, contentType: 'application/json' });
    expect(await verdict(fields, received(signed))).toMatchObject({ passed: true });
  });
});

it('knows the time of a body that is signed, and that of a member that is', async () => {
  const body = JSON.stringify({ sent: { at: 1_700_000_000_123 } });
  const fields: WebhookInputs = { webhookTimestampField: 'sent.at', webhookTimestampUnit: 'milliseconds' };
  const time = { passed: true, evidence: { signedTimestamp: { ms: 1_700_000_000_123 } } };
  expect(await verdict(fields, delivery({ 'X-Sig': hex(body) }, { body }))).toMatchObject(time);
  const member = { ...fields, webhookSignedPayload: '{field:sent.at}.{body}' };
  expect(await verdict(member, delivery({ 'X-Sig': hex(`1700000000123.${body}`) }, { body }))).toMatchObject(time);
});

it('reads that time whatever the unsigned content type says, and refuses a body without it', async () => {
  const fields: WebhookInputs = { webhookTimestampField: 'ts', webhookTimestampUnit: 'seconds' };
  const body = '{"ts":1700000000,"pay":1}';
  for (const type of ['application/json', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=b']) {
    const sent = delivery({ 'X-Sig': hex(body), 'Content-Type': type }, { body });
    expect(await verdict(fields, sent), type).toMatchObject({
      passed: true,
      evidence: { signedTimestamp: { ms: 1_700_000_000_000 } },
    });
  }
  const none = '{"pay":1}';
  expect(await verdict(fields, delivery({ 'X-Sig': hex(none) }, { body: none }))).toMatchObject({
    reason: 'timestamp_missing',
  });
});

describe('what is signed and is not there', () => {
  it.each<[string, WebhookInputs, object, string]>([
    ['header', { webhookSignedPayload: '{header:x-ts}.{body}' }, {}, 'signature_malformed'],
    ['header that is empty', { webhookSignedPayload: '{header:x-ts}.{body}' }, { 'X-Ts': '' }, 'signature_malformed'],
    ['parameter', { webhookSignedPayload: '{query:none}.{body}' }, {}, 'signature_malformed'],
    ['member', { webhookSignedPayload: '{field:none}.{body}' }, {}, 'signature_malformed'],
    ['id', { webhookSignedPayload: '{id}.{body}', webhookDeliveryIdHeader: 'X-Id' }, {}, 'signature_malformed'],
    [
      'timestamp',
      { webhookSignedPayload: '{header:x-ts}.{body}', webhookTimestampHeader: 'X-Ts' },
      {},
      'timestamp_missing',
    ],
  ])('%s', async (_what, fields, headers, reason) => {
    expect(await verdict(fields, delivery({ ...headers, 'X-Sig': hex(`.${BODY}`) }))).toMatchObject({ reason });
  });

  it('refuses a parameter that is there twice', async () => {
    const fields = { webhookSignedPayload: '{query:a}.{body}' };
    const sent = delivery({ 'X-Sig': hex(`1.${BODY}`) }, { url: 'https://hooks.example.com/in?a=1&a=2' });
    expect(await verdict(fields, sent)).toMatchObject({ reason: 'signature_malformed' });
  });
});

describe('signatures of one delivery', () => {
  const fields: WebhookInputs = {
    webhookSignatureHeader: ['X-Sig', 'X-Sig-2'],
    webhookSignatureForm: 't={timestamp},v1={signature} ...',
    webhookSignedPayload: '{timestamp}.{body}',
  };
  const at = (time: number, key = KEY) => `t=${time},v1=${hex(`${time}.${BODY}`, key)}`;
  const other = 'another key of more than sixteen bytes';

  it.each<[string, Record<string, string>]>([
    ['one header', { 'X-Sig': `${at(1_700_000_000)} ${at(1_700_000_001, other)}` }],
    ['two headers', { 'X-Sig': at(1_700_000_000), 'X-Sig-2': at(1_700_000_001, other) }],
  ])('are refused in %s if they are of different times: each alone would be a delivery', async (_, headers) => {
    for (const key of [KEY, other]) {
      expect(await verdict(fields, delivery(headers), key)).toMatchObject({ reason: 'signature_malformed' });
    }
  });

  it('may be in several headers, each with its time', async () => {
    const sent = delivery({ 'X-Sig': at(1_700_000_000, other), 'X-Sig-2': at(1_700_000_000) });
    expect(await verdict({ ...fields, webhookSignatureForm: 't={timestamp},v1={signature}' }, sent)).toMatchObject({
      passed: true,
    });
  });
});

describe('boundaries of a header that is signed', () => {
  const text = (webhookSignedPayload: string) => customSpec(custom({ webhookSignedPayload }), new Map());

  it('refuses a value that holds what marks its end', async () => {
    const fields = { webhookSignedPayload: '{header:x-a}.{body}' };
    const moved = delivery({ 'X-A': 'a.b', 'X-Sig': hex(`a.b.${BODY}`) });
    expect(await verdict(fields, moved)).toMatchObject({ reason: 'signature_malformed' });
  });

  it('lowers the grade where nothing marks it', () => {
    expect(gradeOf(text('{header:x-a}.{body}'))).toBe('D');
    expect(gradeOf(text('{header:x-a}{body}'))).toBe('E');
    expect(coverageOf(text('{header:x-a}{body}'))).toMatchObject({ body: false });
    expect(gradeOf(text('{body}{sha256:body}'))).toBe('D');
    expect(gradeOf(text('{method}{sha256:body}'))).toBe('D');
  });

  it('knows where a time ends that is written in seconds or milliseconds, and says so', async () => {
    const ghost = {
      webhookSignatureForm: 'sha256={signature}, t={timestamp}',
      webhookSignedPayload: '{body}{timestamp}',
    };
    const inMs = { ...ghost, webhookTimestampUnit: 'milliseconds' } as const;
    expect([ghost, inMs].map((fields) => gradeOf(customSpec(custom(fields), new Map())))).toEqual(['D', 'B']);
    const moved = delivery({ 'X-Sig': `sha256=${hex('{"n":11700000000123')}, t=11700000000123` }, { body: '{"n":' });
    expect(await verdict(inMs, moved)).toMatchObject({ reason: 'timestamp_malformed' });
  });

  it('takes a header for the timestamp or the id that it is', () => {
    const spec = customSpec(
      custom({
        webhookSignedPayload: '{header:x-id}.{header:X-Ts}.{body}',
        webhookTimestampHeader: 'x-ts',
        webhookDeliveryIdHeader: 'X-Id',
      }),
      new Map(),
    );
    expect(gradeOf(spec)).toBe('A');
    expect(isInPlace(spec, 'deliveryId')).toBe(true);
  });
});

describe('the key', () => {
  const bytes = Buffer.alloc(32, 7);
  it.each([
    ['hex', bytes.toString('hex')],
    ['base64', bytes.toString('base64')],
    ['whsec', `whsec_${bytes.toString('base64')}`],
    ['whsec', `v1,whsec_${bytes.toString('base64')}`],
    ['whsec', bytes.toString('base64')],
  ] as const)('in %s is decoded', async (webhookKeyEncoding, key) => {
    const sent = delivery({ 'X-Sig': hex(BODY, bytes) });
    expect(await verdict({ webhookKeyEncoding }, sent, key)).toMatchObject({ passed: true });
    expect(await verdict({}, sent, key)).toMatchObject({ reason: 'signature_mismatch' });
    const error = await verdict({ webhookKeyEncoding }, sent, 'no such text!').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ field: 'webhookHmacKey' });
  });
});

const PAIRS = {
  ed25519: { pair: generateKeyPairSync('ed25519'), hash: null },
  'rsa-sha256': { pair: generateKeyPairSync('rsa', { modulusLength: 2048 }), hash: 'sha256' },
  'ecdsa-sha256': { pair: generateKeyPairSync('ec', { namedCurve: 'P-256' }), hash: 'sha256' },
} as const;
const ALGORITHMS = Object.keys(PAIRS) as (keyof typeof PAIRS)[];

const FORMS_OF_KEY: Record<string, (key: KeyObject) => string> = {
  PEM: (key) => key.export({ type: key.type === 'public' ? 'spki' : 'pkcs8', format: 'pem' }).toString(),
  'PEM in one line': (key) => FORMS_OF_KEY.PEM?.(key).replaceAll('\n', '\\n') ?? '',
  JWK: (key) => JSON.stringify(key.export({ format: 'jwk' })),
  DER: (key) => key.export({ type: key.type === 'public' ? 'spki' : 'pkcs8', format: 'der' }).toString('base64'),
};

describe.each(ALGORITHMS)('%s', (webhookSignatureAlgorithm) => {
  const { pair, hash } = PAIRS[webhookSignatureAlgorithm];
  const fields: WebhookInputs = { webhookSignatureAlgorithm, webhookSignatureEncoding: 'base64' };
  const signature = (text: string) => signWith(hash, Buffer.from(text), pair.privateKey).toString('base64');

  it.each(Object.entries(FORMS_OF_KEY))('verifies with the public key as %s', async (_form, write) => {
    const key = write(pair.publicKey);
    expect(await verdict(fields, delivery({ 'X-Sig': signature(BODY) }), key)).toMatchObject({ passed: true });
    const other = delivery({ 'X-Sig': signature(`${BODY} `) });
    expect(await verdict(fields, other, key)).toMatchObject({ reason: 'signature_mismatch' });
    // A public key is not secret: knowing it must not be enough to sign.
    const hmac = delivery({ 'X-Sig': createHmac('sha256', key).update(BODY).digest('base64') });
    expect(await verdict(fields, hmac, key)).toMatchObject({ passed: false });
  });

  it.each(Object.entries(FORMS_OF_KEY))('refuses the private key as %s', async (_form, write) => {
    const error = await verdict(fields, delivery({}), write(pair.privateKey)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(GateConfigurationError);
    expect(error).toMatchObject({ field: 'webhookHmacKey' });
  });

  it('refuses a key of another kind', async () => {
    for (const other of ALGORITHMS.filter((name) => name !== webhookSignatureAlgorithm)) {
      const key = FORMS_OF_KEY.JWK?.(PAIRS[other].pair.publicKey) ?? '';
      await expect(verdict(fields, delivery({}), key)).rejects.toThrow(GateConfigurationError);
    }
    await expect(verdict(fields, delivery({}), 'no key at all')).rejects.toThrow(GateConfigurationError);
    await expect(verdict(fields, delivery({}), '{"kty":"oct","k":"AAAA"}')).rejects.toThrow(GateConfigurationError);
  });
});

it('refuses an Ed25519 key of small order in every form', async () => {
  const x = Buffer.alloc(32);
  x[0] = 1;
  const jwk = JSON.stringify({ kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url') });
  for (const key of [jwk, x.toString('hex'), x.toString('base64')]) {
    const verdictOnKey = verdict({ webhookSignatureAlgorithm: 'ed25519' }, delivery({}), key);
    await expect(verdictOnKey).rejects.toThrow(/small order/);
  }
});

describe('fields that say two things are refused, by name', () => {
  const time = { webhookTimestampHeader: 'X-Ts' };
  it.each<[string, WebhookInputs]>([
    ['webhookSignedPayload', { webhookSignedPayload: 'nothing of it' }],
    ['webhookSignedPayload', { webhookSignedPayload: '{bod}' }],
    ['webhookSignedPayload', { webhookSignedPayload: '{body}{body}' }],
    ['webhookSignedPayload', { webhookSignedPayload: '{id}{body}' }],
    ['webhookSignedPayload', { webhookSignedPayload: '{url}{form}' }],
    ['webhookTimestampHeader', { webhookSignedPayload: '{timestamp}{body}' }],
    ['webhookSignedPayloadStrategy', { webhookSignedPayload: '{body}', webhookSignedPayloadStrategy: 'RawBody' }],
    ['webhookSignedPayloadDelimiter', { ...time, webhookSignedPayload: '{body}', webhookSignedPayloadDelimiter: '.' }],
    ['webhookSignedPayloadVersion', { webhookSignedPayload: '{body}', webhookSignedPayloadVersion: 'v0' }],
    ['webhookCustomStrategyName', { webhookSignedPayload: '{body}', webhookCustomStrategyName: 'own' }],
    ['webhookSignatureForm', { webhookSignatureForm: 'v1=' }],
    ['webhookSignatureForm', { webhookSignatureForm: 't={timestamp},v1={signature}' }],
    ['webhookSignaturePrefix', { webhookSignatureForm: '{signature}', webhookSignaturePrefix: 'v1=' }],
    ['webhookHeaderValuePrefix', { webhookSignatureForm: '{signature}', webhookHeaderValuePrefix: 'HMAC ' }],
    ['webhookSignatureValueKey', { webhookSignatureForm: 'v1={signature},...', webhookSignatureValueKey: 'v1' }],
    [
      'webhookTimestampHeader',
      { ...time, webhookSignatureForm: 't={timestamp},v1={signature}', webhookSignedPayload: '{timestamp}{body}' },
    ],
    ['webhookTimestampHeader', { ...time, webhookTimestampField: 'at' }],
    ['webhookTimestampField', { webhookTimestampField: 'at', webhookSignedPayload: '{field:id}' }],
    ['webhookSignatureHeader', { webhookSignatureHeader: ['X-Sig', 'no name'] }],
    ['webhookDeliveryIdHeader', { webhookDeliveryIdHeader: 'no name' }],
  ])('%s in %j', async (field, fields) => {
    const error = await verdict(fields, delivery({})).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(GateConfigurationError);
    expect(error).toMatchObject({ field });
  });
});
