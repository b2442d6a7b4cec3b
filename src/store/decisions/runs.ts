import type { StepStatus } from '../../model/manifest.ts';
import type { Attempt, OrderState, Run, RunDelivery, RunTrigger, Step } from '../../model/run.ts';
import { fromJson, toError } from '../json-columns.ts';
import type { RunDetail, RunFilter, RunQuery } from '../store.ts';
import { columnsOf, selectedAs } from '../tables.ts';
import { uuidOf } from '../uuids.ts';
import { runsFailedBy } from './causes.ts';
import type { Decision } from './decision.ts';
import { all, filter, keysOf, type RowsRequest, readPage, rowsOf, SEARCHED_ROWS, toSearchKeys } from './lists.ts';
import { waitingRuns } from './order-views.ts';
import { fixed, type KeyIndex, type Port, type Query, sql } from './port.ts';
import type { Answer, Given, Verbs } from './verb.ts';
import { listDueRuns } from './waiting-steps.ts';
import { HAS_NO_TURN, IS_COALESCING, WAIT_KIND } from './waits.ts';

const [waitKind, hasNoTurn, isCoalescing] = [fixed(WAIT_KIND), fixed(HAS_NO_TURN), fixed(IS_COALESCING)];

const CONTROLS = [
  'idempotency_key',
  'timeout_at',
  'cancel_requested_at',
  'cancel_reason',
  'timed_out_at',
  'deliveries',
] as const;
const listed = columnsOf('runs', { without: [...CONTROLS, 'traceparent'] });
export const runColumns = fixed(`${selectedAs('own', listed)}, ${keysOf('run', 'own.id')} AS "searchKeys"`);

export type RunRow = Omit<Run, 'searchKeys'> & { readonly searchKeys: string | null };

export function toRun<Row extends RunRow>({
  searchKeys,
  ...row
}: Row): Omit<Row, 'searchKeys'> & Pick<Run, 'searchKeys'> {
  const keys = toSearchKeys(searchKeys);
  return keys === undefined ? row : { ...row, searchKeys: keys };
}

/**
 * Of runs started in the same millisecond the newest is the one with the greatest id, or in SQLite the one stored last:
 * the index of starts has those numbers, and so covers a page.
 */
export const PLACE_OF_RUN = 'id /*sqlite instead: seq */';
export const place = fixed(PLACE_OF_RUN);

const listingWith = (runKeys: readonly KeyIndex[]) => ({
  table: 'sluice.runs',
  select: sql`SELECT ${runColumns} FROM sluice.runs AS own`,
  place: PLACE_OF_RUN,
  // SQLite, which has no statistics, would otherwise scan the runs in their order.
  lookUp: '/*sqlite: NOT INDEXED */',
  searched: {
    time: 'started_at',
    texts: ['flow_name', 'trigger_key'],
    ids: ['id', 'delivery_id'],
    byId: [
      (from: string, to: string) => sql`SELECT ${place} FROM sluice.runs WHERE id BETWEEN ${from} AND ${to}`,
      // SQLite has an index of deliveries' ids only on the deliveries themselves.
      (from: string, to: string) => sql`
        SELECT r.${place} FROM (SELECT ${from}::uuid AS first, ${to}::uuid AS last) AS range
        /*sqlite: CROSS JOIN deliveries AS d ON d.id BETWEEN range.first AND range.last CROSS */
        JOIN sluice.runs AS r ON r.delivery_id BETWEEN range.first AND range.last /*sqlite: AND r.id = d.run_id AND r.delivery_id = d.id */`,
    ],
    byKey: runKeys.map((keys) => ({
      ...keys,
      follow: (runs: Query) => runs,
      own: 'sluice.run_keys AS k WHERE k.run_id = newest.id',
    })),
  },
  toItem: (row: RunRow): Run => toRun(row),
});

/**
 * How many runs of a flow are few: if it has no more, its runs in a span of time are found among all of the flow,
 * otherwise among all of the span. SQLite reads this many in 10 ms.
 */
const FEW_RUNS = 10_000;

