import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { field, isoTime, isoTimeOrNull, listOf, toList } from '../../dashboard/answer.ts';
import { BUILT_IN, ID_PARAMS, IN_ORDER, PAGING, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes, DashboardServices } from '../../dashboard/services.ts';
import { flowsIn, limitOf, narrowedTo, sightOf } from '../../dashboard/sight.ts';
import { declaredBy, parseBody } from '../../expressions/trigger-body.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import type { DescribeHostWait } from '../../flows/steps-at-work.ts';
import type { Clock } from '../../model/clock.ts';
import { kindOfError } from '../../model/error-kind.ts';
import { ALERT_FLOW_ID, RUN_STATUSES, RUN_TRIGGER_TYPES } from '../../model/manifest.ts';
import { unhandledFailures, wire } from '../../model/planner.ts';
import { type Run, WAIT_KINDS, type WaitKind } from '../../model/run.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import type { CauseFilter, RunDetail, RunFailure, RunWait, TimeSpan } from '../../store/store.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { findGraph, findRun, MAX_KEY_CHARACTERS, MAX_STEPS, stepPage, stepSchema } from './steps.ts';

/** Limit for an error message in a list. */
const MAX_MESSAGE_CHARACTERS = 300;

const waitSchema = z.object({
  for: z.enum(WAIT_KINDS),
  stepKey: z
    .string()
    .nullable()
    .describe('The step that continues first, of those that wait for it; null if the whole run waits for its turn.'),
  signalName: field.content(z.string().nullable()),
  host: z.string().nullable().describe('Scheme, host and port that it waits to call.'),
  runId: field
    .id()
    .nullable()
    .describe('The run of another flow that the step waits for; for order, the run before it with the same key.'),
  until: field
    .time()
    .nullable()
    .describe(
      'When the step continues, or stops waiting for its signal; for a host, when it is tried again if its circuit is open, else the latest time. Null if no time is set.',
    ),
  why: field
    .content(z.string().nullable())
    .describe('Why the circuit of the host is open, or the secret cannot be read; null for all else.'),
  steps: field.integer().describe('How many steps wait for it; counts up to 100.'),
});

const failureSchema = z.object({
  stepKey: z.string(),
  code: z.string(),
  host: z.string().nullable().describe('Scheme, host and port that the step called; null if it called none.'),
  error: field.content(z.string()).describe('The message without what differs from run to run; “…” stands for that.'),
  message: field.content(z.string()).describe(`At most ${MAX_MESSAGE_CHARACTERS} characters.`),
  handled: z.boolean().describe('A later step handled it, so the run succeeded.'),
});

export const runSchema = z
  .object({
    id: field.id(),
    flowId: field.id(),
    flowName: z.string(),
    flowVersion: z.string(),
    revision: field.integer(),
    status: z.enum(RUN_STATUSES),
    triggerKey: z.string(),
    triggerType: z.enum(RUN_TRIGGER_TYPES),
    deliveryId: field.id().nullable(),
    sourceRunId: field
      .id()
      .nullable()
      .describe(
        'The run that this one repeats; if its flow is different, the run whose failure (triggerType failure) or step (flow) started this one.',
      ),
    startedAt: field.time(),
    completedAt: field.time().nullable(),
    waitingFor: z.array(waitSchema).describe('What a run in flight waits for, at most one of each kind.'),
    failure: failureSchema.nullable().describe('The failed step of a run that ended, if any.'),
    searchKeys: field
      .content(z.record(z.string(), z.string()))
      .describe('Its search keys, by name; empty if its trigger has none.'),
  })
  .meta({ id: 'Run' });

export const triggerSchema = z.object({
  triggerBody: field
    .json()
    .describe('What expressions read as trigger.body: JSON, form fields, text, or { base64 } for other bytes.'),
  triggerHeaders: field
    .content(z.record(z.string(), z.string()))
    .describe('Header values that may contain a credential are redacted.'),
});

const runDetailSchema = runSchema
  .extend({
    ...triggerSchema.shape,
    steps: z.array(stepSchema).describe(`The first ${MAX_STEPS}; the others are at …/steps.`),
    stepsTotal: field.integer(),
  })
  .meta({ id: 'RunDetail' });

