/** The time span of a chart. */
export interface ChartWindow {
  readonly bucket: 'minute' | 'hour' | 'day';
  /** Back from now, or between two times in the API's format; without an end if the second is empty. */
  readonly back: { readonly hours: number } | { readonly since: string; readonly until: string };
  /** Ends a sentence, such as "the last 24 hours". */
  readonly name: string;
  /** Begins with the hour of the first event; empty bars before it are not shown. */
  readonly isFromFirst?: true;
}

const DAY: ChartWindow = { bucket: 'hour', back: { hours: 24 }, name: 'the last 24 hours' };

const DAY_CHOICE = { value: '24h', text: '24 h', window: DAY };

export const WINDOWS: readonly { readonly value: string; readonly text: string; readonly window: ChartWindow }[] = [
  { value: '1h', text: '1 h', window: { bucket: 'minute', back: { hours: 1 }, name: 'the last hour' } },
  DAY_CHOICE,
  { value: '7d', text: '7 d', window: { bucket: 'hour', back: { hours: 168 }, name: 'the last 7 days' } },
  { value: '30d', text: '30 d', window: { bucket: 'day', back: { hours: 720 }, name: 'the last 30 days' } },
];

export function windowOf(value: string | null): (typeof WINDOWS)[number] {
  return WINDOWS.find((choice) => choice.value === value) ?? DAY_CHOICE;
}

/** Query parameters for the API; `days` only if the operation accepts them. */
export function askedOf({ bucket, back }: ChartWindow, takesDays: boolean): Record<string, string | number> {
  if ('since' in back) return { bucket, ...back };
  if (bucket === 'minute') return { bucket, minutes: back.hours * 60 };
  return bucket === 'day' && takesDays ? { bucket, days: back.hours / 24 } : { bucket, hours: back.hours };
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** The API counts at most 360 minutes, 1000 hours or 1000 days, and widens a span to whole ones. */
const MOST = { minute: 358 * MINUTE_MS, hour: 998 * HOUR_MS, day: 998 * DAY_MS } as const;
/** A shorter span is shown with the time around it. */
const LEAST_MS = 15 * MINUTE_MS;

/** The window of the time span in the address; the last day if there is none, or none that is readable. */
export function windowOfSpan(span: { since: string; until: string }, now: number): ChartWindow {
  const [since, until] = [timeOf(span.since), timeOf(span.until)];
  if (since === undefined && until === undefined) return DAY;
  const name = 'the chosen time';
  const end = until ?? now;
  const start = Math.min(since ?? end - DAY_MS, end);
  const around = Math.max(0, LEAST_MS - (end - start)) / 2;
  const [from, to] = [start - around, until === undefined ? end : end + around];
  const bucket = to - from <= MOST.minute ? 'minute' : to - from <= MOST.hour ? 'hour' : 'day';
  const first = Math.max(from, to - MOST[bucket]);
  return { bucket, back: { since: isoOf(first), until: until === undefined ? '' : isoOf(to) }, name };
}

/** The part of a window since the first event: a service of 20 minutes has no day to show. */
export function sinceFirst(window: ChartWindow, firstAt: string | null, now: number): ChartWindow {
  const first = firstAt === null ? Number.NEGATIVE_INFINITY : Date.parse(firstAt);
  if (!('hours' in window.back) || first <= now - window.back.hours * HOUR_MS) return window;
  const bucket = now - first <= MOST.minute ? 'minute' : now - first <= MOST.hour ? 'hour' : 'day';
  return {
    bucket,
    back: { since: isoOf(first), until: '' },
    name: 'the time since the first event',
    isFromFirst: true,
  };
}

/** If there are fewer bars, some empty ones before them are shown. */
const LEAST_BARS = 15;

/** The bars from the first one that is not empty. */
export function fromFirst<Bar extends { readonly total: number }>(
  { isFromFirst }: ChartWindow,
  bars: readonly Bar[],
): readonly Bar[] {
  const first = bars.findIndex((bar) => bar.total > 0);
  return isFromFirst && first > 0 ? bars.slice(Math.min(first, Math.max(0, bars.length - LEAST_BARS))) : bars;
}

/** ISO 8601 or milliseconds, the API's formats of times. */
export function timeOf(text: string): number | undefined {
  const ms = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
  return Number.isNaN(ms) || text === '' ? undefined : ms;
}

const isoOf = (ms: number) => new Date(ms).toISOString();

/** One of the series that make up stacked bars. */
export interface ChartSeries {
  readonly name: string;
  /** A colour of the style sheet, without its dashes. */
  readonly colour: 'accent' | 'good' | 'bad' | 'busy' | 'muted';
  readonly values: readonly number[];
}

/** Seconds from one bar to the next. */
export function stepOf(times: readonly number[]): number {
  const [first, second] = times;
  return first === undefined || second === undefined ? 0 : (second - first) / 1000;
}

/** Adds each series to those before it; the last one, the highest, is drawn first. */
export function stack(times: readonly number[], series: readonly ChartSeries[]): [number[], ...number[][]] {
  const middle = stepOf(times) / 2;
  const heights = times.map(() => 0);
  const stacked = series.map(({ values }) =>
    values.map((value, index) => {
      heights[index] = (heights[index] ?? 0) + value;
      return heights[index] ?? 0;
    }),
  );
  return [times.map((ms) => ms / 1000 + middle), ...stacked.reverse()];
}

interface Clock {
  /** Whether each bar is a whole day, counted in UTC. */
  readonly isByDay: boolean;
  /** The reader's time zone; only tests set it to another one than the browser's. */
  readonly timeZone?: string | undefined;
}

/** Steps between marks of the axis of counts: 1, 2 or 5 times any power of ten. */
export const COUNT_STEPS: readonly number[] = Array.from({ length: 16 }, (_, power) =>
  [1, 2, 5].map((each) => each * 10 ** power),
).flat();

const MILLION = 1_000_000;
const inFull = new Intl.NumberFormat();
const inShort = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 2 });