function* listRuns(port: Port, query: RunQuery): Decision<Answer<'listRuns'>> {
  const { flowId, status, before, since, until } = query;
  const isTimed = since !== undefined || until !== undefined;
  const isCounted = isPlain(query) && before === undefined && !isTimed;
  const isOfFlow = flowId !== undefined && (status === undefined || status === 'Succeeded');
  const hasOrder =
    isOfFlow && (yield* port.get(sql`SELECT 1 FROM sluice.unordered_flows WHERE flow_id = ${flowId}`)) === undefined;
  const isShort = isOfFlow && (isTimed || !hasOrder);
  const kept = isCounted || isShort ? yield* countKept(port, query) : 0;
  const isFoundByFlow = isOfFlow && (isShort ? kept <= FEW_RUNS : true);
  // Runs start with the newest revision, so this is also chronological order, unless a step started a run with a pinned
  // revision.
  const isByRevision = isFoundByFlow && hasOrder;
  // A plus keeps SQLite, which has no statistics, from using an index: that of the starts, or that of the flow.
  const plus = '/*sqlite: + */';
  const [ofFlow, ofTime] = !isOfFlow ? ['', ''] : isFoundByFlow ? ['', plus] : [plus, ''];
  const request = yield* requestOf(port, query, { ofFlow, ofTime });
  return yield* readPage(
    port,
    { ...listingWith(port.runKeys), order: isByRevision ? ['revision', 'started_at'] : ['started_at'] },
    {
      ...request,
      query,
      known: isCounted ? kept : undefined,
      orderHint: isByRevision ? '' : ofTime,
      filters: [...request.filters, before && startedBefore(before)],
    },
  );
}

/** Whether a filter has only a flow, a status and a time, which counts distinguish. */
export function isPlain({ search = '', searchKeys, waiting, cause }: RunFilter): boolean {
  return search === '' && searchKeys === undefined && waiting === undefined && cause === undefined;
}

/** The request for the runs that match a filter, with hints for its conditions. */
function* requestOf(
  port: Port,
  query: RunFilter,
  { ofFlow, ofTime }: { readonly ofFlow: string; readonly ofTime: string },
): Decision<RowsRequest> {
  const { flowId, flowIds, withoutFlow, status, search, searchKeys, waiting, cause } = query;
  const { searchedFlows = [], searchedTriggers = [] } = query;
  return {
    search,
    searchKeys,
    alsoFound: [
      ...searchedFlows.map((id) => ({
        condition: sql`flow_id = ${id}`,
        // The order of its index: revisions follow each other, except for runs that a step started with a pinned one.
        order: `revision DESC, started_at DESC, ${PLACE_OF_RUN} DESC`,
      })),
      ...searchedTriggers.map((key) => ({
        condition: sql`trigger_key = ${key}`,
        order: `started_at DESC, ${PLACE_OF_RUN} DESC`,
      })),
    ],
    isLookedUp: waiting !== undefined || cause !== undefined,
    filters: [
      filter.equals(`${ofFlow}flow_id`, flowId),
      filter.among('/*sqlite: + */flow_id', flowIds),
      // By places in SQLite, so that an index without the flow still covers a page.
      withoutFlow === undefined
        ? undefined
        : sql`NOT flow_id /*sqlite instead: seq IN (SELECT seq FROM runs WHERE flow_id */ = ${withoutFlow} /*sqlite: ) */`,
      // Written as in the index of all other statuses.
      status === 'Succeeded'
        ? filter.equals('status', status)
        : filter.equals("/*sqlite: status <> 'Succeeded' AND */ status", status),
      filter.within(`${ofTime}started_at`, query),
      waiting && (yield* isWaiting(port, { flowId, ...waiting })),
      cause && sql`${place} = ANY (ARRAY(${runsFailedBy(cause, query, place)}))`,
    ],
  };
}

/** The runs that match a filter, as text after FROM: rows called `found`, with the `place` of each run. */
export function* matchingRuns(port: Port, query: RunFilter): Decision<Query> {
  const request = yield* requestOf(port, query, { ofFlow: '/*sqlite: + */', ofTime: '' });
  return rowsOf({ ...listingWith(port.runKeys), order: ['started_at'] }, request);
}

