import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SignatureAlgorithm, SignatureEncoding } from '../../../src/model/manifest.ts';
import { DIGEST_BYTES, decodeDigest, encodeDigest } from '../../../src/webhooks/schemes/digest.ts';

const ENCODINGS: SignatureEncoding[] = ['hexLower', 'hexUpper', 'base64', 'base64Url'];
const ALGORITHMS: SignatureAlgorithm[] = ['sha1', 'sha256', 'sha384', 'sha512'];

describe.each(ENCODINGS)('%s', (encoding) => {
  it.each(ALGORITHMS)('decodes what it encodes for %s', (algorithm) => {
    const byteCount = DIGEST_BYTES[algorithm];
    const digest = randomBytes(byteCount);
    expect(decodeDigest(encodeDigest(digest, encoding), encoding, byteCount)).toEqual(digest);
  });

  it('takes no text that it would not write itself, but for the case of hex and the padding of base64url', () => {
    const texts = fc.oneof(
      fc.string({ maxLength: 70 }),
      fc.string({ unit: 'binary', maxLength: 70 }),
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
