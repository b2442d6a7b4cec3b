import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { replayGate } from '../../../src/webhooks/gates/replay.ts';
import { customSpec } from '../../../src/webhooks/schemes/custom.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import { calledUrl, signedPayload } from '../../../src/webhooks/schemes/signed-payload.ts';
import type { PayloadBuilder, SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';
import { readTimestamp } from '../../../src/webhooks/schemes/values.ts';
import { builtIn, deliveryOf, judge, NOW, settingsOf, triggerOf } from './fixtures.ts';

/** What a sender would have to send so that the signed bytes are given ones. */
interface Reading {
  readonly id: string;
  readonly timestamp: string;
  readonly token: string;
  readonly body: string;
}

const BUILDERS: Record<string, PayloadBuilder> = {
  timestampFirst: ({ delivery, timestamp }) => Buffer.concat([Buffer.from(timestamp ?? ''), delivery.body]),
  timestampLast: ({ delivery, timestamp }) => Buffer.concat([delivery.body, Buffer.from(timestamp ?? '')]),
};

function custom(inputs: WebhookInputs): SignatureSpec {
  const all = { webhookSignatureHeader: 'X-Sig', webhookTimestampHeader: 'X-Time', ...inputs };
  return { ...customSpec(all, new Map(Object.entries(BUILDERS))), name: JSON.stringify(inputs) };
}

/** A spec of the operator's, as it is after its registration. */
function full(payload: SignatureSpec['payload'], timestamp: Partial<SignatureSpec['timestamp']> = {}): SignatureSpec {
  const spec: SignatureSpec = {
    ...builtIn('Twitch'),
    name: JSON.stringify({ ...payload, ...timestamp }),
    payload,
    timestamp: { in: 'header', unit: 'detect', ...timestamp } as SignatureSpec['timestamp'],
  };
  createSchemeRegistry({ specs: [spec] });
  return spec;
}

const DELIMITERS = ['.', ':', '|', '..', '-', '1', '00', '0.0', '§', ''];
const SPECS = [
  ...BUILT_IN_SCHEMES.flatMap((spec) => [spec, spec.keyForm?.spec ?? spec, spec.requestForm ?? spec])
    .filter((spec, at, all) => all.indexOf(spec) === at)
    .filter(({ payload }) => !/^(Url|BodyFields$|Nothing$|ChecksumLine$)/.test(payload.strategy)),
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
  ...['.', '..', '.1.', ':', 'T', '§'].map((delimiter) =>
    full({ strategy: 'TimestampDotBody', startsWithDeliveryId: true, delimiter }),
  ),
  ...['.', ':', '20', ''].map((delimiter) =>
    full({ strategy: 'TimestampDotBody', startsWithDeliveryId: true, delimiter }, { unit: 'rfc3339' }),
  ),
  full({ strategy: 'TimestampDotBody', delimiter: '' }, { length: 13 }),
];

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
const tokens = texts.map((text) => text.replaceAll('§', 's'));
const parts = fc.record({ id: texts, timestamp: times, token: tokens, body: texts });

/** The signed bytes; undefined where the verifier would not take such a delivery. */
function bytesOf(spec: SignatureSpec, { id, timestamp, token, body }: Reading): string | undefined {
  const source = spec.timestamp;
  const tokenLength = spec.payload.token?.length ?? token.length;
  if (source !== undefined && !Number.isFinite(readTimestamp(timestamp, source).ms)) return undefined;
  if (token.length !== tokenLength) return undefined;
  const delivery = deliveryOf({ body: Buffer.from(body, 'latin1') });
  const input = { delivery, publicUrl: 'https://a.example/', timestamp, deliveryId: id, token };
  const payload = signedPayload(spec, input);
  return payload.isComplete ? Buffer.concat([...(payload.variants[0] ?? [])]).toString('latin1') : undefined;
}

/** Every way in which the bytes can be taken apart again, as the layout joins them. */
function readings(spec: SignatureSpec, bytes: string): Reading[] {
  const { strategy, version, startsWithDeliveryId, customName, endsWithTimestamp, isJsonObject } = spec.payload;
  const none: Reading = { id: '', timestamp: '1700000000', token: '', body: '' };
  if (strategy === 'RawBody') return isJsonObject === true && !bytes.startsWith('{') ? [] : [{ ...none, body: bytes }];
  const { before, after } = delimitersOf(spec);
  const start = strategy === 'ColonDelimited' ? (version ?? '').length + before : 0;
  const found = new Map<string, Reading>();
  for (let from = start; from <= bytes.length; from++) {
    for (let to = from; to <= Math.min(bytes.length - after, from + 31); to++) {
      const rest = bytes.slice(to + after);
      const reading: Reading = { ...none, timestamp: bytes.slice(from, to) };
      const placed =
        strategy === 'TimestampPlusToken'
          ? { ...reading, token: rest }
          : customName === 'timestampLast' || endsWithTimestamp === true
            ? { ...reading, body: bytes.slice(0, from) }
            : { ...reading, id: startsWithDeliveryId === true ? bytes.slice(0, from - before) : '', body: rest };
      if (bytesOf(spec, placed) === bytes) found.set(JSON.stringify(placed), placed);
    }
  }
  return [...found.values()];
}

/** Bytes that stand before and behind the timestamp. */
function delimitersOf({ payload }: SignatureSpec): { before: number; after: number } {
  const own = { TimestampDotBody: '.', ColonDelimited: ':' } as Readonly<Record<string, string>>;
  const delimiter = own[payload.strategy] === undefined ? '' : (payload.delimiter ?? own[payload.strategy] ?? '');
  const length = Buffer.byteLength(delimiter);
  const hasBefore = payload.strategy === 'ColonDelimited' || payload.startsWithDeliveryId === true;
  return { before: hasBefore ? length : 0, after: length };
}

it.each(SPECS.map((spec) => [spec.name, spec] as const))(
  'no two different ids, timestamps and bodies have the same signed bytes: %s',
  (_name, spec) => {
    let taken = 0;
    fc.assert(
      fc.property(parts, (given) => {
        const bytes = bytesOf(spec, given);
        if (bytes === undefined) return;
        taken += 1;
        expect(readings(spec, bytes)).toHaveLength(1);
      }),
      {
        numRuns: 150,
        examples: [
          [{ id: 'a', timestamp: exampleTime(spec), token: 'x'.repeat(spec.payload.token?.length ?? 1), body: '{}' }],
        ],
      },
    );
    expect(taken).toBeGreaterThan(0);
  },
);

function exampleTime({ timestamp }: SignatureSpec): string {
  if (timestamp?.unit === 'rfc3339' || timestamp?.unit === 'rfc3339Offset') return '2026-11-21T12:00:00Z';
  return timestamp?.length === 13 || timestamp?.unit === 'milliseconds' ? '1700000000123' : '1700000000';
}

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
            token: undefined,
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
        // A body may begin with what could be a query: then it is all of it or none.
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
    [
      'when nothing ends its timestamp',
      { payload: { strategy: 'TimestampDotBody', delimiter: '7' }, timestamp: { in: 'header', unit: 'detect' } },
    ],
    [
      'when its timestamp and its token have any length',
      { ...builtIn('Mailgun'), timestamp: { in: 'body', field: { path: ['t'] }, unit: 'seconds' } },
    ],
    ['when its timestamp is not signed', { payload: { strategy: 'RawBody' } }],
    ['when it sends a token and signs something', { algorithm: 'token' }],
    ['when it signs nothing and sends no token', { payload: { strategy: 'Nothing' }, timestamp: undefined }],
    [
      'when its timestamp is the last part and has any length',
      {
        payload: { strategy: 'UrlPlusBody', endsWithTimestamp: true },
        timestamp: { in: 'header', unit: 'milliseconds' },
      },
    ],
    ['when its id is not signed', { payload: { strategy: 'ColonDelimited', startsWithDeliveryId: true } }],
    [
      'when a family has no header for the signed id',
      { headers: [...twitch.headers, { signature: 'X-Other', timestamp: 'X-Time' }] },
    ],
    [
      'when the content type chooses which timestamp is read',
      {
        payload: { strategy: 'RawBody' },
        timestamp: { in: 'body', field: { path: ['at'], formField: 'at' }, unit: 'detect' },
      },
    ],
  ])('%s', (_why, given) => {
    expect(() => createSchemeRegistry({ specs: [{ ...twitch, ...given, name: 'Mine' }] })).toThrow(
      /signature spec "Mine"/,
    );
  });
});
