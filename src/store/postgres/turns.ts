import { Rotation } from '../../model/rotation.ts';
import type { DueStep } from '../decisions/claim.ts';
import { decide } from '../decisions/decision.ts';
import { runRowsOf } from '../decisions/run-rows.ts';
import { cancelOrphans, timeOutRuns } from '../decisions/stop.ts';
import {
  type FlowQueues,
  isFull,
  type Limits,
  leftBy,
  type Queue,
  type Remaining,
  takeTurn,
  type Waiting,
  waitingFlows,
} from '../decisions/turns.ts';
import { ORDINARY, readWaiting } from '../decisions/waiting-steps.ts';
import type { Claim } from '../store.ts';
import { DUE_STEP, LOCKED, leaseSteps } from './claims.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const dispatchOperations: Operations<'claimDue' | 'claimOverdue'> = {
  claimDue: { purpose: 'write', run: claimDue },
  claimOverdue: { purpose: 'write', run: claimOverdue },
};

/** How soon to retry rows that another replica has locked: by then it has committed or failed. */
export const ASK_AGAIN_MS = 20;

const makeRotation = () => new Rotation();

/**
 * Leases the steps that must run alone, one at a time, before all others; otherwise lets flows take turns until the
 * limit is reached or nothing more may run. Looks, locks and leases until a look finds nothing more to take: rows
 * locked by another replica are skipped, so that replicas take different ones at once. If it knows of more due steps
 * than it may take, it ends without another look: under load that read is expensive, and the next claim begins with
 * one.
 */
async function claimDue(sql: Sql, request: Given<'claimDue'>): Promise<Answer<'claimDue'>> {
  const { now, limit, keptForIdle: kept = 0 } = request;
  const claims: Claim[] = [];
  const limited = new LimitedFlows(sql, now);
  let nextLapse: number | undefined;
  for (;;) {
    const seen = await decide(readWaiting(sql.port, now));
    // Of leases from before this claim: its caller renews the new ones.
    nextLapse ??= seen.nextLapse;
    const left = limit - claims.length;
    if (claims.length === 0 && left > 0 && seen.suspectAt !== null && seen.suspectAt <= now) {
      const alone = await leaseSteps(sql, await lockSuspect(sql, now), request);
      if (alone.length > 0) return { claims: alone, nextDueAt: now, isKept: false };
    }
    const { nextDueAt, isKept } = leftBy({ ...seen, nextLapse }, now, { left, kept });
    const flows = left > 0 ? await limited.lock(seen) : [];
    const taken = await take(sql, { flows, now, left, kept });
    if (taken.length === 0) {
      const nextAt = Math.min(nextDueAt ?? Number.POSITIVE_INFINITY, seen.suspectAt ?? Number.POSITIVE_INFINITY);
      const isLocked = left > 0 && nextAt <= now;
      return { claims, nextDueAt: isLocked ? now + ASK_AGAIN_MS : Number.isFinite(nextAt) ? nextAt : null, isKept };
    }
    claims.push(...(await leaseSteps(sql, taken, request)));
    const dueAt = taken.length === left ? leftBy({ flows, nextLapse }, now, { left: 0, kept }).nextDueAt : null;
    if (dueAt !== null && dueAt <= now) return { claims, nextDueAt: dueAt, isKept: false };
  }
}

// The step that began last goes first: it ran alone for the shortest time before the process died. In any other order,
// a step that never ends could always start first, and the others would never run alone.
function lockSuspect(sql: Sql, now: number): Promise<DueStep[]> {
  return sql.all(
    `SELECT ${DUE_STEP} FROM sluice.steps s JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
    LEFT JOIN sluice.attempts a ON a.run_id = s.run_id AND a.step_key = s.step_key AND a.attempt = s.attempt_count
    WHERE s.due_at IS NOT NULL AND s.deaths >= 2 AND s.due_at <= $1
    ORDER BY a.started_at DESC NULLS LAST, s.due_at, s.run_id, s.step_key LIMIT 1 ${LOCKED}`,
    [now],
  );
}

interface Turn extends Remaining {
  readonly flows: readonly FlowQueues[];
  readonly now: number;
}

/** Locks the steps whose turn it is. Takes fewer if it has to look again to know which turn is next. */
async function take(sql: Sql, { flows: all, now, left: limit, kept }: Turn): Promise<DueStep[]> {
  const rotation = sql.kept(makeRotation);
  // A flow's rank falls only by its own turns, so flows after these get no turn in this claim.
  const flows = rotation
    .order(waitingFlows(all, now, { left: limit, kept }))
    .slice(0, limit)
    .map(({ flow }) => flow);
  const queues = flows.flatMap((flow) => flow.queues.filter((queue) => queue.dueAt <= now && !isFull(flow, queue)));
  // One more than their share, to find out whether more are due.
  const chunk = Math.ceil(limit / Math.max(1, queues.length)) + 1;
  const rows = await lockRows(sql, queues, { now, chunk });
  const taken: DueStep[] = [];
  while (taken.length < limit) {
    const next = rotation.next(waitingFlows(flows, now, { left: limit - taken.length, kept }));
    if (next === undefined) break;
    const { flow, queue } = next;
    const own = rows.get(queue);
    const row = own?.rows.shift();
    if (row !== undefined) {
      taken.push({ ...row, isPlain: row.isPlain === true && !isLimited(flow.limits) });
      takeTurn(rotation, flow, row.stepType);
    }
    const first = own?.rows[0];
    queue.dueAt = first?.dueAt ?? Number.POSITIVE_INFINITY;
    // The queue may have more steps, older than those of the others.
    if (first === undefined && own?.isWhole === false) break;
  }
  return taken;
}

