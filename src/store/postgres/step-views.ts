import { parseJson } from '../../model/json.ts';
import type { StepError } from '../../model/run.ts';
import { type AttemptRow, Cutter, MAX_ATTEMPTS, PREVIEW_CHARACTERS, type StepRow } from '../cut-values.ts';
import { toError } from '../json-columns.ts';
import { inOrder } from '../step-order.ts';
import type {
  LoopProgress,
  RunWait,
  StepMoment,
  StepMoments,
  StepOutline,
  StepView,
  Store,
  ValueLimits,
} from '../store.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { ATTEMPTS, HOST_OF_STEP, SAYS_ITS_ATTEMPT, SLOT_WAIT, WAIT_KIND } from './runs.ts';
import type { Sql } from './sql.ts';
import { uuidOf } from './uuids.ts';

export const stepOperations: Operations<
  | 'describeRuns'
  | 'outlineSteps'
  | 'findStep'
  | 'pageSteps'
  | 'readValue'
  | 'listMoments'
  | 'listLoops'
  | 'countChildren'
  | 'findIterations'
> = {
  describeRuns: { lane: 'read', run: describeRuns },
  outlineSteps: { lane: 'read', run: outlineSteps },
  findStep: { lane: 'read', run: findStep },
  pageSteps: { lane: 'read', run: pageSteps },
  readValue: { lane: 'read', run: readValue },
  listMoments: { lane: 'read', run: listMoments },
  listLoops: { lane: 'read', run: listLoops },
  countChildren: { lane: 'read', run: countChildren },
  findIterations: { lane: 'read', run: findIterations },
};

/** Steps of a run that are counted of each kind. */
const COUNTED_WAITS = 100;
const LISTED_FAILURES = 20;

async function describeRuns(
  sql: Sql,
  { running, ended, dueBefore }: Given<'describeRuns'>,
): Promise<Answer<'describeRuns'>> {
  const isLater = `${WAIT_KIND} = kinds.kind AND (due_at IS NULL OR due_at > $2)`;
  const isDue = `${WAIT_KIND} IN ('start', 'signal', 'delay', 'retry', 'poll', 'host', 'run') AND due_at <= $2`;
  const waits = (isKind: string, columns: string) => `
    SELECT step_key, ${columns}, (SELECT count(*) FROM (
        SELECT FROM sluice.steps WHERE status = 'Pending' AND run_id = runs.id AND ${isKind} LIMIT ${COUNTED_WAITS}
      ) AS counted) AS steps
    FROM sluice.steps WHERE status = 'Pending' AND run_id = runs.id AND ${isKind} ORDER BY due_at, step_key LIMIT 1`;
  const found = await sql.all<Omit<RunWait, 'subRunId'> & { wait: string | null }>(
    `SELECT runs.id AS "runId", own.kind, own.step_key AS "stepKey", own.signal_name AS "signalName", own.host, own.until,
      own.steps, own.wait
    FROM unnest($1::uuid[]) WITH ORDINALITY AS runs (id, n)
    CROSS JOIN LATERAL (
      SELECT kinds.kind, first.* FROM unnest(ARRAY['signal', 'delay', 'retry', 'poll', 'host', 'run']) AS kinds (kind)
      CROSS JOIN LATERAL (${waits(isLater, `signal_name, CASE kinds.kind WHEN 'host' THEN ${HOST_OF_STEP} END AS host, least(due_at, limit_at) AS until, ${WAIT_OF_RUN}`)}) AS first
      UNION ALL
      SELECT 'slot', first.* FROM (${waits(isDue, 'NULL::text AS signal_name, NULL::text AS host, NULL::bigint AS until, NULL::text AS wait')}) AS first
    ) AS own
    ORDER BY runs.n, array_position(ARRAY['signal', 'delay', 'retry', 'poll', 'host', 'run', 'slot'], own.kind)`,
    [running, dueBefore],
  );
  const failed = await sql.all<{ runId: string; stepKey: string; error: string | null }>(
    `SELECT runs.id AS "runId", failed.step_key AS "stepKey", failed.error
    FROM unnest($1::uuid[]) WITH ORDINALITY AS runs (id, n)
    CROSS JOIN LATERAL (
      SELECT step_key, error, completed_at FROM sluice.steps
      WHERE run_id = runs.id AND status = 'Failed' AND strpos(step_key, '.') = 0 ORDER BY completed_at, step_key LIMIT ${LISTED_FAILURES}
    ) AS failed
    ORDER BY runs.n, failed.completed_at, failed.step_key`,
    [ended],
  );
  const subRunIdOf = (wait: string | null) => (wait === null ? null : (stateIn(wait).subRun ?? null));
  const waited = found.map(({ wait, ...row }) => ({ ...row, subRunId: subRunIdOf(wait) }));
  return { waits: waited, failures: failed.map((row) => ({ ...row, error: toError(row.error) })) };
}

