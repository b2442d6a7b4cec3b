import type { OrderKey, OrderState } from '../../model/run.ts';
import { toSearchValue } from '../../model/text.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { EndedRun, PlacedRun, Placer } from '../../store/decisions/placer.ts';
import type { Port } from '../../store/decisions/port.ts';
import type { FoundRun, RunRows } from '../../store/decisions/rows.ts';
import { laneDigest } from '../../store/digest.ts';
import type { NextRun } from '../../store/store.ts';
import { lockLanes, type NewOrderedRun, type OrderRows, orderRows } from './rows.ts';

// Runs of a flow with `serialize` are in one lane for each key: the first runs, or has failed and holds the lane; the
// others wait without due steps. Joining a lane locks it, and so does leaving it from its head. A transaction locks a
// run before its lane, and in a lane only a waiting run: ending a waiting run does not need the lane.

/** Puts a new run at the end of its lane. */
function* join(port: Port, run: PlacedRun, parentRunId: string | undefined): Decision<boolean | string> {
  const rows = port.own(orderRows);
  const place = yield* placeOf(rows, run);
  const isWaiting = place.state === 'waiting';
  const isAwaited = isWaiting && parentRunId !== undefined;
  const deadlock = isAwaited ? yield* findDeadlock(rows, { lane: place.lane, parentRunId }) : undefined;
  if (deadlock !== undefined) return deadlock;
  rows.insertOrdered(place);
  return isWaiting;
}

/** The last place in its lane. */
function* placeOf(rows: OrderRows, run: PlacedRun): Decision<NewOrderedRun> {
  const { id: runId, flowId, order } = run;
  const isTrusted = yield* isTrustedRun(rows, run);
  const lane = laneDigest(flowId, { key: order.key, isTrusted });
  return { runId, flowId, lane, ...(yield* lastPlace(rows, lane)), isTrusted, ...shown(order) };
}

/** A digest identifies the lane; the key itself is only for people. */
const shown = ({ key, problem }: OrderKey) => ({ key: key === null ? null : (toSearchValue(key) ?? ''), problem });

function* lastPlace(rows: OrderRows, lane: string): Decision<{ readonly seq: number; readonly state: OrderState }> {
  rows.lockLane(lane);
  const last = yield* rows.findLast(lane);
  return last === undefined ? { seq: 1, state: 'running' } : { seq: last.seq + 1, state: 'waiting' };
}

/** Locks the lanes that new runs will join. */
function* lock(port: Port, runs: readonly PlacedRun[]): Decision<void> {
  const lanes = new Set<string>();
  for (const run of runs) {
    const isTrusted = yield* isTrustedRun(port.own(orderRows), run);
    lanes.add(laneDigest(run.flowId, { key: run.order.key, isTrusted }));
  }
  lockLanes(port, [...lanes].sort());
}

/** A rerun, or a run started by another run, counts as trusted if its source does. */
function* isTrustedRun(rows: OrderRows, { order, sourceRunId }: PlacedRun): Decision<boolean> {
  if (order.isTrusted !== null) return order.isTrusted;
  let runId = sourceRunId;
  while (runId !== null) {
    const source = yield* rows.findStarter(runId);
    // If its origin is no longer known, it does not count as trusted.
    if (source === undefined) return false;
    if (source.isTrusted !== null) return source.isTrusted;
    if (source.sourceRunId === null) return source.triggerType !== 'webhook';
    runId = source.sourceRunId;
  }
  return true;
}

/** The rows of a run's transaction, including those of lanes. */
interface Rows extends RunRows, OrderRows {}

function* withLanes(rows: RunRows): Decision<Rows> {
  return { ...rows, ...(yield* rows.port()).own(orderRows) };
}

/**
 * Takes an ended run out of its lane and starts the next, or has it hold the lane. Only a trusted run that fails can
 * hold a lane: otherwise a stranger could stop all untrusted ones.
 */
function* leave(runRows: RunRows, { runId, status, at }: EndedRun, mayStop: boolean): Decision<NextRun | undefined> {
  const rows = yield* withLanes(runRows);
  const place = yield* rows.findOrdered(runId);
  if (place === undefined || place.state === null) return undefined;
  const isFailed = status === 'Failed' || status === 'TimedOut';
  if (place.state !== 'waiting' && isFailed && mayStop && place.isTrusted) {
    rows.setPlace(runId, { ...place, state: 'stopped' });
    return undefined;
  }
  rows.setPlace(runId, { ...place, state: null });
  return place.state === 'waiting' ? undefined : yield* startNext(rows, place.lane, at);
}

/** Starts the first run of a lane, if it is waiting. */
function* startNext(rows: Rows, lane: string, at: number): Decision<NextRun | undefined> {
  rows.lockLane(lane);
  for (;;) {
    const next = yield* rows.findFirst(lane);
    if (next === undefined || next.state !== 'waiting') return undefined;
    const { runId } = next;
    const run = yield* rows.findRun(runId);
    if (run?.status === 'Running') {
      rows.setPlace(runId, { ...next, state: 'running' });
      return yield* begin(rows, { ...run, runId, at });
    }
    // It ended while this transaction waited for it, and is about to leave or has left.
    rows.setPlace(runId, { ...next, state: null });
  }
}

