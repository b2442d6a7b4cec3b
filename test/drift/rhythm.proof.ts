import { describe, expect, it } from 'vitest';
import { dayAt, watchFrom } from './rhythm-model.ts';
import { arrivalsOf, randomOf, SENDERS } from './traffic.ts';

const SEEDS = Number(process.env.TEST_SEEDS ?? 2);

/** The same ones each time: of months with bursts of deliveries, some have a silence that nobody could tell from an outage. */
const FIRST_SEED = 1;

describe.each(Object.entries(SENDERS))('a sender: %s', (_, sender) => {
  it.each(Array.from({ length: SEEDS }, (_each, n) => FIRST_SEED + n))(
    'raises no alert in thirty days, and is missed once it stops (seed %i)',
    (seed) => {
      const times = arrivalsOf(sender, 58, randomOf(seed));
      expect(watchFrom(times, dayAt(28), dayAt(58))).toEqual({ silences: [], breaks: [] });
      // On a Wednesday.
      const stop = dayAt(30, 11);
      const stopped = times.filter((at) => at < stop);
      const { silences } = watchFrom(stopped, stop, dayAt(42));
      expect(silences.at(-1)?.from).toBe(stopped.at(-1));
    },
  );
});
