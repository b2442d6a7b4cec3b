import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { parseRuntimeKey } from '../../flows/runtime-keys.ts';
import type { StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import type { Claim, ClaimBatch, ClaimRequest, ReceivedSignal } from '../store.ts';
import { toJson } from './json-column.ts';
import { prepareLoopItem } from './loops.ts';
import { prepareTimeOutRuns, type StopTimes, stopOf } from './stops.ts';
import { prepareSignalsOfStep, readWait, type TakenSignal } from './waits.ts';

type Found = 'token' | 'attempt' | 'startedAt' | 'attemptStartedAt' | 'resumed' | 'loop' | 'stop';

interface DueRow extends Omit<Claim, Found>, StopTimes {
  readonly status: StepStatus;
  readonly attemptCount: number;
  readonly wait: string | null;
}

const interrupted: StepError = {
  code: 'interrupted',
  message: 'The process that ran this attempt stopped before it ended.',
  retryable: true,
};

export function prepareClaimDue(db: Database): (request: ClaimRequest) => ClaimBatch {
  // CROSS JOIN keeps the index of due steps outermost, so that rows come in its order and only as many as are asked for.
  const listDue = db.prepare<[number], DueRow>(`
    SELECT s.run_id AS runId, r.flow_id AS flowId, r.revision, s.step_key AS stepKey, s.step_type AS stepType, s.status,
      s.attempt_count AS attemptCount, s.attempt_base AS attemptBase, s.interruptions, s.wait, s.due_at AS dueAt,
      r.trigger_key AS triggerKey, r.traceparent, r.cancel_requested_at AS cancelRequestedAt, r.timed_out_at AS timedOutAt
    FROM steps s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'
    WHERE s.due_at IS NOT NULL ORDER BY s.due_at, s.run_id, s.step_key LIMIT ?`);
  const lease = prepareLease(db);
  const timeOutRuns = prepareTimeOutRuns(db);
  const findDeadline = db.prepare<[], { dueAt: number | null }>(`
    SELECT min(timeout_at) AS dueAt FROM runs
    WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL`);

  return ({ now, leasedUntil, limit }) => {
    const timedOut = timeOutRuns(now, limit);
    // One more than can be taken: the first that is left says when to ask again.
    const rows = listDue.all(limit + 1);
    const due = rows.slice(0, limit).filter(({ dueAt }) => dueAt <= now);
    const waits = [rows[due.length]?.dueAt, findDeadline.get()?.dueAt].filter((at) => at != null);
    return {
      claims: due.map((row) => lease(row, now, leasedUntil)),
      nextDueAt: waits.length === 0 ? null : Math.min(...waits),
      timedOut,
    };
  };
}

function prepareLease(db: Database): (row: DueRow, now: number, leasedUntil: number) => Claim {
  const interrupt = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const leaseStep = db.prepare(`
    UPDATE steps SET status = 'Running', lease_token = ?, due_at = ?, attempt_count = ?, interruptions = ?,
      signal_name = NULL, started_at = coalesce(started_at, ?)
    WHERE run_id = ? AND step_key = ?`);
  const insertAttempt = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, started_at) VALUES (?, ?, ?, 'Running', ?)",
  );
  const findStart = db.prepare<[string, string, number], { startedAt: number }>(
    'SELECT started_at AS startedAt FROM attempts WHERE run_id = ? AND step_key = ? AND attempt = ?',
  );
  const signals = prepareSignalsOfStep(db);
  const loopItem = prepareLoopItem(db);
  return ({ status, attemptCount, wait: kept, cancelRequestedAt, timedOutAt, ...row }, now, leasedUntil) => {
    const { runId, stepKey } = row;
    const wait = readWait(kept);
    const isInterrupted = status === 'Running';
    // A step that has waited goes on with the attempt that it began.
    const goesOn = wait !== null && !isInterrupted;
    const { iteration } = parseRuntimeKey(stepKey);
    if (isInterrupted) interrupt.run(toJson(interrupted), now, runId, stepKey, attemptCount);
    const claim: Claim = {
      ...row,
      token: newToken(runId, stepKey),
      attempt: goesOn ? attemptCount : attemptCount + 1,
      interruptions: row.interruptions + Number(isInterrupted),
      startedAt: now,
      attemptStartedAt: (goesOn ? findStart.get(runId, stepKey, attemptCount)?.startedAt : undefined) ?? now,
      resumed: wait && { state: wait.state, signal: receivedOf(signals.findCame(runId, stepKey, wait)) },
      loop: iteration && { item: loopItem(runId, iteration.loopKey, iteration.index), index: iteration.index },
      stop: stopOf({ cancelRequestedAt, timedOutAt }),
    };
    leaseStep.run(claim.token, leasedUntil, claim.attempt, claim.interruptions, now, runId, stepKey);
    if (!goesOn) insertAttempt.run(runId, stepKey, claim.attempt, now);
    return claim;
  };
}

function receivedOf(came: TakenSignal | null): ReceivedSignal | null {
  return came && { body: came.body, deliveredAt: came.deliveredAt };
}

export function prepareRenewLeases(
  db: Database,
): (renewal: { tokens: readonly string[]; leasedUntil: number }) => string[] {
  const renew = db.prepare('UPDATE steps SET due_at = ? WHERE run_id = ? AND step_key = ? AND lease_token = ?');
  return ({ tokens, leasedUntil }) =>
    tokens.filter((token) => {
      const { runId, stepKey } = addressOf(token);
      return renew.run(leasedUntil, runId, stepKey, token).changes === 0;
    });
}

export function prepareRecover(db: Database): (now: number) => number {
  const recover = db.prepare(
    "UPDATE steps SET due_at = min(due_at, ?) WHERE due_at IS NOT NULL AND status = 'Running'",
  );
  return (now) => recover.run(now).changes;
}

/** A token holds its step's address, so that leases need no index of their own. */
function newToken(runId: string, stepKey: string): string {
  return `${runId}/${stepKey}/${randomUUID()}`;
}

function addressOf(token: string): { runId: string; stepKey: string } {
  const start = token.indexOf('/');
  const end = token.lastIndexOf('/');
  return { runId: token.slice(0, start), stepKey: token.slice(start + 1, end) };
}