export const controlSchema = z.object({
  runId: field.id(),
  idempotencyKey: field.content(z.string().nullable()),
  timeoutAt: field.time().nullable(),
  cancelRequested: z.boolean(),
  cancelReason: z.string().nullable(),
  cancelRequestedAt: field.time().nullable(),
  timedOutAt: field.time().nullable(),
  order: z
    .object({
      key: field
        .content(z.string().nullable())
        .describe('Null if the expression gave none: all such runs of the flow share one.'),
      problem: field.content(z.string().nullable()).describe('Why it has no key.'),
      state: z
        .enum(['running', 'waiting', 'stopped'])
        .nullable()
        .describe('stopped: it failed, and no other run of the key starts. Null once it let the next one start.'),
      verified: z.boolean().describe('Runs that unverified deliveries started have an order of their own.'),
    })
    .nullable()
    .describe('Its place among the runs of its key; null if its flow lets runs overlap.'),
  deliveries: field
    .integer()
    .nullable()
    .describe(
      'How many deliveries share the run, the newest of which is the trigger; null if its trigger lets none share one.',
    ),
});

const NEWEST_FAILURES =
  'step, code, host and error are about one and the same step; of the steps that match, the newest 10 000 count. host and error are looked for in the newest 30 000 that match the other filters.';

/** Filters of run lists, and of actions on many runs. */
export const RUN_FILTER = {
  flowId: parameter.optionalGuid(),
  status: parameter.oneOf(RUN_STATUSES),
  search: parameter.freeText(200).meta({
    description:
      'Part of a run id, flow name, trigger key or delivery id, in the newest 10 000 entries that match the other filters (`searchedUntil` says how far back those go); or, at any age, a search key or its beginning, `NAME:VALUE` for one whole search key (and the text itself), part of the name of a deployed flow or of its triggers, or at least the first 8 characters of an id. What has the text as its whole id or search key comes first.',
  }),
  waiting: parameter.oneOf(WAIT_KINDS).meta({
    description: 'Only runs in flight that wait for this; at most the newest 10 000.',
  }),
  searchKeys: parameter.searchKeys(),
  step: parameter.freeText(MAX_KEY_CHARACTERS).meta({
    description: `Only runs in which this step failed, outside of loops. ${NEWEST_FAILURES}`,
  }),
  code: parameter.freeText(100).meta({
    description: `Only runs with a step that failed with this code, such as unexpected_status. ${NEWEST_FAILURES}`,
  }),
  host: parameter.freeText(300).meta({
    description: `Only runs with a step that failed calling this host, with or without its scheme. ${NEWEST_FAILURES}`,
  }),
  error: parameter.freeText(1000).meta({
    description: `Only runs with a step whose error message contains this, in any case; “…” stands for anything. ${NEWEST_FAILURES}`,
  }),
  ...BUILT_IN,
  ...SPAN,
};

interface GivenFilter extends CauseFilter {
  readonly flowId?: string | undefined;
  readonly waiting: WaitKind | undefined;
  readonly search?: string | undefined;
  readonly searchKeys?: SearchKeys | undefined;
  readonly includeBuiltIn?: boolean | undefined;
}

/** The filter in the store's format, limited to the flows that the sender of the request may see. */
export function runFilter<Filter extends GivenFilter>(
  { waiting, step, code, host, error, includeBuiltIn, ...given }: Filter,
  request: FastifyRequest,
  services: Pick<DashboardServices, 'clock' | 'catalog'>,
) {
  const sight = sightOf(request, services);
  const cause = { step, code, host, error };
  return {
    ...given,
    ...(given.flowId === undefined && withoutBuiltIn(includeBuiltIn)),
    ...(Object.values(cause).some((part) => part !== undefined) && { cause }),
    ...(given.search !== undefined && namedBy(given.search, flowsIn(sight, services))),
    ...(waiting !== undefined && { waiting: { kind: waiting, dueBefore: dueBefore(services.clock) } }),
    ...narrowedTo(sight),
  };
}

const withoutBuiltIn = (includeBuiltIn = false) => !includeBuiltIn && { withoutFlow: ALERT_FLOW_ID };

/** A text that more names contain is not treated as a name. */
const MOST_NAMED = 20;

/** The deployed flows and triggers whose names contain the text. */
function namedBy(search: string, flows: readonly DeployedFlow[]) {
  const isNamed = (name: string) => name.toLowerCase().includes(search.toLowerCase());
  const ids = flows.filter(({ record }) => isNamed(record.name)).map(({ record }) => record.id);
  const keys = new Set(flows.flatMap(({ loaded }) => Object.keys(loaded.manifest.triggers)).filter(isNamed));
  return {
    searchedFlows: ids.length > MOST_NAMED ? [] : ids,
    searchedTriggers: keys.size > MOST_NAMED ? [] : [...keys],
  };
}

/** A step that became due a moment ago is probably being claimed already. */
const TAKEN_UP_MS = 1000;
const dueBefore = (clock: Clock) => clock.now() - TAKEN_UP_MS;

const listQuery = z.strictObject({ ...RUN_FILTER, ...PAGING }).refine(...IN_ORDER);

