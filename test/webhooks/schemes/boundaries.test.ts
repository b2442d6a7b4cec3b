import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { replayGate } from '../../../src/webhooks/gates/replay.ts';
import { calledUrl } from '../../../src/webhooks/gates/signature.ts';
import { customSpec } from '../../../src/webhooks/schemes/custom.ts';
import { hasPart, layoutOf, type SignedText } from '../../../src/webhooks/schemes/layout.ts';
import { parseSigned } from '../../../src/webhooks/schemes/notation.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import { signedPayload } from '../../../src/webhooks/schemes/signed-payload.ts';
import {
  type DeliveryPart,
  type Part,
  type PayloadBuilder,
  part,
  type SignatureSpec,
} from '../../../src/webhooks/schemes/spec.ts';
import { bodyReader, readTimestamp } from '../../../src/webhooks/schemes/values.ts';
import { builtIn, deliveryOf, judge, NOW, settingsOf, signsMembers, triggerOf } from './fixtures.ts';

/** The parts of a delivery that give some signed bytes. */
interface Reading {
  readonly id: string;
  readonly timestamp: string;
  readonly token: string;
  readonly body: string;
  /** With its query. */
  readonly url: string;
  /** Values of a signed header and of a signed query parameter. */
  readonly header: string;
  readonly query: string;
}

const BUILDERS: Record<string, PayloadBuilder> = {
  timestampFirst: ({ delivery, timestamp }) => Buffer.concat([Buffer.from(timestamp ?? ''), delivery.body]),
  timestampLast: ({ delivery, timestamp }) => Buffer.concat([delivery.body, Buffer.from(timestamp ?? '')]),
};

const SECONDS = { in: 'header', unit: 'seconds' } as const;
const TEN_DIGITS = { ...SECONDS, length: 10 } as const;
const RFC_3339 = { in: 'header', unit: 'rfc3339' } as const;
const OFFSET = { in: 'header', unit: 'rfc3339Offset' } as const;

function custom(inputs: WebhookInputs): SignedText {
  const all = { webhookSignatureHeader: 'X-Sig', webhookTimestampHeader: 'X-Time', ...inputs };
  return customSpec(all, new Map(Object.entries(BUILDERS)));
}

const token = (length?: number) => part.token({ path: ['token'], length });
const DELIMITERS = ['.', ':', '|', '..', '-', '1', '00', '0.0', '§', ''];
const TEXTS: SignedText[] = [
  ...BUILT_IN_SCHEMES.flatMap((spec) => [spec, spec.keyForm?.spec ?? spec, spec.requestForm ?? spec])
    .filter((spec, at, all) => all.indexOf(spec) === at && spec.signs.length > 0)
    // test/publishers/signed-lists.test.ts attacks lists of headers and parts of the URL.
    .filter(({ signs }) => !hasPart(signs, 'url', 'checksum', 'headers', 'target') && !signsMembers(signs)),
  custom({ webhookSignedPayloadStrategy: 'TimestampPlusToken' }),
  ...Object.keys(BUILDERS).map((name) =>
    custom({ webhookSignedPayloadStrategy: 'Custom', webhookCustomStrategyName: name }),
  ),
  ...DELIMITERS.flatMap((webhookSignedPayloadDelimiter) => [
    custom({ webhookSignedPayloadStrategy: 'TimestampDotBody', webhookSignedPayloadDelimiter }),
    custom({
      webhookSignedPayloadStrategy: 'ColonDelimited',
      webhookSignedPayloadVersion: 'v1',
      webhookSignedPayloadDelimiter,
    }),
  ]),
  ...['.', '..', '.1.', ':', 'T', '§'].map((gap) => ({
    signs: [part.deliveryId, gap, part.timestamp, gap, part.body],
    timestamp: SECONDS,
  })),
  ...[RFC_3339, OFFSET].flatMap((timestamp) =>
    ['.', ':', '20', ''].map((gap) => ({
      signs: [part.deliveryId, gap, part.timestamp, gap, part.body],
      timestamp,
    })),
  ),
  { signs: [part.timestamp, part.body], timestamp: { ...SECONDS, length: 13 } },
  { signs: [part.body, ':', part.timestamp], timestamp: SECONDS },
  { signs: [part.body, part.timestamp, '-', part.deliveryId], timestamp: TEN_DIGITS },
  { signs: [part.body, '..', token()] },
  { signs: [part.body, part.url] },
  { signs: [part.deliveryId, part.url] },
  ...['{header:x-h}.{body}', '{body}|{header:x-h}', '{query:q}:{header:x-h}:{body}', '{method}{header:x-h}'].map(
    (text) => ({
      signs: parseSigned(text),
    }),
  ),
  ...['{timestamp}.{header:x-h}.{body}', '{id}.{header:x-h}.{query:q}.{timestamp}.{body}'].map((text) => ({
    signs: parseSigned(text),
    timestamp: SECONDS,
  })),
];

