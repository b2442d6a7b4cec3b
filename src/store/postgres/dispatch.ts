import { leasedStep } from '../../flows/runtime-keys.ts';
import { chooseNamed, type NamedStep } from '../decisions/claim.ts';
import { roomOf } from '../decisions/turns.ts';
import type { LostLeases, StepAddress } from '../store.ts';
import { DUE_STEP, LOCKED, leaseSteps } from './claims.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';
import { wakeForgotten } from './sub-runs.ts';
import {
  ASK_AGAIN_MS,
  claimDue,
  isLimited,
  listRunning,
  listSlotWaits,
  lockFlows,
  measureBacklog,
  readLimits,
} from './turns.ts';
import { uuidOf } from './uuids.ts';

export const dispatchOperations: Operations<
  | 'claimDue'
  | 'claimSteps'
  | 'renewLeases'
  | 'returnLeases'
  | 'beginAttempts'
  | 'recover'
  | 'listSlotWaits'
  | 'measureBacklog'
> = {
  claimDue: { lane: 'write', run: claimDue },
  claimSteps: { lane: 'write', run: claimSteps },
  renewLeases: { lane: 'write', run: renewLeases },
  returnLeases: { lane: 'write', run: returnLeases },
  beginAttempts: { lane: 'write', run: beginAttempts },
  recover: { lane: 'write', run: recover },
  listSlotWaits: { lane: 'read', run: listSlotWaits },
  measureBacklog: { lane: 'read', run: measureBacklog },
};

interface FoundStep extends NamedStep {
  /** The newest revision of its flow; null where that was removed. */
  readonly newest: number | null;
}

async function claimSteps(sql: Sql, { addresses, ...request }: Given<'claimSteps'>): Promise<Answer<'claimSteps'>> {
  const { now } = request;
  const asked = new Map(
    addresses.filter(({ runId }) => uuidOf(runId) !== null).map((address) => [nameOf(address), address]),
  );
  if (asked.size === 0) return { claims: [], left: [] };
  const due = await lockNamed(sql, [...asked.values()], now);
  for (const step of due) asked.delete(nameOf(step));
  const rest = await listNamed(sql, [...asked.values()]);
  const limitsOf = await readLimits(
    sql,
    due.map(({ flowId, newest }) => ({ flowId, revision: newest })),
  );
  const limited = [...new Set(due.map(({ flowId }) => flowId).filter((flowId) => isLimited(limitsOf(flowId))))];
  const locked = new Set(limited.length === 0 ? [] : await lockFlows(sql, limited));
  // What another transaction has, or whose flow it is claiming from, is free or gone a moment later.
  const isTheirs = ({ dueAt, flowId, deaths }: NamedStep) =>
    dueAt <= now && deaths < 2 && limited.includes(flowId) && !locked.has(flowId);
  const steps = [
    ...due.map((step) => (isTheirs(step) ? { ...step, dueAt: now + ASK_AGAIN_MS } : step)),
    ...rest.map((step) => (step.dueAt <= now ? { ...step, dueAt: now + ASK_AGAIN_MS } : step)),
  ];
  // Counted after the flows are locked, in a statement of its own: it sees what others committed before.
  const running = locked.size === 0 ? [] : await listRunning(sql, now);
  const named = steps.map(({ newest, ...step }) => step);
  const { taken, left } = chooseNamed(named, { now, hasRoom: roomOf(running, limitsOf) });
  return { claims: await leaseSteps(sql, taken, request), left };
}

const nameOf = ({ runId, stepKey }: StepAddress) => `${runId}/${stepKey}`;

const NAMED = `
  SELECT ${DUE_STEP}, a.started_at AS "begunAt", f.revision AS newest
  FROM unnest($1::uuid[], $2::text[]) AS given (run_id, step_key)
  JOIN sluice.steps s USING (run_id, step_key) JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
  LEFT JOIN sluice.attempts a ON a.run_id = s.run_id AND a.step_key = s.step_key AND a.attempt = s.attempt_count
  LEFT JOIN sluice.flows f ON f.id = s.flow_id`;

function columnsOf(addresses: readonly StepAddress[]): [string[], string[]] {
  return [addresses.map(({ runId }) => runId), addresses.map(({ stepKey }) => stepKey)];
}

function lockNamed(sql: Sql, addresses: readonly StepAddress[], now: number): Promise<FoundStep[]> {
  return sql.all(`${NAMED} WHERE s.due_at <= $3 ${LOCKED}`, [...columnsOf(addresses), now]);
}

/** The steps that are still to be tried, due or not. */
async function listNamed(sql: Sql, addresses: readonly StepAddress[]): Promise<FoundStep[]> {
  if (addresses.length === 0) return [];
  return sql.all(`${NAMED} WHERE s.due_at IS NOT NULL`, columnsOf(addresses));
}

// Leases of one call are locked in the order of their addresses, so that two calls that share some do not block each
// other for good.
const HELD = `
  SELECT s.run_id, s.step_key, given.n FROM unnest($1::uuid[], $2::text[], $3::text[])
    WITH ORDINALITY AS given (run_id, step_key, token, n)
  JOIN sluice.steps s ON s.run_id = given.run_id AND s.step_key = given.step_key AND s.lease_token = given.token
  ORDER BY s.run_id, s.step_key FOR UPDATE OF s`;

function leasesOf(tokens: readonly string[]): [(string | null)[], string[], readonly string[]] {
  const steps = tokens.map(leasedStep);
  return [steps.map(({ runId }) => uuidOf(runId)), steps.map(({ stepKey }) => stepKey), tokens];
}

