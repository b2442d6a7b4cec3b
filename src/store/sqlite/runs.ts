import type { Database } from 'better-sqlite3';
import type { StepStatus } from '../../model/manifest.ts';
import type { Attempt, Run, RunTrigger, Step } from '../../model/run.ts';
import { fromJson, toError } from '../json-columns.ts';
import type { RunDetail, RunQuery, SignalRecord, StepDetail } from '../store.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';
import {
  type Condition,
  filter,
  keysOf,
  preparePages,
  SEARCHED_ROWS,
  type Searchable,
  searchIn,
  toSearchKeys,
} from './paging.ts';
import { prepareListDueRuns } from './turns.ts';

export const runOperations = {
  listRuns: { thread: 'reader', prepare: prepareListRuns },
  findRun: { thread: 'reader', prepare: prepareFindRun },
  findLineage: { thread: 'reader', prepare: prepareFindLineage },
  listSignals: { thread: 'reader', prepare: prepareListSignals },
  listSteps: { thread: 'reader', prepare: prepareListSteps },
  readRunInput: { thread: 'reader', prepare: prepareReadRunInput },
} as const;

const runColumns = `
  id, flow_id AS flowId, flow_name AS flowName, flow_version AS flowVersion, revision, status,
  trigger_key AS triggerKey, trigger_type AS triggerType, delivery_id AS deliveryId, source_run_id AS sourceRunId,
  started_at AS startedAt, completed_at AS completedAt, ${keysOf('run', 'runs.id')} AS searchKeys`;

type RunRow = Omit<Run, 'searchKeys'> & { readonly searchKeys: string };

function toRun<Row extends RunRow>({ searchKeys, ...row }: Row): Omit<Row, 'searchKeys'> & Pick<Run, 'searchKeys'> {
  const keys = toSearchKeys(searchKeys);
  return keys === undefined ? row : { ...row, searchKeys: keys };
}

const triggerColumns =
  'trigger_key AS triggerKey, trigger_content_type AS contentType, trigger_headers AS headers, trigger_body AS body';

interface TriggerRow extends Pick<RunTrigger, 'contentType' | 'body'> {
  readonly triggerKey: string;
  readonly headers: string;
}

function prepareListRuns(db: Database): Member<'listRuns'> {
  const preparedFor = (order: string) =>
    preparePages<RunRow, Run>(db, {
      // Of runs started in the same millisecond the one stored last is the newest.
      page: `SELECT ${runColumns} FROM runs
        WHERE rowid IN (SELECT rowid FROM runs %where% ORDER BY ${order} %order%, rowid %order% LIMIT ? OFFSET ?)
        ORDER BY ${order} DESC, rowid DESC`,
      table: 'runs',
      toItem: toRun,
    });
  const byTime = preparedFor('started_at');
  // Runs start with the newest revision, so this is also chronological order, except where a step started a run with a
  // pinned revision.
  const byRevision = preparedFor('revision');
  const isUnordered = db.prepare('SELECT 1 FROM unordered_flows WHERE flow_id = ?');
  // A plus keeps SQLite from the index of the starts: the runs of one flow are sorted.
  const sorted = preparedFor('+started_at');
  const countKept = db.prepare<SqlValue[], { total: number }>(`
    SELECT coalesce(sum(count), 0) AS total FROM run_totals
    WHERE flow_id = coalesce(?, flow_id) AND status = coalesce(?, status)`);
  const isWaiting = prepareIsWaiting(db);
  return (query) => {
    const { flowId, status, search = '' } = query;
    const kept = () => countKept.get(flowId ?? null, status ?? null)?.total ?? 0;
    const isTimed = query.since !== undefined || query.until !== undefined;
    const isOfFlow = flowId !== undefined && (status === undefined || status === 'Succeeded');
    const hasOrder = isOfFlow && isUnordered.get(flowId) === undefined;
    const isFoundByFlow = isOfFlow && ((hasOrder && !isTimed) || kept() <= FEW_RUNS);
    const order = !isFoundByFlow ? 'started_at' : hasOrder ? 'revision' : '+started_at';
    // A plus keeps SQLite, which has no statistics, from the index of the other order.
    const [ofFlow, inTime] = isFoundByFlow ? ['flow_id', '+started_at'] : ['+flow_id', 'started_at'];
    const condition = searchIn({ ...searchable, order: `${order} DESC, rowid DESC` }, query, [
      filter.equals(isOfFlow ? ofFlow : 'flow_id', flowId),
      filter.equals('status', status),
      filter.within(isOfFlow ? inTime : 'started_at', query),
      // Says in the index's own words that the index of all other statuses has the answer.
      filter.holds("status <> 'Succeeded'", status !== undefined && status !== 'Succeeded'),
      query.before && startedBefore(query.before),
      isWaiting(query),
    ]);
    const isCounted =
      search === '' &&
      query.before === undefined &&
      !isTimed &&
      query.searchKeys === undefined &&
      query.waiting === undefined;
    const pages = { revision: byRevision, started_at: byTime, '+started_at': sorted }[order];
    return pages({ query, condition, known: isCounted ? kept() : undefined });
  };
}

