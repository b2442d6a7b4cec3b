import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chanceOf, SEED } from './chance.ts';

const drawn = (name: string, seed = SEED) => {
  const { next } = chanceOf(name, seed);
  return Array.from({ length: 20 }, next);
};

it('every property has the seed of the run', () => {
  const details = fc.check(fc.property(fc.nat(), () => true));
  expect(details.seed).toBe(SEED);
});

describe('chance', () => {
  it('is the same for the same name and seed, and of no other', () => {
    expect(drawn('kills')).toEqual(drawn('kills'));
    const all = [drawn('kills'), drawn('kill'), drawn('kills', SEED ^ 1), drawn('kills', SEED ^ (1 << 30)), drawn('')];
    expect(new Set(all.flat()).size).toBe(all.flat().length);
  });

  it('is even: of ten numbers each comes up in a tenth of the draws', () => {
    const { below } = chanceOf('even', 1);
    const counts = new Map<number, number>();
    for (let n = 0; n < 10_000; n += 1) {
      const number = below(10);
      counts.set(number, (counts.get(number) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it('picks one of the values, and once in one time is always', () => {
    const { pick, once } = chanceOf('picks');
    expect(new Set(Array.from({ length: 100 }, () => pick(['a', 'b'])))).toEqual(new Set(['a', 'b']));
    expect(Array.from({ length: 100 }, () => once(1))).not.toContain(false);
  });
});
