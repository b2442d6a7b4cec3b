import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { parseRuntimeKey } from '../../flows/runtime-keys.ts';
import type { StepError } from '../../model/run.ts';
import type { Claim, ClaimRequest } from '../store.ts';
import { toJson } from './columns.ts';
import { prepareSignalsOfStep, prepareTimeOutRuns, readWait, stopOf } from './control.ts';
import { prepareLoopItem } from './loops.ts';
import type { Member } from './messages.ts';
import { DUE_ROWS, type DueRow, prepareTurns } from './turns.ts';

export const dispatchOperations = {
  claimDue: { thread: 'writer', prepare: prepareClaimDue },
  claimOverdue: { thread: 'writer', prepare: prepareClaimOverdue },
  renewLeases: { thread: 'writer', prepare: prepareRenewLeases },
  returnLeases: { thread: 'writer', prepare: prepareReturnLeases },
  recover: { thread: 'writer', prepare: prepareRecover },
} as const;

const interrupted: StepError = {
  code: 'interrupted',
  message: 'The process that ran this attempt stopped before it ended.',
  retryable: true,
};

/** A suspect runs alone for this long the first time, and twice as long after each further death of a process. */
const FIRST_ALONE_MS = 10_000;
const LONGEST_ALONE_MS = 3_600_000;

function prepareClaimDue(db: Database): Member<'claimDue'> {
  const suspect = 's.due_at IS NOT NULL AND s.deaths >= 2';
  // The one begun last goes first: it was alone for the shortest time before the process died. In any other order, one
  // that never ends could always begin first, and the one after it would never run alone.
  const findSuspect = db.prepare<[number], DueRow>(`
    ${DUE_ROWS} LEFT JOIN attempts a ON a.run_id = s.run_id AND a.step_key = s.step_key AND a.attempt = s.attempt_count
    WHERE ${suspect} AND s.due_at <= ? ORDER BY a.started_at DESC, s.due_at, s.run_id, s.step_key LIMIT 1`);
  const findNextSuspect = db.prepare<[], { dueAt: number | null }>(
    `SELECT min(s.due_at) AS dueAt FROM steps s WHERE ${suspect}`,
  );
  const lease = prepareLease(db);
  const takeTurns = prepareTurns(db);
  return (request) => {
    const { now, limit } = request;
    const row = limit > 0 ? findSuspect.get(now) : undefined;
    if (row !== undefined) return { claims: [lease(row, request)], nextDueAt: now, isHeldBack: false };
    const turns = takeTurns(request, (due) => lease(due, request));
    const dueAt = findNextSuspect.get()?.dueAt ?? null;
    return dueAt === null ? turns : { ...turns, nextDueAt: Math.min(dueAt, turns.nextDueAt ?? dueAt) };
  };
}

function prepareClaimOverdue(db: Database): Member<'claimOverdue'> {
  const timeOutRuns = prepareTimeOutRuns(db);
  const listOverdue = db.prepare<[number, number], DueRow>(
    `${DUE_ROWS} WHERE limit_at <= ? AND s.status = 'Pending' ORDER BY limit_at LIMIT ?`,
  );
  const findNext = db.prepare<[], { nextAt: number | null }>(`
    SELECT min(at) AS nextAt FROM (
      SELECT min(timeout_at) AS at FROM runs
      WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL
      UNION ALL SELECT min(limit_at) FROM steps WHERE limit_at IS NOT NULL)`);
  const lease = prepareLease(db);
  return (request) => {
    const timedOut = timeOutRuns(request.now, request.limit);
    const claims = listOverdue.all(request.now, request.limit).map((row) => lease(row, request));
    return { timedOut, claims, nextAt: findNext.get()?.nextAt ?? null };
  };
}