function prepareIsWaiting(db: Database): (query: RunQuery) => Condition | undefined {
  const listDueRuns = prepareListDueRuns(db);
  const inFlight = (runIds: string) =>
    `status = 'Running' AND rowid IN (SELECT rowid FROM runs WHERE id IN (${runIds}))`;
  return ({ waiting, flowId }) => {
    if (waiting === undefined) return undefined;
    const { kind, dueBefore } = waiting;
    if (kind === 'slot') {
      const runIds = listDueRuns({ dueBefore, flowId, limit: SEARCHED_ROWS });
      return { sql: inFlight('SELECT value FROM json_each(?)'), values: [JSON.stringify(runIds)] };
    }
    // Ids grow as runs start, so that the greatest are the newest.
    return {
      sql: inFlight(`
        SELECT DISTINCT run_id FROM steps
        WHERE status = 'Pending' AND ${WAIT_KIND} = ? AND (due_at IS NULL OR due_at > ?) ${flowId === undefined ? '' : 'AND flow_id = ?'}
        ORDER BY run_id DESC LIMIT ${SEARCHED_ROWS}`),
      values: [kind, dueBefore, ...(flowId === undefined ? [] : [flowId])],
    };
  };
}

/**
 * The runs of a flow in a span of time are found among all of the span, or among all of the flow if it has no more than so
 * many: those are read in 10 ms.
 */
const FEW_RUNS = 10_000;

const searchable: Omit<Searchable, 'order'> = {
  table: 'runs',
  key: 'rowid',
  columns: ['id', 'flow_name', 'trigger_key', 'delivery_id'],
  byId: [
    'SELECT rowid FROM runs WHERE id >= ? AND id < ?',
    'SELECT r.rowid FROM deliveries d JOIN runs r ON r.id = d.run_id AND r.delivery_id = d.id WHERE d.id >= ? AND d.id < ?',
  ],
  byKey: [
    {
      table: 'run_keys',
      select: 'SELECT r.rowid FROM run_keys k CROSS JOIN runs r ON r.id = k.run_id',
      order: 'k.run_id',
      own: 'k.run_id = newest.id',
    },
  ],
  lookUp: 'NOT INDEXED ',
};

function startedBefore({ startedAt, id }: NonNullable<RunQuery['before']>) {
  // A run that was removed since has no row; its id tells those of its millisecond that follow it.
  const after = `coalesce((SELECT rowid FROM runs WHERE id = ?),
    (SELECT max(rowid) + 1 FROM runs WHERE started_at = ? AND id < ?))`;
  return { sql: `(started_at, rowid) < (?, ${after})`, values: [startedAt, id, startedAt, id] };
}

