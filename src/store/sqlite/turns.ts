import { randomUUID } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { Rotation } from '../../model/rotation.ts';
import { holderOf } from '../../model/runtime-keys.ts';
import { claim, type DueStep } from '../decisions/claim.ts';
import { decideNow } from '../decisions/decision.ts';
import { runRowsOf } from '../decisions/run-rows.ts';
import { cancelOrphans, timeOutRuns } from '../decisions/stop.ts';
import { leftBy, type Queue, takeTurn, waitingFlows } from '../decisions/turns.ts';
import { ORDINARY, readWaiting } from '../decisions/waiting-steps.ts';
import type { Claim, ClaimBatch, ClaimRequest } from '../store.ts';
import type { Member } from './messages.ts';
import { portOf } from './port.ts';

export const dispatchOperations = {
  claimDue: { thread: 'writer', prepare: prepareClaimDue },
  claimOverdue: { thread: 'writer', prepare: prepareClaimOverdue },
} as const;

// CROSS JOIN keeps the index of due steps outermost, so that rows come in its order and only as many as requested.
const DUE_ROWS = `
  SELECT s.run_id AS runId, r.flow_id AS flowId, r.revision, s.step_key AS stepKey, s.step_type AS stepType, s.status,
    s.attempt_count AS attemptCount, s.attempt_base AS attemptBase, s.interruptions, s.deaths,
    s.lone_deaths AS loneDeaths, s.lease_token AS leaseToken, s.wait, s.due_at AS dueAt, r.trigger_key AS triggerKey,
    r.traceparent, r.cancel_requested_at AS cancelRequestedAt, r.timed_out_at AS timedOutAt
  FROM steps s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'`;

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
    if (row !== undefined) return { claims: [lease(row, request)], nextDueAt: now, isKept: false };
    const turns = takeTurns(request, (due) => lease(due, request));
    const dueAt = findNextSuspect.get()?.dueAt ?? null;
    return dueAt === null ? turns : { ...turns, nextDueAt: Math.min(dueAt, turns.nextDueAt ?? dueAt) };
  };
}

function prepareClaimOverdue(db: Database): Member<'claimOverdue'> {
  const rows = runRowsOf(portOf(db));
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
  const rows = runRowsOf(portOf(db));
  return (step, { owner, now, leasedUntil }) =>
    decideNow(claim(rows, step, { holder: holderOf(owner, randomUUID()), now, leasedUntil }));
}

/** Makes the function that gives flows turns until the limit is reached or nothing more may run. */
export function prepareTurns(db: Database): (request: ClaimRequest, lease: (row: DueStep) => Claim) => ClaimBatch {
  const port = portOf(db);
  const listRows = db.prepare<[string, string, string, number], DueStep>(`
    ${DUE_ROWS} WHERE ${ORDINARY} AND s.status = ? AND s.flow_id = ? AND s.step_type = ?
    ORDER BY s.due_at, s.run_id, s.step_key LIMIT ?`);
  const rotation = new Rotation();

  return ({ now, limit, keptForIdle: kept = 0 }, lease) => {
    const waiting = decideNow(readWaiting(port, now));
    const chunk = Math.ceil(limit / Math.max(1, waiting.queues)) + 1;
    const read = new Map<Queue, DueStep[]>();
    const claims: Claim[] = [];
    const remaining = () => ({ left: limit - claims.length, kept });
    while (claims.length < limit) {
      const next = rotation.next(waitingFlows(waiting.flows, now, remaining()));
      if (next === undefined) break;
      const { flow, queue } = next;
      const more = () => listRows.all(queue.status, queue.flowId, queue.stepType, chunk);
      let rows = read.get(queue) ?? more();
      const row = rows.shift();
      if (row !== undefined) {
        claims.push(lease(row));
        takeTurn(rotation, flow, row.stepType);
        if (rows.length === 0) rows = more();
      }
      read.set(queue, rows);
      const dueAt = rows[0]?.dueAt ?? Number.POSITIVE_INFINITY;
      // After the lapsed leases come the ones still held.
      queue.dueAt = queue.status === 'Running' && dueAt > now ? Number.POSITIVE_INFINITY : dueAt;
    }
    return { claims, ...leftBy(waiting, now, remaining()) };
  };
}
