import type { Database } from 'better-sqlite3';
import { parseJson } from '../../model/json.ts';
import type { StepStatus } from '../../model/manifest.ts';
import { WAIT_KINDS, type WaitKind } from '../../model/run.ts';
import { type AttemptRow, Cutter, MAX_ATTEMPTS, PREVIEW_CHARACTERS, type StepRow } from '../cut-values.ts';
import { toError } from '../json-columns.ts';
import { inOrder } from '../step-order.ts';
import type { LoopProgress, RunWait, StepMoment, StepOutline, StepView, ValueLimits } from '../store.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';
import { ATTEMPTS, HOST_OF_STEP, SAYS_ITS_ATTEMPT, SLOT_WAIT, WAIT_KIND } from './runs.ts';

export const stepOperations = {
  describeRuns: { thread: 'reader', prepare: prepareDescribeRuns },
  outlineSteps: { thread: 'reader', prepare: prepareOutlineSteps },
  findStep: { thread: 'reader', prepare: prepareFindStep },
  pageSteps: { thread: 'reader', prepare: preparePageSteps },
  readValue: { thread: 'reader', prepare: prepareReadValue },
  listMoments: { thread: 'reader', prepare: prepareListMoments },
  listLoops: { thread: 'reader', prepare: prepareListLoops },
  countChildren: { thread: 'reader', prepare: prepareCountChildren },
  findIterations: { thread: 'reader', prepare: prepareFindIterations },
} as const;

/** Steps of a run that are counted of each kind. */
const COUNTED_WAITS = 100;
const LISTED_FAILURES = 20;

function prepareDescribeRuns(db: Database): Member<'describeRuns'> {
  const findWait = prepareFindWait(db);
  const listFailed = db.prepare<[string], { stepKey: string; error: string | null }>(`
    SELECT step_key AS stepKey, error FROM steps
    WHERE run_id = ? AND status = 'Failed' AND instr(step_key, '.') = 0 ORDER BY completed_at, step_key LIMIT ${LISTED_FAILURES}`);
  return ({ running, ended, dueBefore }) => ({
    waits: running.flatMap((runId) => WAIT_KINDS.flatMap((kind) => findWait({ runId, kind, dueBefore }) ?? [])),
    failures: ended.flatMap((runId) =>
      listFailed.all(runId).map(({ stepKey, error }) => ({ runId, stepKey, error: toError(error) })),
    ),
  });
}

interface WaitOfRun {
  readonly runId: string;
  readonly kind: WaitKind;
  readonly dueBefore: number;
}

function prepareFindWait(db: Database): (of: WaitOfRun) => RunWait | undefined {
  type Row = Pick<RunWait, 'stepKey' | 'signalName' | 'host' | 'subRunId' | 'until'>;
  const prepare = (isKind: string) => {
    const waiting = `FROM steps WHERE status = 'Pending' AND run_id = ? AND ${isKind}`;
    return {
      find: db.prepare<SqlValue[], Row>(`
        SELECT step_key AS stepKey, signal_name AS signalName, CASE WHEN ${WAIT_KIND} = 'host' THEN ${HOST_OF_STEP} END AS host,
          wait ->> '$.state.subRun' AS subRunId,
          min(coalesce(due_at, limit_at), coalesce(limit_at, due_at)) AS until
        ${waiting} ORDER BY due_at NULLS LAST, step_key LIMIT 1`),
      count: db.prepare<SqlValue[], { steps: number }>(
        `SELECT count(*) AS steps FROM (SELECT 1 ${waiting} LIMIT ${COUNTED_WAITS})`,
      ),
    };
  };
  const later = prepare(`${WAIT_KIND} = ? AND (due_at IS NULL OR due_at > ?)`);
  const due = prepare(`${WAIT_KIND} IN ('start', 'signal', 'delay', 'retry', 'poll', 'host', 'run') AND due_at <= ?`);
  return ({ runId, kind, dueBefore }) => {
    const { find, count } = kind === 'slot' ? due : later;
    const values = kind === 'slot' ? [runId, dueBefore] : [runId, kind, dueBefore];
    const row = find.get(...values);
    if (row === undefined) return undefined;
    const own = kind === 'slot' ? { ...row, signalName: null, host: null, subRunId: null, until: null } : row;
    return { runId, kind, ...own, steps: count.get(...values)?.steps ?? 1 };
  };
}

type OutlineAttempt = StepOutline['attempts'][number];
type OutlineRow = Omit<StepOutline, 'error' | 'attempts' | 'lastPoll'> & {
  readonly error: string | null;
  readonly lastPoll: string | null;
};

