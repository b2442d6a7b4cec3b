import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SignatureAlgorithm, SignatureEncoding } from '../../../src/model/manifest.ts';
import { decodeDigest, encodeDigest, timestampMs, timestampText } from '../../../src/webhooks/schemes/values.ts';
import { anyCharacter } from '../../any-character.ts';

const ENCODINGS: SignatureEncoding[] = ['hexLower', 'hexUpper', 'base64', 'base64Url'];
const ALGORITHMS: SignatureAlgorithm[] = ['sha1', 'sha256', 'sha384', 'sha512'];

describe.each(ENCODINGS)('%s', (encoding) => {
  it.each(ALGORITHMS)('decodes what it encodes for %s', (algorithm) => {
    const byteCount = createHash(algorithm).digest().length;
    fc.assert(
      fc.property(fc.uint8Array({ minLength: byteCount, maxLength: byteCount }), (bytes) => {
        const digest = Buffer.from(bytes);
        expect(decodeDigest(encodeDigest(digest, encoding), encoding, byteCount)).toEqual(digest);
      }),
    );
  });

  it('takes no text that it would not write itself, but for the case of hex and the padding of base64url', () => {
    const texts = fc.oneof(
      fc.string({ maxLength: 70 }),
      fc.string({ unit: anyCharacter, maxLength: 70 }),
      fc.base64String({ maxLength: 48 }),
      fc.string({ unit: fc.constantFrom(...'0123456789abcdefABCDEF'), minLength: 63, maxLength: 65 }),
      fc.uint8Array({ minLength: 31, maxLength: 33 }).map((bytes) => encodeDigest(Buffer.from(bytes), encoding)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const bytes = decodeDigest(text, encoding, 32);
        if (bytes === undefined) return;
        const canonical = encodeDigest(bytes, encoding);
        const isHex = encoding === 'hexLower' || encoding === 'hexUpper';
        expect([canonical, `${canonical}=`]).toContain(
          isHex && encoding === 'hexLower' ? text.toLowerCase() : isHex ? text.toUpperCase() : text,
        );
        expect(bytes).toHaveLength(32);
      }),
    );
  });

  it('refuses a digest with anything in front, behind or missing', () => {
    const text = encodeDigest(Buffer.alloc(32, 0xab), encoding);
    for (const wrong of [
      '',
      text.slice(1),
      text.slice(0, -2),
      `${text}0`,
      `${text}zz`,
      ` ${text}`,
      `${text}\n`,
      `${text} `,
    ]) {
      expect(decodeDigest(wrong, encoding, 32), JSON.stringify(wrong)).toBeUndefined();
    }
  });
});

it('takes hex of either case', () => {
  const digest = Buffer.from('ABCDEF0123', 'hex');
  expect(decodeDigest('ABCDEF0123', 'hexLower', 5)).toEqual(digest);
  expect(decodeDigest('abcdef0123', 'hexUpper', 5)).toEqual(digest);
  expect(decodeDigest('aBcDeF0123', 'hexLower', 5)).toEqual(digest);
});

it('takes base64url with its padding or without, and the alphabets are not mixed', () => {
  const digest = Buffer.from('fbff', 'hex');
  expect(decodeDigest('-_8', 'base64Url', 2)).toEqual(digest);
  expect(decodeDigest('-_8=', 'base64Url', 2)).toEqual(digest);
  expect(decodeDigest('-_8==', 'base64Url', 2)).toBeUndefined();
  expect(decodeDigest('+/8', 'base64Url', 2)).toBeUndefined();
  expect(decodeDigest('+/8=', 'base64', 2)).toEqual(digest);
  expect(decodeDigest('+/8', 'base64', 2)).toBeUndefined();
  expect(decodeDigest('-_8=', 'base64', 2)).toBeUndefined();
});

it('refuses base64 whose unused bits are set: it is a second text for the same bytes', () => {
  expect(decodeDigest('+/9=', 'base64', 2)).toBeUndefined();
  expect(decodeDigest('-_9', 'base64Url', 2)).toBeUndefined();
});

it.each([
  ['1700000000', 'seconds', 1_700_000_000_000],
  ['1700000000123', 'milliseconds', 1_700_000_000_123],
  ['1700000000', 'milliseconds', 1_700_000_000],
  ['1700000000', 'detect', 1_700_000_000_000],
  ['1700000000123', 'detect', 1_700_000_000_123],
  ['0', 'seconds', 0],
  ['2026-10-09T08:53:20Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20)],
  ['2026-10-09T08:53:20.6Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 600)],
  ['2026-10-09T08:53:20.634Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 634)],
  ['2026-10-09T08:53:20.634999999Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 634)],
] as const)('reads %s in %s', (text, unit, ms) => {
  expect(timestampMs(text, unit)).toBe(ms);
});

it.each([
  '',
  'abc',
  '-1',
  '+1',
  '1.5',
  '1e9',
  '0x10',
  ' 1',
  '1 ',
  '1\n',
  '١٢٣',
  'Infinity',
  'NaN',
  '12345678901234567',
])('takes %j for no number', (text) => {
  expect(timestampMs(text, 'seconds')).toBeNaN();
  expect(timestampMs(text, 'detect')).toBeNaN();
});

it.each([
  '1700000000',
  '2026-10-09',
  '2026-10-09 08:53:20Z',
  '2026-10-09T08:53:20',
  '2026-10-09T08:53:20+00:00',
  '2026-10-09T08:53:20.Z',
  '2026-10-09T08:53:20.1234567890Z',
  '02026-10-09T08:53:20Z',
  '2026-02-30T08:53:20Z',
  '2026-13-01T08:53:20Z',
  '2026-10-09T25:53:20Z',
  '2026-10-09t08:53:20z',
  ' 2026-10-09T08:53:20Z',
  '2026-10-09T08:53:20Z\n',
])('takes %j for no RFC 3339 time in UTC', (text) => {
  expect(timestampMs(text, 'rfc3339')).toBeNaN();
});

it('reads back what it writes, to the second or the millisecond', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1e11, max: 4e12 }), (ms) => {
      expect(timestampMs(timestampText(ms, 'milliseconds'), 'milliseconds')).toBe(ms);
      expect(timestampMs(timestampText(ms, 'rfc3339'), 'rfc3339')).toBe(ms);
      expect(timestampMs(timestampText(ms, 'seconds'), 'seconds')).toBe(ms - (ms % 1000));
      expect(timestampMs(timestampText(ms, 'detect'), 'detect')).toBe(ms - (ms % 1000));
    }),
  );
});
