/** The seed of all random draws in tests. `TEST_SEED` sets another one; each run prints its seed. */
export const SEED = seedOf(process.env.TEST_SEED ?? '20261128');

function seedOf(text: string): number {
  const seed = Number(text);
  if (/^\d+$/.test(text) && seed < 2 ** 31) return seed;
  throw new Error(`TEST_SEED is ${JSON.stringify(text)}; it takes a whole number from 0 to ${2 ** 31 - 1}`);
}

export interface Chance {
  /** A number from 0 up to, but not including, 1. */
  next(): number;
  /** A whole number from 0 to `count` - 1. */
  below(count: number): number;
  pick<Value>(values: readonly Value[]): Value;
  /** True once in so many times. */
  once(inTimes: number): boolean;
}

/** Draws the same numbers for the same name and seed, whatever else draws. mulberry32: small, and good enough here. */
export function chanceOf(name: string, seed = SEED): Chance {
  let state = seed;
  // FNV-1a, so that different names give unrelated numbers.
  for (const byte of Buffer.from(name)) state = Math.imul(state ^ byte, 0x01000193);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count: number) => Math.floor(next() * count);
  return {
    next,
    below,
    pick: <Value>(values: readonly Value[]) => values[below(values.length)] as Value,
    once: (inTimes) => below(inTimes) === 0,
  };
}