function* isWaiting(
  port: Port,
  { kind, dueBefore, flowId }: NonNullable<RunQuery['waiting']> & Pick<RunQuery, 'flowId'>,
): Decision<Query> {
  const ofFlow = flowId === undefined ? sql`` : sql` AND flow_id = ${flowId}`;
  const isKind = kind === 'coalesce' ? sql`${waitKind} = 'start' AND ${isCoalescing}` : sql`${waitKind} = ${kind}`;
  // Ids grow as runs start, so the greatest are the newest.
  const runIds =
    kind === 'order'
      ? waitingRuns(flowId, SEARCHED_ROWS)
      : kind === 'slot'
        ? sql`SELECT run_id FROM unnest(${yield* listDueRuns(port, { flowId, dueBefore, limit: SEARCHED_ROWS })}::uuid[]) AS due (run_id)`
        : sql`
        SELECT DISTINCT run_id FROM sluice.steps
        WHERE status = 'Pending' AND ${isKind} AND (due_at IS NULL OR due_at > ${dueBefore}) AND NOT ${hasNoTurn}${ofFlow}
        ORDER BY run_id DESC LIMIT ${SEARCHED_ROWS}`;
  return sql`status = 'Running' AND id /*sqlite instead: seq IN (SELECT seq FROM runs WHERE id */ IN (${runIds}) /*sqlite: ) */`;
}

function* countKept(port: Port, { flowId, flowIds, withoutFlow, status }: RunFilter): Decision<number> {
  const ofAll = sql`flow_id = coalesce(${flowId ?? null}, flow_id) AND flow_id <> ${withoutFlow ?? ''}
      AND status = coalesce(${status ?? null}, status)`;
  const row = yield* port.get<{ total: number }>(sql`
    SELECT coalesce(sum(count), 0) AS total FROM sluice.run_totals
    WHERE ${all(ofAll, filter.among('flow_id', flowIds))}`);
  return row?.total ?? 0;
}

function startedBefore({ startedAt, id }: NonNullable<RunQuery['before']>): Query {
  // In SQLite a run that was removed since has no place; its id shows which runs of its millisecond follow it.
  return sql`(started_at, ${place}) < (${startedAt}, (
    SELECT coalesce((SELECT ${place} FROM sluice.runs WHERE id = last_id),
      last_id /*sqlite instead: (SELECT max(seq) + 1 FROM runs WHERE started_at = last_at AND id < last_id) */)
    FROM (SELECT ${startedAt}::bigint AS last_at, ${uuidOf(id)}::uuid AS last_id) AS last))`;
}

/** The headers of a delivery, or of its run, which may have them instead. */
export function headersOf(delivery: string): string {
  return `coalesce(${delivery}.headers, (
    SELECT i.headers FROM sluice.runs AS r JOIN ${inputOf('r')} WHERE r.id = ${delivery}.run_id
  ), (SELECT h.headers FROM sluice.held_deliveries AS h WHERE h.delivery_id = ${delivery}.id ORDER BY h.seq LIMIT 1), '{}')`;
}

/** The input of a run, to be joined as `i`. */
export function inputOf(run: string): string {
  return `sluice.run_inputs /*sqlite instead: run_input_rows */ AS i
    ON i.run_id /*sqlite instead: seq */ = ${run}.id /*sqlite instead: seq */`;
}

const triggerColumns = fixed(`own.trigger_key AS "triggerKey", i.content_type AS "contentType", i.headers`);
const runsWithInput = fixed(`sluice.runs AS own JOIN ${inputOf('own')}`);

interface TriggerRow extends Pick<RunTrigger, 'contentType' | 'body'> {
  readonly triggerKey: string;
  readonly headers: string;
}

function toTrigger({ triggerKey, contentType, headers, body }: TriggerRow): RunTrigger {
  return { key: triggerKey, contentType, headers: JSON.parse(headers), body };
}

function* findRun(port: Port, runId: string): Decision<RunDetail | undefined> {
  interface PlaceRow {
    readonly isTrusted: boolean | null;
    readonly state: OrderState | null;
    readonly key: string | null;
    readonly problem: string | null;
  }
  const row = yield* port.get<Omit<RunDetail, 'trigger' | 'searchKeys' | 'order'> & RunRow & TriggerRow & PlaceRow>(sql`
    SELECT ${runColumns}, ${fixed(selectedAs('own', CONTROLS))}, ${triggerColumns}, i.body,
      o.is_verified AS "isTrusted", o.state, o.key, o.problem
    FROM ${runsWithInput} LEFT JOIN sluice.ordered_runs AS o ON o.run_id = own.id WHERE own.id = ${uuidOf(runId)}`);
  if (row === undefined) return undefined;
  const { contentType, headers, body, isTrusted, state, key, problem, ...run } = row;
  const order = isTrusted === null ? null : { state, key, problem, isTrusted };
  const trigger = toTrigger(row);
  const newest = row.deliveries === null ? [] : yield* listDeliveriesOf(port, { run: row, trigger, newest: 1 });
  return { ...toRun(run), trigger: triggerOf(trigger, newest), order };
}