const nameOf = ({ signs, timestamp }: SignedText) =>
  `${signs.map((it) => (typeof it === 'string' ? it : `{${it.part}}`)).join('')} ${timestamp?.unit ?? ''} ${timestamp?.length ?? ''}`;

const PIECES = [
  ...['a', 'e7', '0', '1', '17', '1700000000', '1700000000123', '.', ':', '|', '-', '§', 'T', 'Z', '{', '"', 'v1'],
  ...['2026-11-21T12:00:00Z', '2026-11-21T12:00:00.123456789Z', '2026-11-21T12:00:00-07:00', '+01:00'],
];
const texts = fc.array(fc.constantFrom(...PIECES), { maxLength: 4 }).map((pieces) => pieces.join(''));
const times = fc.constantFrom(
  '1700000000',
  '170000000',
  '1700000000123',
  '2026-11-21T12:00:00Z',
  '2026-11-21T12:00:00.5Z',
  '2026-11-21T12:00:00+01:00',
  '2026-11-21T12:00:00.25-07:00',
);
const urls = fc
  .array(fc.constantFrom('?', '&', 'a=1', '=https://', '.'), { maxLength: 3 })
  .map((pieces) => `https://a.example/in${pieces.length === 0 ? '' : `?${pieces.join('')}`}`);
const tokens = texts.map((text) => text.replaceAll('§', 's'));
const readingsToTry = fc.record({
  id: texts,
  timestamp: times,
  token: tokens,
  body: texts,
  url: urls,
  header: texts,
  query: tokens,
});
const URL_FORM = /^https:\/\/a\.example\/in(?:\?[ -~]*)?$/;

/** The signed bytes; undefined if the verifier would refuse such a delivery. */
function bytesOf(
  text: SignedText,
  { id, timestamp, token: value, body, url, header, query }: Reading,
): string | undefined {
  const { timestamp: source } = text;
  if (source !== undefined && !Number.isFinite(readTimestamp(timestamp, source).ms)) return undefined;
  if (!URL_FORM.test(url)) return undefined;
  const namesOf = (kind: 'header' | 'query') =>
    text.signs.flatMap((it) => (typeof it !== 'string' && it.part === kind ? [it.name] : []));
  const parameters = new URLSearchParams(Object.fromEntries(namesOf('query').map((name) => [name, query])));
  const payload = signedPayload(text, {
    delivery: deliveryOf({
      body: Buffer.from(body, 'latin1'),
      headers: Object.fromEntries(namesOf('header').map((name) => [name, header])),
    }),
    publicUrl: hasPart(text.signs, 'query') ? `https://a.example/in?${parameters}` : url,
    sentQuery: url.slice('https://a.example/in'.length),
    timestamp,
    deliveryId: id,
    readField: () => value,
  });
  return payload.isComplete ? Buffer.concat([...(payload.variants[0] ?? [])]).toString('latin1') : undefined;
}

const KEY_OF_PART: Partial<Record<string, keyof Reading>> = {
  deliveryId: 'id',
  timestamp: 'timestamp',
  field: 'token',
  body: 'body',
  url: 'url',
  header: 'header',
  query: 'query',
};