async function renewLeases(sql: Sql, { tokens, leasedUntil }: Given<'renewLeases'>): Promise<Answer<'renewLeases'>> {
  const renewed = await sql.all<{ n: number }>(
    `WITH held AS (${HELD})
    UPDATE sluice.steps s SET due_at = $4 FROM held WHERE s.run_id = held.run_id AND s.step_key = held.step_key
    RETURNING held.n`,
    [...leasesOf(tokens), leasedUntil],
  );
  const isRenewed = new Set(renewed.map(({ n }) => n - 1));
  return tokens.filter((_token, at) => !isRenewed.has(at));
}

async function returnLeases(sql: Sql, { tokens, at, dueAt = [] }: Given<'returnLeases'>): Promise<void> {
  // A step without a written attempt did not begin, and is as it was before its lease.
  await sql.run(
    `WITH held AS (${HELD})
    UPDATE sluice.steps s SET lease_token = NULL, attempt_base = attempt_base + (attempt_count > 0)::integer,
      due_at = CASE WHEN attempt_count = 0 THEN least($4, ($5::bigint[])[held.n]) ELSE $4 END,
      status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE status END,
      lease_owner = CASE WHEN attempt_count > 0 THEN lease_owner END,
      started_at = CASE WHEN attempt_count = 0 THEN NULL ELSE started_at END
    FROM held WHERE s.run_id = held.run_id AND s.step_key = held.step_key`,
    [...leasesOf(tokens), at, dueAt],
  );
}

/** Returns the leases that this process was given and never heard of. */
export async function returnLost(sql: Sql, { leasedBefore, held, at }: LostLeases & { at: number }): Promise<void> {
  const own = `${LEASED} AND lease_owner = $1`;
  const lost = await sql.all<{ token: string }>(
    `SELECT lease_token AS "token" FROM sluice.steps
    WHERE (run_id, step_key) IN (${ofBothIndexes(own)}) AND ${own} AND due_at <= $2 AND lease_token <> ALL($3::text[])`,
    [sql.replica, leasedBefore, held],
  );
  if (lost.length > 0) await returnLeases(sql, { tokens: lost.map(({ token }) => token), at });
}

async function beginAttempts(sql: Sql, { attempts }: Given<'beginAttempts'>): Promise<void> {
  await sql.run(
    `WITH held AS (${HELD}), begun AS (
      UPDATE sluice.steps s SET attempt_count = 1, started_at = times.started_at
      FROM held JOIN unnest($4::bigint[], $5::bigint[]) WITH ORDINALITY AS times (due_at, started_at, n) USING (n)
      WHERE s.run_id = held.run_id AND s.step_key = held.step_key AND s.attempt_count = 0
      RETURNING s.run_id, s.step_key, times.due_at, times.started_at
    )
    INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
    SELECT run_id, step_key, 1, 'Running', due_at, started_at FROM begun`,
    [
      ...leasesOf(attempts.map(({ token }) => token)),
      attempts.map(({ dueAt }) => dueAt),
      attempts.map(({ startedAt }) => startedAt),
    ],
  );
}

/** Steps that a process holds. */
export const LEASED = "status = 'Running' AND due_at IS NOT NULL AND lease_token IS NOT NULL";

/** Steps by their addresses, through the two indexes that have all steps that are due or run. */
export function ofBothIndexes(condition: string): string {
  const select = `SELECT run_id, step_key FROM sluice.steps WHERE ${condition}`;
  return `${select} AND deaths < 2 UNION ALL ${select} AND deaths >= 2`;
}

export async function recover(sql: Sql, { owner, now }: Given<'recover'>): Promise<number> {
  const held = await sql.all<StepAddress>(
    `SELECT run_id AS "runId", step_key AS "stepKey" FROM sluice.steps
    WHERE (run_id, step_key) IN (${ofBothIndexes(`${LEASED} AND lease_owner = $1`)}) AND ${LEASED} AND lease_owner = $1
    ORDER BY run_id, step_key FOR UPDATE`,
    [owner],
  );
  // Due by the clock of the process that returned it, which may have been ahead.
  const returned = "status = 'Running' AND lease_token IS NULL AND due_at > $1";
  await sql.run(
    `WITH returned AS (
      SELECT run_id, step_key FROM sluice.steps
      WHERE (run_id, step_key) IN (${ofBothIndexes(returned)}) AND ${returned}
      ORDER BY run_id, step_key FOR UPDATE SKIP LOCKED
    )
    UPDATE sluice.steps s SET due_at = $1 FROM returned
    WHERE s.run_id = returned.run_id AND s.step_key = returned.step_key`,
    [now],
  );
  await wakeForgotten(sql, now);
  if (held.length === 0) return 0;
  // Where no attempt is written it is unknown whether the step had begun, and nothing is counted. Of several steps it is
  // unknown which one took the process down, so none is blamed.
  await sql.run(
    `UPDATE sluice.steps s SET lease_token = NULL, due_at = least(s.due_at, $3),
      status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE status END,
      started_at = CASE WHEN attempt_count = 0 THEN NULL ELSE started_at END,
      interruptions = interruptions + (attempt_count > 0)::integer, deaths = deaths + (attempt_count > 0)::integer,
      lone_deaths = lone_deaths + CASE WHEN attempt_count > 0 THEN $4 ELSE 0 END
    FROM unnest($1::uuid[], $2::text[]) AS held (run_id, step_key)
    WHERE s.run_id = held.run_id AND s.step_key = held.step_key`,
    [...columnsOf(held), now, held.length === 1 ? 1 : 0],
  );
  return held.length;
}
