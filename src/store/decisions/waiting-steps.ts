import type { Ask, Decision } from './decision.ts';
import { fixed, type Port, type Query, Rows, sql } from './port.ts';
import {
  COUNTED_OF_QUEUE,
  isFull,
  type Limits,
  LimitsCache,
  type Queue,
  type RunningSteps,
  slotWaitsOf,
  type Waiting,
  type WaitingQueue,
  waitingOf,
  waitingQueues,
} from './turns.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** The steps in the index of due steps: all except those that must run alone. */
export const ORDINARY = 'due_at IS NOT NULL AND deaths < 2';

const ordinary = fixed(ORDINARY);
const waits = sql`${ordinary} AND status = 'Pending'`;
const ofQueue = sql`${waits} AND steps.flow_id = queues.flow_id AND steps.step_type = queues.step_type`;

/** Identifies a row of steps within one statement. */
const place = fixed('ctid /*sqlite instead: rowid */');

/**
 * The flows and types of steps that wait to be started, as `queues`: from the first step of one to the first of the
 * next in the index, because a seek for the pair that follows another reads all steps of the pair that it leaves: that
 * way a claim took 85 ms among a million due steps. One seek finds a queue and when its first step is due: each passes
 * all steps that were claimed from there since PostgreSQL last vacuumed the table.
 */
const queuesThatWait = sql`
  heads (at) AS (
    SELECT (SELECT ${place} FROM sluice.steps WHERE ${waits} ORDER BY flow_id, step_type, due_at LIMIT 1)
    UNION ALL
    SELECT coalesce(
      (SELECT ${place} FROM sluice.steps WHERE ${waits} AND flow_id = own.flow_id AND step_type > own.step_type
        ORDER BY step_type, due_at LIMIT 1),
      (SELECT ${place} FROM sluice.steps WHERE ${waits} AND flow_id > own.flow_id
        ORDER BY flow_id, step_type, due_at LIMIT 1))
    FROM heads /*sqlite: CROSS */ JOIN sluice.steps AS own ON own.${place} = heads.at
  ), queues (flow_id, step_type, due_at) AS (
    SELECT own.flow_id, own.step_type, own.due_at
    FROM heads /*sqlite: CROSS */ JOIN sluice.steps AS own ON own.${place} = heads.at
  )`;

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
 * Finds the flows that have due steps or will have them, with their running steps and limits, and when the first step
 * is due that must run alone.
 */
export function* readWaiting(port: Port, now: number): Decision<Waiting & { readonly suspectAt: number | null }> {
  const rows = yield* port.all<SeenRow>(sql`
    WITH RECURSIVE ${queuesThatWait}, seen AS (
      SELECT 'waiting' AS kind, flow_id, step_type, due_at, 0 AS count, NULL::bigint AS lapses_at FROM queues
      UNION ALL SELECT 'running', flow_id, step_type, min(due_at) FILTER (WHERE due_at <= ${now}),
        count(*) FILTER (WHERE due_at > ${now}), min(due_at) FILTER (WHERE due_at > ${now})
      FROM sluice.steps WHERE ${ordinary} AND status = 'Running' GROUP BY flow_id, step_type
      UNION ALL SELECT 'suspect', '', '', min(due_at), 0, NULL FROM sluice.steps
      WHERE due_at IS NOT NULL AND deaths >= 2
    )
    SELECT kind, flow_id AS "flowId", step_type AS "stepType", due_at AS "dueAt", count, lapses_at AS "lapsesAt",
      f.revision
    FROM seen LEFT JOIN sluice.flows AS f ON f.id = seen.flow_id`);
  const heads = rows
    .flatMap(({ kind, flowId, stepType, dueAt }) =>
      kind === 'waiting' && dueAt !== null ? [{ flowId, stepType, dueAt }] : [],
    )
    .sort((a, b) => compare(a.flowId, b.flowId) || compare(a.stepType, b.stepType));
  const running = rows
    .filter(({ kind }) => kind === 'running')
    .map(({ dueAt: lapsedAt, ...row }): RunningSteps => ({ ...row, lapsedAt }));
  const limitsOf = yield* readLimits(port, rows);
  return {
    ...waitingOf({ heads, running }, limitsOf),
    suspectAt: rows.find(({ kind }) => kind === 'suspect')?.dueAt ?? null,
  };
}

const compare = (a: string, b: string) => Number(a > b) - Number(a < b);

const makeLimits = () => new LimitsCache();
const UNLIMITED: Limits = { flow: Number.POSITIVE_INFINITY, byType: new Map() };

/**
 * Reads how many steps flows may run at once, from their newest revisions, which are given; null if there is no such
 * flow. An operator who changes a limit means runs in flight too.
 */
