import type { Api } from './api-types.ts';

/*
 * The look of each name of the API: its tone, picture and words. Pure, so that the words are tested without a browser.
 */

type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'quiet';

export interface Look {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly text: string;
}

export type LookRow = readonly [Tone, IconName, string];

/** For each status of a run or a step, each way to know a scheme, and each class of findings. */
export const LOOKS = {
  status: {
    Pending: ['quiet', 'pending', 'Pending'],
    Running: ['busy', 'spinner', 'Running'],
    Succeeded: ['good', 'check', 'Succeeded'],
    Failed: ['bad', 'cross', 'Failed'],
    Skipped: ['quiet', 'skip', 'Skipped'],
    Cancelled: ['warn', 'stop', 'Cancelled'],
    TimedOut: ['bad', 'clock', 'Timed out'],
  } satisfies Record<Api['Run' | 'Step']['status'], LookRow>,
  certainty: {
    package: ['good', 'check', 'Its own package'],
    vector: ['good', 'check', 'Its own example'],
    documented: ['quiet', 'file', 'Documentation'],
    unconfirmed: ['warn', 'warn', 'Not confirmed'],
  } satisfies Record<NonNullable<Api['Scheme']['certainty']>, LookRow>,
  finding: {
    safe: ['good', 'check', 'Safe'],
    caution: ['warn', 'warn', 'Caution'],
    breaking: ['bad', 'cross', 'Breaking'],
  } satisfies Record<Api['Finding']['class'], LookRow>,
} as const;

export function gravestOf(findings: readonly Api['Finding'][]): Api['Finding']['class'] {
  const order = ['breaking', 'caution', 'safe'] as const;
  return order.find((name) => findings.some((finding) => finding.class === name)) ?? 'safe';
}

/** Each picture as a path on a 16 by 16 grid, drawn as strokes. */
export const ICONS = {
  check: 'M3.5 8.5l3 3 6-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  skip: 'M3 4l5 4-5 4zM9 4l5 4-5 4z',
  stop: 'M4.5 4.5h7v7h-7z',
  clock: 'M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z',
  spinner: 'M8 2a6 6 0 1 1-6 6',
  pending: 'M8 2.5v1M8 12.5v1M2.5 8h1M12.5 8h1M4.1 4.1l.7.7M11.2 11.2l.7.7M4.1 11.9l.7-.7M11.2 4.8l.7-.7',
  warn: 'M8 6v3M8 11.3v.1M7.1 2.7L1.8 12a1 1 0 0 0 .9 1.5h10.6a1 1 0 0 0 .9-1.5L8.9 2.7a1 1 0 0 0-1.8 0z',
  info: 'M8 7.5V11M8 5v.1M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z',
  shield: 'M8 1.8l5 1.7v4c0 3-2 5.3-5 6.7-3-1.4-5-3.7-5-6.7v-4z',
  eye: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM10 8a2 2 0 1 1-4 0 2 2 0 0 1 4 0z',
  off: 'M8 2v5M4.7 4a5.5 5.5 0 1 0 6.6 0',
  copy: 'M5.5 5.5h7.5v7.5H5.5zM3 10.5V3h7.5',
  arrow: 'M3 8h10M9 4l4 4-4 4',
  left: 'M10 3.5L5.5 8l4.5 4.5',
  right: 'M6 3.5L10.5 8 6 12.5',
  down: 'M3.5 6L8 10.5 12.5 6',
  up: 'M3.5 10.5L8 6 12.5 10.5',
  download: 'M8 2v8M4.5 6.5L8 10l3.5-3.5M2.5 13.5h11',
  upload: 'M8 10V2M4.5 5.5L8 2l3.5 3.5M2.5 13.5h11',
  exit: 'M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3',
  file: 'M4 1.8h5l3 3v9.4H4zM9 1.8v3h3',
  replay: 'M3 8a5 5 0 1 0 1.5-3.5L3 6M3 2.5V6h3.5',
  play: 'M4.5 3l8 5-8 5z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  search: 'M10.5 10.5L14 14M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0z',
  sun: 'M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1M10.5 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z',
  system: 'M2 3h12v8H2zM6 13.5h4',
  keys: 'M1.5 4h13v8h-13zM4 6.5h.1M6.7 6.5h.1M9.3 6.5h.1M12 6.5h.1M5 9.5h6',
  overview: 'M2 13V9M6 13V4M10 13V7M14 13V2.5',
  deliveries: 'M2 4h12v8H2zM2 4.5L8 9l6-4.5',
  flows:
    'M4.5 4a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM14.5 4a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM9.5 12a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM4.5 4h7M3.6 5.4l3.5 5.3M12.4 5.4l-3.5 5.3',
  runs: 'M4.5 3l8 5-8 5z',
  schedules: 'M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z',
  hosts: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1',
  activity: 'M10.5 5a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM3 14c.4-2.8 2.3-4.5 5-4.5s4.6 1.7 5 4.5',
  link: 'M6 4H3v9h9v-3M9 3h4v4M13 3L7.5 8.5',
  lock: 'M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5',
} as const;

type IconName = keyof typeof ICONS;
