import { parseJson } from '../../model/json.ts';
import { WAIT_KINDS } from '../../model/run.ts';
import { toError } from '../json-columns.ts';
import type { RunWait, StepOutline, StepView, ValueLimits } from '../store.ts';
import { uuidOf } from '../uuids.ts';
import { type AttemptRow, Cutter, MAX_ATTEMPTS, PREVIEW_CHARACTERS, type StepRow } from './cut-values.ts';
import type { Decision } from './decision.ts';
import { listTurns } from './order-views.ts';
import { type FixedText, fixed, type Port, type Query, sql } from './port.ts';
import { ATTEMPTS, SAYS_ITS_ATTEMPT, SLOT_WAIT } from './runs.ts';
import type { Answer, Given, Verbs } from './verb.ts';
import { HAS_NO_TURN, IS_COALESCING, ORIGIN_OF_STEP, WAIT_KIND } from './waits.ts';

/** How many steps of a run are counted for each kind. */
const COUNTED_WAITS = 100;
const LISTED_FAILURES = 20;

export const attemptsOfAll = fixed(ATTEMPTS);
const [saysItsAttempt, slotWait, waitKind, origin, hasNoTurn, coalesces] = [
  SAYS_ITS_ATTEMPT,
  SLOT_WAIT,
  WAIT_KIND,
  ORIGIN_OF_STEP,
  HAS_NO_TURN,
  IS_COALESCING,
].map(fixed) as [FixedText, FixedText, FixedText, FixedText, FixedText, FixedText];

const LATER_KINDS = WAIT_KINDS.filter((kind) => kind !== 'slot' && kind !== 'order' && kind !== 'coalesce');

// JSON is parsed here and not by PostgreSQL, which refuses an escaped NUL in any text that it parses.

interface KnownState {
  readonly lastPoll?: StepOutline['lastPoll'];
  readonly subRun?: string;
  readonly secretWait?: string;
}

/** The stored state of a waiting step. */
function stateIn(wait: string | null): KnownState {
  return (wait === null ? null : (parseJson(wait) as { readonly state?: KnownState | null }).state) ?? {};
}

function* describeRuns(
  port: Port,
  { running, ended, dueBefore }: Given<'describeRuns'>,
): Decision<Answer<'describeRuns'>> {
  const first = (isKind: Query) => {
    const waiting = sql`FROM sluice.steps WHERE status = 'Pending' AND run_id = runs.run_id AND ${isKind}`;
    return sql`(SELECT step_key ${waiting} ORDER BY due_at NULLS LAST, step_key LIMIT 1) AS step_key,
      (SELECT count(*) FROM (SELECT 1 ${waiting} LIMIT ${fixed(String(COUNTED_WAITS))}) AS counted) AS steps`;
  };
  const isLater = sql`${waitKind} = kinds.kind AND (due_at IS NULL OR due_at > ${dueBefore}) AND NOT ${hasNoTurn}`;
  const isCoalescing = sql`${waitKind} = 'start' AND due_at > ${dueBefore} AND ${coalesces}`;
  const isDue = sql`${waitKind} IN ('start', 'signal', 'delay', 'retry', 'poll', 'host', 'secret', 'run') AND due_at <= ${dueBefore}`;
  const waits = yield* port.all<Omit<RunWait, 'awaitedRunId' | 'lacking'> & { readonly wait: string | null }>(sql`
    SELECT first.run_id AS "runId", first.kind, s.step_key AS "stepKey", s.signal_name AS "signalName",
      CASE ${waitKind} WHEN 'host' THEN ${origin} END AS host,
      least(coalesce(s.due_at, s.limit_at), coalesce(s.limit_at, s.due_at)) AS until, first.steps,
      -- What other steps keep may be large.
      CASE WHEN ${waitKind} IN ('run', 'secret') THEN s.wait END AS wait
    FROM (
      SELECT runs.run_id, kinds.kind, ${first(isLater)}
      FROM unnest(${running}::uuid[]) AS runs (run_id) CROSS JOIN unnest(${LATER_KINDS}::text[]) AS kinds (kind)
      UNION ALL
      SELECT runs.run_id, 'coalesce', ${first(isCoalescing)} FROM unnest(${running}::uuid[]) AS runs (run_id)
      UNION ALL
      SELECT runs.run_id, 'slot', ${first(isDue)} FROM unnest(${running}::uuid[]) AS runs (run_id)
    ) AS first /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = first.run_id AND s.step_key = first.step_key`);
  const failures = yield* port.all<{ runId: string; stepKey: string; error: string | null }>(sql`
    SELECT run_id AS "runId", step_key AS "stepKey", error FROM (
      SELECT run_id, step_key, error, row_number() OVER (PARTITION BY run_id ORDER BY completed_at, step_key) AS n
      FROM sluice.steps WHERE run_id = ANY (${ended}) AND status = 'Failed' AND strpos(step_key, '.') = 0
    ) AS failed WHERE n <= ${LISTED_FAILURES} ORDER BY n`);
  const turns = running.length === 0 ? [] : yield* listTurns(port, running);
  const ofSlot = { signalName: null, host: null, awaitedRunId: null, lacking: null, until: null };
  return {
    waits: running.flatMap((runId) => [
      ...turns
        .filter((turn) => turn.runId === runId)
        .map((turn): RunWait => ({ ...ofSlot, ...turn, kind: 'order', stepKey: null, steps: 1 })),
      ...WAIT_KINDS.flatMap((kind) =>
        waits
          .filter((row) => row.runId === runId && row.kind === kind)
          .map(({ wait, ...row }) => ({
            ...row,
            awaitedRunId: stateIn(wait).subRun ?? null,
            lacking: stateIn(wait).secretWait ?? null,
            ...(kind === 'slot' && ofSlot),
          })),
      ),
    ]),
    failures: ended.flatMap((runId) =>
      failures.filter((row) => row.runId === runId).map((row) => ({ ...row, error: toError(row.error) })),
    ),
  };
}

