import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSilent, learnRhythm, type Rhythm } from '../../../src/features/rhythm/rhythm.ts';
import { chanceOf } from '../../chance.ts';
import { dayAt, watchFrom } from './rhythm-model.ts';
import { arrivalsOf, DAY, HOUR, hoursOf, MINUTE, MONDAY, SENDERS } from './traffic.ts';

const everyHour = (days: number) => Array.from({ length: days * 24 }, (_, n) => MONDAY + n * HOUR + 30 * MINUTE);
const learn = (times: readonly number[], until = times.at(-1) ?? 0): Rhythm | undefined =>
  learnRhythm({ hours: hoursOf(times), since: MONDAY, unwatched: [] }, until);

/** The same traffic each time, for rules about likely behaviour; `rhythm.proof.ts` says why. */
const sampleOf = (sender: keyof typeof SENDERS, days: number) =>
  arrivalsOf(SENDERS[sender], days, chanceOf(sender, 1).next);

describe('a rhythm', () => {
  it('is not learned before two weeks have passed and twenty deliveries came', () => {
    expect(learn(everyHour(13))).toBeUndefined();
    expect(learn(everyHour(15))).toBeDefined();
    const few = Array.from({ length: 19 }, (_, n) => MONDAY + n * DAY);
    expect(learn(few)).toBeUndefined();
    expect(learn([...few, MONDAY + 19 * DAY])).toBeDefined();
  });

  it('does not count as known what was not watched', () => {
    const hours = hoursOf(everyHour(20));
    const unwatched = [{ from: dayAt(3), to: dayAt(10) }];
    expect(learnRhythm({ hours, since: MONDAY, unwatched }, dayAt(20))).toBeUndefined();
  });

  it('is silent beyond its own gaps, and for ten minutes at least', () => {
    const rhythm = learn(everyHour(28));
    const from = dayAt(28);
    expect(rhythm && isSilent(rhythm, { from, to: from + 2 * HOUR })).toBe(false);
    expect(rhythm && isSilent(rhythm, { from, to: from + 8 * HOUR })).toBe(true);
    const often = learn(Array.from({ length: 28 * 24 * 60 }, (_, n) => MONDAY + n * MINUTE));
    expect(often && isSilent(often, { from, to: from + 9 * MINUTE })).toBe(false);
    expect(often && isSilent(often, { from, to: from + 11 * MINUTE })).toBe(true);
  });

  it('knows nights and weekends', () => {
    const times = sampleOf('office', 28);
    const rhythm = learn(times, dayAt(28) - 1);
    const silent = (from: number, to: number) => rhythm && isSilent(rhythm, { from, to });
    // From Friday evening to Monday morning, and two hours of a Tuesday.
    expect(silent(dayAt(32, 18), dayAt(35, 7))).toBe(false);
    expect(silent(dayAt(29, 13), dayAt(29, 15))).toBe(true);
  });

  it('is not silent sooner than later: a silence that lasts stays one', () => {
    const times = arrivalsOf(SENDERS.repository, 28, chanceOf('a silence that lasts').next);
    const rhythm = learn(times);
    const from = times.at(-1) ?? 0;
    // As long as it learned: in random traffic with long pauses, the time until it is silent is random too.
    const watched = 28 * DAY;
    fc.assert(
      fc.property(fc.nat(watched), fc.nat(watched), (one, more) => {
        if (rhythm === undefined || !isSilent(rhythm, { from, to: from + one })) return;
        expect(isSilent(rhythm, { from, to: from + one + more })).toBe(true);
      }),
    );
    expect(rhythm && isSilent(rhythm, { from, to: from + watched })).toBe(true);
  });

  it('learns nothing from what came after', () => {
    const times = arrivalsOf(SENDERS.shop, 35, chanceOf('what came after').next);
    const until = dayAt(28);
    const before = times.filter((at) => at <= until);
    expect(learn(times, until)).toEqual(learn(before, until));
  });

  it('survives one failure of the publisher: the next is found as soon', () => {
    const times = sampleOf('shop', 28);
    const failed = times.filter((at) => at < dayAt(8, 6) || at > dayAt(9, 18));
    const [whole, with1] = [learn(times), learn(failed)];
    const from = dayAt(30, 12);
    const lagOf = (rhythm: Rhythm | undefined) => {
      for (let ms = 10 * MINUTE; ms < 2 * DAY; ms += MINUTE)
        if (rhythm && isSilent(rhythm, { from, to: from + ms })) return ms;
      return Number.POSITIVE_INFINITY;
    };
    expect(lagOf(with1)).toBeLessThan(3 * lagOf(whole));
  });
});

// rhythm.proof.ts tests many seeds and all senders.
it('raises no alert in thirty days of office hours with quiet days and rushes, and finds a stop within hours', () => {
  const times = sampleOf('office', 58);
  expect(watchFrom(times, dayAt(28), dayAt(58))).toEqual({ silences: [], breaks: [] });
  const stopped = times.filter((at) => at < dayAt(30, 11));
  const [silence] = watchFrom(stopped, dayAt(30, 11), dayAt(33)).silences;
  expect(silence?.to).toBeLessThan(dayAt(30, 15));
});

it('tells when a volume falls to a few of what is usual, or rises tenfold', () => {
  const times = sampleOf('busy', 32);
  const at = dayAt(30, 9);
  const fewer = times.filter((time, n) => time < at || n % 50 === 0);
  expect(watchFrom(fewer, at, at + 8 * HOUR).breaks[0]).toBe(at + 3 * HOUR);
  const more = times.flatMap((time) => (time < at ? [time] : Array.from({ length: 30 }, () => time)));
  expect(watchFrom(more, at, at + 8 * HOUR).breaks.length).toBeGreaterThan(0);
});
