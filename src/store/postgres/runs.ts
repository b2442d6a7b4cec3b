import type { StepStatus } from '../../model/manifest.ts';
import type { Attempt, Run, RunTrigger, Step } from '../../model/run.ts';
import { fromJson, toError } from '../json-columns.ts';
import type { RunDetail, RunQuery, SignalRecord, StepDetail } from '../store.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { type Condition, filter, keyFilters, keysOf, readPage, SEARCHED_ROWS, toSearchKeys } from './paging.ts';
import type { Sql } from './sql.ts';
import { dueRuns } from './turns.ts';
import { uuidOf } from './uuids.ts';

export const runOperations: Operations<
  'listRuns' | 'findRun' | 'findLineage' | 'listSignals' | 'listSteps' | 'readRunInput'
> = {
  listRuns: { lane: 'read', run: listRuns },
  findRun: { lane: 'read', run: findRun },
  findLineage: { lane: 'read', run: findLineage },
  listSignals: { lane: 'read', run: listSignals },
  listSteps: { lane: 'read', run: listSteps },
  readRunInput: { lane: 'read', run: readRunInput },
};

const runColumns = `
  id, flow_id AS "flowId", flow_name AS "flowName", flow_version AS "flowVersion", revision, status,
  trigger_key AS "triggerKey", trigger_type AS "triggerType", delivery_id AS "deliveryId",
  source_run_id AS "sourceRunId", started_at AS "startedAt", completed_at AS "completedAt",
  ${keysOf('run', 'own.id')} AS "searchKeys"`;

type RunRow = Omit<Run, 'searchKeys'> & { readonly searchKeys: string | null };

function toRun<Row extends RunRow>({ searchKeys, ...row }: Row): Omit<Row, 'searchKeys'> & Pick<Run, 'searchKeys'> {
  const keys = toSearchKeys(searchKeys);
  return keys === undefined ? row : { ...row, searchKeys: keys };
}

const triggerColumns =
  'trigger_key AS "triggerKey", trigger_content_type AS "contentType", trigger_headers AS headers, trigger_body AS body';

interface TriggerRow extends Pick<RunTrigger, 'contentType' | 'body'> {
  readonly triggerKey: string;
  readonly headers: string;
}

const byKey = [
  {
    table: 'sluice.run_keys',
    owner: 'run_id',
    follow: (runIds: string) => runIds,
    own: 'k.run_id = newest.id',
  },
];

const runListing = {
  table: 'runs',
  select: `SELECT ${runColumns} FROM sluice.runs AS own`,
  searched: {
    texts: ['flow_name', 'trigger_key'],
    ids: ['id', 'delivery_id'],
    byId: [
      (from: string, to: string) => `SELECT id FROM sluice.runs WHERE id BETWEEN ${from} AND ${to}`,
      (from: string, to: string) => `SELECT id FROM sluice.runs WHERE delivery_id BETWEEN ${from} AND ${to}`,
    ],
    byKey,
  },
  toItem: (row: RunRow): Run => toRun(row),
};

/** Ids grow, so of runs started in the same millisecond the one with the greatest id is the newest. */
const byTime = ['started_at', 'id'];
/**
 * Runs start with the newest revision, so this is also chronological order, except where a step started a run with a
 * pinned revision.
 */
const byRevision = ['revision', ...byTime];

async function isUnordered(sql: Sql, flowId: string): Promise<boolean> {
  return (await sql.get('SELECT FROM sluice.unordered_flows WHERE flow_id = $1', [flowId])) !== undefined;
}

async function listRuns(sql: Sql, query: Given<'listRuns'>): Promise<Answer<'listRuns'>> {
  const { flowId, status, search = '', before, since, until, searchKeys } = query;
  const isTimed = since !== undefined || until !== undefined;
  // In a span of time, PostgreSQL's statistics say what is read fewer rows for.
  const isFlows = flowId !== undefined && (status === undefined || status === 'Succeeded') && !isTimed;
  const isOfFlow = isFlows && !(await isUnordered(sql, flowId));
  const isCounted =
    search === '' && before === undefined && !isTimed && searchKeys === undefined && query.waiting === undefined;
  return readPage<RunRow, Run>(
    sql,
    { ...runListing, order: isOfFlow ? byRevision : byTime },
    {
      query,
      search,
      filters: [
        filter.equals('flow_id', flowId),
        filter.equals('status', status),
        filter.within('started_at', query),
        before && startedBefore(before),
        ...keyFilters(byKey, searchKeys),
        isWaiting(query),
      ],
      known: isCounted ? await countKept(sql, query) : undefined,
    },
  );
}