interface QueueRows {
  readonly rows: DueStep[];
  /** Whether the queue has no other due step that this transaction could lock. */
  readonly isWhole: boolean;
}

/** Locks the first due steps of each queue, up to the chunk size. */
async function lockRows(
  sql: Sql,
  queues: readonly Queue[],
  { now, chunk }: { now: number; chunk: number },
): Promise<ReadonlyMap<Queue, QueueRows>> {
  if (queues.length === 0) return new Map();
  const rows = await sql.all<DueStep & { queue: number }>(
    // Locks the steps in the order of their index before it looks at their runs: with a direct join PostgreSQL read and
    // sorted the whole queue.
    `SELECT ${DUE_STEP}, queues.queue FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
      AS queues (status, flow_id, step_type, queue)
    CROSS JOIN LATERAL (
      SELECT * FROM sluice.steps
      WHERE ${ORDINARY} AND status = queues.status AND flow_id = queues.flow_id AND step_type = queues.step_type
        AND due_at <= $4
      ORDER BY due_at, run_id, step_key LIMIT $5 FOR UPDATE SKIP LOCKED
    ) s
    JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
    ORDER BY queues.queue, s.due_at, s.run_id, s.step_key FOR SHARE OF r SKIP LOCKED`,
    [
      queues.map(({ status }) => status),
      queues.map(({ flowId }) => flowId),
      queues.map(({ stepType }) => stepType),
      now,
      chunk,
    ],
  );
  const found = queues.map((): DueStep[] => []);
  for (const { queue, ...row } of rows) found[queue - 1]?.push(row);
  return new Map(
    queues.map((queue, at) => {
      const own = found[at] ?? [];
      return [queue, { rows: own, isWhole: own.length < chunk }];
    }),
  );
}

/**
 * The flows whose concurrency is limited: only one replica at a time claims steps of each, so that none counts running
 * steps while another adds some. The lock is not that on the flow's row, which acceptances share. A claim does not wait
 * for it: it leaves out flows that another replica is claiming from.
 */
class LimitedFlows {
  readonly #sql: Sql;
  readonly #now: number;
  readonly #locked = new Set<string>();

  constructor(sql: Sql, now: number) {
    this.#sql = sql;
    this.#now = now;
  }

  /** Yields the flows that may be claimed from, and counts the running steps of limited flows again. */
  async lock({ flows }: Waiting): Promise<readonly FlowQueues[]> {
    const limited = flows.filter(
      ({ limits, queues }) => isLimited(limits) && queues.some((queue) => queue.dueAt <= this.#now),
    );
    const wanted = limited.map(({ flowId }) => flowId).filter((flowId) => !this.#locked.has(flowId));
    if (wanted.length === 0) return this.#claimable(flows);
    for (const flowId of await lockFlows(this.#sql, wanted)) this.#locked.add(flowId);
    // Another replica may have committed a claim between the look and the lock.
    return this.#claimable((await decide(readWaiting(this.#sql.port, this.#now))).flows);
  }

  #claimable(flows: readonly FlowQueues[]): readonly FlowQueues[] {
    return flows.filter(({ flowId, limits }) => !isLimited(limits) || this.#locked.has(flowId));
  }
}

/** Locks flows until the transaction ends, except those that others have locked; yields the locked ones. */
async function lockFlows(sql: Sql, flowIds: readonly string[]): Promise<string[]> {
  const rows = await sql.all<{ flowId: string }>(
    `SELECT flow_id AS "flowId" FROM unnest($1::text[]) AS given (flow_id)
    WHERE pg_try_advisory_xact_lock(hashtextextended('sluice claims of ' || $2 || ' from ' || flow_id, 0))`,
    [flowIds, sql.schema],
  );
  return rows.map(({ flowId }) => flowId);
}

function isLimited({ flow, byType }: Limits): boolean {
  return Number.isFinite(flow) || byType.size > 0;
}

async function claimOverdue(sql: Sql, request: Given<'claimOverdue'>): Promise<Answer<'claimOverdue'>> {
  const { now, limit } = request;
  const timedOut = await decide(timeOutRuns(runRowsOf(sql.port), request));
  const orphaned = await decide(cancelOrphans(runRowsOf(sql.port), request));
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
  // Rows locked by another transaction are still overdue, or will have ended when it commits.
  const isLocked = nextAt !== null && nextAt <= now && timedOut.length < limit && overdue.length < limit;
  return { timedOut, orphaned, claims, nextAt: isLocked ? now + ASK_AGAIN_MS : nextAt };
}
