import type { RunStatus } from '../../model/manifest.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import type { RunStop, StoppedRun, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import { followEnd, subRuns } from './following.ts';
import type { EndingRun, FoundRun, RunRows, StopTimes } from './rows.ts';

/** Why a run has to end; the earlier reason counts. */
export function stopOf({ cancelRequestedAt, timedOutAt }: StopTimes): RunStop | null {
  if (cancelRequestedAt === null && timedOutAt === null) return null;
  return timedOutAt === null || (cancelRequestedAt ?? Number.POSITIVE_INFINITY) <= timedOutAt
    ? 'cancelled'
    : 'timedOut';
}

export function statusOfStop(stop: RunStop): RunStatus {
  return stop === 'timedOut' ? 'TimedOut' : 'Cancelled';
}

interface Stopped {
  readonly run: EndingRun;
  readonly stop: RunStop;
  readonly at: number;
}

/** Ends a run that was told to stop, unless a step of it still runs under a lease; yields how it ended, else null. */
export function* closeRun(rows: RunRows, { run, stop, at }: Stopped): Decision<RunStatus | null> {
  if (yield* rows.hasLease(run.runId)) return null;
  const status = statusOfStop(stop);
  rows.closeSteps(run.runId, STOP_ERRORS[stop], at);
  rows.endRun(run, status, at);
  return status;
}

type Cancel = Parameters<Store['cancelRun']>[0];

export function* cancelRun(
  rows: RunRows,
  { runId, reason, at }: Cancel,
): Decision<Awaited<ReturnType<Store['cancelRun']>>> {
  const run = yield* rows.findRun(runId);
  if (run === undefined) return { kind: 'unknown' };
  if (run.status !== 'Running') return { kind: 'ended', status: run.status };
  return { kind: 'accepted', run: yield* cancel(rows, run, { runId, reason, at }) };
}

function* cancel(
  rows: RunRows,
  { flowId, revision, startedAt, triggerType }: Omit<FoundRun, 'status' | 'timeoutAt' | keyof StopTimes>,
  { runId, reason, at }: Cancel,
): Decision<StoppedRun> {
  rows.markCancelled(runId, reason, at);
  yield* subRuns.orphan(rows, runId);
  const run = { runId, flowId, startedAt };
  const end = yield* closeRun(rows, { run, stop: 'cancelled', at });
  if (end === null) return { ...run, completedAt: null };
  return {
    ...run,
    completedAt: at,
    ...(yield* followEnd(rows, { runId, flowId, revision, triggerType, status: end, at })),
  };
}

/** Tells the runs whose time is up to stop; at most `limit` a call. */
export function* timeOutRuns(
  rows: RunRows,
  { now, limit }: { readonly now: number; readonly limit: number },
): Decision<StoppedRun[]> {
  const stopped: StoppedRun[] = [];
  for (const run of yield* rows.listOverdueRuns(now, limit)) {
    rows.markTimedOut(run.runId, now);
    yield* subRuns.orphan(rows, run.runId);
    const end = yield* closeRun(rows, { run, stop: 'timedOut', at: now });
    const ended = end === null ? undefined : yield* rows.findRun(run.runId);
    const followed = ended && (yield* followEnd(rows, { ...ended, runId: run.runId, at: now }));
    stopped.push({ ...run, completedAt: end === null ? null : now, ...followed });
  }
  return stopped;
}

/** Cancels runs that steps of stopped runs waited for; at most `limit` a call. */
export function* cancelOrphans(
  rows: RunRows,
  { now, limit }: { readonly now: number; readonly limit: number },
): Decision<StoppedRun[]> {
  const stopped: StoppedRun[] = [];
  // A parent that was told to stop twice has noted them twice.
  const orphans = new Map((yield* subRuns.takeOrphans(rows, limit)).map((orphan) => [orphan.run.runId, orphan]));
  for (const [runId, { run, reason }] of orphans) {
    if (run.status !== 'Running' || stopOf(run) !== null) continue;
    stopped.push(yield* cancel(rows, run, { runId, reason, at: now }));
  }
  return stopped;
}
