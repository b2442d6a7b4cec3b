import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { holderOf, leasedStep, ownerOf } from '../../flows/runtime-keys.ts';
import { chooseNamed, claim, type DueStep, type NamedStep } from '../decisions/claim.ts';
import { decideNow } from '../decisions/decision.ts';
import { cancelOrphans, timeOutRuns } from '../decisions/stop.ts';
import type { Claim, ClaimRequest } from '../store.ts';
import type { Member } from './messages.ts';
import { runRowsOf } from './run-rows.ts';
import { prepareWakeForgotten } from './sub-runs.ts';
import { DUE_ROWS, prepareRoom, prepareTurns } from './turns.ts';

export const dispatchOperations = {
  claimDue: { thread: 'writer', prepare: prepareClaimDue },
  claimSteps: { thread: 'writer', prepare: prepareClaimSteps },
  claimOverdue: { thread: 'writer', prepare: prepareClaimOverdue },
  renewLeases: { thread: 'writer', prepare: prepareRenewLeases },
  returnLeases: { thread: 'writer', prepare: prepareReturnLeases },
  beginAttempts: { thread: 'writer', prepare: prepareBeginAttempts },
  recover: { thread: 'writer', prepare: prepareRecover },
} as const;

function prepareClaimDue(db: Database): Member<'claimDue'> {
  const suspect = 's.due_at IS NOT NULL AND s.deaths >= 2';
  // The step that began last goes first: it ran alone for the shortest time before the process died. In any other
  // order, a step that never ends could always start first, and the others would never run alone.
  const findSuspect = db.prepare<[number], DueStep>(`
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
  const find = db.prepare<[string, string], NamedStep>(`
    SELECT due.*, a.started_at AS begunAt FROM (
      ${DUE_ROWS} WHERE s.run_id = ? AND s.step_key = ? AND s.due_at IS NOT NULL
    ) due
    LEFT JOIN attempts a ON a.run_id = due.runId AND a.step_key = due.stepKey AND a.attempt = due.attemptCount`);
  const lease = prepareLease(db);
  const roomAt = prepareRoom(db);
  return ({ addresses, ...request }) => {
    const named = new Map(addresses.map(({ runId, stepKey }) => [`${runId}/${stepKey}`, { runId, stepKey }]));
    const rows = [...named.values()].flatMap(({ runId, stepKey }) => find.get(runId, stepKey) ?? []);
    const { taken, left } = chooseNamed(rows, { now: request.now, hasRoom: roomAt(request.now) });
    return { claims: taken.map((step) => lease(step, request)), left };
  };
}

function prepareClaimOverdue(db: Database): Member<'claimOverdue'> {
  const rows = runRowsOf(db);
  const listOverdue = db.prepare<[number, number], DueStep>(
    `${DUE_ROWS} WHERE limit_at <= ? AND s.status = 'Pending' ORDER BY limit_at LIMIT ?`,
  );
  const findNext = db.prepare<[number], { nextAt: number | null }>(`
    SELECT min(at) AS nextAt FROM (
      SELECT ? AS at WHERE EXISTS (SELECT 1 FROM orphaned_runs o CROSS JOIN runs r ON r.id = o.run_id)
      UNION ALL
      SELECT min(timeout_at) AS at FROM runs
      WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL
      UNION ALL SELECT min(limit_at) FROM steps WHERE limit_at IS NOT NULL)`);
  const lease = prepareLease(db);
  return (request) => {
    const timedOut = decideNow(timeOutRuns(rows, request));
    const orphaned = decideNow(cancelOrphans(rows, request));
    const claims = listOverdue.all(request.now, request.limit).map((row) => lease(row, request));
    return { timedOut, orphaned, claims, nextAt: findNext.get(request.now)?.nextAt ?? null };
  };
}

function prepareLease(db: Database): (step: DueStep, request: Omit<ClaimRequest, 'limit'>) => Claim {
  const rows = runRowsOf(db);
  return (step, { owner, now, leasedUntil }) =>
    decideNow(claim(rows, step, { holder: holderOf(owner, randomUUID()), now, leasedUntil }));
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
    UPDATE steps SET lease_token = NULL, due_at = CASE WHEN attempt_count = 0 THEN ? ELSE ? END,
      attempt_base = attempt_base + (attempt_count > 0),
      status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE status END,
      started_at = CASE WHEN attempt_count = 0 THEN NULL ELSE started_at END
    WHERE run_id = ? AND step_key = ? AND lease_token = ?`);
  return ({ tokens, at, dueAt = [] }) => {
    for (const [n, token] of tokens.entries()) {
      const { runId, stepKey } = leasedStep(token);
      giveBack.run(Math.min(at, dueAt[n] ?? at), at, runId, stepKey, token);
    }
  };
}

function prepareBeginAttempts(db: Database): Member<'beginAttempts'> {
  const { beginAttempt } = runRowsOf(db);
  return ({ attempts }) => {
    for (const attempt of attempts) beginAttempt(attempt);
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
  const wakeForgotten = prepareWakeForgotten(db);
  return ({ owner, now }) => {
    makeDue.run(now, now, now);
    wakeForgotten(now);
    const steps = listHeld.all().filter(({ token }) => (ownerOf(token) ?? owner) === owner);
    for (const { row, attemptCount } of steps) {
      if (attemptCount === 0) release.run(now, row);
      // Of several steps it is unknown which one took the process down, so none is blamed.
      else take.run(now, Number(steps.length === 1), row);
    }
    return steps.length;
  };
}