/** Only of steps that wait for a run: what others keep may be large. */
const WAIT_OF_RUN = `CASE WHEN ${WAIT_KIND} = 'run' THEN wait END AS wait`;

type OutlineAttempt = StepOutline['attempts'][number];
type OutlineRow = Omit<StepOutline, 'error' | 'attempts' | 'lastPoll'> & {
  readonly error: string | null;
  readonly wait: string | null;
};
type OutlineAttemptRow = Omit<OutlineAttempt, 'errorCode'> & {
  readonly stepKey: string;
  readonly error: string | null;
};

// JSON is taken apart here and not by PostgreSQL, which refuses an escaped NUL in any text that it looks into.
async function outlineSteps(sql: Sql, runId: string, stepKeys: readonly string[]): Promise<StepOutline[]> {
  const values = [uuidOf(runId), stepKeys];
  const steps = await sql.all<OutlineRow>(
    `SELECT step_key AS "stepKey", step_type AS "stepType", status, error, skip_reason AS "skipReason", due_at AS "dueAt",
      started_at AS "startedAt", completed_at AS "completedAt", signal_name AS "signalName", wait,
      (SELECT c.run_id FROM sluice.sub_runs c WHERE c.parent_run_id = own.run_id AND c.step_key = own.step_key
        ORDER BY c.run_id DESC LIMIT 1) AS "subRunId"
    FROM sluice.steps AS own WHERE run_id = $1 AND step_key = ANY($2) ORDER BY step_key`,
    values,
  );
  const attempts = await sql.all<OutlineAttemptRow>(
    `SELECT step_key AS "stepKey", attempt, status, ${SLOT_WAIT}, started_at AS "startedAt",
      completed_at AS "completedAt", error
    FROM ${ATTEMPTS} AS a WHERE run_id = $1 AND step_key = ANY($2) ORDER BY step_key, attempt`,
    values,
  );
  const attemptsOf = new Map<string, OutlineAttempt[]>(steps.map(({ stepKey }) => [stepKey, []]));
  for (const { stepKey, error, ...attempt } of attempts) {
    attemptsOf.get(stepKey)?.push({ ...attempt, errorCode: toError(error)?.code ?? null });
  }
  return steps.map(({ wait, ...row }) => ({
    ...row,
    error: toError(row.error),
    lastPoll: wait === null ? null : (stateIn(wait).lastPoll ?? null),
    attempts: attemptsOf.get(row.stepKey) ?? [],
  }));
}

interface KnownState {
  readonly lastPoll?: StepOutline['lastPoll'];
  readonly subRun?: string;
}

/** What a step that waits has kept. */
function stateIn(wait: string): KnownState {
  return (parseJson(wait) as { readonly state?: KnownState | null }).state ?? {};
}