type OutlineAttempt = StepOutline['attempts'][number];
type OutlineRow = Omit<StepOutline, 'error' | 'attempts' | 'lastPoll'> & {
  readonly error: string | null;
  readonly wait: string | null;
};
type OutlineAttemptRow = Omit<OutlineAttempt, 'errorCode'> & {
  readonly stepKey: string;
  readonly error: string | null;
};

function* outlineSteps(port: Port, runId: string, stepKeys: readonly string[]): Decision<StepOutline[]> {
  const isNamed = sql`run_id = ${uuidOf(runId)} AND step_key = ANY (${stepKeys})`;
  const steps = yield* port.all<OutlineRow>(sql`
    SELECT step_key AS "stepKey", step_type AS "stepType", status, error, skip_reason AS "skipReason", due_at AS "dueAt",
      started_at AS "startedAt", completed_at AS "completedAt", signal_name AS "signalName",
      CASE WHEN strpos(wait, '"lastPoll":') > 0 THEN wait END AS wait,
      (SELECT c.run_id FROM sluice.sub_runs AS c WHERE c.parent_run_id = own.run_id AND c.step_key = own.step_key
        ORDER BY c.run_id DESC LIMIT 1) AS "subRunId"
    FROM sluice.steps AS own WHERE ${isNamed} ORDER BY step_key`);
  const attempts = yield* port.all<OutlineAttemptRow>(sql`
    SELECT step_key AS "stepKey", attempt, status, ${slotWait}, started_at AS "startedAt",
      completed_at AS "completedAt", error
    FROM ${attemptsOfAll} AS a WHERE ${isNamed} ORDER BY step_key, attempt`);
  const attemptsOf = new Map<string, OutlineAttempt[]>(steps.map(({ stepKey }) => [stepKey, []]));
  for (const { stepKey, error, ...attempt } of attempts) {
    attemptsOf.get(stepKey)?.push({ ...attempt, errorCode: toError(error)?.code ?? null });
  }
  return steps.map(({ wait, ...row }) => ({
    ...row,
    error: toError(row.error),
    lastPoll: stateIn(wait).lastPoll ?? null,
    attempts: attemptsOf.get(row.stepKey) ?? [],
  }));
}

/** SQL that reads a value only if its size is at most `most.bytes`. */
function valueColumns(column: string, name: string): string {
  return `CASE WHEN octet_length(${column}) <= most.bytes THEN ${column} END AS "${name}",
    octet_length(${column}) AS "${name}Bytes",
    CASE WHEN octet_length(${column}) > most.bytes THEN substr(${column}, 1, ${PREVIEW_CHARACTERS}) END AS "${name}Preview"`;
}

const stepColumns = fixed(`step_key AS "stepKey", step_type AS "stepType", status, error, skip_reason AS "skipReason",
  attempt_count AS "attemptCount", due_at AS "dueAt", started_at AS "startedAt", completed_at AS "completedAt",
  ${valueColumns('input', 'input')}, ${valueColumns('output', 'output')},
  ${valueColumns('evaluation_trace', 'evaluationTrace')}`);

const attemptValues = fixed(`${valueColumns('a.input', 'input')}, ${valueColumns('a.output', 'output')}`);

interface NamedSteps {
  readonly runId: string;
  readonly stepKeys: readonly string[];
  readonly limits: ValueLimits | undefined;
}