/** A count as text: in full below a million, such as 150,000, and short above, such as 1.5M. */
export const countText = (count: number) => (count < MILLION ? inFull : inShort).format(count);

const LEAST_WIDTH = 40;
/** Pixels of a digit in the axis's font, and of the gap between text and chart. */
const [DIGIT_WIDTH, GAP] = [6.6, 12];

/** Pixels for the axis texts: a text cut on its left would show a smaller number. Null before the first draw. */
export function axisWidth(texts: readonly (string | null)[] | null): number {
  const longest = Math.max(0, ...(texts ?? []).map((text) => text?.length ?? 0));
  return Math.max(LEAST_WIDTH, Math.ceil(longest * DIGIT_WIDTH) + GAP);
}

/** Texts for marks of the time axis: days for days and long spans. A text that repeats the last one is empty. */
export function axisTexts(seconds: readonly number[], clock: Clock, isLong = clock.isByDay): string[] {
  const format = isLong ? dayFormat(clock) : hourFormat(clock);
  const texts = seconds.map((second) => format.format(second * 1000));
  return texts.map((text, index) => (text === texts[index - 1] ? '' : text));
}

/** The day or the hour of a bar. */
export function bucketName(ms: number, clock: Clock): string {
  const day = dayFormat(clock).format(ms);
  return clock.isByDay ? day : `${day}, ${hourFormat(clock).format(ms)}`;
}

// In the reader's time zone, the start of a day in UTC may belong to the day before.
function dayFormat({ isByDay, timeZone }: Clock): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: isByDay ? 'UTC' : timeZone });
}

function hourFormat({ timeZone }: Clock): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone });
}

export function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Counts of the reasons that occurred, most frequent first, each with its share of the first one's bar. */
export function reasonCounts(counts: Readonly<Record<string, number | undefined>>) {
  const met = Object.entries(counts)
    .flatMap(([reason, number]) => (number === undefined || number === 0 ? [] : [{ reason, number }]))
    .sort((a, b) => b.number - a.number);
  const most = met[0]?.number ?? 1;
  return met.map((each) => ({ ...each, percent: (each.number / most) * 100 }));
}