function* readLimits(
  port: Port,
  flows: readonly { readonly flowId: string; readonly revision: number | null }[],
): Decision<(flowId: string) => Limits> {
  const kept = port.kept(makeLimits);
  const limits = new Map<string, Limits>();
  const unknown = new Map<string, number>();
  for (const { flowId, revision } of flows) {
    if (revision === null) continue;
    const known = kept.find(flowId, revision);
    if (known === undefined) unknown.set(flowId, revision);
    else limits.set(flowId, known);
  }
  if (unknown.size > 0) {
    const given = new Rows([...unknown].map(([flow_id, revision]) => ({ flow_id, revision })));
    const rows = yield* port.all<{ flowId: string; revision: number; snapshot: string }>(sql`
      SELECT r.flow_id AS "flowId", r.revision, r.snapshot
      FROM jsonb_to_recordset(${given}) AS given (flow_id text, revision integer)
      /*sqlite: CROSS */ JOIN sluice.revisions AS r ON r.flow_id = given.flow_id AND r.revision = given.revision`);
    for (const { flowId, revision, snapshot } of rows) limits.set(flowId, kept.keep(flowId, revision, snapshot));
  }
  return (flowId) => limits.get(flowId) ?? UNLIMITED;
}

/** Queues as a table named `queues`, with their numbers in the list. */
function queuesOf(queues: readonly Omit<Queue, 'status'>[]): Query {
  const rows = queues.map(({ flowId, stepType }, n) => ({ n, flow_id: flowId, step_type: stepType }));
  return sql`jsonb_to_recordset(${new Rows(rows)}) AS queues (n integer, flow_id text, step_type text)`;
}

function* listSlotWaits(port: Port, { now, dueBefore }: Given<'listSlotWaits'>): Decision<Answer<'listSlotWaits'>> {
  const waiting = yield* readWaiting(port, now);
  // A suspect without a lease is itself waiting.
  const alone = yield* port.get<{ runId: string; stepKey: string }>(sql`
    SELECT run_id AS "runId", step_key AS "stepKey" FROM sluice.steps
    WHERE due_at > ${now} AND deaths >= 2 AND status = 'Running' AND lease_token IS NOT NULL ORDER BY due_at LIMIT 1`);
  const queues = waitingQueues(waiting, dueBefore);
  const counted = yield* countDue(port, { queues, dueBefore, most: COUNTED_OF_QUEUE + 1 });
  const counts = new Map(counted.map(({ n, count }) => [queues[n]?.queue, count]));
  const slotWaits = slotWaitsOf(queues, (queue, most) => Math.min(most, counts.get(queue) ?? 0));
  return { running: waiting.running + (alone === undefined ? 0 : 1), alone: alone ?? null, waits: slotWaits };
}

function* measureBacklog(port: Port, { now, most }: Given<'measureBacklog'>): Decision<Answer<'measureBacklog'>> {
  const queues = waitingQueues(yield* readWaiting(port, now), now);
  const free = queues.filter(({ flow, queue }) => !isFull(flow, queue)).map(({ queue }) => queue.dueAt);
  const counted = yield* countDue(port, { queues, dueBefore: now, most });
  const dueSteps = counted.reduce((sum, { count }) => sum + count, 0);
  return { dueSteps: Math.min(most, dueSteps), oldestDueAt: free.length === 0 ? null : Math.min(...free) };
}

interface Counting {
  readonly queues: readonly WaitingQueue[];
  readonly dueBefore: number;
  readonly most: number;
}

/** Counts the due steps of each queue, up to the most: with a seek for each, as a join may read the whole table. */
function countDue(port: Port, { queues, dueBefore, most }: Counting): Ask<{ n: number; count: number }[]> {
  return port.all(sql`
    SELECT n, (
      SELECT count(*) FROM (
        SELECT 1 FROM sluice.steps WHERE ${ofQueue} AND due_at <= ${dueBefore} LIMIT ${most}
      ) AS due
    ) AS count FROM ${queuesOf(queues.map(({ queue }) => queue))}`);
}

interface DueRuns {
  readonly flowId: string | undefined;
  readonly dueBefore: number;
  readonly limit: number;
}

/** Lists the runs with a step that wanted a slot by then: for each type of a flow the steps due last. */
export function* listDueRuns(port: Port, { flowId, dueBefore, limit }: DueRuns): Decision<string[]> {
  const all = yield* port.all<Omit<Queue, 'status'>>(sql`
    WITH RECURSIVE ${queuesThatWait}
    SELECT flow_id AS "flowId", step_type AS "stepType", due_at AS "dueAt" FROM queues WHERE due_at <= ${dueBefore}`);
  const queues = all.filter((queue) => queue.flowId === (flowId ?? queue.flowId));
  const ofEach = Math.ceil(limit / Math.max(1, queues.length));
  const found = yield* port.all<{ runIds: string | null }>(sql`
    SELECT (
      SELECT json_agg(run_id)::text FROM (
        SELECT run_id FROM sluice.steps WHERE ${ofQueue} AND due_at <= ${dueBefore} ORDER BY due_at DESC LIMIT ${ofEach}
      ) AS due
    ) AS "runIds" FROM ${queuesOf(queues)}`);
  return [...new Set(found.flatMap(({ runIds }): string[] => (runIds === null ? [] : JSON.parse(runIds))))];
}

export const waitingVerbs: Verbs<'listSlotWaits' | 'measureBacklog'> = {
  listSlotWaits: { access: 'read', decide: listSlotWaits },
  measureBacklog: { access: 'read', decide: measureBacklog },
};
