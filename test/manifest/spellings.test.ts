import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { searchFor } from '../../src/manifest/spellings.ts';
import { foundByPattern } from './spellings-by-pattern.ts';

function foundIn(text: string, secrets: readonly string[]): boolean[] {
  const found = Array<boolean>(text.length).fill(false);
  searchFor(secrets)(text, (from, to) => found.fill(true, from, to));
  return found;
}

const jsonEscaped = (text: string) => JSON.stringify(text).slice(1, -1);
const inUnits = (text: string) =>
  [...Array(text.length).keys()].map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
const inPercent = (text: string) => Buffer.from(text).toString('hex').replace(/../g, '%$&');
const ENCODINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  inPercent,
  (text) => inPercent(text).replaceAll('%', '%25').toUpperCase(),
  (text) => encodeURIComponent(Buffer.from(text).toString()).replaceAll('%20', '+'),
  jsonEscaped,
  (text) => jsonEscaped(jsonEscaped(text)),
  inUnits,
  (text) => jsonEscaped(inUnits(text)),
  (text) => text.replace(/[!-/:-@[-`{-~]/g, (char) => `&#0${char.charCodeAt(0)};`),
  (text) => text.replace(/[!-/:-@[-`{-~]/g, (char) => `&#X${char.charCodeAt(0).toString(16)};`),
  (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll("'", '&apos;').replaceAll('<', '&lt;'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => Buffer.from(jsonEscaped(text)).toString('hex'),
  ...['', 'x', 'xy'].flatMap((before) => {
    const base64 = (text: string) => Buffer.from(`${before}${text}?>`).toString('base64');
    return [
      base64,
      (text: string) => Buffer.from(`${before}${text}?>`).toString('base64url'),
      (text: string) => encodeURIComponent(base64(text)),
      (text: string) => base64(text).replaceAll('/', '\\/').replaceAll('+', '\\u002b'),
      (text: string) => base64(jsonEscaped(text)),
    ];
  }),
];

const CHARS = ['a', 'b', '0', '2', '5', '"', '/', '+', ' ', '\n', 'é', '語', '😀', '>', '?', 'ÿ'];
/** Characters that begin an escape: they can also be literal, and a pattern may choose the shorter reading. */
const ESCAPES = ['%', '&', '\\'];

/** Some secrets, and a text of pieces of them, each encoded in one of the ways and some cut off. */
function secretsAndText(chars: readonly string[], last: readonly string[]) {
  const secret = fc
    .tuple(fc.string({ unit: fc.constantFrom(...chars), minLength: 3, maxLength: 7 }), fc.constantFrom(...last))
    .map((parts) => parts.join(''));
  const piece = fc.record({
    secret: fc.nat(2),
    cut: fc.option(fc.nat(6), { nil: undefined, freq: 4 }),
    encoding: fc.constantFrom(...ENCODINGS),
    between: fc.constantFrom('', ' ', '\\', '%', '25', 'a', '='),
  });
  return fc
    .tuple(fc.array(secret, { minLength: 1, maxLength: 3 }), fc.array(piece, { maxLength: 6 }))
    .map(([secrets, pieces]) => {
      const encoded = pieces.map(({ secret: index, cut, encoding, between }) => {
        return encoding((secrets[index % secrets.length] ?? '').slice(0, cut)) + between;
      });
      return { secrets, text: encoded.join('') };
    });
}

describe('the search for spellings', () => {
  it('finds what patterns find, and nothing else', () => {
    fc.assert(
      fc.property(secretsAndText(CHARS, CHARS), ({ secrets, text }) => {
        expect(foundIn(text, secrets)).toEqual(foundByPattern(text, secrets));
      }),
      { numRuns: 300 },
    );
  });

  it('misses nothing that patterns find of escapes, halves of pairs and what else there is', () => {
    const chars = [...CHARS, ...ESCAPES, '\ud800', '\udc00', "'", '<', '\t'];
    fc.assert(
      fc.property(secretsAndText(chars, chars), ({ secrets, text }) => {
        const found = foundIn(text, secrets);
        const missed = foundByPattern(text, secrets).flatMap((isFound, at) => (isFound && !found[at] ? [at] : []));
        expect(missed).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test.each(['%2B', '%252b', '\\u002b', '-', '+'])('finds base64 whose first digit of its own is %s', (digit) => {
    // The first byte, 0x3e, ends a group of three.
    const base64 = Buffer.from('xy>secret').toString('base64');
    const text = base64.replace('+', digit);
    expect(foundIn(text, ['>secret']).slice(3)).not.toContain(false);
  });

  it('ends also where a text can be read in more ways than could ever be tried', () => {
    const found = foundIn(`${'\\\\\\\\"'.repeat(40)}y`, [`${'\\"'.repeat(40)}x`]);
    expect(found).toHaveLength(201);
  });

  test.each<[string, string]>([
    ['0', `${'0'.repeat(1000)}1`],
    ['ab', 'ab'.repeat(1000)],
  ])('gives up a text of nothing but "%s" for a secret of the same, and counts it as found', (unit, secret) => {
    const found = foundIn(`before ${unit.repeat(50_000)} behind`, [secret]);
    expect(found.slice(0, 7)).not.toContain(true);
    expect(found.slice(-7)).not.toContain(false);
  });
});