interface DeliveredRun {
  readonly run: Pick<Run, 'id' | 'deliveryId' | 'startedAt'>;
  /** What it was first started with. */
  readonly trigger: RunTrigger;
  /** How many of the newest deliveries; all by default. */
  readonly newest?: number;
}

/** The deliveries of a run that coalesces them, in the order of their arrival. */
function* listDeliveriesOf(port: Port, { run, trigger, newest }: DeliveredRun): Decision<RunDelivery[]> {
  const rows = yield* port.all<{
    id: string | null;
    receivedAt: number;
    contentType: string | null;
    headers: string | null;
    body: Uint8Array | null;
  }>(sql`
    SELECT delivery_id AS id, received_at AS "receivedAt", content_type AS "contentType", headers, body
    FROM sluice.run_deliveries WHERE run_id = ${run.id} ORDER BY place DESC LIMIT ${newest ?? MAX_DELIVERIES}`);
  return rows
    .map(({ id, receivedAt, headers, body, contentType }) =>
      headers === null || body === null
        ? { ...trigger, id, receivedAt }
        : { id, receivedAt, contentType, headers: JSON.parse(headers), body },
    )
    .map(({ id, receivedAt, contentType, headers, body }) => ({ id, receivedAt, contentType, headers, body }))
    .reverse();
}

/** More than any group can collect. */
const MAX_DELIVERIES = 1_000_000;

/** The trigger that expressions read: the newest delivery. */
function triggerOf(trigger: RunTrigger, deliveries: readonly RunDelivery[]): RunTrigger {
  const newest = deliveries.at(-1);
  if (newest === undefined) return trigger;
  const { contentType, headers, body } = newest;
  return { key: trigger.key, contentType, headers, body };
}

/** Whether `a`, the row of a step, has to represent its only attempt. */
export const SAYS_ITS_ATTEMPT = `a.attempt_count = 1 AND a.status IN ('Succeeded', 'Failed') AND NOT EXISTS (
  SELECT 1 FROM sluice.attempts AS own WHERE own.run_id = a.run_id AND own.step_key = a.step_key AND own.attempt = 1)`;

/**
 * All attempts. A step that ended in its first attempt under the lease that it was inserted with has no row for it: the
 * step's own row says all. It hardly waited for a slot.
 */
export const ATTEMPTS = `(
  SELECT run_id, step_key, attempt, status, due_at, started_at, completed_at, inputs_revision, error, input, output
  FROM sluice.attempts
  UNION ALL
  SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, inputs_revision, error, input, output
  FROM sluice.steps AS a
  WHERE ${SAYS_ITS_ATTEMPT})`;

/** Never negative, even if the clock was set back. */
export const SLOT_WAIT = 'greatest(started_at - due_at, 0) AS "slotWaitMs"';

const [attemptsOfAll, slotWait] = [fixed(ATTEMPTS), fixed(SLOT_WAIT)];

/** Values as stored in their columns. */
interface ValueRow {
  readonly input: string | null;
  readonly output: string | null;
  readonly error: string | null;
}

type StepRow = Omit<Step, 'runId' | keyof ValueRow | 'evaluationTrace'> &
  ValueRow & { readonly evaluationTrace: string | null };
type AttemptRow = Omit<Attempt, keyof ValueRow> & ValueRow & { readonly stepKey: string };

const valuesOf = ({ input, output, error }: ValueRow) => ({
  input: fromJson(input),
  output: fromJson(output),
  error: toError(error),
});

