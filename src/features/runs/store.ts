import type { StepStatus } from '../../model/manifest.ts';
import type { Run } from '../../model/run.ts';
import { type FailedStepRow, failedStepsOf, groupsOf } from '../../store/decisions/causes.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { RUNNING } from '../../store/decisions/leases.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { matchingRuns, place, type RunRow, runColumns, toRun } from '../../store/decisions/runs.ts';
import { attemptsOfAll } from '../../store/decisions/step-views.ts';
import { toError } from '../../store/json-columns.ts';
import type { FailureGroups, RunFilter, StepAddress, TrendRange } from '../../store/store.ts';
import { uuidOf } from '../../store/uuids.ts';

interface ChildCount {
  /** Path in the graph: `lines.price` covers `lines.0.price`, `lines.1.price`, … */
  readonly path: string;
  readonly status: StepStatus;
  readonly count: number;
}

interface LoopProgress {
  /** Runtime key of the loop. */
  readonly stepKey: string;
  /** Number of iterations, and of those started, ended and failed. */
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

export interface StepEvent {
  readonly stepKey: string;
  /** 0 if the step was skipped before it was tried. */
  readonly attempt: number;
  /** `retried`: the attempt failed, but not the step. */
  readonly kind: 'started' | 'completed' | 'failed' | 'retried' | 'skipped';
  readonly at: number;
  /** Why the attempt failed or the step was skipped. */
  readonly reason: string | null;
}

export interface StepEvents {
  readonly items: readonly StepEvent[];
  /** Includes events that are not among the items. */
  readonly total: number;
}

export interface StoredText {
  /** Bytes of the whole value as JSON; null if there is no value. */
  readonly totalBytes: number | null;
  /** The same for all pieces of one value; differs if the value changed in between. */
  readonly changes: string;
  /** Encoded as UTF-8. */
  readonly piece: Uint8Array;
}

export interface SignalRecord {
  readonly name: string;
  readonly deliveredAt: number;
  readonly stepKey: string | null;
  /** The delivery that brought the signal; null if somebody sent it directly. */
  readonly deliveryId: string | null;
}

function* groupFailures(
  port: Port,
  { trend, ...query }: RunFilter & { readonly trend: TrendRange },
): Decision<FailureGroups> {
  const { cause = {} } = query;
  const runs = yield* matchingRuns(port, { ...query, cause });
  return groupsOf(yield* port.all<FailedStepRow>(failedStepsOf(runs, cause, place)), trend);
}

function* listStepEvents(port: Port, { runId, limit }: { runId: string; limit: number }): Decision<StepEvents> {
  type Row = Omit<StepEvent, 'reason'> & { readonly skipReason: string | null; readonly error: string | null };
  const id = uuidOf(runId);
  // A failed attempt was retried if another attempt followed, or if its step is no longer Failed.
  const rows = yield* port.all<Row>(sql`
    SELECT "stepKey", attempt, kind, at, "skipReason", error FROM (
      SELECT step_key AS "stepKey", attempt, 'started' AS kind, started_at AS at, 1 AS rank, NULL AS "skipReason",
        NULL AS error
      FROM ${attemptsOfAll} AS a WHERE run_id = ${id}
      UNION ALL
      SELECT a.step_key, a.attempt,
        CASE WHEN a.status <> 'Failed' THEN 'completed'
          WHEN a.attempt < s.attempt_count OR s.status <> 'Failed' THEN 'retried' ELSE 'failed' END,
        a.completed_at, 2, NULL, a.error
      FROM ${attemptsOfAll} AS a JOIN sluice.steps AS s ON s.run_id = a.run_id AND s.step_key = a.step_key
      WHERE a.run_id = ${id} AND a.completed_at IS NOT NULL
      UNION ALL
      SELECT step_key, 0, 'skipped', completed_at, 3, skip_reason, NULL
      FROM sluice.steps WHERE run_id = ${id} AND status = 'Skipped' AND completed_at IS NOT NULL
    ) AS events ORDER BY at DESC, rank DESC, "stepKey" DESC, attempt DESC LIMIT ${limit}`);
  const counted = yield* port.get<{ total: number }>(sql`
    SELECT (SELECT count(*) + count(completed_at) FROM ${attemptsOfAll} AS a WHERE run_id = ${id}) +
      (SELECT count(completed_at) FROM sluice.steps WHERE run_id = ${id} AND status = 'Skipped') AS total`);
  const items = rows.map(({ skipReason, error, ...row }) => ({
    ...row,
    reason: skipReason ?? toError(error)?.message ?? null,
  }));
  return { items: items.reverse(), total: counted?.total ?? 0 };
}

/** The largest integer of PostgreSQL: no value is longer. */
const MAX_INTEGER = 2 ** 31 - 1;

/** Addresses a piece of a stored value. */
export interface ValueQuery {
  readonly runId: string;
  readonly stepKey: string;
  readonly attempt: number | undefined;
  readonly value: 'input' | 'output';
  readonly offset: number;
  readonly bytes: number;
}

function* readValue(port: Port, query: ValueQuery): Decision<StoredText | undefined> {
  const { runId, stepKey, attempt, value, offset, bytes } = query;
  const column = fixed(value === 'input' ? 'input' : 'output');
  const piece = sql`octet_length(${column}) AS "totalBytes",
    substr(convert_to(${column}, 'UTF8'), ${Math.min(offset + 1, MAX_INTEGER)}::integer, ${Math.min(bytes, MAX_INTEGER)}::integer) AS piece`;
  const isNamed = sql`run_id = ${uuidOf(runId)} AND step_key = ${stepKey}`;
  const row = yield* port.get<
    Omit<NonNullable<StoredText | undefined>, 'piece'> & { readonly piece: Uint8Array | null }
  >(
    attempt === undefined
      ? sql`
        SELECT ${piece}, attempt_count || ' ' || coalesce(completed_at::text, '') AS changes
        FROM sluice.steps WHERE ${isNamed}`
      : sql`
        SELECT ${piece}, attempt || ' ' || coalesce(completed_at::text, '') AS changes
        FROM ${attemptsOfAll} AS a WHERE ${isNamed} AND attempt = ${attempt}`,
  );
  return row && { ...row, piece: row.piece ?? new Uint8Array() };
}

interface Lineage {
  readonly run: Run;
  readonly source: Run | undefined;
  readonly derived: readonly Run[];
}

/** More derived runs than anybody looks through. */
const MAX_DERIVED = 500;

function* findLineage(port: Port, runId: string): Decision<Lineage | undefined> {
  const ofId = (id: string) => sql`SELECT ${runColumns} FROM sluice.runs AS own WHERE id = ${uuidOf(id)}`;
  const row = yield* port.get<RunRow>(ofId(runId));
  if (row === undefined) return undefined;
  const derived = yield* port.all<RunRow>(sql`
    SELECT ${runColumns} FROM sluice.runs AS own WHERE source_run_id = ${row.id}
    ORDER BY started_at DESC, id DESC LIMIT ${MAX_DERIVED}`);
  const source = row.sourceRunId === null ? undefined : yield* port.get<RunRow>(ofId(row.sourceRunId));
  return { run: toRun(row), source: source && toRun(source), derived: derived.map(toRun).reverse() };
}

/** A running step of a flow, in the run in which it started first. */
export interface LongStep extends StepAddress {
  readonly flowId: string;
  /** When its attempt began. */
  readonly startedAt: number;
  /** Number of successes in the newest 50 runs of the flow, and the longest duration of these. */
  readonly known: number;
  readonly longestMs: number;
}

/** More flows and steps than anybody looks at. */
const MOST_LONG = 20;
/** Two running steps for each slot of a large installation. */
const MOST_RUNNING = fixed('2000');
const KNOWN_RUNS = fixed('50');

function* listLongSteps(port: Port, { startedBefore }: { startedBefore: number }): Decision<readonly LongStep[]> {
  const steps = yield* port.all<Omit<LongStep, 'known' | 'longestMs'>>(sql`
    SELECT * FROM (
      SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.flow_id AS "flowId",
        coalesce((SELECT a.started_at FROM sluice.attempts AS a
          WHERE a.run_id = s.run_id AND a.step_key = s.step_key AND a.attempt = s.attempt_count), s.started_at) AS "startedAt"
      FROM (SELECT * FROM (${fixed(RUNNING)}) AS all_running LIMIT ${MOST_RUNNING}) AS running
      /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = running.run_id AND s.step_key = running.step_key
    ) AS begun WHERE "startedAt" < ${startedBefore} ORDER BY "startedAt", "runId", "stepKey"`);
  const first = new Map<string, (typeof steps)[number]>();
  for (const step of steps) {
    const key = JSON.stringify([step.flowId, step.stepKey]);
    if (!first.has(key) && first.size < MOST_LONG) first.set(key, step);
  }
  const long: LongStep[] = [];
  for (const step of first.values()) {
    const usual = yield* port.get<{ known: number; longestMs: number }>(sql`
      SELECT count(*) AS known, coalesce(max(s.completed_at - s.started_at), 0) AS "longestMs" FROM (
        SELECT id FROM sluice.runs WHERE flow_id = ${step.flowId} ORDER BY revision DESC, started_at DESC LIMIT ${KNOWN_RUNS}
      ) AS newest /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = newest.id AND s.step_key = ${step.stepKey}
      WHERE s.status = 'Succeeded'`);
    long.push({ ...step, known: usual?.known ?? 0, longestMs: usual?.longestMs ?? 0 });
  }
  return long;
}

export const runsStore = storePart({
  name: 'runs',
  verbs: {
    /** Steps that started before `startedBefore` and still run, one for each flow and step; at most 20. */
    listLongSteps: { access: 'read', decide: listLongSteps },
    /**
     * The source of the run: the run that it repeats, or whose failure or step started it. And the newest 500 runs that
     * have this run as their source, oldest first. Undefined for an unknown run.
     */
    findLineage: { access: 'read', decide: findLineage },
    /** A piece of the input or output of a step or one of its attempts; undefined if there is no such row. */
    readValue: { access: 'read', decide: readValue },
    /** The newest `limit` events of a run's steps, oldest first. */
    listStepEvents: { access: 'read', decide: listStepEvents },
    /** Loops of a run that have started, in the order of their keys. */
    listLoops: {
      access: 'read',
      *decide(port: Port, runId: string): Decision<LoopProgress[]> {
        return yield* port.all<LoopProgress>(sql`
        SELECT step_key AS "stepKey", total, started, ended, failed FROM sluice.loops
        WHERE run_id = ${uuidOf(runId)} ORDER BY step_key`);
      },
    },
    /** Counts children of loops by path and status, in this order; reads all their rows. */
    countChildren: {
      access: 'read',
      *decide(port: Port, runId: string): Decision<ChildCount[]> {
        return yield* port.all<{ path: string; status: StepStatus; count: number }>(sql`
        SELECT regexp_replace(step_key, '[.][0-9]+[.]', '.', 'g') AS path, status, count(*) AS count
        FROM sluice.steps WHERE run_id = ${uuidOf(runId)} AND strpos(step_key, '.') > 0 GROUP BY 1, 2 ORDER BY 1, 2`);
      },
    },
    /** Iterations of a loop in which a step has the status, ascending; at most `limit`. */
    findIterations: {
      access: 'read',
      *decide(
        port: Port,
        { runId, loopKey, status, limit }: { runId: string; loopKey: string; status: StepStatus; limit: number },
      ): Decision<number[]> {
        const rest = sql`substr(step_key, ${[...loopKey].length + 2}::integer) || '.'`;
        // "/" is the character after ".".
        const rows = yield* port.all<{ index: number }>(sql`
        SELECT DISTINCT CAST(substr(${rest}, 1, strpos(${rest}, '.') - 1) AS integer) AS "index" FROM sluice.steps
        WHERE run_id = ${uuidOf(runId)} AND step_key >= ${`${loopKey}.`} AND step_key < ${`${loopKey}/`} AND status = ${status}
        ORDER BY "index" LIMIT ${limit}`);
        return rows.map(({ index }) => index);
      },
    },
    /** Signals that were sent to a run, oldest first. */
    listSignals: {
      access: 'read',
      *decide(port: Port, runId: string): Decision<SignalRecord[]> {
        return yield* port.all<SignalRecord>(sql`
        SELECT name, delivered_at AS "deliveredAt", step_key AS "stepKey", delivery_id AS "deliveryId"
        FROM sluice.signals
        WHERE run_id = ${uuidOf(runId)} ORDER BY id`);
      },
    },
    /** Failed steps of the runs that match the filter, grouped by cause, most frequent first. */
    groupFailures: {
      access: 'read',
      decide: (port: Port, query: RunFilter & { readonly trend: TrendRange }) => groupFailures(port, query),
    },
  },
});
