import {
  findVolumeBreak,
  isSilent,
  KEPT_DAYS,
  learnRhythm,
  type Rhythm,
  type Span,
} from '../../../src/features/rhythm/rhythm.ts';
import type { ArrivalHour } from '../../../src/features/rhythm/store.ts';
import { DAY, HOUR, hoursOf, MINUTE, MONDAY } from './traffic.ts';

interface Alarms {
  /** From the last delivery to the first look that called it a silence. */
  readonly silences: readonly Span[];
  /** Hours after which a change of volume was reported. */
  readonly breaks: readonly number[];
}

/** The alarms of a watch that looks every minute from `from` on and knows everything before. */
export function watchFrom(
  times: readonly number[],
  from: number,
  until: number,
  unwatched: readonly Span[] = [],
): Alarms {
  const all = hoursOf(times);
  const learn = learner(all, unwatched);
  const silences: Span[] = [];
  for (const [n, lastAt] of times.entries()) {
    const next = Math.min(times[n + 1] ?? until, until);
    if (next < from || lastAt > until || next - lastAt < 10 * MINUTE) continue;
    const rhythm = learn(lastAt);
    if (rhythm === undefined) continue;
    // Once silent, it stays silent.
    let [low, high] = [lastAt, next];
    if (!isSilent(rhythm, { from: lastAt, to: high })) continue;
    while (high - low > MINUTE) {
      const middle = (low + high) / 2;
      if (isSilent(rhythm, { from: lastAt, to: middle })) high = middle;
      else low = middle;
    }
    silences.push({ from: lastAt, to: high });
  }
  const breaks: number[] = [];
  for (let at = from; at < until; at += HOUR) {
    const rhythm = learn(at - 3 * HOUR);
    const history = { hours: all, since: MONDAY, unwatched };
    if (rhythm !== undefined && findVolumeBreak(rhythm, history, at) !== undefined) breaks.push(at);
  }
  return { silences, breaks };
}

function learner(all: readonly ArrivalHour[], unwatched: readonly Span[]) {
  const known = new Map<number, Rhythm | undefined>();
  return (until: number): Rhythm | undefined => {
    const hour = Math.floor(until / HOUR);
    if (!known.has(hour)) {
      const kept = all.filter((each) => each.hour <= hour && each.hour > hour - KEPT_DAYS * 24);
      known.set(hour, learnRhythm({ hours: kept, since: MONDAY, unwatched }, until));
    }
    return known.get(hour);
  };
}

export const dayAt = (day: number, hour = 0) => MONDAY + day * DAY + hour * HOUR;
