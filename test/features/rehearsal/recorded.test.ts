import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fits } from '../../../src/features/rehearsal/recorded.ts';
import { MASK } from '../../../src/manifest/mask.ts';
import { type Json, parseJson } from '../../../src/model/json.ts';

describe('a recorded input', () => {
  it('fits itself, whatever JSON it is', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => fits(value as Json, JSON.parse(JSON.stringify(value)))));
  });

  it('fits what has any text in the place of each mask', () => {
    const text = fc.string().filter((each) => !each.includes('*'));
    const texts = fc.array(text, { minLength: 2, maxLength: 4 });
    fc.assert(
      fc.property(texts, fc.string(), (parts, secret) => fits(parts.join(MASK), parts.join(secret))),
      { numRuns: 300 },
    );
  });

  it.each<[Json, Json | undefined]>([
    ['a', 'b'],
    [`Bearer ${MASK}`, 'Basic abc'],
    [`${MASK}/end`, 'secret/other'],
    [`a${MASK}a`, 'a'],
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [{ a: null }, {}],
    [[1, 2], [1]],
    [[], {}],
    [1, '1'],
    [null, undefined],
    [parseJson('1.10'), 1.1],
  ])('%j does not fit %j', (recorded, value) => {
    expect(fits(recorded, value)).toBe(false);
  });

  it('fits a number as it was sent', () => {
    expect(fits(parseJson('[12345678901234567890, 1.10]'), parseJson('[12345678901234567890, 1.10]'))).toBe(true);
    expect(fits(parseJson('[12345678901234567890]'), parseJson('[12345678901234567891]'))).toBe(false);
  });
});