function isWaiting({ waiting, flowId }: RunQuery): Condition | undefined {
  if (waiting === undefined) return undefined;
  const { kind, dueBefore } = waiting;
  return (bind) => {
    const [flow, due, limit] = [`${bind(flowId ?? null)}::text`, `${bind(dueBefore)}::bigint`, bind(SEARCHED_ROWS)];
    // Ids grow as runs start, so that the greatest are the newest.
    const runIds =
      kind === 'slot'
        ? dueRuns({ flow, due, limit })
        : `SELECT DISTINCT run_id FROM sluice.steps
          WHERE status = 'Pending' AND ${WAIT_KIND} = ${bind(kind)} AND (due_at IS NULL OR due_at > ${due})
            AND (${flow} IS NULL OR flow_id = ${flow})
          ORDER BY run_id DESC LIMIT ${limit}`;
    return `status = 'Running' AND id IN (${runIds})`;
  };
}

async function countKept(sql: Sql, { flowId, status }: RunQuery): Promise<number> {
  const row = await sql.get<{ total: number }>(
    `SELECT coalesce(sum(count), 0) AS total FROM sluice.run_totals
    WHERE flow_id = coalesce($1, flow_id) AND status = coalesce($2, status)`,
    [flowId ?? null, status ?? null],
  );
  return row?.total ?? 0;
}

function startedBefore({ startedAt, id }: NonNullable<RunQuery['before']>): Condition {
  return (bind) => `(started_at, id) < (${bind(startedAt)}, ${bind(uuidOf(id))})`;
}

async function findRun(sql: Sql, runId: string): Promise<RunDetail | undefined> {
  const row = await sql.get<Omit<RunDetail, 'trigger' | 'searchKeys'> & RunRow & TriggerRow>(
    `SELECT ${runColumns}, ${triggerColumns}, timeout_at AS "timeoutAt", timed_out_at AS "timedOutAt",
      cancel_requested_at AS "cancelRequestedAt", cancel_reason AS "cancelReason", idempotency_key AS "idempotencyKey"
    FROM sluice.runs AS own WHERE id = $1`,
    [uuidOf(runId)],
  );
  if (row === undefined) return undefined;
  const { contentType, headers, body, ...run } = row;
  return { ...toRun(run), trigger: toTrigger(row) };
}

/** More repeated runs than a person looks through. */
const MAX_DERIVED = 500;

async function findLineage(sql: Sql, runId: Given<'findLineage'>): Promise<Answer<'findLineage'>> {
  const find = async (id: string) => {
    const row = await sql.get<RunRow>(`SELECT ${runColumns} FROM sluice.runs AS own WHERE id = $1`, [uuidOf(id)]);
    return row && toRun(row);
  };
  const run = await find(runId);
  if (run === undefined) return undefined;
  const derived = await sql.all<RunRow>(
    `SELECT ${runColumns} FROM sluice.runs AS own WHERE source_run_id = $1
    ORDER BY started_at DESC, id DESC LIMIT ${MAX_DERIVED}`,
    [run.id],
  );
  const source = run.sourceRunId === null ? undefined : await find(run.sourceRunId);
  return { run, source, derived: derived.map(toRun).reverse() };
}

async function listSignals(sql: Sql, runId: string): Promise<SignalRecord[]> {
  return sql.all(
    `SELECT name, delivered_at AS "deliveredAt", step_key AS "stepKey" FROM sluice.signals
    WHERE run_id = $1 ORDER BY id`,
    [uuidOf(runId)],
  );
}

interface StepRow extends Omit<Step, 'runId' | 'input' | 'output' | 'error' | 'evaluationTrace'> {
  readonly input: string | null;
  readonly output: string | null;
  readonly error: string | null;
  readonly evaluationTrace: string | null;
}

interface AttemptRow extends Omit<Attempt, 'input' | 'output' | 'error'> {
  readonly stepKey: string;
  readonly input: string | null;
  readonly output: string | null;
  readonly error: string | null;
}

const stepColumns = `
  step_key AS "stepKey", step_type AS "stepType", status, input, output, error, skip_reason AS "skipReason",
  evaluation_trace AS "evaluationTrace", attempt_count AS "attemptCount", due_at AS "dueAt", started_at AS "startedAt",
  completed_at AS "completedAt"`;

/** What a pending step waits for until it is due, in the words of its index; one that was not tried yet is at its start. */
export const WAIT_KIND = `(CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
  WHEN strpos(wait, '"hostTurn":"') > 0 THEN 'host' WHEN strpos(wait, '"lastPoll":') > 0 THEN 'poll'
  WHEN strpos(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END)`;

/** The origin of the host that a step waits for, in the words of its index. */
export const HOST_OF_STEP = `(split_part(split_part(wait, '"hostTurn":"', 2), '"', 1) COLLATE "C")`;

/** Whether `a`, the row of a step, has to tell of its only attempt. */
export const SAYS_ITS_ATTEMPT = `a.attempt_count = 1 AND a.status IN ('Succeeded', 'Failed') AND NOT EXISTS (
  SELECT FROM sluice.attempts AS own WHERE own.run_id = a.run_id AND own.step_key = a.step_key AND own.attempt = 1)`;

