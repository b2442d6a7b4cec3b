import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import type { stepState } from './step-state.ts';

/** A span in which a step ran an attempt, waited, or was due without a slot. Milliseconds since the Unix epoch. */
export interface Bar {
  readonly kind: 'attempt' | 'wait' | 'slot';
  /** What the step did in this span. */
  readonly does: 'works' | 'wasInterrupted' | 'delays' | 'awaitsSignal' | 'asksAgain' | 'retries' | 'awaitsSlot';
  readonly from: number;
  readonly to: number;
  /** Status of the attempt; for a wait, status of the step. */
  readonly status: Api['Step']['status'];
  readonly attempt: number;
  /** The bar has not ended yet. */
  readonly isOpen: boolean;
}

/** Step types that only wait during an attempt. */
const WAITING_TYPES: ReadonlyMap<string, Bar['does']> = new Map([
  ['Delay', 'delays'],
  ['WaitForSignal', 'awaitsSignal'],
]);

/** With a free slot, a step starts within milliseconds; only longer waits for a slot are shown. */
export const SHOWN_SLOT_WAIT_MS = 100;

/** The bars of one step, oldest first. Bars that have not ended reach to `now`: the end of the run, if it has ended. */
export function barsOf({ stepType, status, dueAt, attempts }: Parameters<typeof stepState>[0], now: number): Bar[] {
  const bars: Bar[] = [];
  /** Adds the waits before an attempt, or before now if the step is still due. */
  const waitUntil = (to: number, due: number, next: Pick<Bar, 'attempt' | 'isOpen'>) => {
    const last = bars.at(-1);
    const slotFrom = Math.max(due, last?.to ?? due);
    const hasWaited = to - slotFrom >= SHOWN_SLOT_WAIT_MS;
    const waitTo = hasWaited ? slotFrom : to;
    if (last !== undefined && waitTo > last.to) {
      const isOpen = next.isOpen && !hasWaited;
      bars.push({ kind: 'wait', does: 'retries', from: last.to, to: waitTo, status, ...next, isOpen });
    }
    if (hasWaited) bars.push({ kind: 'slot', does: 'awaitsSlot', from: slotFrom, to, status, ...next });
  };
  for (const { attempt, status: outcome, slotWaitMs, startedAt, completedAt, errorCode } of attempts) {
    const from = Date.parse(startedAt);
    waitUntil(from, from - slotWaitMs, { attempt, isOpen: false });
    const isOpen = completedAt === null;
    const waits = WAITING_TYPES.get(stepType) ?? (isOpen && status === 'Pending' ? 'asksAgain' : undefined);
    const works = errorCode === 'interrupted' ? 'wasInterrupted' : 'works';
    const to = Math.max(from, isOpen ? now : Date.parse(completedAt));
    const kind = waits === undefined ? 'attempt' : 'wait';
    bars.push({ kind, does: waits ?? works, from, to, status: outcome, attempt, isOpen });
  }
  const last = bars.at(-1);
  if (status === 'Pending' && last?.isOpen !== true) {
    const due = dueAt === null ? now : Date.parse(dueAt);
    waitUntil(now, due, { attempt: (last?.attempt ?? 0) + 1, isOpen: true });
  }
  return bars;
}

/** Says what a step did in a bar, and for how long. */
export function barText({ does, from, to, attempt, status, isOpen }: Bar): string {
  const what = DOES[does][isOpen ? 1 : 0].replace('%', String(attempt));
  const outcome = does === 'works' && !isOpen ? ` ${status === 'Failed' ? 'failed' : 'ended'}` : '';
  return `${what}${outcome}: ${format.duration(to - from)}`;
}

/** Texts for ended and for open bars; `%` is the number of the attempt. */
const DOES = {
  works: ['Attempt %', 'Attempt % is running'],
  wasInterrupted: [
    'Attempt % was interrupted when the process stopped; the step was resumed when its lease expired',
    'Attempt % was interrupted when the process stopped; the step waits until its lease expires',
  ],
  delays: ['Waited for its due time', 'Waits for its due time'],
  awaitsSignal: ['Waited for its signal', 'Waits for its signal'],
  asksAgain: ['Waited to poll again', 'Waits to poll again'],
  retries: ['Waited before attempt %', 'Waits before attempt %'],
  awaitsSlot: ['Waited for a slot', 'Waits for a slot'],
} as const satisfies Record<Bar['does'], readonly [over: string, open: string]>;

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Position and width of a bar, in percent of the span; never too narrow to be seen. */
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

/** Axis marks at round distances from the start of a span: at most `most`, including 0. */
export function ticksOf({ from, to }: Span, most: number): number[] {
  const whole = Math.max(1, to - from);
  const step = ROUND_STEPS.find((size) => whole / size < most) ?? whole;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, index) => index * step).slice(0, most);
}
