import type { DueStep } from '../decisions/claim.ts';
import {
  COUNTED_OF_LANE,
  type FlowTurns,
  isFull,
  type Lane,
  type Limits,
  LimitsCache,
  leftOf,
  type RunningLane,
  slotWaitsOf,
  Turns,
  type Waiting,
  waitingLanes,
  waitingOf,
} from '../decisions/turns.ts';
import type { Claim } from '../store.ts';
import { DUE_STEP, LOCKED, leaseSteps } from './claims.ts';
import type { Answer, Given } from './operation.ts';
import type { Sql } from './sql.ts';

/** The steps that the index of due steps holds: all but those that must run alone. */
const ORDINARY = 'due_at IS NOT NULL AND deaths < 2';

/** How soon to retry rows that another replica has locked: by then it has committed or failed. */
export const ASK_AGAIN_MS = 20;

const makeTurns = () => new Turns();
const makeLimits = () => new LimitsCache();

/**
 * Leases the steps that must run alone, one at a time, before all others; else lets flows take turns until the limit is
 * reached or nothing more may run. Looks, locks and leases until a look finds nothing more to take: rows that another
 * replica locked are skipped, so that replicas take different ones at once.
 */
export async function claimDue(sql: Sql, request: Given<'claimDue'>): Promise<Answer<'claimDue'>> {
  const { now, limit, ahead = 0 } = request;
  const claims: Claim[] = [];
  const limited = new LimitedFlows(sql, now);
  let nextLapse: number | undefined;
  for (;;) {
    const seen = await look(sql, now);
    // Of the leases before this claim: those that it gives are its caller's to renew.
    nextLapse ??= seen.nextLapse;
    const free = Math.max(0, limit - claims.length);
    const left = limit + ahead - claims.length;
    if (claims.length === 0 && free > 0 && seen.suspectAt !== null && seen.suspectAt <= now) {
      const alone = await leaseSteps(sql, await lockSuspect(sql, now), request);
      if (alone.length > 0) return { claims: alone, nextDueAt: now, isHeldBack: false };
    }
    const { nextDueAt, isHeldBack } = leftOf({ ...seen, nextLapse }, now);
    const taken = left > 0 ? await take(sql, { flows: await limited.lock(seen), now, limit: left, free }) : [];
    if (taken.length === 0) {
      const nextAt = Math.min(nextDueAt ?? Number.POSITIVE_INFINITY, seen.suspectAt ?? Number.POSITIVE_INFINITY);
      const isLocked = free > 0 && nextAt <= now;
      return { claims, nextDueAt: isLocked ? now + ASK_AGAIN_MS : Number.isFinite(nextAt) ? nextAt : null, isHeldBack };
    }
    claims.push(...(await leaseSteps(sql, taken, request)));
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

interface Turn {
  readonly flows: readonly FlowTurns[];
  readonly now: number;
  readonly limit: number;
  /** So many of any kind; what is beyond is plain. */
  readonly free: number;
}

/** Locks the steps whose turn it is. Takes fewer than there are where it has to look again to know whose turn is next. */
async function take(sql: Sql, { flows: all, now, limit, free }: Turn): Promise<DueStep[]> {
  const turns = sql.kept(makeTurns);
  // A flow's rank falls only by its own turns: those behind have none in this claim.
  const flows = turns.order(all, now).slice(0, limit);
  const lanes = flows.flatMap((flow) => flow.lanes.filter((lane) => lane.dueAt <= now && !isFull(flow, lane)));
  const chunk = Math.min(limit, Math.ceil(limit / Math.max(1, lanes.length)) + 1);
  const rows = await lockRows(sql, lanes, { now, chunk });
  const taken: DueStep[] = [];
  while (taken.length < limit) {
    const next = turns.next(flows, now);
    if (next === undefined) break;
    const { flow, lane } = next;
    const own = rows.get(lane);
    const isPlain = own?.rows[0]?.isPlain === true && !isLimited(flow.limits);
    if (!isPlain && own?.rows[0] !== undefined && taken.length >= free) break;
    const row = own?.rows.shift();
    if (row !== undefined) {
      taken.push({ ...row, isPlain });
      turns.take(flow, row.stepType);
    }
    const first = own?.rows[0];
    // The lane may have more that are older than those of the others.
    if (first === undefined && own?.isWhole === false) break;
    lane.dueAt = first?.dueAt ?? Number.POSITIVE_INFINITY;
  }
  return taken;
}

interface LaneRows {
  readonly rows: DueStep[];
  /** Whether the lane has no other due step that this transaction could lock. */
  readonly isWhole: boolean;
}

/** Locks the first due steps of each lane, as many as the chunk says. */
async function lockRows(
  sql: Sql,
  lanes: readonly Lane[],
  { now, chunk }: { now: number; chunk: number },
): Promise<ReadonlyMap<Lane, LaneRows>> {
  if (lanes.length === 0) return new Map();
  const rows = await sql.all<DueStep & { lane: number }>(
    // The steps are locked in the order of their index, before their runs are looked at: joined to them at once, the
    // whole lane was read and sorted.
    `SELECT ${DUE_STEP}, lanes.lane FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
      AS lanes (status, flow_id, step_type, lane)
    CROSS JOIN LATERAL (
      SELECT * FROM sluice.steps
      WHERE ${ORDINARY} AND status = lanes.status AND flow_id = lanes.flow_id AND step_type = lanes.step_type
        AND due_at <= $4
      ORDER BY due_at, run_id, step_key LIMIT $5 FOR UPDATE SKIP LOCKED
    ) s
    JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
    ORDER BY lanes.lane, s.due_at, s.run_id, s.step_key FOR SHARE OF r SKIP LOCKED`,
    [
      lanes.map(({ status }) => status),
      lanes.map(({ flowId }) => flowId),
      lanes.map(({ stepType }) => stepType),
      now,
      chunk,
    ],
  );
  const found = lanes.map((): DueStep[] => []);
  for (const { lane, ...row } of rows) found[lane - 1]?.push(row);
  return new Map(
    lanes.map((lane, at) => {
      const own = found[at] ?? [];
      return [lane, { rows: own, isWhole: own.length < chunk }];
    }),
  );
}

/**
 * The flows whose concurrency is limited: one replica at a time claims steps of each, so that none counts what runs
 * while another adds to it. The lock is not that of the flow's row, which acceptances share, and a claim does not wait
 * for it: what another replica is claiming from is left out of this claim.
 */
class LimitedFlows {
  readonly #sql: Sql;
  readonly #now: number;
  readonly #locked = new Set<string>();

  constructor(sql: Sql, now: number) {
    this.#sql = sql;
    this.#now = now;
  }

  /** Yields the flows that may be claimed from, and counts anew what those run that are limited. */
  async lock({ flows }: Waiting): Promise<readonly FlowTurns[]> {
    const limited = flows.filter(
      ({ limits, lanes }) => isLimited(limits) && lanes.some((lane) => lane.dueAt <= this.#now),
    );
    const wanted = limited.map(({ flowId }) => flowId).filter((flowId) => !this.#locked.has(flowId));
    if (wanted.length === 0) return this.#claimable(flows);
    for (const flowId of await lockFlows(this.#sql, wanted)) this.#locked.add(flowId);
    // Another replica may have committed a claim between the look and the lock.
    return this.#claimable((await look(this.#sql, this.#now)).flows);
  }

  #claimable(flows: readonly FlowTurns[]): readonly FlowTurns[] {
    return flows.filter(({ flowId, limits }) => !isLimited(limits) || this.#locked.has(flowId));
  }
}

/** Locks flows until the transaction ends, but for those that another has locked; yields which. */
export async function lockFlows(sql: Sql, flowIds: readonly string[]): Promise<string[]> {
  const rows = await sql.all<{ flowId: string }>(
    `SELECT flow_id AS "flowId" FROM unnest($1::text[]) AS given (flow_id)
    WHERE pg_try_advisory_xact_lock(hashtextextended('sluice claims of ' || $2 || ' from ' || flow_id, 0))`,
    [flowIds, sql.schema],
  );
  return rows.map(({ flowId }) => flowId);
}

export function isLimited({ flow, byType }: Limits): boolean {
  return Number.isFinite(flow) || byType.size > 0;
}

const HEAD = `SELECT flow_id, step_type, due_at FROM sluice.steps WHERE ${ORDINARY} AND status = 'Pending'`;
/** The first step of each flow and type that waits to be started, recursive as `heads`. */
const HEADS = `
  (${HEAD} ORDER BY flow_id, step_type, due_at LIMIT 1)
  UNION ALL
  SELECT next.flow_id, next.step_type, next.due_at FROM heads CROSS JOIN LATERAL (
    (${HEAD} AND flow_id = heads.flow_id AND step_type > heads.step_type ORDER BY step_type, due_at LIMIT 1)
    UNION ALL (${HEAD} AND flow_id > heads.flow_id ORDER BY flow_id, step_type, due_at LIMIT 1)
    ORDER BY flow_id LIMIT 1
  ) next`;

/** Selects the runs with a step that wanted a slot by then: of each type of a flow those due last. */
export function dueRuns({ flow, due, limit }: { flow: string; due: string; limit: string }): string {
  return `WITH RECURSIVE heads AS (${HEADS}), lanes AS (
      SELECT flow_id, step_type, (SELECT count(*) FROM heads) AS lanes FROM heads
      WHERE due_at <= ${due} AND (${flow} IS NULL OR flow_id = ${flow})
    )
    SELECT own.run_id FROM lanes CROSS JOIN LATERAL (
      SELECT run_id FROM sluice.steps s
      WHERE s.due_at IS NOT NULL AND s.deaths < 2 AND s.status = 'Pending' AND s.flow_id = lanes.flow_id
        AND s.step_type = lanes.step_type AND s.due_at <= ${due}
      ORDER BY s.due_at DESC LIMIT greatest(1, ${limit}::bigint / lanes.lanes)
    ) AS own`;
}

interface SeenRow {
  readonly kind: 'waiting' | 'running' | 'suspect';
  readonly flowId: string;
  readonly stepType: string;
  readonly dueAt: number | null;
  readonly count: number;
  readonly lapsesAt: number | null;
  readonly revision: number | null;
}

/**
 * Finds the flows that have due steps or will, with what they run and may run, and when the first step is due that must
 * run alone. Two seeks a lane find the heads, as in SQLite: one by (flow_id, step_type) > (…) would read all steps of
 * the pair that it skips.
 */
async function look(sql: Sql, now: number): Promise<Waiting & { readonly suspectAt: number | null }> {
  const rows = await sql.all<SeenRow>(
    `WITH RECURSIVE heads AS (${HEADS}), seen AS (
      SELECT 'waiting' AS kind, flow_id, step_type, due_at, 0 AS count, NULL::bigint AS lapses_at FROM heads
      UNION ALL SELECT 'running', flow_id, step_type, min(due_at) FILTER (WHERE due_at <= $1),
        count(*) FILTER (WHERE due_at > $1), min(due_at) FILTER (WHERE due_at > $1)
      FROM sluice.steps WHERE ${ORDINARY} AND status = 'Running' GROUP BY flow_id, step_type
      UNION ALL SELECT 'suspect', '', '', min(due_at), 0, NULL FROM sluice.steps
      WHERE due_at IS NOT NULL AND deaths >= 2
    )
    SELECT kind, flow_id AS "flowId", step_type AS "stepType", due_at AS "dueAt", count, lapses_at AS "lapsesAt",
      f.revision
    FROM seen LEFT JOIN sluice.flows f ON f.id = seen.flow_id ORDER BY kind, flow_id, step_type`,
    [now],
  );
  const heads = rows.flatMap(({ kind, flowId, stepType, dueAt }) =>
    kind === 'waiting' && dueAt !== null ? [{ flowId, stepType, dueAt }] : [],
  );
  const running = rows
    .filter(({ kind }) => kind === 'running')
    .map(({ dueAt: lapsedAt, ...row }): RunningLane => ({ ...row, lapsedAt }));
  const limitsOf = await readLimits(sql, rows);
  return {
    ...waitingOf({ heads, running }, limitsOf),
    suspectAt: rows.find(({ kind }) => kind === 'suspect')?.dueAt ?? null,
  };
}

export function listRunning(sql: Sql, now: number): Promise<RunningLane[]> {
  return sql.all(
    `SELECT flow_id AS "flowId", step_type AS "stepType", count(*) FILTER (WHERE due_at > $1) AS "count",
      min(due_at) FILTER (WHERE due_at <= $1) AS "lapsedAt", min(due_at) FILTER (WHERE due_at > $1) AS "lapsesAt"
    FROM sluice.steps WHERE ${ORDINARY} AND status = 'Running' GROUP BY flow_id, step_type ORDER BY flow_id, step_type`,
    [now],
  );
}

/**
 * Reads what flows may run at once, by their newest revisions, which are given; null where there is no such flow. An
 * operator who changes a limit means runs in flight too.
 */
export async function readLimits(
  sql: Sql,
  flows: readonly { readonly flowId: string; readonly revision: number | null }[],
): Promise<(flowId: string) => Limits> {
  const kept = sql.kept(makeLimits);
  const limits = new Map<string, Limits>();
  const unknown = new Map<string, number>();
  for (const { flowId, revision } of flows) {
    if (revision === null) continue;
    const known = kept.find(flowId, revision);
    if (known === undefined) unknown.set(flowId, revision);
    else limits.set(flowId, known);
  }
  if (unknown.size > 0) {
    const rows = await sql.all<{ flowId: string; revision: number; snapshot: string }>(
      `SELECT flow_id AS "flowId", revision, snapshot
      FROM unnest($1::text[], $2::integer[]) AS given (flow_id, revision)
      JOIN sluice.revisions USING (flow_id, revision)`,
      [[...unknown.keys()], [...unknown.values()]],
    );
    for (const { flowId, revision, snapshot } of rows) limits.set(flowId, kept.keep(flowId, revision, snapshot));
  }
  return (flowId) => limits.get(flowId) ?? UNLIMITED;
}

const UNLIMITED: Limits = { flow: Number.POSITIVE_INFINITY, byType: new Map() };

export async function listSlotWaits(
  sql: Sql,
  { now, dueBefore }: Given<'listSlotWaits'>,
): Promise<Answer<'listSlotWaits'>> {
  const waiting = await look(sql, now);
  // A suspect without a lease is waiting itself.
  const alone = await sql.get<{ runId: string; stepKey: string }>(
    `SELECT run_id AS "runId", step_key AS "stepKey" FROM sluice.steps
    WHERE due_at > $1 AND deaths >= 2 AND status = 'Running' AND lease_token IS NOT NULL ORDER BY due_at LIMIT 1`,
    [now],
  );
  const lanes = waitingLanes(waiting, dueBefore);
  const counts = await countDue(
    sql,
    lanes.map(({ lane }) => lane),
    { dueBefore, most: COUNTED_OF_LANE + 1 },
  );
  const waits = slotWaitsOf(lanes, (lane, most) => Math.min(most, counts.get(lane) ?? 0));
  return { running: waiting.running + (alone === undefined ? 0 : 1), alone: alone ?? null, waits };
}

/** Counts the due steps of lanes, not beyond `most` of each. */
async function countDue(
  sql: Sql,
  lanes: readonly Lane[],
  { dueBefore, most }: { dueBefore: number; most: number },
): Promise<ReadonlyMap<Lane, number>> {
  if (lanes.length === 0) return new Map();
  const rows = await sql.all<{ lane: number; count: number }>(
    `SELECT lanes.lane, due.count FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS lanes (flow_id, step_type, lane)
    CROSS JOIN LATERAL (
      SELECT count(*) AS count FROM (
        SELECT 1 FROM sluice.steps
        WHERE ${ORDINARY} AND status = 'Pending' AND flow_id = lanes.flow_id AND step_type = lanes.step_type
          AND due_at <= $3
        LIMIT $4
      ) counted
    ) due`,
    [lanes.map(({ flowId }) => flowId), lanes.map(({ stepType }) => stepType), dueBefore, most],
  );
  return new Map(
    rows.flatMap(({ lane, count }) => {
      const own = lanes[lane - 1];
      return own === undefined ? [] : [[own, count]];
    }),
  );
}

export async function measureBacklog(
  sql: Sql,
  { now, most }: Given<'measureBacklog'>,
): Promise<Answer<'measureBacklog'>> {
  const lanes = waitingLanes(await look(sql, now), now);
  const free = lanes.filter(({ flow, lane }) => !isFull(flow, lane)).map(({ lane }) => lane.dueAt);
  // Stops at the most, whatever the lanes have beyond it.
  const counted = await sql.get<{ dueSteps: number }>(
    `SELECT count(*) AS "dueSteps" FROM (
      SELECT 1 FROM unnest($1::text[], $2::text[]) AS lanes (flow_id, step_type)
      CROSS JOIN LATERAL (
        SELECT 1 FROM sluice.steps s
        WHERE ${ORDINARY} AND s.status = 'Pending' AND s.flow_id = lanes.flow_id AND s.step_type = lanes.step_type
          AND s.due_at <= $3
        LIMIT $4
      ) due LIMIT $4
    ) counted`,
    [lanes.map(({ lane }) => lane.flowId), lanes.map(({ lane }) => lane.stepType), now, most],
  );
  return { dueSteps: counted?.dueSteps ?? 0, oldestDueAt: free.length === 0 ? null : Math.min(...free) };
}