function* listSteps(port: Port, runId: string): Decision<Answer<'listSteps'>> {
  const id = uuidOf(runId);
  if ((yield* port.get(sql`SELECT 1 FROM sluice.runs WHERE id = ${id}`)) === undefined) return undefined;
  const attemptRows = yield* port.all<AttemptRow>(sql`
    SELECT step_key AS "stepKey", attempt, status, input, output, error, ${slotWait}, started_at AS "startedAt",
      completed_at AS "completedAt", inputs_revision AS "inputsRevision"
    FROM ${attemptsOfAll} AS a WHERE run_id = ${id} ORDER BY step_key, attempt`);
  const steps = yield* port.all<StepRow>(sql`
    SELECT step_key AS "stepKey", step_type AS "stepType", status, input, output, error, skip_reason AS "skipReason",
      evaluation_trace AS "evaluationTrace", attempt_count AS "attemptCount", due_at AS "dueAt",
      started_at AS "startedAt", completed_at AS "completedAt"
    FROM sluice.steps WHERE run_id = ${id}
    ORDER BY coalesce(started_at, completed_at, due_at) NULLS FIRST, step_key`);
  const attempts = new Map<string, Attempt[]>(steps.map(({ stepKey }) => [stepKey, []]));
  for (const { stepKey, ...row } of attemptRows) attempts.get(stepKey)?.push({ ...row, ...valuesOf(row) });
  return steps.map((row) => ({
    ...row,
    ...valuesOf(row),
    runId,
    evaluationTrace: fromJson(row.evaluationTrace),
    attempts: attempts.get(row.stepKey) ?? [],
  }));
}

function* readRunInput(
  port: Port,
  { runId, stepKeys, maxBytes }: Given<'readRunInput'>,
): Decision<Answer<'readRunInput'>> {
  const id = uuidOf(runId);
  const limit = Math.min(maxBytes ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  const isNamed = stepKeys === undefined ? sql`` : sql` AND step_key = ANY (${stepKeys})`;
  const hasEnded = sql`run_id = ${id} AND status IN ('Succeeded', 'Failed', 'Skipped')${isNamed}`;
  // Most steps read only their trigger.
  const readsSteps = stepKeys?.length !== 0;
  interface Measured extends Omit<TriggerRow, 'body'>, Pick<Run, 'id' | 'deliveryId' | 'startedAt' | 'triggerType'> {
    readonly deliveries: number | null;
    readonly bodyBytes: number;
    readonly outputBytes: number;
    readonly body: Uint8Array | null;
  }
  const run = yield* port.get<Measured>(sql`
    SELECT own.id, own.delivery_id AS "deliveryId", own.started_at AS "startedAt", own.trigger_type AS "triggerType",
      own.deliveries, ${triggerColumns}, ${bodyBytes} AS "bodyBytes", ended.bytes AS "outputBytes",
      CASE WHEN ${bodyBytes} + ended.bytes <= ${limit} THEN i.body END AS body
    FROM ${runsWithInput} CROSS JOIN (
      SELECT ${readsSteps ? sql`coalesce(sum(octet_length(output)), 0) AS bytes FROM sluice.steps WHERE ${hasEnded}` : sql`0 AS bytes`}
    ) AS ended WHERE own.id = ${id}`);
  if (run === undefined) return undefined;
  const { outputBytes, body, startedAt, triggerType } = run;
  if (body === null) return { kind: 'tooLarge', bodyBytes: run.bodyBytes, outputBytes };
  const ended = readsSteps
    ? yield* port.all<{ stepKey: string; status: StepStatus; output: string | null; error: string | null }>(sql`
        SELECT step_key AS "stepKey", status, output, error FROM sluice.steps WHERE ${hasEnded} ORDER BY step_key`)
    : [];
  const steps = ended.map(
    ({ stepKey, status, output, error }) =>
      [stepKey, { status, output: fromJson(output), error: toError(error) }] as const,
  );
  const trigger = toTrigger({ ...run, body });
  const { contentType, headers } = trigger;
  const own = { id: run.deliveryId, receivedAt: startedAt, contentType, headers, body };
  const deliveries = run.deliveries === null ? [own] : yield* listDeliveriesOf(port, { run, trigger });
  return {
    startedAt,
    triggerType,
    trigger: triggerOf(trigger, deliveries),
    deliveries,
    steps: Object.fromEntries(steps),
  };
}

/** The size of all deliveries of a run. */
const bodyBytes = fixed(`(octet_length(i.body) + CASE WHEN own.deliveries IS NULL THEN 0 ELSE (
  SELECT coalesce(sum(octet_length(j.body)), 0) FROM sluice.run_deliveries AS j WHERE j.run_id = own.id) END)`);

type RunReads = Verbs<'listRuns' | 'findRun' | 'listSteps' | 'readRunInput'>;

export const runVerbs: RunReads = {
  listRuns: { access: 'read', decide: (port, query) => listRuns(port, query) },
  findRun: { access: 'read', decide: findRun },
  listSteps: { access: 'read', decide: listSteps },
  readRunInput: { access: 'read', decide: readRunInput },
};