async function listMoments(sql: Sql, { runId, limit }: Given<'listMoments'>): Promise<StepMoments> {
  type Row = Omit<StepMoment, 'reason'> & { readonly skipReason: string | null; readonly error: string | null };
  const id = uuidOf(runId);
  // An attempt that failed was retried where another followed it, or where its step is not Failed now.
  const rows = await sql.all<Row>(
    `SELECT "stepKey", attempt, kind, at, "skipReason", error FROM (
      SELECT step_key AS "stepKey", attempt, 'started' AS kind, started_at AS at, 1 AS rank, NULL AS "skipReason",
        NULL AS error
      FROM ${ATTEMPTS} AS a WHERE run_id = $1
      UNION ALL
      SELECT a.step_key, a.attempt,
        CASE WHEN a.status <> 'Failed' THEN 'completed'
          WHEN a.attempt < s.attempt_count OR s.status <> 'Failed' THEN 'retried' ELSE 'failed' END,
        a.completed_at, 2, NULL, a.error
      FROM ${ATTEMPTS} AS a JOIN sluice.steps AS s ON s.run_id = a.run_id AND s.step_key = a.step_key
      WHERE a.run_id = $1 AND a.completed_at IS NOT NULL
      UNION ALL
      SELECT step_key, 0, 'skipped', completed_at, 3, skip_reason, NULL
      FROM sluice.steps WHERE run_id = $1 AND status = 'Skipped' AND completed_at IS NOT NULL
    ) AS moments ORDER BY at DESC, rank DESC, "stepKey" DESC, attempt DESC LIMIT $2`,
    [id, limit],
  );
  const counted = await sql.get<{ total: number }>(
    `SELECT (SELECT count(*) + count(completed_at) FROM ${ATTEMPTS} AS a WHERE run_id = $1) +
      (SELECT count(completed_at) FROM sluice.steps WHERE run_id = $1 AND status = 'Skipped') AS total`,
    [id],
  );
  const items = rows.map(({ skipReason, error, ...row }) => ({
    ...row,
    reason: skipReason ?? messageOf(toError(error)),
  }));
  return { items: items.reverse(), total: counted?.total ?? 0 };
}

function messageOf(error: StepError | null): string | null {
  return error?.message ?? null;
}

async function listLoops(sql: Sql, runId: string): Promise<LoopProgress[]> {
  return sql.all(
    `SELECT step_key AS "stepKey", total, started, ended, failed FROM sluice.loops
    WHERE run_id = $1 ORDER BY step_key`,
    [uuidOf(runId)],
  );
}

async function countChildren(sql: Sql, runId: string): Promise<Answer<'countChildren'>> {
  return sql.all(
    `SELECT regexp_replace(step_key, '[.][0-9]+[.]', '.', 'g') AS path, status, count(*) AS count
    FROM sluice.steps WHERE run_id = $1 AND strpos(step_key, '.') > 0 GROUP BY 1, 2 ORDER BY 1, 2`,
    [uuidOf(runId)],
  );
}

async function findIterations(sql: Sql, query: Given<'findIterations'>): Promise<number[]> {
  const { runId, loopKey, status, limit } = query;
  // "/" is the character after ".".
  const rows = await sql.all<{ index: number }>(
    `SELECT DISTINCT substring(substr(step_key, length($2) + 1) FROM '^[0-9]+')::integer AS index
    FROM sluice.steps WHERE run_id = $1 AND step_key >= $2 AND step_key < $3 AND status = $4
    ORDER BY index LIMIT $5`,
    [uuidOf(runId), `${loopKey}.`, `${loopKey}/`, status, limit],
  );
  return rows.map(({ index }) => index);
}

async function findStep(sql: Sql, ...step: Parameters<Store['findStep']>): Promise<StepView | undefined> {
  const [runId, stepKey, limits] = step;
  return (await listViews(sql, { runId, stepKeys: [stepKey], limits }))[0];
}

async function pageSteps(sql: Sql, query: Given<'pageSteps'>): Promise<Answer<'pageSteps'>> {
  const { runId, planned, skip, take, limits } = query;
  const run = await sql.get<{ keys: string[] }>(
    'SELECT array(SELECT step_key FROM sluice.steps WHERE run_id = $1) AS keys FROM sluice.runs WHERE id = $1',
    [uuidOf(runId)],
  );
  if (run === undefined) return undefined;
  const ordered = inOrder(run.keys, planned);
  const stepKeys = ordered.slice(skip, skip + take);
  const views = await listViews(sql, { runId, stepKeys, limits });
  const rows = new Map(views.map((step) => [step.stepKey, step]));
  return { items: stepKeys.map((stepKey) => rows.get(stepKey) ?? { stepKey }), total: ordered.length };
}

/** SQL that reads a value only if it has at most $3 bytes. */
function valueColumns(column: string, name: string): string {
  return `CASE WHEN octet_length(${column}) <= $3::bigint THEN ${column} END AS "${name}",
    octet_length(${column}) AS "${name}Bytes",
    CASE WHEN octet_length(${column}) > $3::bigint THEN substr(${column}, 1, ${PREVIEW_CHARACTERS}) END AS "${name}Preview"`;
}