function prepareLease(db: Database): (row: DueRow, request: ClaimRequest) => Claim {
  const interrupt = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const leaseStep = db.prepare(`
    UPDATE steps SET status = 'Running', lease_token = ?, due_at = ?, attempt_count = ?, interruptions = ?,
      lone_deaths = ?, signal_name = NULL, limit_at = NULL, started_at = coalesce(started_at, ?)
    WHERE run_id = ? AND step_key = ?`);
  const insertAttempt = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at) VALUES (?, ?, ?, 'Running', ?, ?)",
  );
  const findStart = db.prepare<[string, string, number], { startedAt: number }>(
    'SELECT started_at AS startedAt FROM attempts WHERE run_id = ? AND step_key = ? AND attempt = ?',
  );
  const signals = prepareSignalsOfStep(db);
  const loopItem = prepareLoopItem(db);
  return (
    { status, attemptCount, deaths, leaseToken, wait: kept, cancelRequestedAt, timedOutAt, ...row },
    { now, leasedUntil },
  ) => {
    const { runId, stepKey, dueAt } = row;
    const wait = readWait(kept);
    const isInterrupted = status === 'Running';
    // Its holder lives and gave up its outcome; no other step can have caused that.
    const hasLapsed = isInterrupted && leaseToken !== null;
    // A step that has waited goes on with the attempt that it began.
    const goesOn = wait !== null && !isInterrupted;
    const { iteration } = parseRuntimeKey(stepKey);
    if (isInterrupted) interrupt.run(toJson(interrupted), now, runId, stepKey, attemptCount);
    const claim: Claim = {
      ...row,
      token: newToken(runId, stepKey),
      attempt: goesOn ? attemptCount : attemptCount + 1,
      interruptions: row.interruptions + Number(hasLapsed),
      loneDeaths: row.loneDeaths + Number(hasLapsed),
      aloneMs: deaths < 2 ? null : Math.min(FIRST_ALONE_MS * 2 ** (deaths - 2), LONGEST_ALONE_MS),
      startedAt: now,
      attemptStartedAt: (goesOn ? findStart.get(runId, stepKey, attemptCount)?.startedAt : undefined) ?? now,
      resumed: wait && { state: wait.state, signal: signals.findCame(runId, stepKey, wait)?.signal ?? null },
      loop: iteration && { item: loopItem(runId, iteration.loopKey, iteration.index), index: iteration.index },
      stop: stopOf({ cancelRequestedAt, timedOutAt }),
    };
    const { token, attempt, interruptions, loneDeaths } = claim;
    leaseStep.run(token, leasedUntil, attempt, interruptions, loneDeaths, now, runId, stepKey);
    if (!goesOn) insertAttempt.run(runId, stepKey, attempt, dueAt, now);
    return claim;
  };
}

function prepareRenewLeases(db: Database): Member<'renewLeases'> {
  const renew = db.prepare('UPDATE steps SET due_at = ? WHERE run_id = ? AND step_key = ? AND lease_token = ?');
  return ({ tokens, leasedUntil }) =>
    tokens.filter((token) => {
      const { runId, stepKey } = addressOf(token);
      return renew.run(leasedUntil, runId, stepKey, token).changes === 0;
    });
}

function prepareReturnLeases(db: Database): Member<'returnLeases'> {
  const giveBack = db.prepare(`
    UPDATE steps SET lease_token = NULL, due_at = ?, attempt_base = attempt_base + 1
    WHERE run_id = ? AND step_key = ? AND lease_token = ?`);
  return ({ tokens, at }) => {
    for (const token of tokens) {
      const { runId, stepKey } = addressOf(token);
      giveBack.run(at, runId, stepKey, token);
    }
  };
}

function prepareRecover(db: Database): Member<'recover'> {
  const held = "lease_token IS NOT NULL AND status = 'Running' AND due_at IS NOT NULL";
  const count = db.prepare<[], { held: number }>(`
    SELECT (SELECT count(*) FROM steps WHERE ${held} AND deaths < 2) +
      (SELECT count(*) FROM steps WHERE ${held} AND deaths >= 2) AS held`);
  const take = db.prepare(`
    UPDATE steps SET lease_token = NULL, due_at = min(due_at, ?), interruptions = interruptions + 1,
      deaths = deaths + 1, lone_deaths = lone_deaths + ?
    WHERE rowid IN (
      SELECT rowid FROM steps WHERE ${held} AND deaths < 2
      UNION ALL SELECT rowid FROM steps WHERE ${held} AND deaths >= 2)`);
  // Due by the clock of the process that returned it, which may have been ahead.
  const givenBack = "lease_token IS NULL AND status = 'Running' AND due_at > ?";
  const makeDue = db.prepare(`
    UPDATE steps SET due_at = ? WHERE rowid IN (
      SELECT rowid FROM steps WHERE ${givenBack} AND deaths < 2
      UNION ALL SELECT rowid FROM steps WHERE ${givenBack} AND deaths >= 2)`);
  return (now) => {
    makeDue.run(now, now, now);
    const steps = count.get()?.held ?? 0;
    // Of several steps it is unknown which one took the process down, so none is blamed.
    if (steps > 0) take.run(now, Number(steps === 1));
    return steps;
  };
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