/** Every way to cut the bytes into the parts again, with parts of any length. */
function* cuts(signs: readonly Part[], bytes: string, reading: Reading): Generator<Reading> {
  const [first, ...rest] = signs;
  if (first === undefined) {
    if (bytes === '') yield reading;
    return;
  }
  if (typeof first === 'string') {
    const literal = Buffer.from(first).toString('latin1');
    if (bytes.startsWith(literal)) yield* cuts(rest, bytes.slice(literal.length), reading);
    return;
  }
  // Here only a builder's name says how it orders its parts.
  if (first.part === 'built') {
    const isLast = first.name === 'timestampLast';
    yield* cuts(isLast ? [part.body, part.timestamp] : [part.timestamp, part.body], bytes, reading);
    return;
  }
  const key = KEY_OF_PART[first.part];
  const fixed = first.part === 'method' ? 'POST' : undefined;
  for (let end = 0; end <= bytes.length; end++) {
    const value = bytes.slice(0, end);
    if (fixed !== undefined && value !== fixed) continue;
    yield* cuts(rest, bytes.slice(end), key === undefined ? reading : { ...reading, [key]: value });
  }
}

/** The different deliveries that have these signed bytes. */
function readings(text: SignedText, bytes: string): Set<string> {
  const none: Reading = {
    id: 'i',
    timestamp: exampleTime(text),
    token: 't',
    body: '',
    url: 'https://a.example/in',
    header: 'h',
    query: 'q',
  };
  const fitting = [...cuts(text.signs, bytes, none)].filter((reading) => bytesOf(text, reading) === bytes);
  return new Set(fitting.map((reading) => JSON.stringify(reading)));
}

function exampleTime({ timestamp }: SignedText): string {
  if (timestamp?.unit === 'rfc3339' || timestamp?.unit === 'rfc3339Offset') return '2026-11-21T12:00:00Z';
  return timestamp?.length === 13 || timestamp?.unit === 'milliseconds' ? '1700000000123' : '1700000000';
}

const isUncertain = (text: SignedText) => layoutOf(text).boundaries.some(({ certainty }) => certainty === 'uncertain');

/** Deliveries, an honest one first. */
function deliveriesToTry(text: SignedText, count: number): Reading[] {
  const lengths = text.signs.flatMap((it) => (typeof it !== 'string' && it.part === 'field' ? it.field.length : []));
  const [header = 1] = text.signs.flatMap((it) =>
    typeof it !== 'string' && it.part === 'header' ? (it.length ?? []) : [],
  );
  const honest = { id: 'a', timestamp: exampleTime(text), token: 'x'.repeat(lengths[0] ?? 1), body: '{}' };
  return [
    { ...honest, url: 'https://a.example/in', header: 'h'.repeat(header), query: 'q' },
    ...fc.sample(readingsToTry, count),
  ];
}

/** How many deliveries have the signed bytes of this one; 0 if the verifier would refuse it. */
function readingsOf(text: SignedText, given: Reading): number {
  const bytes = bytesOf(text, given);
  return bytes === undefined ? 0 : readings(text, bytes).size;
}

it.each(TEXTS.map((text) => [nameOf(text), text] as const))(
  'no two different ids, timestamps and bodies have the same signed bytes: %s',
  (_name, text) => {
    expect(isUncertain(text)).toBe(false);
    const counts = deliveriesToTry(text, 150).map((given) => [given, readingsOf(text, given)] as const);
    expect(counts[0]).toEqual([expect.anything(), 1]);
    expect(counts.filter(([, count]) => count > 1)).toEqual([]);
  },
);

it.each(
  [
    { signs: [part.body, part.timestamp], timestamp: SECONDS },
    { signs: [part.deliveryId, part.body] },
    { signs: [part.deliveryId, part.timestamp, part.body], timestamp: SECONDS },
    { signs: [part.deliveryId, part.timestamp, part.body], timestamp: TEN_DIGITS },
    { signs: [part.timestamp, token()], timestamp: SECONDS },
    { signs: [part.body, token()] },
    { signs: [part.body, '.', part.body, token()] },
    { signs: [part.url, part.body] },
    { signs: parseSigned('{header:x-h}{body}') },
    { signs: parseSigned('{header:x-h}{timestamp}'), timestamp: SECONDS },
    { signs: parseSigned('{query:q}{header:x-h}') },
  ].map((text) => [nameOf(text), text] as const),
)('where a boundary is uncertain, two deliveries have the same signed bytes: %s', (_name, text) => {
  expect(isUncertain(text)).toBe(true);
  expect(deliveriesToTry(text, 2000).some((given) => readingsOf(text, given) > 1)).toBe(true);
});