/**
 * All attempts. A step that ended in its first attempt under the lease that it was inserted with has no row of it: the
 * step's own row says all. It hardly waited for a slot.
 */
export const ATTEMPTS = `(
  SELECT run_id, step_key, attempt, status, due_at, started_at, completed_at, error, input, output FROM sluice.attempts
  UNION ALL
  SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, error, input, output FROM sluice.steps AS a
  WHERE ${SAYS_ITS_ATTEMPT})`;

/** Never negative, even if the clock was set back; null where the attempt does not know when it was due. */
export const SLOT_WAIT = 'greatest(started_at, due_at) - due_at AS "slotWaitMs"';

async function listSteps(sql: Sql, runId: Given<'listSteps'>): Promise<Answer<'listSteps'>> {
  const id = uuidOf(runId);
  const run = await sql.get('SELECT FROM sluice.runs WHERE id = $1', [id]);
  if (run === undefined) return undefined;
  const attemptRows = await sql.all<AttemptRow>(
    `SELECT step_key AS "stepKey", attempt, status, input, output, error, ${SLOT_WAIT}, started_at AS "startedAt",
      completed_at AS "completedAt"
    FROM ${ATTEMPTS} AS a WHERE run_id = $1 ORDER BY step_key, attempt`,
    [id],
  );
  const attempts = new Map<string, AttemptRow[]>();
  for (const row of attemptRows) attempts.set(row.stepKey, [...(attempts.get(row.stepKey) ?? []), row]);
  const steps = await sql.all<StepRow>(
    `SELECT ${stepColumns} FROM sluice.steps WHERE run_id = $1
    ORDER BY coalesce(started_at, completed_at, due_at) NULLS FIRST, step_key`,
    [id],
  );
  return steps.map((row) => toStep(runId, row, (attempts.get(row.stepKey) ?? []).map(toAttempt)));
}

async function readRunInput(
  sql: Sql,
  { runId, stepKeys, maxBytes }: Given<'readRunInput'>,
): Promise<Answer<'readRunInput'>> {
  const id = uuidOf(runId);
  const limit = Math.min(maxBytes ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  const isWanted = `run_id = $1 AND status IN ('Succeeded', 'Failed', 'Skipped')${stepKeys === undefined ? '' : ' AND step_key = ANY($2)'}`;
  const values = stepKeys === undefined ? [id] : [id, stepKeys];
  const isFitting = `"bodyBytes" + "outputBytes" <= $${values.length + 1}`;
  const run = await sql.get<Omit<TriggerRow, 'body'> & Sizes & { readonly body: Uint8Array | null }>(
    `SELECT "triggerKey", "contentType", headers, "bodyBytes", "outputBytes", CASE WHEN ${isFitting} THEN body END AS body
    FROM (
      SELECT ${triggerColumns}, octet_length(trigger_body) AS "bodyBytes",
        (SELECT coalesce(sum(octet_length(output)), 0) FROM sluice.steps WHERE ${isWanted}) AS "outputBytes"
      FROM sluice.runs WHERE id = $1
    ) AS measured`,
    [...values, limit],
  );
  if (run === undefined) return undefined;
  const { bodyBytes, outputBytes, body } = run;
  if (body === null) return { kind: 'tooLarge', bodyBytes, outputBytes };
  const ended = await sql.all<EndedRow>(
    `SELECT step_key AS "stepKey", status, output, error FROM sluice.steps WHERE ${isWanted} ORDER BY step_key`,
    values,
  );
  const steps = ended.map(
    ({ stepKey, status, output, error }) =>
      [stepKey, { status, output: fromJson(output), error: toError(error) }] as const,
  );
  return { trigger: toTrigger({ ...run, body }), steps: Object.fromEntries(steps) };
}

interface Sizes {
  readonly bodyBytes: number;
  readonly outputBytes: number;
}

interface EndedRow {
  readonly stepKey: string;
  readonly status: StepStatus;
  readonly output: string | null;
  readonly error: string | null;
}

function toStep(runId: string, row: StepRow, attempts: readonly Attempt[]): StepDetail {
  return { ...row, ...jsonOf(row), runId, evaluationTrace: fromJson(row.evaluationTrace), attempts };
}

function toAttempt({ stepKey, ...row }: AttemptRow): Attempt {
  return { ...row, ...jsonOf(row) };
}

function toTrigger({ triggerKey, contentType, headers, body }: TriggerRow): RunTrigger {
  return { key: triggerKey, contentType, headers: JSON.parse(headers), body };
}

function jsonOf(row: { input: string | null; output: string | null; error: string | null }) {
  return { input: fromJson(row.input), output: fromJson(row.output), error: toError(row.error) };
}