const stepColumns = `step_key AS "stepKey", step_type AS "stepType", status, error, skip_reason AS "skipReason",
  attempt_count AS "attemptCount", due_at AS "dueAt", started_at AS "startedAt", completed_at AS "completedAt",
  ${valueColumns('input', 'input')}, ${valueColumns('output', 'output')},
  ${valueColumns('evaluation_trace', 'evaluationTrace')}`;

const attemptValues = `${valueColumns('a.input', 'input')}, ${valueColumns('a.output', 'output')}`;

interface NamedSteps {
  readonly runId: string;
  readonly stepKeys: readonly string[];
  readonly limits: ValueLimits | undefined;
}

async function listViews(sql: Sql, { runId, stepKeys, limits }: NamedSteps): Promise<StepView[]> {
  const cut = new Cutter(limits);
  const values = [uuidOf(runId), stepKeys, cut.maxBytes];
  const stepRows = await sql.all<StepRow>(
    `SELECT ${stepColumns} FROM sluice.steps WHERE run_id = $1 AND step_key = ANY($2) ORDER BY step_key`,
    values,
  );
  const steps = stepRows.map((row) => cut.step(runId, row));
  // Not over `ATTEMPTS`, which would read attempts that are not shown.
  const attemptRows = await sql.all<AttemptRow>(
    `SELECT a.step_key AS "stepKey", a.attempt, a.status, a.error,
      greatest(a.started_at, a.due_at) - a.due_at AS "slotWaitMs", a.started_at AS "startedAt",
      a.completed_at AS "completedAt", ${attemptValues}
    FROM sluice.steps AS s JOIN sluice.attempts AS a ON a.run_id = s.run_id AND a.step_key = s.step_key
      AND a.attempt > s.attempt_count - ${MAX_ATTEMPTS}
    WHERE s.run_id = $1 AND s.step_key = ANY($2)
    UNION ALL
    SELECT a.step_key, 1, a.status, a.error, 0, a.started_at, a.completed_at, ${attemptValues}
    FROM sluice.steps AS a WHERE a.run_id = $1 AND a.step_key = ANY($2) AND ${SAYS_ITS_ATTEMPT}
    ORDER BY 1, 2`,
    values,
  );
  const attempts = new Map<string, StepView['attempts'][number][]>(steps.map(({ stepKey }) => [stepKey, []]));
  for (const row of attemptRows) attempts.get(row.stepKey)?.push(cut.attempt(row));
  return steps.map((step) => ({ ...step, attempts: attempts.get(step.stepKey) ?? [] }));
}

/** The greatest integer of PostgreSQL: no value is longer. */
const MAX_INTEGER = 2 ** 31 - 1;

/** Reads a value piece by piece, as it is kept. */
async function readValue(sql: Sql, query: Given<'readValue'>): Promise<Answer<'readValue'>> {
  const { runId, stepKey, attempt, value, offset, bytes } = query;
  const column = value === 'input' ? 'input' : 'output';
  const piece = (count: string) => `octet_length(${column}) AS "totalBytes",
    ${count} || ' ' || coalesce(completed_at::text, '') AS changes,
    substr(convert_to(${column}, 'UTF8'), $3::integer, $4::integer) AS piece`;
  const isNamed = 'run_id = $1 AND step_key = $2';
  const values = [uuidOf(runId), stepKey, Math.min(offset + 1, MAX_INTEGER), Math.min(bytes, MAX_INTEGER)];
  type Row = Omit<NonNullable<Answer<'readValue'>>, 'piece'> & { readonly piece: Uint8Array | null };
  const row =
    attempt === undefined
      ? await sql.get<Row>(`SELECT ${piece('attempt_count')} FROM sluice.steps WHERE ${isNamed}`, values)
      : await sql.get<Row>(`SELECT ${piece('attempt')} FROM ${ATTEMPTS} AS a WHERE ${isNamed} AND attempt = $5`, [
          ...values,
          attempt,
        ]);
  return row && { ...row, piece: row.piece ?? new Uint8Array() };
}
