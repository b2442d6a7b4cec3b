import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import type { RunStop, StoppedRun } from '../store.ts';
import { prepareRunTallies } from './run-tallies.ts';

/** When a run was told to stop, and by what. */
export interface StopTimes {
  readonly cancelRequestedAt: number | null;
  readonly timedOutAt: number | null;
}

/** Why a run is to end; what came first counts. */
export function stopOf({ cancelRequestedAt, timedOutAt }: StopTimes): RunStop | null {
  if (cancelRequestedAt === null && timedOutAt === null) return null;
  return timedOutAt === null || (cancelRequestedAt ?? Number.POSITIVE_INFINITY) <= timedOutAt
    ? 'cancelled'
    : 'timedOut';
}

export function stopError(stop: RunStop | null): StepError {
  return stop === 'timedOut'
    ? { code: 'run_timed_out', message: 'the time of the run was up', retryable: false }
    : { code: 'cancelled', message: 'the run was cancelled', retryable: false };
}

/** Ends a run that was told to stop, unless a step of it still runs under a lease; yields how it ended. */
export function prepareCloseRun(db: Database): (runId: string, stop: RunStop, at: number) => RunStatus | null {
  const findLeased = db.prepare('SELECT 1 FROM steps WHERE run_id = ? AND lease_token IS NOT NULL LIMIT 1');
  // What never began is skipped; what waits, is to be tried again or is a loop has begun and did not succeed.
  const closeSteps = db.prepare(`
    UPDATE steps SET status = CASE WHEN attempt_count = 0 THEN 'Skipped' ELSE 'Failed' END,
      skip_reason = CASE WHEN attempt_count = 0 THEN ? END,
      error = CASE WHEN attempt_count = 0 THEN NULL ELSE ? END,
      due_at = NULL, limit_at = NULL, wait = NULL, signal_name = NULL, completed_at = ?
    WHERE run_id = ? AND status IN ('Pending', 'Running')`);
  const closeAttempts = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ? WHERE run_id = ? AND status = 'Running'`);
  const tallies = prepareRunTallies(db);
  return (runId, stop, at) => {
    if (findLeased.get(runId) !== undefined) return null;
    const error = stopError(stop);
    closeSteps.run(error.message, JSON.stringify(error), at, runId);
    closeAttempts.run(JSON.stringify(error), at, runId);
    const status = stop === 'timedOut' ? 'TimedOut' : 'Cancelled';
    tallies.end(runId, status, at);
    return status;
  };
}

/** Tells the runs whose time is up to stop; at most `limit` a call. */
export function prepareTimeOutRuns(db: Database): (now: number, limit: number) => StoppedRun[] {
  const list = db.prepare<[number, number], Omit<StoppedRun, 'completedAt'>>(`
    SELECT id AS runId, flow_id AS flowId, started_at AS startedAt FROM runs
    WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL AND timeout_at <= ?
    ORDER BY timeout_at LIMIT ?`);
  const mark = db.prepare('UPDATE runs SET timed_out_at = ? WHERE id = ?');
  const closeRun = prepareCloseRun(db);
  return (now, limit) =>
    list.all(now, limit).map((run) => {
      mark.run(now, run.runId);
      return { ...run, completedAt: closeRun(run.runId, 'timedOut', now) === null ? null : now };
    });
}