/** Lists runs, and answers for one run. */
export const runRoutes: ApiRoutes = (app, services) => {
  const { store } = services;

  app.get(
    '/flows/api/runs',
    route('runs', {
      operationId: 'listRuns',
      limit: 'filtered',
      summary: 'Runs by start time, newest first',
      query: listQuery,
      answer: listOf(runSchema),
    }),
    async (request) => {
      const { query } = request;
      const page = await store.listRuns(runFilter(query, request, services));
      return toList(await runViews(page.items, services), page, query);
    },
  );

  app.get(
    '/flows/api/runs/active',
    route('runs', {
      operationId: 'listActiveRuns',
      limit: 'filtered',
      summary: 'Every run in flight, newest first',
      query: z.strictObject({ ...BUILT_IN, ...SPAN }).refine(...IN_ORDER),
      answer: z.array(runSchema),
    }),
    async (request, reply) => {
      const parts = activeRunsJson(services, { ...request.query, ...limitOf(request, services) });
      // The first part waits for the store: if it fails, the response can still be an error.
      const { value: opening = '' } = await parts.next();
      const answer = Readable.from(withOpening(opening, parts));
      return reply.type('application/json; charset=utf-8').send(answer as never);
    },
  );

  oneRunRoutes(app, services);
};

const oneRunRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id',
    route('runs', {
      operationId: 'getRun',
      limit: 'run',
      summary: 'One run with what started it and its steps',
      params: ID_PARAMS,
      answer: runDetailSchema,
      refusals: [404],
    }),
    async (request) => {
      const found = await findGraph(request.params.id, services);
      const { items, total } = await stepPage(found, { skip: 0, take: MAX_STEPS }, services);
      return { ...(await runView(found.run, services)), ...triggerView(found.run), steps: items, stepsTotal: total };
    },
  );

  app.get(
    '/flows/api/runs/:id/trigger',
    route('runs', {
      operationId: 'getRunTrigger',
      limit: 'run',
      summary: 'What started a run',
      params: ID_PARAMS,
      answer: triggerSchema,
      refusals: [404],
    }),
    async (request) => triggerView(await findRun(request.params.id, services)),
  );

  app.get(
    '/flows/api/runs/:id/control',
    route('runs', {
      operationId: 'getRunControl',
      limit: 'run',
      summary: 'Deadline, cancellation and idempotency key of a run',
      params: ID_PARAMS,
      answer: controlSchema,
      refusals: [404],
    }),
    async (request) => controlView(await findRun(request.params.id, services)),
  );
};

type RunView = z.output<typeof runSchema>;
type Describing = Pick<DashboardServices, 'store' | 'clock' | 'catalog' | 'extensions'>;

export async function runView(run: Run, services: Describing): Promise<RunView> {
  const [view] = await runViews([run], services);
  if (view === undefined) throw new Error('one run has one view');
  return view;
}

/** Runs, with what they wait for and where they failed. */
export async function runViews(runs: readonly Run[], services: Describing): Promise<RunView[]> {
  const idsOf = (isWanted: (run: Run) => boolean) => runs.filter(isWanted).map(({ id }) => id);
  const described = await services.store.describeRuns({
    running: idsOf(({ status }) => status === 'Running'),
    ended: idsOf(({ status }) => status !== 'Running' && status !== 'Skipped'),
    dueBefore: dueBefore(services.clock),
  });
  const waits = byRun(described.waits);
  const failures = byRun(described.failures);
  const hasHosts = described.waits.some(({ host }) => host !== null);
  const describe = hasHosts ? await services.extensions.steps.hostWaits() : () => undefined;
  return Promise.all(
    runs.map(async (run) => ({
      id: run.id,
      flowId: run.flowId,
      flowName: run.flowName,
      flowVersion: run.flowVersion,
      revision: run.revision,
      status: run.status,
      triggerKey: run.triggerKey,
      triggerType: run.triggerType,
      deliveryId: run.deliveryId,
      sourceRunId: run.sourceRunId,
      startedAt: isoTime(run.startedAt),
      completedAt: isoTimeOrNull(run.completedAt),
      searchKeys: run.searchKeys ?? {},
      waitingFor: (waits.get(run.id) ?? []).map((wait) => waitView(wait, run, describe)),
      failure: await failureView(run, failures.get(run.id) ?? [], services),
    })),
  );
}

function byRun<Row extends { readonly runId: string }>(rows: readonly Row[]): ReadonlyMap<string, Row[]> {
  const grouped = new Map<string, Row[]>();
  for (const row of rows) {
    const own = grouped.get(row.runId);
    if (own === undefined) grouped.set(row.runId, [row]);
    else own.push(row);
  }
  return grouped;
}