function prepareFindRun(db: Database): Member<'findRun'> {
  type Row = Omit<RunDetail, 'trigger' | 'searchKeys'> & RunRow & TriggerRow;
  const find = db.prepare<[string], Row>(`
    SELECT ${runColumns}, ${triggerColumns}, timeout_at AS timeoutAt, timed_out_at AS timedOutAt,
      cancel_requested_at AS cancelRequestedAt, cancel_reason AS cancelReason, idempotency_key AS idempotencyKey
    FROM runs WHERE id = ?`);
  return (runId) => {
    const row = find.get(runId);
    if (row === undefined) return undefined;
    const { contentType, headers, body, ...run } = row;
    return { ...toRun(run), trigger: toTrigger(row) };
  };
}

/** More repeated runs than a person looks through. */
const MAX_DERIVED = 500;

function prepareFindLineage(db: Database): Member<'findLineage'> {
  const findRow = db.prepare<[string], RunRow>(`SELECT ${runColumns} FROM runs WHERE id = ?`);
  const find = (id: string) => {
    const row = findRow.get(id);
    return row && toRun(row);
  };
  const listDerived = db.prepare<[string], RunRow>(
    `SELECT ${runColumns} FROM runs WHERE source_run_id = ? ORDER BY started_at DESC, id DESC LIMIT ${MAX_DERIVED}`,
  );
  return (runId) => {
    const run = find(runId);
    if (run === undefined) return undefined;
    const source = run.sourceRunId === null ? undefined : find(run.sourceRunId);
    return { run, source, derived: listDerived.all(runId).map(toRun).reverse() };
  };
}