function* listViews(port: Port, { runId, stepKeys, limits }: NamedSteps): Decision<StepView[]> {
  const cut = new Cutter(limits);
  const id = uuidOf(runId);
  const most = sql`(SELECT ${cut.maxBytes}::bigint AS bytes) AS most`;
  const named = sql`unnest(${stepKeys}::text[]) AS named (key) CROSS JOIN ${most}`;
  const stepRows = yield* port.all<StepRow>(sql`
    SELECT ${stepColumns} FROM ${most} CROSS JOIN sluice.steps
    WHERE run_id = ${id} AND step_key = ANY (${stepKeys}) ORDER BY step_key`);
  const steps = stepRows.map((row) => cut.step(runId, row));
  // Does not use `ATTEMPTS`, which would read whole values, and attempts that are not shown.
  const attemptRows = yield* port.all<AttemptRow>(sql`
    SELECT a.step_key AS "stepKey", a.attempt, a.status, a.error, greatest(a.started_at - a.due_at, 0) AS "slotWaitMs",
      a.started_at AS "startedAt", a.completed_at AS "completedAt", a.inputs_revision AS "inputsRevision", ${attemptValues}
    FROM ${named}
    /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = ${id} AND s.step_key = named.key
    /*sqlite: CROSS */ JOIN sluice.attempts AS a ON a.run_id = ${id} AND a.step_key = s.step_key
      AND a.attempt > s.attempt_count - ${fixed(String(MAX_ATTEMPTS))}
    UNION ALL
    SELECT a.step_key, 1, a.status, a.error, 0, a.started_at, a.completed_at, a.inputs_revision, ${attemptValues}
    FROM ${named} /*sqlite: CROSS */ JOIN sluice.steps AS a ON a.run_id = ${id} AND a.step_key = named.key
    WHERE ${saysItsAttempt}
    ORDER BY 1, 2`);
  const attempts = new Map<string, StepView['attempts'][number][]>(steps.map(({ stepKey }) => [stepKey, []]));
  for (const row of attemptRows) attempts.get(row.stepKey)?.push(cut.attempt(row));
  return steps.map((step) => ({ ...step, attempts: attempts.get(step.stepKey) ?? [] }));
}

/** The planned keys in their order, each followed by the keys of its loop's children, then keys that no plan names. */
function inOrder(keys: readonly string[], planned: readonly string[]): string[] {
  const known = new Set(planned);
  const children = new Map<string, { readonly key: string; readonly segments: readonly string[] }[]>();
  for (const key of keys) {
    if (known.has(key)) continue;
    const segments = key.split('.');
    const parent = known.has(segments[0] ?? '') ? (segments[0] ?? '') : '';
    const others = children.get(parent);
    if (others === undefined) children.set(parent, [{ key, segments }]);
    else others.push({ key, segments });
  }
  const below = (parent: string) =>
    (children.get(parent) ?? []).sort((a, b) => compareSegments(a.segments, b.segments)).map(({ key }) => key);
  return [...planned.flatMap((key) => [key, ...below(key)]), ...below('')];
}

/** Compares indices of iterations as numbers. */
function compareSegments(a: readonly string[], b: readonly string[]): number {
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    const [left, right] = [a[at] ?? '', b[at] ?? ''];
    if (left === right) continue;
    const difference = Number(left) - Number(right);
    if (!Number.isNaN(difference) && difference !== 0) return difference;
    return left < right ? -1 : 1;
  }
  return a.length - b.length;
}

function* pageSteps(port: Port, query: Given<'pageSteps'>): Decision<Answer<'pageSteps'>> {
  const { runId, planned, skip, take, limits } = query;
  const known = yield* port.all<{ key: string | null }>(sql`
    SELECT s.step_key AS key FROM sluice.runs AS r LEFT JOIN sluice.steps AS s ON s.run_id = r.id
    WHERE r.id = ${uuidOf(runId)}`);
  if (known.length === 0) return undefined;
  const ordered = inOrder(
    known.flatMap(({ key }) => key ?? []),
    planned,
  );
  const stepKeys = ordered.slice(skip, skip + take);
  const views = yield* listViews(port, { runId, stepKeys, limits });
  const rows = new Map(views.map((step) => [step.stepKey, step]));
  return { items: stepKeys.map((stepKey) => rows.get(stepKey) ?? { stepKey }), total: ordered.length };
}

export const stepVerbs: Verbs<'describeRuns' | 'outlineSteps' | 'findStep' | 'pageSteps'> = {
  describeRuns: { access: 'read', decide: describeRuns },
  outlineSteps: { access: 'read', decide: outlineSteps },
  findStep: {
    access: 'read',
    *decide(port, ...[runId, stepKey, limits]) {
      return (yield* listViews(port, { runId, stepKeys: [stepKey], limits }))[0];
    },
  },
  pageSteps: { access: 'read', decide: pageSteps },
};
