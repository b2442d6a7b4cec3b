import type { DueStep } from '../decisions/claim.ts';
import { advance } from '../decisions/follow.ts';
import { retryStep } from '../decisions/retry.ts';
import { deliverSignal } from '../decisions/signal.ts';
import { cancelOrphans, cancelRun, timeOutRuns } from '../decisions/stop.ts';
import { DUE_STEP, LOCKED, leaseSteps } from './claims.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { decideOn } from './run-rows.ts';
import type { Sql } from './sql.ts';
import { ASK_AGAIN_MS } from './turns.ts';

export const controlOperations: Operations<'advance' | 'claimOverdue' | 'cancelRun' | 'retryStep' | 'deliverSignal'> = {
  advance: { lane: 'write', run: (sql, outcome, lease) => decideOn(sql, (rows) => advance(rows, outcome, lease)) },
  claimOverdue: { lane: 'write', run: claimOverdue },
  cancelRun: { lane: 'write', run: (sql, cancel) => decideOn(sql, (rows) => cancelRun(rows, cancel)) },
  retryStep: { lane: 'write', run: (sql, retry) => decideOn(sql, (rows) => retryStep(rows, retry)) },
  deliverSignal: { lane: 'write', run: (sql, signal) => decideOn(sql, (rows) => deliverSignal(rows, signal)) },
};

async function claimOverdue(sql: Sql, request: Given<'claimOverdue'>): Promise<Answer<'claimOverdue'>> {
  const { now, limit } = request;
  const timedOut = await decideOn(sql, (rows) => timeOutRuns(rows, request));
  const orphaned = await decideOn(sql, (rows) => cancelOrphans(rows, request));
  const overdue = await sql.all<DueStep>(
    `SELECT ${DUE_STEP} FROM sluice.steps s JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
    WHERE s.limit_at <= $1 AND s.status = 'Pending' ORDER BY s.limit_at LIMIT $2 ${LOCKED}`,
    [now, limit],
  );
  const claims = await leaseSteps(sql, overdue, request);
  const next = await sql.get<{ nextAt: number | null }>(
    `SELECT least(
      (SELECT min(timeout_at) FROM sluice.runs
        WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL),
      (SELECT min(limit_at) FROM sluice.steps WHERE limit_at IS NOT NULL),
      (SELECT $1::bigint WHERE EXISTS (SELECT FROM sluice.orphaned_runs o JOIN sluice.runs r ON r.id = o.run_id))
    ) AS "nextAt"`,
    [now],
  );
  const nextAt = next?.nextAt ?? null;
  // What another transaction has locked is overdue still, or ended when that has committed.
  const isLocked = nextAt !== null && nextAt <= now && timedOut.length < limit && overdue.length < limit;
  return { timedOut, orphaned, claims, nextAt: isLocked ? now + ASK_AGAIN_MS : nextAt };
}
