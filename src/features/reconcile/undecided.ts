import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Delivery, DeliveryRecord } from '../../model/delivery.ts';
import { printable } from '../../model/text.ts';
import type { DeliveryNames } from '../../store/store.ts';
import { CLEAN } from '../../webhooks/pipeline.ts';
import { recordOf } from '../../webhooks/record.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import type { ReconcileState, Undecided } from './state.ts';

/** A delivery is only settled by its contents. If they cannot be fetched, it is given up this long after `lookback`. */
export const GIVEN_UP_AFTER_DAYS = 3;
/** One answer without the delivery may be wrong; only after this long without it has the log lost it. */
const GONE_AFTER_MS = DAY_MS;
/** All are in the state, which is written with every fetched delivery. */
export const MOST_UNDECIDED = 500;
/** Number that one look asks for again, because it must respect the publisher's limits. */
const MOST_ASKED_AGAIN = 50;
const LONGEST_NAMES = 1000;

/** A delivery named by a list. */
export interface Entry {
  readonly id: string;
  readonly sentAt: number;
  readonly cause: string;
  readonly names: DeliveryNames;
}

interface Failed extends Entry {
  readonly why: string;
  readonly now: number;
  readonly everyMs: number;
  /** `missing`: no list has it. `no list`: its list failed; it stays due, so later pages need not wait. */
  readonly unlisted?: 'missing' | 'no list' | undefined;
}

/** Notes that a delivery was asked for in vain; undefined if there is no room. */
export function withUndecided(state: ReconcileState, failed: Failed): ReconcileState | undefined {
  const { id, why, now, everyMs, unlisted } = failed;
  const before = state.undecided.find((each) => each.id === id);
  if (before === undefined && state.undecided.length >= MOST_UNDECIDED) return undefined;
  const tries = (before?.tries ?? 0) + 1;
  const entry: Undecided = {
    ...(before ?? untried(failed, why, now)),
    ...{ tries, why, nextAt: now + (unlisted === 'no list' ? 0 : laterMs(tries, everyMs)) },
    missingSince: unlisted === 'missing' ? (before?.missingSince ?? now) : null,
  };
  return { ...state, undecided: [...state.undecided.filter((each) => each.id !== id), entry] };
}

/**
 * Notes listed deliveries that a look did not reach, oldest first, as far as there is room: the next look finds them in
 * the list and fetches them. If no list has one any more, it is asked for, and given up, as an undecided one.
 */
export function withUnasked(state: ReconcileState, unasked: readonly Entry[], now: number): ReconcileState {
  const known = new Set(state.undecided.map(({ id }) => id));
  const noted = unasked.filter(({ id }) => !known.has(id)).slice(0, Math.max(0, MOST_UNDECIDED - known.size));
  return { ...state, undecided: [...state.undecided, ...noted.map((entry) => untried(entry, UNASKED, now))] };
}

const UNASKED = 'the look broke off before it was asked for';

/** A delivery that no look has asked for. */
export function untried({ id, sentAt, cause, names }: Entry, why: string, now: number): Undecided {
  const never = { tries: 0, missingSince: null, record: null };
  return { id, sentAt, cause, names: storedNames(names), since: now, nextAt: now, why, ...never };
}

/** Whether it was asked for in vain, so that it now comes after all others. */
export const wasAsked = ({ tries }: Undecided) => tries > 0;

// First soon, since most faults pass; then with twice the delay each time.
const laterMs = (tries: number, everyMs: number) =>
  tries === 1 ? Math.min(everyMs, MINUTE_MS) : Math.min(everyMs * 2 ** (tries - 2), Math.max(everyMs, HOUR_MS));

export function withoutUndecided(state: ReconcileState, id: string): ReconcileState {
  return state.undecided.some((each) => each.id === id)
    ? { ...state, undecided: state.undecided.filter((each) => each.id !== id) }
    : state;
}

/** Deliveries to ask for now, longest due first. */
export function dueAgain({ undecided }: ReconcileState, now: number): Undecided[] {
  const due = undecided.filter(({ nextAt, record }) => nextAt <= now && record === null);
  return due.sort((one, other) => one.nextAt - other.nextAt).slice(0, MOST_ASKED_AGAIN);
}

/** Whether a delivery is due for its second try, so that the next look comes sooner. */
export function isSoon({ undecided, failure }: ReconcileState): boolean {
  return failure === null && undecided.some(({ tries }) => tries === 1);
}

/** Deliveries sent before this time are given up. */
export function givenUpBefore(now: number, { lookbackMs, knownMs }: { lookbackMs: number; knownMs: number }): number {
  return now - Math.min(lookbackMs + GIVEN_UP_AFTER_DAYS * DAY_MS, knownMs);
}

export function isGone({ missingSince }: Undecided, now: number): boolean {
  return missingSince !== null && now - missingSince >= GONE_AFTER_MS;
}

function storedNames({ eventId, nonce }: DeliveryNames): Undecided['names'] {
  const names = {
    ...(eventId !== undefined && { eventId }),
    ...(nonce !== undefined && { nonce: { header: nonce.header, value: nonce.value } }),
  };
  // Longer names are not stored; instead the log is asked again, while it lists the delivery.
  return JSON.stringify(names).length > LONGEST_NAMES ? {} : names;
}

/** The record of a delivery that is given up: it started nothing, and the books count it. */
export function recordOfGivenUp(
  { id, sentAt, since, tries, why, record }: Undecided,
  trigger: PreparedTrigger,
  clock: Clock,
): DeliveryRecord {
  if (record === null) throw new Error('A delivery that is not given up is to be recorded so.');
  const asked = `asked for ${tries === 1 ? 'once' : `${tries} times`}, first at ${new Date(since).toISOString()}`;
  const sent = `${trigger.trigger.reconcile?.from} sent ${printable(id)} at ${new Date(sentAt).toISOString()}`;
  const known = { id: record.id, receivedAt: record.at, clientIp: '0.0.0.0' };
  const delivery: Delivery = { ...known, method: 'POST', path: '', requestUrl: '', headers: {}, body: Buffer.alloc(0) };
  const reception = { delivery, trigger, judgement: CLEAN, shown: {}, startedAt: clock.monotonic() };
  return {
    ...recordOf(reception, { statusCode: 0, runId: null }, { clock, defaultMode: trigger.mode }),
    ...{ rejected: true, detail: `given up: ${sent}; ${asked}: ${printable(why)}`, outcome: 'givenUp' },
    // Nothing of it arrived, and no gate was asked.
    ...{ body: null, gateResults: undefined },
  };
}
