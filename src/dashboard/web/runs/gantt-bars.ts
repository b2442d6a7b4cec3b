import type { Api } from '../api-types.ts';
import type { stepState } from './step-state.ts';

/** A stretch of time in which a step was tried, waited, or was due and had no slot. Milliseconds since the Unix epoch. */
export interface Bar {
  readonly kind: 'attempt' | 'wait' | 'slot';
  readonly from: number;
  readonly to: number;
  /** Of the attempt; of a wait the step's own. */
  readonly status: Api['Step']['status'];
  readonly attempt: number;
  /** It goes on. */
  readonly isOpen: boolean;
}

/** Types whose whole attempt is a wait: nothing of it works on anything. */
const WAITING_TYPES: ReadonlySet<string> = new Set(['Delay', 'WaitForSignal']);

/** A step is started within a few milliseconds where a slot is free; from here on a wait for one is worth a look. */
export const SHOWN_SLOT_WAIT_MS = 100;

/** The bars of one step, oldest first. `now` is the end of what has not ended: the run's own end where it has one. */
export function barsOf({ stepType, status, dueAt, attempts }: Parameters<typeof stepState>[0], now: number): Bar[] {
  const bars: Bar[] = [];
  /** What came before an instant at which the step was tried, or at which it is still due. */
  const waitUntil = (to: number, due: number, next: Pick<Bar, 'attempt' | 'isOpen'>) => {
    const last = bars.at(-1);
    const slotFrom = Math.max(due, last?.to ?? due);
    const hasWaited = to - slotFrom >= SHOWN_SLOT_WAIT_MS;
    const waitTo = hasWaited ? slotFrom : to;
    if (last !== undefined && waitTo > last.to) {
      bars.push({ kind: 'wait', from: last.to, to: waitTo, status, ...next, isOpen: next.isOpen && !hasWaited });
    }
    if (hasWaited) bars.push({ kind: 'slot', from: slotFrom, to, status, ...next });
  };
  for (const { attempt, status: outcome, slotWaitMs, startedAt, completedAt } of attempts) {
    const from = Date.parse(startedAt);
    waitUntil(from, from - (slotWaitMs ?? 0), { attempt, isOpen: false });
    const isOpen = completedAt === null;
    const isWait = WAITING_TYPES.has(stepType) || (isOpen && status === 'Pending');
    const to = Math.max(from, isOpen ? now : Date.parse(completedAt));
    bars.push({ kind: isWait ? 'wait' : 'attempt', from, to, status: outcome, attempt, isOpen });
  }
  const last = bars.at(-1);
  if (status === 'Pending' && last?.isOpen !== true) {
    const due = dueAt === null ? now : Date.parse(dueAt);
    waitUntil(now, due, { attempt: (last?.attempt ?? 0) + 1, isOpen: true });
  }
  return bars;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Where a bar begins and how wide it is, in percent of the span; never so narrow that it could not be seen. */
export function placeOf({ from, to }: Span, span: Span): { left: number; width: number } {
  const whole = Math.max(1, span.to - span.from);
  const left = clamp(((from - span.from) / whole) * 100, 0, 100 - MIN_WIDTH);
  return { left, width: clamp(((to - from) / whole) * 100, MIN_WIDTH, 100 - left) };
}

const MIN_WIDTH = 0.4;
const clamp = (value: number, min: number, max: number) => Math.min(max, Math.max(min, value));

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const ROUND_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY),
];

/** Round distances from the beginning of a span at which its axis is marked: at most `most` of them, 0 included. */
export function ticksOf({ from, to }: Span, most: number): number[] {
  const whole = Math.max(1, to - from);
  const step = ROUND_STEPS.find((size) => whole / size < most) ?? whole;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, index) => index * step).slice(0, most);
}
