import { expect, test } from 'vitest';
import { roundDuration } from '../../src/store/durations.ts';

test('rounds a duration within five per cent, up to weeks, and a rounded one to itself', () => {
  const durations = Array.from({ length: 356 }, (_, n) => Math.round(1.06 ** n));
  for (const ms of durations) {
    const rounded = roundDuration(ms);
    expect(Math.abs(rounded - ms)).toBeLessThanOrEqual(ms * 0.05);
    expect(roundDuration(rounded)).toBe(rounded);
  }
  expect(durations.at(-1)).toBeGreaterThan(9e8);
});
