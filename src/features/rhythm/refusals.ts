import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import type { RefusalHour } from './store.ts';

/** Refusals of a trigger that had none for a long time. */
export interface RefusalsBegan {
  /** Start of the first hour with refusals. */
  readonly since: number;
  readonly count: number;
  /** The most frequent reason. */
  readonly reason: Reason;
}

/** These have their own items in the attention list, or say nothing about the trigger. */
const TOLD_ELSEWHERE: ReadonlySet<string> = new Set<Reason>([
  'flow_disabled',
  'flow_unreadable',
  'store_unavailable',
  'unknown_flow',
]);

export const isCountedRefusal = (reason: string | null): reason is Reason =>
  reason !== null && !TOLD_ELSEWHERE.has(reason);

export const LEAST_REFUSALS = 3;

/** No refusals, and deliveries on several days: long enough to tell a change from a rough start. */
const CALM_HOURS = 7 * 24;
const LEAST_CALM_DAYS = 3;
/** Older refusals are no longer news. */
const NEWS_HOURS = 24;
/** How far back hours must be read. */
export const REFUSALS_LOOK_BACK_HOURS = CALM_HOURS + NEWS_HOURS;

const hourOf = (at: number) => Math.floor(at / HOUR_MS);

/** Refusals that began within a day, at least three; over once a later full hour only has accepted deliveries. */
export function findRefusalsBegan(hours: readonly RefusalHour[], now: number): RefusalsBegan | undefined {
  const refused = hours
    .filter(({ reason }) => isCountedRefusal(reason))
    .toSorted((one, other) => one.hour - other.hour);
  // The start of the latest refusals that followed a long calm.
  const start = refused.findLast(
    ({ hour }, n) => hour - (refused[n - 1]?.hour ?? Number.NEGATIVE_INFINITY) > CALM_HOURS,
  )?.hour;
  const end = refused.at(-1)?.hour;
  if (start === undefined || end === undefined || start < hourOf(now) - NEWS_HOURS) return undefined;
  const accepted = hours.filter(({ reason }) => reason === null).map(({ hour }) => hour);
  const calmDays = new Set(
    accepted
      .filter((hour) => hour >= start - CALM_HOURS && hour < start)
      .map((hour) => Math.floor((hour * HOUR_MS) / DAY_MS)),
  );
  if (calmDays.size < LEAST_CALM_DAYS || accepted.some((hour) => hour > end && hour < hourOf(now))) return undefined;
  const counts = new Map<Reason, number>();
  for (const { hour, reason, count } of refused) {
    if (hour >= start && isCountedRefusal(reason)) counts.set(reason, (counts.get(reason) ?? 0) + count);
  }
  const count = [...counts.values()].reduce((sum, each) => sum + each, 0);
  const [most] = [...counts].sort(([, one], [, other]) => other - one);
  return most === undefined || count < LEAST_REFUSALS ? undefined : { since: start * HOUR_MS, count, reason: most[0] };
}
