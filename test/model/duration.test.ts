import { expect, it } from 'vitest';
import { durationMs } from '../../src/model/duration.ts';

it.each([
  ['PT1M', 60_000],
  ['PT2H', 7_200_000],
  ['pt2h', 7_200_000],
  ['P1D', 86_400_000],
  ['P1DT12H', 129_600_000],
  ['P2W', 1_209_600_000],
  ['PT90S', 90_000],
])('reads %s', (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

it.each(['', 'P', 'PT', 'P1DT', '2H', 'PT2', 'P1M', 'P1Y', 'PT1.5H', '-PT1H', 'PT1H ', 'P1WT1H'])(
  'does not read %j',
  (text) => {
    expect(durationMs(text)).toBeUndefined();
  },
);
