import fc from 'fast-check';
import { expect, it } from 'vitest';
import { digestOf } from '../../src/store/digest.ts';
import { anyCharacter } from '../any-character.ts';

const text = () =>
  fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 6 }),
    fc.constantFrom('', '\0', '\ud800', '\udfff', '�', '1:', '1:a'),
  );

it('tells any two lists of texts apart, however they are cut, and whatever is in them', () => {
  const lists = fc.array(text(), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(lists, lists, (one, other) => {
      const isSame = JSON.stringify(one) === JSON.stringify(other);
      expect(digestOf(...one) === digestOf(...other)).toBe(isSame);
    }),
    // Texts that are the same in UTF-8.
    { numRuns: 200, examples: [[['\ud800'], ['\udfff']]] },
  );
  fc.assert(
    fc.property(text(), text(), text(), (a, b, c) => {
      const ways = [[`${a}${b}${c}`], [a, `${b}${c}`], [`${a}${b}`, c], [a, b, c], [a, b, c, '']];
      expect(new Set(ways.map((way) => digestOf(...way))).size).toBe(
        new Set(ways.map((way) => JSON.stringify(way))).size,
      );
    }),
  );
});

it('is a UUID of 128 bits, whatever the length', () => {
  for (const given of ['', 'a', 'a'.repeat(65_536)]) {
    expect(digestOf(given)).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  }
});
