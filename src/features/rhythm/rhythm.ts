import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { ArrivalHour } from './store.ts';

/** From one instant to another, in milliseconds since the Unix epoch. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** What is known of a trigger, or of one kind of its events. */
interface ArrivalHistory {
  /** Hours in which something came, in their order. */
  readonly hours: readonly ArrivalHour[];
  /** From when on it was watched. */
  readonly since: number;
  /** When nobody watched, or nothing could be accepted, in their order. What came before such a time says nothing of after. */
  readonly unwatched: readonly Span[];
}

/** How many deliveries each hour of a week has on average, from Monday in UTC, and how many came before it in the week. */
interface Week {
  readonly rates: readonly number[];
  /** One more than there are rates: the last is that of the whole week. */
  readonly sums: readonly number[];
}

/** How deliveries usually come. */
export interface Rhythm {
  readonly week: Week;
  /** So many could have been expected in the longest silence that is usual; what is left unexplained is a silence. */
  readonly limit: number;
  /** The least and the most that came in some hours, as a share of what was expected. */
  readonly shares: { readonly least: number; readonly most: number };
  /** What came lately as a share of what was expected, or what a quiet day has, whichever is less. */
  readonly level: number;
}

export const KEPT_DAYS = 35;

/** Two weekends, and enough gaps to know a long one. */
const LEAST_DAYS = 14;
const LEAST_COUNT = 20;

const WEEK_HOURS = 168;

/** A longer silence than one gap in a thousand, once in a thousand weeks. */
const RARE = Math.log(1000);

/** Longer gaps that count as failures of the publisher, of all that were seen. */
const MOST_FAILURES = 3;

/** Ticks of a clock vary less than arrivals by chance; below this, a late one would count as missing. */
const LEAST_SPREAD = 0.25;

/** Publishers that are asked to wait, or restart, are back sooner. */
const LEAST_SILENCE_MS = 10 * MINUTE_MS;

/** Summer time moves what comes by the hour of the day. */
const SHIFTS_MS = [-HOUR_MS, 0, HOUR_MS] as const;

/** Hours in which a volume is compared, and what has to be expected in them for a share to mean anything. */
const VOLUME_HOURS = 3;
const LEAST_VOLUME = 50;
/** A holiday has fewer deliveries and a sale has more; a tenth, or ten times as many, is neither. */
const BREAK_FACTOR = 10;
/** How much further than ever before. */
const BEYOND = 2;

/** What has to be expected of a day for its share to mean anything. */
const LEAST_DAY = 10;
/** Of a normal distribution, as multiples of the median deviation. One day that failed does not change that. */
const USUAL_DEVIATION = 1.48;
/** A quiet day has fewer than usual by so many deviations, in logarithms. */
const QUIET = 3;

const hourOf = (at: number) => Math.floor(at / HOUR_MS);

/** The first hour since the Unix epoch was a Thursday's. */
const slotOf = (hour: number) => (hour + 3 * 24) % WEEK_HOURS;

/**
 * Learns a rhythm from what came up to an instant; undefined while too little is known. What came after it is left out, so that a
 * silence does not teach that silence is usual.
 *
 * Gaps are measured by what was to be expected in them, so that a night, a weekend and a busy hour are comparable. The rare
 * ones among them tell how much more than chance deliveries come in bursts.
 */
export function learnRhythm({ hours, since, unwatched }: ArrivalHistory, until: number): Rhythm | undefined {
  const from = Math.max(since, until - KEPT_DAYS * DAY_MS);
  const known = hours.filter(({ hour, firstAt }) => hour >= hourOf(from) && firstAt <= until);
  const count = known.reduce((sum, each) => sum + each.count, 0);
  const watched = watchedSpans({ from, to: until }, unwatched);
  const watchedMs = watched.reduce((sum, span) => sum + span.to - span.from, 0);
  if (count < LEAST_COUNT || watchedMs < LEAST_DAYS * DAY_MS) return undefined;
  const week = weekOf(known, watched);
  const gaps = watched.flatMap((span) => gapsIn(known, span)).map((gap) => expectedAtLeast(week, gap));
  const inHours = known.flatMap(({ firstAt, longestGapMs }) =>
    longestGapMs === 0 ? [] : [expectedAtLeast(week, { from: firstAt, to: firstAt + longestGapMs })],
  );
  const longest = [...gaps, ...inHours].sort((one, other) => other - one);
  const rank = Math.min(Math.max(Math.round(count / 1000), 1), MOST_FAILURES, longest.length);
  const usual = longest[rank - 1] ?? 0;
  const spread = Math.max(usual / Math.log(count / rank), LEAST_SPREAD);
  const aWeek = (count * 7 * DAY_MS) / watchedMs;
  const limit = Math.max(spread * (Math.log(Math.max(aWeek, 2)) + RARE), usual * 1.5);
  const counts = countsOf(known);
  const level = Math.min(quietOf(counts, week, { watched, spread }), levelOf(counts, week, { watched, until }));
  return { week, limit, shares: sharesOf(counts, week, watched), level };
}

