import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { ArrivalHour } from './store.ts';

/** A span of time, in milliseconds since the Unix epoch. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Arrivals of a trigger, or of one kind of its events. */
interface ArrivalHistory {
  /** Hours with arrivals, in order. */
  readonly hours: readonly ArrivalHour[];
  /** Since when it has been watched. */
  readonly since: number;
  /** When nothing was watched or could be accepted, in order. No silence reaches across such a span. */
  readonly unwatched: readonly Span[];
}

/** Average deliveries in each hour of a week, from Monday in UTC, and their sum before that hour. */
interface Week {
  readonly rates: readonly number[];
  /** One more than there are rates: the last is the sum of the whole week. */
  readonly sums: readonly number[];
}

/** How deliveries usually arrive. */
export interface Rhythm {
  readonly week: Week;
  /** Deliveries to be expected in the longest usual silence; if more are missing, the trigger is silent. */
  readonly limit: number;
  /** The smallest and the largest share of the expected deliveries that any few hours had. */
  readonly shares: { readonly least: number; readonly most: number };
  /** The share of the expected deliveries that recent times, or a quiet day, have; the smaller of the two. */
  readonly level: number;
}

export const KEPT_DAYS = 35;

/** Includes two weekends, and enough gaps to know a long one. */
const LEAST_DAYS = 14;
const LEAST_COUNT = 20;

const WEEK_HOURS = 168;

/** By chance, a silence exceeds the limit only once in a thousand weeks. */
const RARE = Math.log(1000);

/** At most this many of the longest gaps count as failures of the publisher. */
const MOST_FAILURES = 3;

/** Regular senders vary less than chance arrivals; below this, a slightly late delivery would count as missing. */
const LEAST_SPREAD = 0.25;

/** Publishers that back off or restart return sooner than this. */
const LEAST_SILENCE_MS = 10 * MINUTE_MS;

/** Summer time shifts arrivals that follow the time of day. */
const SHIFTS_MS = [-HOUR_MS, 0, HOUR_MS] as const;

/** Hours of a compared volume, and the deliveries that must be expected in them for a share to be meaningful. */
const VOLUME_HOURS = 3;
const LEAST_VOLUME = 50;
/** Holidays have fewer deliveries and sales more, but not a tenth, or ten times as many. */
const BREAK_FACTOR = 10;
/** A break is this many times more extreme than any volume before. */
const BEYOND = 2;

/** Deliveries that must be expected on a day for its share to be meaningful. */
const LEAST_DAY = 10;
/** Standard deviation of a normal distribution in median deviations. One failed day does not change the median. */
const USUAL_DEVIATION = 1.48;
/** A quiet day is this many deviations below usual, in logarithms. */
const QUIET = 3;

const hourOf = (at: number) => Math.floor(at / HOUR_MS);

/** The Unix epoch began on a Thursday. */
const slotOf = (hour: number) => (hour + 3 * 24) % WEEK_HOURS;

/**
 * Learns a rhythm from the arrivals up to an instant; undefined if too little is known. Leaves out later arrivals, so
 * that it does not learn the judged silence as usual.
 *
 * Measures gaps by the deliveries expected in them, so that nights, weekends and busy hours are comparable. The rare
 * long gaps show how much more than by chance deliveries arrive in bursts.
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

/** The parts of a span outside of all unwatched spans. */
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
  // If only part of an hour of the week was seen, once, it says nothing.
  const rates = counts.map((count, slot) => ((seen[slot] ?? 0) < 0.5 ? 0 : count / (seen[slot] ?? 1)));
  const sums = [0];
  for (const rate of rates) sums.push((sums.at(-1) ?? 0) + rate);
  return { rates, sums };
}

/** The hours of a span, with the share of each hour that is inside. */
function* hoursOf({ from, to }: Span): Generator<{ hour: number; share: number }> {
  for (let hour = hourOf(from); hour * HOUR_MS < to; hour += 1) {
    const share = (Math.min(to, (hour + 1) * HOUR_MS) - Math.max(from, hour * HOUR_MS)) / HOUR_MS;
    yield { hour, share };
  }
}

/** Gaps between the hours with arrivals in a span, without gaps inside an hour. */
function gapsIn(known: readonly ArrivalHour[], span: Span): Span[] {
  const inside = known.filter(({ lastAt, firstAt }) => lastAt >= span.from && firstAt < span.to);
  const ends = [...inside.map(({ firstAt }) => firstAt), span.to];
  return ends.flatMap((firstAt, n) => {
    const from = Math.max(inside[n - 1]?.lastAt ?? span.from, span.from);
    const to = Math.min(firstAt, span.to);
    return to > from ? [{ from, to }] : [];
  });
}

/** Number of deliveries that a span usually has. */
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

/** The smallest expected number, in case clocks were changed by an hour. */
function expectedAtLeast(week: Week, span: Span): number {
  return Math.min(...SHIFTS_MS.map((byMs) => expected(week, shifted(span, byMs))));
}

function expectedAtMost(week: Week, span: Span): number {
  return Math.max(...SHIFTS_MS.map((byMs) => expected(week, shifted(span, byMs))));
}

type Counts = ReadonlyMap<number, number>;

const countsOf = (hours: readonly ArrivalHour[]): Counts => new Map(hours.map(({ hour, count }) => [hour, count]));

/** Number of deliveries in a span of whole hours. */
function countIn(counts: Counts, { from, to }: Span): number {
  let sum = 0;
  for (let hour = hourOf(from); hour * HOUR_MS < to; hour += 1) sum += counts.get(hour) ?? 0;
  return sum;
}

/** The last VOLUME_HOURS hours before `hour`. */
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

/** The share of expected deliveries that a quiet day has: smaller, the more days vary beyond chance. */
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

/** The recent level: a publisher that sends less than before leaves longer gaps. */
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

/** Whether a silence is longer than chance explains. `from` is the last delivery, or when watching resumed. */
export function isSilent({ week, limit, level }: Rhythm, { from, to }: Span): boolean {
  if (to - from < LEAST_SILENCE_MS) return false;
  return expectedAtLeast(week, { from, to }) * level > limit;
}

/** The volume of the last whole hours, and the usual volume at this time. */
export interface VolumeBreak extends Span {
  readonly count: number;
  readonly usual: number;
}

/** The last whole hours, if they had far fewer or far more deliveries than usual. */
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
