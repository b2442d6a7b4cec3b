import type { NewRun, OrderKey, OrderState, RunOrder } from '../../model/run.ts';
import { toSearchValue } from '../../model/text.ts';
import { laneDigest } from '../digest.ts';
import type { NextRun, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import { findDeadlock } from './order-deadlock.ts';
import type { NewOrderedRun, OrderRows } from './order-rows.ts';
import type { RunnableRevision } from './revisions.ts';
import type { FoundRun, RunRows } from './rows.ts';

// Runs of a flow that has `serialize` are in a lane for each key: the first runs, or has failed and holds the lane, and the
// others wait without steps that are due. The lane is locked by whoever joins it, or leaves it from its head. A transaction
// locks a run before its lane, and of a lane only a run that waits: whoever ends such a run does not need the lane.

/** Where a run of a revision is to wait, read from what started it; undefined where its flow lets runs overlap. */
export function orderIn(
  { order }: RunnableRevision,
  trigger: NewRun['trigger'],
  isVerified: boolean | null,
): RunOrder | undefined {
  return order && { ...order.readKey(trigger), isVerified };
}

type Started = Pick<NewRun, 'sourceRunId' | 'order'>;
type Joining = Started & Pick<NewRun, 'id' | 'flowId'>;

/** A run that has joined its lane: one that has to wait has no steps yet, and no deadline of its own. */
export function* withOrder<Run extends NewRun>(rows: OrderRows, run: Run): Decision<Run> {
  return (yield* joinOrder(rows, run)) ? waiting(run) : run;
}

/** A run as it is stored while it waits for its turn. */
export function waiting<Run extends Pick<NewRun, 'steps' | 'timeoutAt'>>(run: Run): Run {
  return { ...run, steps: [], timeoutAt: null };
}

/** Takes a new run into its lane, behind all that are there; yields whether it has to wait. */
export function* joinOrder(rows: OrderRows, run: Joining): Decision<boolean> {
  const place = yield* placeOf(rows, run);
  if (place !== undefined) rows.insertOrdered(place);
  return place?.state === 'waiting';
}

/** As `withOrder` for a run that a step is to wait for; yields the id of a run that would wait for itself then. */
export function* withAwaitedOrder<Run extends NewRun>(
  rows: OrderRows,
  run: Run,
  parentRunId: string,
): Decision<Run | string> {
  const place = yield* placeOf(rows, run);
  if (place === undefined) return run;
  const isWaiting = place.state === 'waiting';
  const deadlock = isWaiting ? yield* findDeadlock(rows, { lane: place.lane, parentRunId }) : undefined;
  if (deadlock !== undefined) return deadlock;
  rows.insertOrdered(place);
  return isWaiting ? waiting(run) : run;
}

/** Behind all that are in its lane; undefined where its flow lets runs overlap. */
function* placeOf(rows: OrderRows, run: Joining): Decision<NewOrderedRun | undefined> {
  const { id: runId, flowId, order } = run;
  if (order === undefined) return undefined;
  const isVerified = yield* isVerifiedRun(rows, run);
  const lane = laneDigest(flowId, { key: order.key, isVerified });
  return { runId, flowId, lane, ...(yield* lastPlace(rows, lane)), isVerified, ...shown(order) };
}

/** A lane is told by a digest: the key itself is for people. */
const shown = ({ key, problem }: OrderKey) => ({ key: key === null ? null : (toSearchValue(key) ?? ''), problem });

function* lastPlace(rows: OrderRows, lane: string): Decision<{ readonly seq: number; readonly state: OrderState }> {
  rows.lockLane(lane);
  const last = yield* rows.findLast(lane);
  return last === undefined ? { seq: 1, state: 'running' } : { seq: last.seq + 1, state: 'waiting' };
}

/** The lanes that new runs will join, to be locked together. */
export function* lanesOf(rows: OrderRows, runs: readonly Joining[]): Decision<string[]> {
  const lanes = new Set<string>();
  for (const run of runs) {
    if (run.order === undefined) continue;
    lanes.add(laneDigest(run.flowId, { key: run.order.key, isVerified: yield* isVerifiedRun(rows, run) }));
  }
  return [...lanes].sort();
}

/** A run that repeats another one, or that another one started, counts as verified where that does. */
function* isVerifiedRun(rows: OrderRows, { order, sourceRunId }: Started): Decision<boolean> {
  if (order?.isVerified !== null && order?.isVerified !== undefined) return order.isVerified;
  let runId = sourceRunId;
  while (runId !== null) {
    const source = yield* rows.findStarter(runId);
    // What nobody can say any more does not count as verified.
    if (source === undefined) return false;
    if (source.isVerified !== null) return source.isVerified;
    if (source.sourceRunId === null) return source.triggerType !== 'webhook';
    runId = source.sourceRunId;
  }
  return true;
}

type EndedRun = Pick<FoundRun, 'flowId' | 'revision' | 'status'> & { readonly runId: string; readonly at: number };

/**
 * Takes a run that has ended out of its lane and lets the next one start, or has it hold the lane. Only the failure of what
 * was verified holds one: else a stranger could stop all that is not.
 */
export function* leaveOrder(
  rows: RunRows,
  { runId, flowId, revision, status, at }: EndedRun,
): Decision<NextRun | undefined> {
  // Of most flows nothing else is read. A run can be cancelled whatever became of its revision.
  const order = status === 'Cancelled' ? null : (yield* rows.revisionOf(flowId, revision)).order;
  if (order === undefined) return undefined;
  const place = yield* rows.findOrdered(runId);
  if (place === undefined || place.state === null) return undefined;
  const isFailed = status === 'Failed' || status === 'TimedOut';
  if (place.state !== 'waiting' && isFailed && order?.isStopped === true && place.isVerified) {
    rows.setPlace(runId, { ...place, state: 'stopped' });
    return undefined;
  }
  rows.setPlace(runId, { ...place, state: null });
  return place.state === 'waiting' ? undefined : yield* startNext(rows, place.lane, at);
}

/** Lets the first run of a lane start, which waits until now. */
function* startNext(rows: RunRows, lane: string, at: number): Decision<NextRun | undefined> {
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
    // It was ended while this transaction waited for it, and is about to leave or has left.
    rows.setPlace(runId, { ...next, state: null });
  }
}

