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