function prepareListSignals(db: Database): Member<'listSignals'> {
  const list = db.prepare<[string], SignalRecord>(`
    SELECT name, delivered_at AS deliveredAt, step_key AS stepKey FROM signals WHERE run_id = ? ORDER BY id`);
  return (runId) => list.all(runId);
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
  step_key AS stepKey, step_type AS stepType, status, input, output, error, skip_reason AS skipReason,
  evaluation_trace AS evaluationTrace, attempt_count AS attemptCount, due_at AS dueAt, started_at AS startedAt,
  completed_at AS completedAt`;

/** What a pending step waits for until it is due, in the words of its index; one that was not tried yet is at its start. */
export const WAIT_KIND = `CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
  WHEN instr(wait, '"hostTurn":"') > 0 THEN 'host' WHEN instr(wait, '"lastPoll":') > 0 THEN 'poll'
  WHEN instr(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END`;

/** The origin of the host that a step waits for, in the words of its index. */
export const HOST_OF_STEP = `substr(wait, instr(wait, '"hostTurn":"') + 12, instr(substr(wait, instr(wait, '"hostTurn":"') + 12), '"') - 1)`;

/** Whether `a`, the row of a step, has to tell of its only attempt. */
export const SAYS_ITS_ATTEMPT = `a.attempt_count = 1 AND a.status IN ('Succeeded', 'Failed') AND NOT EXISTS (
  SELECT 1 FROM attempts AS own WHERE own.run_id = a.run_id AND own.step_key = a.step_key AND own.attempt = 1)`;

/**
 * All attempts. A step that ended in its first attempt under the lease that it was inserted with has no row of it: the
 * step's own row says all. It hardly waited for a slot.
 */
export const ATTEMPTS = `(
  SELECT run_id, step_key, attempt, status, due_at, started_at, completed_at, error, input, output FROM attempts
  UNION ALL
  SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, error, input, output FROM steps AS a
  WHERE ${SAYS_ITS_ATTEMPT})`;

/** Never negative, even if the clock was set back. */
export const SLOT_WAIT = 'max(0, started_at - due_at) AS slotWaitMs';

const attemptColumns = `
  step_key AS stepKey, attempt, status, input, output, error, ${SLOT_WAIT}, started_at AS startedAt,
  completed_at AS completedAt`;

function prepareListSteps(db: Database): Member<'listSteps'> {
  const isKnown = db.prepare('SELECT 1 FROM runs WHERE id = ?');
  const listSteps = db.prepare<[string], StepRow>(`
    SELECT ${stepColumns} FROM steps WHERE run_id = ?
    ORDER BY coalesce(started_at, completed_at, due_at), step_key`);
  const listAttempts = db.prepare<[string], AttemptRow>(
    `SELECT ${attemptColumns} FROM ${ATTEMPTS} WHERE run_id = ? ORDER BY step_key, attempt`,
  );

  return (runId) => {
    if (isKnown.get(runId) === undefined) return undefined;
    const attempts = new Map<string, Attempt[]>();
    for (const { stepKey, ...row } of listAttempts.iterate(runId)) {
      const attempt = { ...row, ...jsonOf(row) };
      const earlier = attempts.get(stepKey);
      if (earlier === undefined) attempts.set(stepKey, [attempt]);
      else earlier.push(attempt);
    }
    return listSteps.all(runId).map((row) => toStep(runId, row, attempts.get(row.stepKey) ?? []));
  };
}

function prepareReadRunInput(db: Database): Member<'readRunInput'> {
  const findTrigger = db.prepare<[string], TriggerRow>(`SELECT ${triggerColumns} FROM runs WHERE id = ?`);
  const measureBody = db.prepare<[string], { bytes: number }>(
    'SELECT octet_length(trigger_body) AS bytes FROM runs WHERE id = ?',
  );
  type EndedRow = { stepKey: string; status: StepStatus; output: string | null; error: string | null };
  const all = "run_id = ? AND status IN ('Succeeded', 'Failed', 'Skipped')";
  const named = `${all} AND step_key IN (SELECT value FROM json_each(?))`;
  const row = 'step_key AS stepKey, status, output, error';
  const size = 'coalesce(sum(octet_length(output)), 0) AS bytes';
  const listEnded = db.prepare<[string], EndedRow>(`SELECT ${row} FROM steps WHERE ${all} ORDER BY step_key`);
  const listNamed = db.prepare<[string, string], EndedRow>(`SELECT ${row} FROM steps WHERE ${named} ORDER BY step_key`);
  const measureEnded = db.prepare<[string], { bytes: number }>(`SELECT ${size} FROM steps WHERE ${all}`);
  const measureNamed = db.prepare<[string, string], { bytes: number }>(`SELECT ${size} FROM steps WHERE ${named}`);
  return ({ runId, stepKeys, maxBytes = Number.POSITIVE_INFINITY }) => {
    const keys = JSON.stringify(stepKeys ?? []);
    const isNone = stepKeys?.length === 0;
    const measured = () => (stepKeys === undefined ? measureEnded.get(runId) : measureNamed.get(runId, keys));
    const bodyBytes = measureBody.get(runId)?.bytes ?? 0;
    const outputBytes = isNone ? 0 : (measured()?.bytes ?? 0);
    if (bodyBytes + outputBytes > maxBytes) return { kind: 'tooLarge', bodyBytes, outputBytes };
    const trigger = findTrigger.get(runId);
    if (trigger === undefined) return undefined;
    const listed = () => (stepKeys === undefined ? listEnded.all(runId) : listNamed.all(runId, keys));
    const steps = (isNone ? [] : listed()).map(
      ({ stepKey, status, output, error }) =>
        [stepKey, { status, output: fromJson(output), error: toError(error) }] as const,
    );
    return { trigger: toTrigger(trigger), steps: Object.fromEntries(steps) };
  };
}

function toStep(runId: string, row: StepRow, attempts: readonly Attempt[]): StepDetail {
  return { ...row, ...jsonOf(row), runId, evaluationTrace: fromJson(row.evaluationTrace), attempts };
}

function toTrigger({ triggerKey, contentType, headers, body }: TriggerRow): RunTrigger {
  return { key: triggerKey, contentType, headers: JSON.parse(headers), body };
}

function jsonOf(row: { input: string | null; output: string | null; error: string | null }) {
  return { input: fromJson(row.input), output: fromJson(row.output), error: toError(row.error) };
}