/** The parts of a span that are in none of the others. */
function watchedSpans({ from, to }: Span, unwatched: readonly Span[]): Span[] {
  const watched: Span[] = [];
  let at = from;
  for (const gap of unwatched.toSorted((one, other) => one.from - other.from)) {
    if (gap.from >= to) break;
    if (gap.from > at) watched.push({ from: at, to: gap.from });
    at = Math.max(at, gap.to);
  }
  if (at < to) watched.push({ from: at, to });
  return watched;
}

function weekOf(known: readonly ArrivalHour[], watched: readonly Span[]): Week {
  const seen = new Array<number>(WEEK_HOURS).fill(0);
  for (const span of watched) {
    for (const { hour, share } of hoursOf(span)) seen[slotOf(hour)] = (seen[slotOf(hour)] ?? 0) + share;
  }
  const counts = new Array<number>(WEEK_HOURS).fill(0);
  for (const { hour, count } of known) counts[slotOf(hour)] = (counts[slotOf(hour)] ?? 0) + count;
  // An hour of the week of which a part was seen once tells nothing.
  const rates = counts.map((count, slot) => ((seen[slot] ?? 0) < 0.5 ? 0 : count / (seen[slot] ?? 1)));
  const sums = [0];
  for (const rate of rates) sums.push((sums.at(-1) ?? 0) + rate);
  return { rates, sums };
}

/** The hours of a span, and how much of each belongs to it. */
function* hoursOf({ from, to }: Span): Generator<{ hour: number; share: number }> {
  for (let hour = hourOf(from); hour * HOUR_MS < to; hour += 1) {
    const share = (Math.min(to, (hour + 1) * HOUR_MS) - Math.max(from, hour * HOUR_MS)) / HOUR_MS;
    yield { hour, share };
  }
}

/** Times without a delivery within a span, but for those within an hour. */
function gapsIn(known: readonly ArrivalHour[], span: Span): Span[] {
  const inside = known.filter(({ lastAt, firstAt }) => lastAt >= span.from && firstAt < span.to);
  const ends = [...inside.map(({ firstAt }) => firstAt), span.to];
  return ends.flatMap((firstAt, n) => {
    const from = Math.max(inside[n - 1]?.lastAt ?? span.from, span.from);
    const to = Math.min(firstAt, span.to);
    return to > from ? [{ from, to }] : [];
  });
}

/** How many deliveries a span would usually have. */
function expected({ rates, sums }: Week, { from, to }: Span): number {
  const upTo = (at: number) => {
    const hour = hourOf(at);
    const weeks = Math.floor((hour + 3 * 24) / WEEK_HOURS);
    const slot = slotOf(hour);
    const started = (at / HOUR_MS - hour) * (rates[slot] ?? 0);
    return weeks * (sums[WEEK_HOURS] ?? 0) + (sums[slot] ?? 0) + started;
  };
  return upTo(to) - upTo(from);
}

const shifted = ({ from, to }: Span, byMs: number): Span => ({ from: from + byMs, to: to + byMs });

/** The same, whether or not the clocks were changed. */
function expectedAtLeast(week: Week, span: Span): number {
  return Math.min(...SHIFTS_MS.map((byMs) => expected(week, shifted(span, byMs))));
}

function expectedAtMost(week: Week, span: Span): number {
  return Math.max(...SHIFTS_MS.map((byMs) => expected(week, shifted(span, byMs))));
}

type Counts = ReadonlyMap<number, number>;

const countsOf = (hours: readonly ArrivalHour[]): Counts => new Map(hours.map(({ hour, count }) => [hour, count]));

