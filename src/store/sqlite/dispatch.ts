import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { holderOf, leasedStep, ownerOf, parseRuntimeKey, tokenOf } from '../../flows/runtime-keys.ts';
import type { StepError } from '../../model/run.ts';
import type { BegunAttempt, Claim, ClaimRequest, StepsBatch } from '../store.ts';
import { toJson } from './columns.ts';
import { prepareSignalsOfStep, prepareTimeOutRuns, readWait, stopOf } from './control.ts';
import { prepareLoopItem } from './loops.ts';
import type { Member } from './messages.ts';
import { DUE_ROWS, type DueRow, prepareRoom, prepareTurns } from './turns.ts';

export const dispatchOperations = {
  claimDue: { thread: 'writer', prepare: prepareClaimDue },
  claimSteps: { thread: 'writer', prepare: prepareClaimSteps },
  claimOverdue: { thread: 'writer', prepare: prepareClaimOverdue },
  renewLeases: { thread: 'writer', prepare: prepareRenewLeases },
  returnLeases: { thread: 'writer', prepare: prepareReturnLeases },
  beginAttempts: { thread: 'writer', prepare: prepareBeginAttempts },
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

function prepareClaimSteps(db: Database): Member<'claimSteps'> {
  const find = db.prepare<[string, string], DueRow & { begunAt: number | null }>(`
    SELECT due.*, a.started_at AS begunAt FROM (
      ${DUE_ROWS} WHERE s.run_id = ? AND s.step_key = ? AND s.due_at IS NOT NULL
    ) due
    LEFT JOIN attempts a ON a.run_id = due.runId AND a.step_key = due.stepKey AND a.attempt = due.attemptCount`);
  const lease = prepareLease(db);
  const roomAt = prepareRoom(db);
  return ({ addresses, ...request }) => {
    const { now } = request;
    const named = new Map(addresses.map(({ runId, stepKey }) => [`${runId}/${stepKey}`, { runId, stepKey }]));
    const rows = [...named.values()].flatMap(({ runId, stepKey }) => find.get(runId, stepKey) ?? []);
    const isSuspect = ({ deaths, dueAt }: DueRow) => deaths >= 2 && dueAt <= now;
    // As in `claimDue`: the one begun last goes first.
    const suspect = rows.filter(isSuspect).sort((a, b) => (b.begunAt ?? 0) - (a.begunAt ?? 0))[0];
    const hasRoom = roomAt(now);
    const claims: Claim[] = [];
    const left: StepsBatch['left'][number][] = [];
    for (const found of rows.sort((a, b) => a.dueAt - b.dueAt)) {
      const { begunAt, ...row } = found;
      const { runId, stepKey, dueAt } = row;
      if (dueAt > now) left.push({ runId, stepKey, askAt: dueAt });
      else if (suspect !== undefined && found !== suspect) left.push({ runId, stepKey, askAt: now });
      else if (suspect === undefined && !hasRoom(row)) left.push({ runId, stepKey, askAt: null });
      else claims.push(lease(row, request));
    }
    return { claims, left };
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

function prepareLease(db: Database): (row: DueRow, request: Omit<ClaimRequest, 'limit'>) => Claim {
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
    { owner, now, leasedUntil },
  ) => {
    const { runId, stepKey, dueAt } = row;
    const wait = readWait(kept);
    // A step that was leased as it became due has no attempt that could be interrupted.
    const isInterrupted = status === 'Running' && attemptCount > 0;
    // Its holder lives and gave up its outcome; no other step can have caused that.
    const hasLapsed = isInterrupted && leaseToken !== null;
    // A step that has waited goes on with the attempt that it began.
    const goesOn = wait !== null && !isInterrupted;
    const { iteration } = parseRuntimeKey(stepKey);
    if (isInterrupted) interrupt.run(toJson(interrupted), now, runId, stepKey, attemptCount);
    const claim: Claim = {
      ...row,
      token: tokenOf(runId, stepKey, holderOf(owner, randomUUID())),
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
      const { runId, stepKey } = leasedStep(token);
      return renew.run(leasedUntil, runId, stepKey, token).changes === 0;
    });
}

function prepareReturnLeases(db: Database): Member<'returnLeases'> {
  // A step without a written attempt is as it was before its lease, and its next claim writes one.
  const giveBack = db.prepare(`
    UPDATE steps SET lease_token = NULL, due_at = ?, attempt_base = attempt_base + (attempt_count > 0),
      status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE status END,
      started_at = CASE WHEN attempt_count = 0 THEN NULL ELSE started_at END
    WHERE run_id = ? AND step_key = ? AND lease_token = ?`);
  return ({ tokens, at }) => {
    for (const token of tokens) {
      const { runId, stepKey } = leasedStep(token);
      giveBack.run(at, runId, stepKey, token);
    }
  };
}

function prepareBeginAttempts(db: Database): Member<'beginAttempts'> {
  const begin = prepareBeginAttempt(db);
  return ({ attempts }) => {
    for (const attempt of attempts) begin(attempt);
  };
}

/** Writes the first attempt of a step that is leased without one; else changes nothing. */
export function prepareBeginAttempt(db: Database): (begun: BegunAttempt) => void {
  const begin = db.prepare(`
    UPDATE steps SET attempt_count = 1, started_at = ?
    WHERE run_id = ? AND step_key = ? AND lease_token = ? AND attempt_count = 0`);
  const insert = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at) VALUES (?, ?, 1, 'Running', ?, ?)",
  );
  return ({ token, dueAt, startedAt }) => {
    const { runId, stepKey } = leasedStep(token);
    if (begin.run(startedAt, runId, stepKey, token).changes > 0) insert.run(runId, stepKey, dueAt, startedAt);
  };
}

function prepareRecover(db: Database): Member<'recover'> {
  const held = "lease_token IS NOT NULL AND status = 'Running' AND due_at IS NOT NULL";
  const columns = 'rowid AS row, lease_token AS token, attempt_count AS attemptCount';
  const listHeld = db.prepare<[], { row: number; token: string; attemptCount: number }>(`
    SELECT ${columns} FROM steps WHERE ${held} AND deaths < 2
    UNION ALL SELECT ${columns} FROM steps WHERE ${held} AND deaths >= 2`);
  // None of its attempts is written: whether it had begun is unknown, and nothing is counted.
  const release = db.prepare(`
    UPDATE steps SET status = 'Pending', lease_token = NULL, due_at = min(due_at, ?), started_at = NULL
    WHERE rowid = ?`);
  const take = db.prepare(`
    UPDATE steps SET lease_token = NULL, due_at = min(due_at, ?), interruptions = interruptions + 1,
      deaths = deaths + 1, lone_deaths = lone_deaths + ?
    WHERE rowid = ?`);
  // Due by the clock of the process that returned it, which may have been ahead.
  const givenBack = "lease_token IS NULL AND status = 'Running' AND due_at > ?";
  const makeDue = db.prepare(`
    UPDATE steps SET due_at = ? WHERE rowid IN (
      SELECT rowid FROM steps WHERE ${givenBack} AND deaths < 2
      UNION ALL SELECT rowid FROM steps WHERE ${givenBack} AND deaths >= 2)`);
  return ({ owner, now }) => {
    makeDue.run(now, now, now);
    const steps = listHeld.all().filter(({ token }) => (ownerOf(token) ?? owner) === owner);
    for (const { row, attemptCount } of steps) {
      if (attemptCount === 0) release.run(now, row);
      // Of several steps it is unknown which one took the process down, so none is blamed.
      else take.run(now, Number(steps.length === 1), row);
    }
    return steps.length;
  };
}