function prepareOutlineSteps(db: Database): Member<'outlineSteps'> {
  const named = 'run_id = ? AND step_key IN (SELECT value FROM json_each(?)) ORDER BY step_key';
  const listSteps = db.prepare<[string, string], OutlineRow>(`
    SELECT step_key AS stepKey, step_type AS stepType, status, error, skip_reason AS skipReason, due_at AS dueAt,
      started_at AS startedAt, completed_at AS completedAt, signal_name AS signalName, wait -> '$.state.lastPoll' AS lastPoll,
      (SELECT max(run_id) FROM sub_runs WHERE parent_run_id = steps.run_id AND step_key = steps.step_key) AS subRunId
    FROM steps WHERE ${named}`);
  const listAttempts = db.prepare<[string, string], OutlineAttempt & { readonly stepKey: string }>(`
    SELECT step_key AS stepKey, attempt, status, ${SLOT_WAIT}, started_at AS startedAt, completed_at AS completedAt,
      error ->> '$.code' AS errorCode
    FROM ${ATTEMPTS} WHERE ${named}, attempt`);
  return (runId, stepKeys) => {
    const keys = JSON.stringify(stepKeys);
    const attempts = new Map<string, OutlineAttempt[]>();
    for (const { stepKey, ...attempt } of listAttempts.iterate(runId, keys)) {
      const earlier = attempts.get(stepKey);
      if (earlier === undefined) attempts.set(stepKey, [attempt]);
      else earlier.push(attempt);
    }
    return listSteps.all(runId, keys).map((row) => ({
      ...row,
      error: toError(row.error),
      lastPoll: row.lastPoll === null ? null : parseJson(row.lastPoll),
      attempts: attempts.get(row.stepKey) ?? [],
    }));
  };
}

function prepareListMoments(db: Database): Member<'listMoments'> {
  // An attempt that failed was retried where another followed it, or where its step is not Failed now.
  const list = db.prepare<[string, string, string, number], StepMoment>(`
    SELECT step_key AS stepKey, attempt, kind, at, reason FROM (
      SELECT step_key, attempt, 'started' AS kind, started_at AS at, 1 AS rank, NULL AS reason
      FROM ${ATTEMPTS} WHERE run_id = ?
      UNION ALL
      SELECT a.step_key, a.attempt,
        CASE WHEN a.status <> 'Failed' THEN 'completed'
          WHEN a.attempt < s.attempt_count OR s.status <> 'Failed' THEN 'retried' ELSE 'failed' END,
        a.completed_at, 2, a.error ->> '$.message'
      FROM ${ATTEMPTS} a JOIN steps s USING (run_id, step_key) WHERE run_id = ? AND a.completed_at IS NOT NULL
      UNION ALL
      SELECT step_key, 0, 'skipped', completed_at, 3, skip_reason
      FROM steps WHERE run_id = ? AND status = 'Skipped' AND completed_at IS NOT NULL
    ) ORDER BY at DESC, rank DESC, step_key DESC, attempt DESC LIMIT ?`);
  const countAll = db.prepare<[string, string], { total: number }>(`
    SELECT (SELECT count(*) + count(completed_at) FROM ${ATTEMPTS} WHERE run_id = ?) +
      (SELECT count(completed_at) FROM steps WHERE run_id = ? AND status = 'Skipped') AS total`);
  return ({ runId, limit }) => {
    const items = list.all(runId, runId, runId, limit).reverse();
    return { items, total: countAll.get(runId, runId)?.total ?? 0 };
  };
}

function prepareListLoops(db: Database): Member<'listLoops'> {
  const list = db.prepare<[string], LoopProgress>(`
    SELECT step_key AS stepKey, total, started, ended, failed FROM loops WHERE run_id = ? ORDER BY step_key`);
  return (runId) => list.all(runId);
}

function prepareCountChildren(db: Database): Member<'countChildren'> {
  const list = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    "SELECT step_key AS stepKey, status FROM steps WHERE run_id = ? AND instr(step_key, '.') > 0",
  );
  return (runId) => {
    const counts = new Map<string, { path: string; status: StepStatus; count: number }>();
    for (const { stepKey, status } of list.iterate(runId)) {
      const path = stepKey.replace(/\.\d+\./g, '.');
      const known = counts.get(`${path} ${status}`);
      if (known === undefined) counts.set(`${path} ${status}`, { path, status, count: 1 });
      else known.count += 1;
    }
    // By path and status, which hold no character below the space between them.
    return [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count);
  };
}

function prepareFindIterations(db: Database): Member<'findIterations'> {
  const list = db.prepare<[string, string, string, string], { stepKey: string }>(`
    SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND step_key >= ? AND step_key < ? AND status = ?`);
  return ({ runId, loopKey, status, limit }) => {
    const found = new Set<number>();
    // "/" is the character after ".".
    for (const { stepKey } of list.iterate(runId, `${loopKey}.`, `${loopKey}/`, status)) {
      found.add(Number.parseInt(stepKey.slice(loopKey.length + 1), 10));
    }
    return [...found].sort((a, b) => a - b).slice(0, limit);
  };
}

/** SQL that reads a value only if it has at most @maxBytes. */
function valueColumns(column: string, name: string): string {
  return `CASE WHEN octet_length(${column}) <= @maxBytes THEN ${column} END AS ${name},
    octet_length(${column}) AS ${name}Bytes,
    CASE WHEN octet_length(${column}) > @maxBytes THEN substr(${column}, 1, ${PREVIEW_CHARACTERS}) END AS ${name}Preview`;
}