/** Of a span of whole hours. */
function countIn(counts: Counts, { from, to }: Span): number {
  let sum = 0;
  for (let hour = hourOf(from); hour * HOUR_MS < to; hour += 1) sum += counts.get(hour) ?? 0;
  return sum;
}

/** Whole hours that were watched to the end. */
function windowAt(hour: number): Span {
  return { from: (hour - VOLUME_HOURS) * HOUR_MS, to: hour * HOUR_MS };
}

function sharesOf(counts: Counts, week: Week, watched: readonly Span[]) {
  let [least, most] = [1, 1];
  for (const span of watched) {
    for (let hour = hourOf(span.from) + VOLUME_HOURS + 1; hour * HOUR_MS <= span.to; hour += 1) {
      const window = windowAt(hour);
      const count = countIn(counts, window);
      const [fewest, greatest] = [expectedAtLeast(week, window), expectedAtMost(week, window)];
      if (fewest >= LEAST_VOLUME) least = Math.min(least, count / fewest);
      if (greatest >= LEAST_VOLUME) most = Math.max(most, count / greatest);
    }
  }
  return { least, most };
}

/** What a quiet day has, as a share of what was expected of it: less, the more days differ beyond chance. */
function quietOf(
  counts: Counts,
  week: Week,
  { watched, spread }: { readonly watched: readonly Span[]; readonly spread: number },
): number {
  const days = watched.flatMap(({ from, to }) => {
    const first = Math.ceil(from / DAY_MS);
    return Array.from({ length: Math.max(Math.floor(to / DAY_MS) - first, 0) }, (_, n) => {
      const day = { from: (first + n) * DAY_MS, to: (first + n + 1) * DAY_MS };
      return { usual: expected(week, day), count: countIn(counts, day) };
    });
  });
  const known = days.filter(({ usual }) => usual >= LEAST_DAY);
  if (known.length === 0) return 1;
  const deviation = USUAL_DEVIATION * median(known.map(({ usual, count }) => Math.abs(count / usual - 1)));
  const byChance = spread / median(known.map(({ usual }) => usual));
  return Math.exp(-QUIET * Math.sqrt(Math.max(deviation ** 2 - byChance, 0)));
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

/** A publisher that sends less than it used to leaves longer gaps. */
function levelOf(
  counts: Counts,
  week: Week,
  { watched, until }: { readonly watched: readonly Span[]; readonly until: number },
): number {
  const levels = [DAY_MS, 7 * DAY_MS].map((ms) => {
    const to = hourOf(until) * HOUR_MS;
    const spans = watched.flatMap((span) => {
      const own = { from: Math.max(span.from, to - ms), to: Math.min(span.to, to) };
      return own.to > own.from ? [own] : [];
    });
    const usual = spans.reduce((sum, span) => sum + expected(week, span), 0);
    return (countIn(counts, { from: to - ms, to }) + 2) / (usual + 2);
  });
  return Math.min(1, Math.max(1 / BREAK_FACTOR, Math.min(...levels)));
}

/** Whether it is silent for longer than it ever is by chance. `from` is the last delivery, or when it was watched again. */
export function isSilent({ week, limit, level }: Rhythm, { from, to }: Span): boolean {
  if (to - from < LEAST_SILENCE_MS) return false;
  return expectedAtLeast(week, { from, to }) * level > limit;
}

/** What came in the last whole hours, and what is usual then. */
export interface VolumeBreak extends Span {
  readonly count: number;
  readonly usual: number;
}

/** The last whole hours, if far fewer or far more came than is usual. */
export function findVolumeBreak(
  { week, shares }: Rhythm,
  { hours, unwatched, since }: ArrivalHistory,
  now: number,
): VolumeBreak | undefined {
  const window = windowAt(hourOf(now));
  if (window.from < since || unwatched.some(({ from, to }) => from < window.to && to > window.from)) return undefined;
  const count = countIn(countsOf(hours), window);
  const [fewest, greatest] = [expectedAtLeast(week, window), expectedAtMost(week, window)];
  const isDrop = fewest >= LEAST_VOLUME && count < Math.min(fewest / BREAK_FACTOR, (shares.least * fewest) / BEYOND);
  const isSurge =
    count >= LEAST_VOLUME * BREAK_FACTOR &&
    count > Math.max(greatest * BREAK_FACTOR, shares.most * Math.max(greatest, LEAST_VOLUME) * BEYOND);
  return isDrop || isSurge ? { ...window, count, usual: Math.round(expected(week, window)) } : undefined;
}
