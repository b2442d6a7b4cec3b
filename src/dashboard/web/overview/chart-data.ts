/** How far back the charts look. */
interface Window {
  readonly value: string;
  readonly text: string;
  readonly hours: number;
  readonly bucket: 'hour' | 'day';
  /** "the last 24 hours", to end a sentence with. */
  readonly name: string;
}

const DAY: Window = { value: '24h', text: '24 h', hours: 24, bucket: 'hour', name: 'the last 24 hours' };

export const WINDOWS: readonly Window[] = [
  DAY,
  { value: '7d', text: '7 d', hours: 168, bucket: 'hour', name: 'the last 7 days' },
  { value: '30d', text: '30 d', hours: 720, bucket: 'day', name: 'the last 30 days' },
];

export function windowOf(value: string | null): Window {
  return WINDOWS.find((window) => window.value === value) ?? DAY;
}

/** One of the values that a bar is stacked of. */
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

/** Each series lies on those before it; the last, the highest, is drawn first. */
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
  /** Whether the bars are whole days, which are counted in UTC. */
  readonly isByDay: boolean;
  /** The zone of the reader; only tests name another than the browser's. */
  readonly timeZone?: string | undefined;
}

/** Texts for the marks of the time axis: days for days and for long spans. A text that repeats the one before is empty. */
export function axisTexts(seconds: readonly number[], clock: Clock, isLong = clock.isByDay): string[] {
  const format = isLong ? dayFormat(clock) : hourFormat(clock);
  const texts = seconds.map((second) => format.format(second * 1000));
  return texts.map((text, index) => (text === texts[index - 1] ? '' : text));
}

/** The day or the hour that a bar shows. */
export function bucketName(ms: number, clock: Clock): string {
  const day = dayFormat(clock).format(ms);
  return clock.isByDay ? day : `${day}, ${hourFormat(clock).format(ms)}`;
}

// Read by the reader's clock, the beginning of a day in UTC may belong to the day before.
function dayFormat({ isByDay, timeZone }: Clock): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: isByDay ? 'UTC' : timeZone });
}

function hourFormat({ timeZone }: Clock): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone });
}

export function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** How often each reason was met with, the most frequent first, and its share of that one's bar. */
export function reasonCounts(counts: Readonly<Record<string, number | undefined>>) {
  const met = Object.entries(counts)
    .flatMap(([reason, number]) => (number === undefined || number === 0 ? [] : [{ reason, number }]))
    .sort((a, b) => b.number - a.number);
  const most = met[0]?.number ?? 1;
  return met.map((each) => ({ ...each, percent: (each.number / most) * 100 }));
}

/** A message split around the times in it, which the API gives in UTC. */
export function timesIn(message: string): { readonly text: string; readonly ms?: number }[] {
  return message.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).flatMap((text, index) => {
    if (text === '') return [];
    const ms = index % 2 === 1 ? Date.parse(text) : Number.NaN;
    return [Number.isNaN(ms) ? { text } : { text, ms }];
  });
}