function waitView(
  { kind, stepKey, signalName, host, awaitedRunId, lacking, until, steps }: RunWait,
  { flowId }: Run,
  describe: DescribeHostWait,
): RunView['waitingFor'][number] {
  // Prefer the host's time: the step's own due time is a fallback, long after its release.
  const ofHost = stepKey === null || host === null ? undefined : describe({ host, flowId, stepKey });
  const { why, until: next } = ofHost ?? { why: lacking, until };
  return { for: kind, stepKey, signalName, host, runId: awaitedRunId, until: isoTimeOrNull(next), why, steps };
}

/** The failed step that made the run fail, if several failed; for a stopped run, a step that failed before the stop. */
async function failureView(
  run: Run,
  failures: readonly RunFailure[],
  services: Describing,
): Promise<RunView['failure']> {
  const isOwn = ({ error }: RunFailure) => error?.code !== 'cancelled' && error?.code !== 'run_timed_out';
  const [first, ...others] = failures;
  if (first === undefined) return null;
  const unhandled = run.status === 'Failed' && others.length > 0 ? await unhandledOf(run, services) : [];
  const shown = failures.find(({ stepKey }) => unhandled.includes(stepKey)) ?? failures.find(isOwn) ?? first;
  const { code = 'internal_error', message = '', host = null } = shown.error ?? {};
  const isLong = message.length > MAX_MESSAGE_CHARACTERS;
  return {
    stepKey: shown.stepKey,
    code,
    host,
    error: kindOfError(message),
    message: isLong ? `${message.slice(0, MAX_MESSAGE_CHARACTERS - 1)}…` : message,
    handled: run.status === 'Succeeded',
  };
}

async function unhandledOf(run: Run, { store, catalog }: Describing): Promise<string[]> {
  const { graph } = await catalog.pinned(run.flowId, run.revision);
  const steps = await store.outlineSteps(run.id, Object.keys(graph));
  return unhandledFailures(wire(graph), new Map(steps.map(({ stepKey, status }) => [stepKey, status])));
}

export function triggerView({ trigger: { body, contentType, headers } }: RunDetail): z.output<typeof triggerSchema> {
  const parsed = parseBody(body, declaredBy({ contentType, headers }));
  // Bodies that cannot be parsed, such as JSON nested thousands of levels deep, are shown as text.
  const triggerBody = 'value' in parsed ? parsed.value : Buffer.from(body).toString('utf8');
  return { triggerBody, triggerHeaders: shownHeaders(headers) };
}

export function controlView(run: RunDetail): z.output<typeof controlSchema> {
  return {
    runId: run.id,
    idempotencyKey: run.idempotencyKey,
    timeoutAt: isoTimeOrNull(run.timeoutAt),
    cancelRequested: run.cancelRequestedAt !== null,
    cancelReason: run.cancelReason,
    cancelRequestedAt: isoTimeOrNull(run.cancelRequestedAt),
    timedOutAt: isoTimeOrNull(run.timedOutAt),
    order: run.order && orderView(run.order),
    deliveries: run.deliveries,
  };
}

function orderView({ key, problem, state, isTrusted }: NonNullable<RunDetail['order']>) {
  return { key, problem, state, verified: isTrusted };
}

/** Number of runs read and written before other requests get their turn: about 3 ms. */
export const RUNS_AT_ONCE = 500;

/**
 * Every run in flight, newest first, as the text of a JSON array in parts. There may be 100 000 of them, and writing
 * the answer in one go would hold up every delivery.
 */
export async function* activeRunsJson(
  services: Describing,
  {
    includeBuiltIn,
    ...narrowed
  }: TimeSpan & { readonly includeBuiltIn?: boolean; readonly flowIds?: readonly string[] } = {},
): AsyncGenerator<string> {
  const filter = { ...narrowed, ...withoutBuiltIn(includeBuiltIn), status: 'Running' } as const;
  const pageAfter = async (before?: Run) =>
    (await services.store.listRuns({ ...filter, skip: 0, take: RUNS_AT_ONCE, before })).items;
  let runs = await pageAfter();
  yield '[';
  for (let isFirst = true; runs.length > 0; isFirst = false) {
    const items = (await runViews(runs, services)).map((view) => JSON.stringify(view)).join(',');
    yield isFirst ? items : `,${items}`;
    runs = runs.length < RUNS_AT_ONCE ? [] : await pageAfter(runs.at(-1));
  }
  yield ']';
}

async function* withOpening(opening: string, parts: AsyncIterable<string>): AsyncGenerator<string> {
  yield opening;
  yield* parts;
}