it('no two deliveries have the same signed bytes in any list of parts whose boundaries are not uncertain', () => {
  const all: DeliveryPart[] = [part.deliveryId, part.timestamp, part.body, part.url, part.method, token(), token(3)];
  all.push(part.header('x-h'), part.query('q'));
  const gaps = fc.constantFrom('', '', '.', ':', '..', '1', '|', 'a', '\n');
  const lists = fc
    .tuple(fc.shuffledSubarray(all, { minLength: 2, maxLength: 3 }), fc.array(gaps, { minLength: 3, maxLength: 3 }))
    .filter(([parts]) => parts.filter(({ part: kind }) => kind === 'field').length < 2)
    .map(([parts, between]) => parts.flatMap((it, at): Part[] => (at === 0 ? [it] : [between[at] ?? '', it])));
  let taken = 0;
  fc.assert(
    fc.property(
      lists,
      fc.constantFrom(SECONDS, TEN_DIGITS, RFC_3339, OFFSET),
      readingsToTry,
      (signs, timestamp, given) => {
        const text = { signs, timestamp };
        const time = Number.isFinite(readTimestamp(given.timestamp, timestamp).ms)
          ? given.timestamp
          : exampleTime(text);
        const bytes = isUncertain(text) ? undefined : bytesOf(text, { ...given, timestamp: time });
        if (bytes === undefined) return;
        taken += 1;
        expect(readings(text, bytes).size).toBe(1);
      },
    ),
    { numRuns: 3000 },
  );
  expect(taken).toBeGreaterThan(500);
});

