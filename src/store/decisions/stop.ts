import type { RunStatus } from '../../model/manifest.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import type { RunStop, StoppedRun, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import { startFailureRun } from './failure.ts';
import type { RunRows, StopTimes } from './rows.ts';

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
  readonly runId: string;
  readonly stop: RunStop;
  readonly at: number;
}

/** Ends a run that was told to stop, unless a step of it still runs under a lease; yields how it ended, else null. */
export function* closeRun(rows: RunRows, { runId, stop, at }: Stopped): Decision<RunStatus | null> {
  if (yield* rows.hasLease(runId)) return null;
  const status = statusOfStop(stop);
  rows.closeSteps(runId, STOP_ERRORS[stop], at);
  rows.endRun(runId, status, at);
  return status;
}

type Cancel = Parameters<Store['cancelRun']>[0];

export function* cancelRun(
  rows: RunRows,
  { runId, reason, at }: Cancel,
): Decision<Awaited<ReturnType<Store['cancelRun']>>> {
  const run = yield* rows.findRun(runId);
  if (run === undefined) return { kind: 'unknown' };
  const { flowId, status, startedAt } = run;
  if (status !== 'Running') return { kind: 'ended', status };
  rows.markCancelled(runId, reason, at);
  const end = yield* closeRun(rows, { runId, stop: 'cancelled', at });
  return { kind: 'accepted', run: { runId, flowId, startedAt, completedAt: end === null ? null : at } };
}

/** Tells the runs whose time is up to stop; at most `limit` a call. */
export function* timeOutRuns(
  rows: RunRows,
  { now, limit }: { readonly now: number; readonly limit: number },
): Decision<StoppedRun[]> {
  const stopped: StoppedRun[] = [];
  for (const run of yield* rows.listOverdueRuns(now, limit)) {
    rows.markTimedOut(run.runId, now);
    const end = yield* closeRun(rows, { runId: run.runId, stop: 'timedOut', at: now });
    const ended = end === null ? undefined : yield* rows.findRun(run.runId);
    const failure = ended && (yield* startFailureRun(rows, { ...ended, runId: run.runId, at: now }));
    stopped.push({ ...run, completedAt: end === null ? null : now, ...(failure && { failure }) });
  }
  return stopped;
}