const stepColumns = `step_key AS stepKey, step_type AS stepType, status, error, skip_reason AS skipReason,
  attempt_count AS attemptCount, due_at AS dueAt, started_at AS startedAt, completed_at AS completedAt,
  ${valueColumns('input', 'input')}, ${valueColumns('output', 'output')},
  ${valueColumns('evaluation_trace', 'evaluationTrace')}`;

function prepareFindStep(db: Database): Member<'findStep'> {
  const list = prepareListViews(db);
  return (runId, stepKey, limits) => list(runId, [stepKey], limits)[0];
}

function preparePageSteps(db: Database): Member<'pageSteps'> {
  const isKnown = db.prepare('SELECT 1 FROM runs WHERE id = ?');
  const listKeys = db.prepare<[string], string>('SELECT step_key FROM steps WHERE run_id = ?').pluck();
  const list = prepareListViews(db);
  return ({ runId, planned, skip, take, limits }) => {
    if (isKnown.get(runId) === undefined) return undefined;
    const ordered = inOrder(listKeys.all(runId), planned);
    const keys = ordered.slice(skip, skip + take);
    const rows = new Map(list(runId, keys, limits).map((step) => [step.stepKey, step]));
    return { items: keys.map((stepKey) => rows.get(stepKey) ?? { stepKey }), total: ordered.length };
  };
}

function prepareListViews(
  db: Database,
): (runId: string, stepKeys: readonly string[], limits?: ValueLimits) => StepView[] {
  interface Named {
    readonly runId: string;
    readonly keys: string;
    readonly maxBytes: number;
  }
  const listSteps = db.prepare<[Named], StepRow>(`
    SELECT ${stepColumns} FROM steps
    WHERE run_id = @runId AND step_key IN (SELECT value FROM json_each(@keys)) ORDER BY step_key`);
  const values = `${valueColumns('a.input', 'input')}, ${valueColumns('a.output', 'output')}`;
  // Not over `ATTEMPTS`, which would read values whole and attempts that are not shown.
  const listAttempts = db.prepare<[Named], AttemptRow>(`
    SELECT a.step_key AS stepKey, a.attempt, a.status, a.error, max(0, a.started_at - a.due_at) AS slotWaitMs,
      a.started_at AS startedAt, a.completed_at AS completedAt, ${values}
    FROM json_each(@keys) AS named CROSS JOIN steps AS s ON s.run_id = @runId AND s.step_key = named.value
    CROSS JOIN attempts AS a ON a.run_id = @runId AND a.step_key = s.step_key
      AND a.attempt > s.attempt_count - ${MAX_ATTEMPTS}
    UNION ALL
    SELECT a.step_key, 1, a.status, a.error, 0, a.started_at, a.completed_at, ${values}
    FROM json_each(@keys) AS named CROSS JOIN steps AS a ON a.run_id = @runId AND a.step_key = named.value
    WHERE ${SAYS_ITS_ATTEMPT}
    ORDER BY 1, 2`);
  return (runId, stepKeys, limits) => {
    const cut = new Cutter(limits);
    const named = { runId, keys: JSON.stringify(stepKeys), maxBytes: cut.maxBytes };
    const steps: StepView[] = [];
    for (const row of listSteps.iterate(named)) steps.push(cut.step(runId, row));
    const attempts = new Map<string, StepView['attempts'][number][]>(steps.map(({ stepKey }) => [stepKey, []]));
    for (const row of listAttempts.iterate(named)) attempts.get(row.stepKey)?.push(cut.attempt(row));
    return steps.map((step) => ({ ...step, attempts: attempts.get(step.stepKey) ?? [] }));
  };
}

/** Reads a value piece by piece, as it is kept. */
function prepareReadValue(db: Database): Member<'readValue'> {
  type Row = { totalBytes: number | null; changes: string; piece: Uint8Array | null };
  interface Asked {
    readonly runId: string;
    readonly stepKey: string;
    readonly attempt: number | null;
    readonly offset: number;
    readonly bytes: number;
  }
  const prepare = (column: 'input' | 'output') => {
    const piece = `octet_length(${column}) AS totalBytes, attempt_count || ' ' || coalesce(completed_at, '') AS changes,
      substr(CAST(${column} AS BLOB), @offset + 1, @bytes) AS piece`;
    return {
      step: db.prepare<[Asked], Row>(`SELECT ${piece} FROM steps WHERE run_id = @runId AND step_key = @stepKey`),
      attempt: db.prepare<[Asked], Row>(`
        SELECT ${piece.replace('attempt_count', 'attempt')} FROM ${ATTEMPTS}
        WHERE run_id = @runId AND step_key = @stepKey AND attempt = @attempt`),
    };
  };
  const statements = { input: prepare('input'), output: prepare('output') };
  return ({ value, attempt, ...asked }) => {
    const statement = statements[value][attempt === undefined ? 'step' : 'attempt'];
    const row = statement.get({ ...asked, attempt: attempt ?? null });
    return row === undefined ? undefined : { ...row, piece: row.piece ?? new Uint8Array() };
  };
}
