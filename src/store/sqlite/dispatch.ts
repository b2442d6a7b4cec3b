import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import type { Claim, ClaimBatch, ClaimRequest } from '../store.ts';
import { toJson } from './json-column.ts';

interface DueRow extends Omit<Claim, 'token' | 'attempt' | 'startedAt'> {
  readonly status: StepStatus;
  readonly attemptCount: number;
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
      s.attempt_count AS attemptCount, s.interruptions, r.trigger_key AS triggerKey, r.traceparent, s.due_at AS dueAt
    FROM steps s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'
    WHERE s.due_at IS NOT NULL ORDER BY s.due_at, s.run_id, s.step_key LIMIT ?`);
  const lease = prepareLease(db);

  return ({ now, leasedUntil, limit }) => {
    // One more than can be taken: the first that is left says when to ask again.
    const rows = listDue.all(limit + 1);
    const due = rows.slice(0, limit).filter(({ dueAt }) => dueAt <= now);
    return { claims: due.map((row) => lease(row, now, leasedUntil)), nextDueAt: rows[due.length]?.dueAt ?? null };
  };
}

function prepareLease(db: Database): (row: DueRow, now: number, leasedUntil: number) => Claim {
  const interrupt = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const leaseStep = db.prepare(`
    UPDATE steps SET status = 'Running', lease_token = ?, due_at = ?, attempt_count = ?, interruptions = ?,
      started_at = coalesce(started_at, ?)
    WHERE run_id = ? AND step_key = ?`);
  const insertAttempt = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, started_at) VALUES (?, ?, ?, 'Running', ?)",
  );
  return ({ status, attemptCount, ...row }, now, leasedUntil) => {
    const { runId, stepKey } = row;
    const isInterrupted = status === 'Running';
    if (isInterrupted) interrupt.run(toJson(interrupted), now, runId, stepKey, attemptCount);
    const claim: Claim = {
      ...row,
      token: newToken(runId, stepKey),
      attempt: attemptCount + 1,
      interruptions: row.interruptions + Number(isInterrupted),
      startedAt: now,
    };
    leaseStep.run(claim.token, leasedUntil, claim.attempt, claim.interruptions, now, runId, stepKey);
    insertAttempt.run(runId, stepKey, claim.attempt, now);
    return claim;
  };
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
