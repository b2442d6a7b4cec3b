import { Readable } from 'node:stream';
import { z } from 'zod';
import { parseBody } from '../../expressions/trigger-body.ts';
import { RUN_STATUSES, RUN_TRIGGER_TYPES } from '../../model/manifest.ts';
import type { Run } from '../../model/run.ts';
import type { RunDetail, Store, TimeSpan } from '../../store/store.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { field, isoTime, isoTimeOrNull, listOf, toList } from '../answer.ts';
import { ID_PARAMS, IN_ORDER, PAGING, parameter, SPAN } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes } from '../services.ts';
import { findGraph, findRun, MAX_STEPS, stepPage, stepSchema } from './steps.ts';

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
      .describe('The run that this one repeats; if triggerType is failure and the flow another, the run that failed.'),
    startedAt: field.time(),
    completedAt: field.time().nullable(),
  })
  .meta({ id: 'Run' });

export const triggerSchema = z.object({
  triggerBody: field
    .json()
    .describe('What expressions read as trigger.body: JSON, form fields, text, or { base64 } for other bytes.'),
  triggerHeaders: z.record(z.string(), z.string()).describe('Values of headers that may hold a credential redacted.'),
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
  idempotencyKey: z.string().nullable(),
  timeoutAt: field.time().nullable(),
  cancelRequested: z.boolean(),
  cancelReason: z.string().nullable(),
  cancelRequestedAt: field.time().nullable(),
  timedOutAt: field.time().nullable(),
});

/** What lists of runs, and actions on many of them, are narrowed by. */
export const RUN_FILTER = {
  flowId: parameter.optionalGuid(),
  status: parameter.oneOf(RUN_STATUSES),
  search: parameter.freeText(200).meta({
    description:
      'Part of a run id, flow name, trigger key or delivery id, in the newest 10 000 that the other filters leave; an id, or 8 and more characters of its beginning, however old.',
  }),
  ...SPAN,
};

const listQuery = z.strictObject({ ...RUN_FILTER, ...PAGING }).refine(...IN_ORDER);

/** Runs and their steps. */
export const runRoutes: ApiRoutes = (app, services) => {
  const { store } = services;

  app.get(
    '/flows/api/runs',
    route('runs', {
      operationId: 'listRuns',
      summary: 'Runs by their start, newest first',
      query: listQuery,
      answer: listOf(runSchema),
    }),
    async ({ query }) => {
      const page = await store.listRuns(query);
      return toList(page.items.map(runView), page.total, query);
    },
  );

  app.get(
    '/flows/api/runs/active',
    route('runs', {
      operationId: 'listActiveRuns',
      summary: 'Every run in flight, newest first',
      query: z.strictObject(SPAN).refine(...IN_ORDER),
      answer: z.array(runSchema),
    }),
    async ({ query }, reply) => {
      const parts = activeRunsJson(store, query);
      // The first part waits for the store: if that fails, the answer can still be an error.
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
      summary: 'One run with what started it and its steps',
      params: ID_PARAMS,
      answer: runDetailSchema,
      refusals: [404],
    }),
    async (request) => {
      const found = await findGraph(request.params.id, services);
      const { items, total } = await stepPage(found, { skip: 0, take: MAX_STEPS }, services.store);
      return { ...runView(found.run), ...triggerView(found.run), steps: items, stepsTotal: total };
    },
  );

  app.get(
    '/flows/api/runs/:id/trigger',
    route('runs', {
      operationId: 'getRunTrigger',
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
      summary: 'Deadline, cancellation and idempotency key of a run',
      params: ID_PARAMS,
      answer: controlSchema,
      refusals: [404],
    }),
    async (request) => controlView(await findRun(request.params.id, services)),
  );
};

export function runView(run: Run): z.output<typeof runSchema> {
  return {
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
  };
}

function triggerView({ trigger: { body, contentType, headers } }: RunDetail): z.output<typeof triggerSchema> {
  const parsed = parseBody(body, contentType ?? undefined);
  // A body that cannot be read as a value, such as JSON nested thousands of levels deep, is shown as text.
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
  };
}

/** How many runs are read and written before other requests have their turn: about 3 ms. */
export const RUNS_AT_ONCE = 500;

/**
 * Every run in flight, newest first, as the text of a JSON array in parts. There may be a hundred thousand of them, and
 * an answer made in one go would hold up every delivery.
 */
export async function* activeRunsJson(store: Pick<Store, 'listRuns'>, span: TimeSpan = {}): AsyncGenerator<string> {
  const pageAfter = async (before?: Run) =>
    (await store.listRuns({ ...span, status: 'Running', skip: 0, take: RUNS_AT_ONCE, before })).items;
  let runs = await pageAfter();
  yield '[';
  for (let isFirst = true; runs.length > 0; isFirst = false) {
    const items = runs.map((run) => JSON.stringify(runView(run))).join(',');
    yield isFirst ? items : `,${items}`;
    runs = runs.length < RUNS_AT_ONCE ? [] : await pageAfter(runs.at(-1));
  }
  yield ']';
}

async function* withOpening(opening: string, parts: AsyncIterable<string>): AsyncGenerator<string> {
  yield opening;
  yield* parts;
}