/** A new run gets its first steps; of one that was retried the steps that are to be tried again fall due. */
function* begin(
  rows: RunRows,
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
      rows.insertNext({ runId, flowId, stepKey, stepType, status: 'Pending', dueAt, token: null, startedAt: null });
    }
  } else rows.makeDue(runId, at);
  return { runId, flowId, timeoutAt };
}

/**
 * Takes a run that is retried back into its lane; yields whether it has to wait, or the id of a run that would wait for
 * itself then. One that holds its lane runs at once.
 */
export function* rejoinOrder(
  rows: RunRows,
  { runId, flowId, revision }: Pick<EndedRun, 'runId' | 'flowId' | 'revision'>,
): Decision<boolean | string> {
  const { order } = yield* rows.revisionOf(flowId, revision);
  const place = order && (yield* rows.findOrdered(runId));
  if (place === undefined) return false;
  if (place.state === 'stopped') rows.setPlace(runId, { ...place, state: 'running' });
  if (place.state !== null) return place.state === 'waiting';
  const last = yield* lastPlace(rows, place.lane);
  const isWaiting = last.state === 'waiting';
  // A step that has not seen the end of the run yet waits on.
  const parent = isWaiting ? yield* rows.findAwaiting(runId) : undefined;
  const deadlock = parent && (yield* findDeadlock(rows, { lane: place.lane, parentRunId: parent.runId }));
  if (deadlock !== undefined) return deadlock;
  rows.setPlace(runId, { ...place, ...last });
  return isWaiting;
}

export function* releaseOrder(
  rows: RunRows,
  { runId, at }: Parameters<Store['releaseOrder']>[0],
): Decision<Awaited<ReturnType<Store['releaseOrder']>>> {
  const run = yield* rows.findRun(runId);
  if (run === undefined) return { kind: 'unknown' };
  const place = yield* rows.findOrdered(runId);
  if (place?.state !== 'stopped') return { kind: 'notHolding' };
  rows.setPlace(runId, { ...place, state: null });
  const next = yield* startNext(rows, place.lane, at);
  return { kind: 'accepted', flowId: run.flowId, ...(next && { next }) };
}
