/** How far back the charts look. */
export interface Window {
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
  return ((times[1] ?? 0) - (times[0] ?? 0)) / 1000;
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

const hourText = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hour12: false });
const dayText = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

export function axisTexts(seconds: readonly number[], isByDay: boolean): string[] {
  const texts = seconds.map((second) => (isByDay ? dayText : hourText).format(second * 1000));
  return texts.map((text, index) => (text === texts[index - 1] ? '' : text));
}

export function bucketName(ms: number, isByDay: boolean): string {
  const day = dayText.format(ms);
  return isByDay ? day : `${day}, ${hourText.format(ms)}`;
}

export function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
