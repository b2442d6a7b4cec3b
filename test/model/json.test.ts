import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { isExactNumber, parseJson } from '../../src/model/json.ts';

/** Number tokens in any form that JSON allows. */
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 25n }).map(String), fc.nat().map(String)),
    fc.option(fc.stringMatching(/^\d{1,20}$/), { nil: undefined }),
    fc.option(fc.stringMatching(/^[eE][+-]?\d{1,3}$/), { nil: undefined }),
  )
  .map(
    ([sign, whole, decimals, exponent]) =>
      `${sign}${whole}${decimals === undefined ? '' : `.${decimals}`}${exponent ?? ''}`,
  );

/** JSON texts without spaces, with distinct keys in an order that objects keep. */
const { text } = fc.letrec<{ text: string }>((tie) => ({
  text: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    number,
    fc.constantFrom('true', 'false', 'null'),
    fc.string({ unit: 'grapheme' }).map((value) => JSON.stringify(value)),
    number.map((value) => JSON.stringify(`, ${value} "${value}`)),
    fc.array(tie('text'), { maxLength: 5 }).map((items) => `[${items.join(',')}]`),
    fc
      .uniqueArray(
        fc.tuple(
          fc.string().map((key) => JSON.stringify(`k${key}`)),
          tie('text'),
        ),
        { maxLength: 5, selector: ([key]) => key },
      )
      .map((entries) => `{${entries.map(([key, value]) => `${key}:${value}`).join(',')}}`),
  ),
}));

describe('parseJson', () => {
  it('gives any JSON back as it was written, number for number', () => {
    fc.assert(
      fc.property(text, (json) => {
        expect(JSON.stringify(parseJson(json))).toBe(json);
      }),
      { numRuns: 2_000 },
    );
  });

  it('reads what JSON.parse reads, apart from the numbers that a double would change', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(JSON.parse(JSON.stringify(parseJson(json)))).toEqual(JSON.parse(JSON.stringify(JSON.parse(json))));
      }),
    );
  });

  test.each(['0', '1', '-1', '19.99', '0.5', '123456789012345', '9007199254740991', '1e+21', '0.1', '-2.25'])(
    '%s is a number as any other',
    (json) => {
      expect(parseJson(json)).toBe(Number(json));
    },
  );

  test.each([
    '9007199254740992',
    '12345678901234567890',
    '1.10',
    '1.0',
    '-0',
    '1E5',
    '1e400',
    '0.00000010',
    '-0.0',
    '1e21',
  ])('%s keeps its text', (json) => {
    const value = parseJson(json);
    expect(isExactNumber(value)).toBe(true);
    expect(JSON.stringify([value])).toBe(`[${json}]`);
  });

  it('reaches no prototype', () => {
    const value = parseJson('{"__proto__":1.0,"constructor":1.10}');
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(JSON.stringify(value)).toBe('{"__proto__":1.0,"constructor":1.10}');
  });

  test.each(['', '{', '1.', '01', '+1', 'NaN', '[1.0,]'])('throws for %j as JSON.parse does', (json) => {
    expect(() => parseJson(json)).toThrow(SyntaxError);
  });
});