describe('a signed URL and the body', () => {
  const tails = fc
    .array(fc.constantFrom('?', '&', 'src=a', 'x', '{', '}', '[', ']', '"', '1', '%7B', '/', ':'), { maxLength: 8 })
    .map((pieces) => pieces.join(''));
  const configured = fc.constantFrom(undefined, 'https://a.example/in', 'https://a.example/in?src=a');
  const bases = fc.constantFrom(undefined, 'https://b.example');

  it.each(['Square', 'Trello', 'HubSpot'])('of %s cannot lend each other a character', (name) => {
    const spec = builtIn(name);
    const path = '/flows/api/webhook/in';
    fc.assert(
      fc.property(tails, tails, configured, bases, (tail, text, configuredUrl, baseUrl) => {
        const bytes = (query: string, body: string) => {
          const requestUrl = `http://c.example${path}${query}`;
          const { url: publicUrl, sentQuery } = calledUrl({
            configuredUrl,
            baseUrl,
            path: `${path}${query}`,
            requestUrl,
          });
          const input = { delivery: deliveryOf({ body }), publicUrl, sentQuery };
          const payload = signedPayload(spec, {
            ...input,
            timestamp: spec.timestamp === undefined ? undefined : '1700000000123',
            deliveryId: undefined,
            readField: bodyReader({}, input.delivery.body),
          });
          return payload.isComplete ? Buffer.concat([...(payload.variants[0] ?? [])]).toString() : undefined;
        };
        const honest = bytes(tail.startsWith('?') ? tail : '', text);
        if (honest === undefined) return;
        const all = `${tail}${text}`;
        const others = [...Array(all.length + 1).keys()].flatMap((at) => [
          [all.slice(0, at), all.slice(at)],
          [`?src=a${all.slice(0, at)}`, all.slice(at)],
          ['', all.slice(at)],
        ]);
        const fitting = others
          .filter(([query = '']) => query === '' || query.startsWith('?'))
          .filter(([query = '', body = '']) => bytes(query, body) === honest);
        // A body may begin like a query: then either all of it counts as query, or nothing.
        const bodies = new Set([...fitting.map(([, body]) => body), text]);
        const [longest = ''] = [...bodies].sort((a = '', b = '') => b.length - a.length);
        if (/^[?&]/.test(longest)) bodies.delete(longest);
        expect(bodies.size).toBeLessThanOrEqual(1);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the nonce', () => {
  const KEY = 'key of Twilio';
  const pairs = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'ab', 'From'), fc.constantFrom('', '1', 'x y', '&', '%')), {
    minLength: 1,
    maxLength: 5,
  });
  const escaped = (text: string) =>
    [...text].map((it) => `%${it.charCodeAt(0).toString(16).padStart(2, '0')}`).join('');

  it('of a sorted form is the same however its fields are ordered, repeated and written', async () => {
    await fc.assert(
      fc.asyncProperty(pairs, fc.array(fc.nat()), fc.array(fc.boolean()), async (fields, order, rewritten) => {
        const url = 'http://127.0.0.1:3000/flows/api/webhook/test';
        const sorted = [...new Map(fields.map((field) => [JSON.stringify(field), field])).values()].sort(
          ([a, x], [b, y]) => (a === b ? (x < y ? -1 : 1) : a < b ? -1 : 1),
        );
        const signed = `${url}${sorted.map((field) => field.join('')).join('')}`;
        const headers = {
          'x-twilio-signature': createHmac('sha1', KEY).update(signed).digest('base64'),
          'content-type': 'application/x-www-form-urlencoded',
        };
        const nonceOf = async (body: string) => {
          const delivery = deliveryOf({ headers, body });
          const verdict = await judge({ inputs: { webhookSignatureScheme: 'Twilio' }, key: KEY }, delivery);
          expect(verdict).toMatchObject({ passed: true });
          const gate = replayGate.prepare(triggerOf({ webhookReplayToleranceSeconds: 300 }), settingsOf());
          return (await gate?.check(delivery, verdict.evidence ?? {}))?.evidence?.nonce?.value;
        };
        const forged = [...fields, ...order.map((at) => fields[at % fields.length] ?? ['', ''])]
          .map((field, index) => ({ field, at: order[index] ?? 0 }))
          .sort((a, b) => a.at - b.at)
          .map(({ field: [name = '', value = ''] }, index) =>
            rewritten[index] === true
              ? `${escaped(name)}=${escaped(value)}&`
              : new URLSearchParams([[name, value]]).toString(),
          )
          .join('&');
        expect(await nonceOf(forged)).toBe(await nonceOf(new URLSearchParams(fields).toString()));
      }),
      { numRuns: 200 },
    );
  });

  it('of a verifier’s delivery is the hash of the bytes that it names, whatever else is sent', async () => {
    const verify = () => ({
      outcome: 'verified' as const,
      signedTimestampMs: NOW,
      signedBytes: Buffer.from('covered'),
    });
    const settings = settingsOf({ verifiers: [{ name: 'Own', verify }] });
    const inputs = { webhookSignatureScheme: 'Own', webhookReplayToleranceSeconds: 300 };
    const nonceOf = async (body: string) => {
      const delivery = deliveryOf({ body });
      const verdict = await judge({ inputs, settings }, delivery);
      const gate = replayGate.prepare(triggerOf(inputs), settings);
      return (await gate?.check(delivery, verdict.evidence ?? {}))?.evidence?.nonce?.value;
    };
    expect(await nonceOf('one')).toBe(await nonceOf('another'));
  });
});

describe('a registered spec is refused', () => {
  const twitch = builtIn('Twitch');
  it.each<[string, Partial<SignatureSpec>]>([
    ['when nothing ends its id', { timestamp: { in: 'header', unit: 'seconds', length: 10 } }],
    ['when nothing ends its timestamp', { signs: [part.timestamp, '7', part.body], timestamp: SECONDS }],
    ['when its timestamp and its token have any length', { signs: [part.timestamp, token()], timestamp: SECONDS }],
    ['when its timestamp is not signed', { signs: [part.body] }],
    ['when it sends a token and signs something', { algorithm: 'token' }],
    ['when it signs nothing and sends no token', { signs: [], timestamp: undefined }],
    [
      'when its timestamp is the last part and has any length',
      { signs: [part.url, part.body, part.timestamp], timestamp: SECONDS },
    ],
    [
      'when its timestamp is in a member that is not signed',
      { signs: [part.field(['id'])], timestamp: { in: 'body', field: { path: ['at'] }, unit: 'detect' } },
    ],
    [
      'when a family has no header for the signed id',
      { headers: [...twitch.headers, { signature: 'X-Other', timestamp: 'X-Time' }] },
    ],
    [
      'when the content type chooses which timestamp is read',
      {
        signs: [part.body],
        timestamp: { in: 'body', field: { path: ['at'], formField: 'at' }, unit: 'detect' },
      },
    ],
  ])('%s', (_why, given) => {
    expect(() => createSchemeRegistry({ specs: [{ ...twitch, ...given, name: 'Mine' }] })).toThrow(
      /signature spec "Mine"/,
    );
  });
});