/** Gives a new run its first steps; in a retried run, makes the steps due that are tried again. */
function* begin(
  rows: Rows,
  { runId, flowId, revision, timeoutAt: limit, at }: FoundRun & { readonly runId: string; readonly at: number },
): Decision<NextRun> {
  const { entry, graph } = yield* rows.revisionOf(flowId, revision);
  const isNew = (yield* rows.statesIn(runId, '', graph)).size === 0;
  const dueAt = Math.max(at, isNew ? ((yield* rows.findGroupEnd(runId))?.dueAt ?? at) : at);
  const own = isNew && entry.timeoutSeconds !== undefined ? dueAt + Math.ceil(entry.timeoutSeconds * 1000) : null;
  const timeoutAt = own === null || limit === null ? (own ?? limit) : Math.min(own, limit);
  if (timeoutAt !== limit) rows.setDeadline(runId, timeoutAt);
  if (isNew) {
    for (const { stepKey, stepType } of entry.steps) {
      rows.insertNext({ runId, flowId, stepKey, stepType, status: 'Pending', dueAt, holder: null, startedAt: null });
    }
  } else rows.makeDue(runId, at);
  return { runId, flowId, timeoutAt };
}

/** Puts a retried run back into its lane. A run that holds its lane runs at once. */
function* rejoin(runRows: RunRows, { runId }: Pick<EndedRun, 'runId'>): Decision<boolean | string> {
  const rows = yield* withLanes(runRows);
  const place = yield* rows.findOrdered(runId);
  if (place === undefined) return false;
  if (place.state === 'stopped') rows.setPlace(runId, { ...place, state: 'running' });
  if (place.state !== null) return place.state === 'waiting';
  const last = yield* lastPlace(rows, place.lane);
  const isWaiting = last.state === 'waiting';
  // A parent step that has not yet seen the end of the run keeps waiting for it.
  const parent = isWaiting ? yield* rows.findAwaiting(runId) : undefined;
  const deadlock = parent && (yield* findDeadlock(rows, { lane: place.lane, parentRunId: parent.runId }));
  if (deadlock !== undefined) return deadlock;
  rows.setPlace(runId, { ...place, ...last });
  return isWaiting;
}

export type ReleasedRun = Pick<EndedRun, 'runId' | 'at'>;

type ReleaseResult =
  | { readonly kind: 'unknown' }
  /** It holds up no other run: it is running or waiting, or has ended and let the next one start. */
  | { readonly kind: 'notHolding' }
  | { readonly kind: 'accepted'; readonly flowId: string; readonly next?: NextRun | undefined };

/** Starts the next run of a lane that a failed run holds. */
export function* releaseOrder(runRows: RunRows, { runId, at }: ReleasedRun): Decision<ReleaseResult> {
  const run = yield* runRows.findRun(runId);
  if (run === undefined) return { kind: 'unknown' };
  const rows = yield* withLanes(runRows);
  const place = yield* rows.findOrdered(runId);
  if (place?.state !== 'stopped') return { kind: 'notHolding' };
  rows.setPlace(runId, { ...place, state: null });
  const next = yield* startNext(rows, place.lane, at);
  return { kind: 'accepted', flowId: run.flowId, ...(next && { next }) };
}

export const orderPlacer: Placer = { name: 'order', runs: { lock, join, rejoin, leave } };

// A run waits for the runs ahead of it in its lane, and for the sub-runs that its steps wait for. Only an awaited
// sub-run can close a circle of such waits, and only when it begins to wait for its turn; so this is the only place to
// look.

/** Number of lanes examined: longer circles are not found. */
const MOST_LANES = 10_000;

interface Wait {
  /** The lane in which a run would wait for its turn. */
  readonly lane: string;
  /** The run whose step waits for that run. */
  readonly parentRunId: string;
}

/** The run that both blocks the new run and waits for it, directly or through others; undefined if there is none. */
function* findDeadlock(rows: OrderRows, { lane, parentRunId }: Wait): Decision<string | undefined> {
  // Runs further up without a lane block no other run. Nearly always, none of them has a lane.
  const holders = new Map((yield* rows.listHolders(parentRunId)).map((held) => [held.lane, held.runId]));
  if (holders.size === 0) return undefined;
  // If two transactions would close a circle together, the second sees what the first waits for.
  rows.lockWaits();
  const seen = new Set([lane]);
  for (let lanes = [lane]; lanes.length > 0 && seen.size <= MOST_LANES; ) {
    const circle = lanes.find((each) => holders.has(each));
    if (circle !== undefined) return holders.get(circle);
    lanes = (yield* rows.listAwaitedLanes(lanes)).filter((each) => !seen.has(each));
    for (const each of lanes) seen.add(each);
  }
  return undefined;
}
