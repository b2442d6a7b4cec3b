import { Readable } from 'node:stream';
import { z } from 'zod';
import { parseBody } from '../../expressions/trigger-body.ts';
import type { Graph } from '../../model/manifest.ts';
import type { Run } from '../../model/run.ts';
import type { RunDetail, Store } from '../../store/store.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import {
  errorSchema,
  id,
  integer,
  isoTime,
  isoTimeOrNull,
  json,
  listOf,
  REFUSALS,
  time,
  toList,
  unknownId,
} from '../answer.ts';
import { freeText, guid, NO_QUERY, oneOf, optionalGuid, PAGING, wholeNumber } from '../input.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { MAX_STEPS, stepPage, stepSchema } from './steps.ts';

export const runStatusSchema = z.enum(['Running', 'Succeeded', 'Failed', 'Skipped', 'Cancelled', 'TimedOut']);

export const runSchema = z
  .object({
    id: id(),
    flowId: id(),
    flowName: z.string(),
    flowVersion: z.string(),
    revision: integer(),
    status: runStatusSchema,
    triggerKey: z.string(),
    triggerType: z.enum(['manual', 'cron', 'webhook']),
    deliveryId: id().nullable(),
    sourceRunId: id().nullable(),
    startedAt: time(),
    completedAt: time().nullable(),
  })
  .meta({ id: 'Run' });

export const triggerSchema = z.object({
  triggerBody: json().describe(
    'What expressions read as trigger.body: JSON, form fields, text, or { base64 } for other bytes.',
  ),
  triggerHeaders: z.record(z.string(), z.string()).describe('Values of headers that may hold a credential redacted.'),
});

export const runDetailSchema = runSchema
  .extend({
    ...triggerSchema.shape,
    steps: z.array(stepSchema).describe(`The first ${MAX_STEPS}; the others are at …/steps.`),
    stepsTotal: integer(),
  })
  .meta({ id: 'RunDetail' });

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

export function triggerView({ trigger: { body, contentType, headers } }: RunDetail): z.output<typeof triggerSchema> {
  const parsed = parseBody(body, contentType ?? undefined);
  // What is too much to read as a value, such as JSON nested thousands of levels deep, is shown as the text that it is.
  const triggerBody = 'value' in parsed ? parsed.value : Buffer.from(body).toString('utf8');
  return { triggerBody, triggerHeaders: shownHeaders(headers) };
}

const tags = ['runs'];
const params = z.object({ id: guid() });

const listQuery = z.strictObject({
  flowId: optionalGuid(),
  status: oneOf(runStatusSchema.options),
  search: freeText(200).meta({
    description:
      'Part of a run id, flow name, trigger key or delivery id, in the newest 10 000 that the other filters leave; an id, or 8 and more characters of its beginning, however old.',
  }),
  ...PAGING,
});

export const controlSchema = z.object({
  runId: id(),
  idempotencyKey: z.string().nullable(),
  timeoutAt: time().nullable(),
  cancelRequested: z.boolean(),
  cancelReason: z.string().nullable(),
  cancelRequestedAt: time().nullable(),
  timedOutAt: time().nullable(),
});

/** Runs and their steps. */
export const runRoutes: ApiRoutes = (app, services) => {
  const { store } = services;

  app.get(
    '/flows/api/runs',
    {
      schema: {
        tags,
        operationId: 'listRuns',
        summary: 'Runs, newest first',
        querystring: listQuery,
        response: { 200: listOf(runSchema), ...REFUSALS },
      },
    },
    async ({ query }) => {
      const page = await store.listRuns(query);
      return toList(page.items.map(runView), page.total, query);
    },
  );

  app.get(
    '/flows/api/runs/active',
    {
      schema: {
        tags,
        operationId: 'listActiveRuns',
        summary: 'Every run in flight, newest first',
        querystring: NO_QUERY,
        response: { 200: z.array(runSchema), ...REFUSALS },
      },
    },
    async (_request, reply) => {
      const parts = activeRunsJson(store);
      // The first part waits for the store: where that fails, the answer is still an error.
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
    {
      schema: {
        tags,
        operationId: 'getRun',
        summary: 'One run with what started it and its steps',
        params,
        querystring: NO_QUERY,
        response: { 200: runDetailSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const found = await findGraph(request.params.id, services);
      const { items, total } = await stepPage(found, { skip: 0, take: MAX_STEPS }, services.store);
      return { ...runView(found.run), ...triggerView(found.run), steps: items, stepsTotal: total };
    },
  );

  app.get(
    '/flows/api/runs/:id/steps',
    {
      schema: {
        tags,
        operationId: 'listSteps',
        summary: 'The steps of a run in manifest order, those not reached yet included',
        params,
        querystring: z.strictObject({
          skip: PAGING.skip,
          take: wholeNumber({ min: 1, max: MAX_STEPS, fallback: MAX_STEPS }),
          includeTotal: PAGING.includeTotal,
        }),
        response: { 200: listOf(stepSchema), ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const found = await findGraph(request.params.id, services);
      const { items, total } = await stepPage(found, request.query, services.store);
      return toList(items, total, request.query);
    },
  );

  app.get(
    '/flows/api/runs/:id/control',
    {
      schema: {
        tags,
        operationId: 'getRunControl',
        summary: 'Deadline, cancellation and idempotency key of a run',
        params,
        querystring: NO_QUERY,
        response: { 200: controlSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => controlView(await findRun(request.params.id, services)),
  );
};

async function* withOpening(opening: string, parts: AsyncIterable<string>): AsyncGenerator<string> {
  yield opening;
  yield* parts;
}

async function findRun(runId: string, { store }: DashboardServices): Promise<RunDetail> {
  const run = await store.findRun(runId);
  if (run === undefined) throw unknownId('run', runId);
  return run;
}

export async function findGraph(runId: string, services: DashboardServices): Promise<{ run: RunDetail; graph: Graph }> {
  const run = await findRun(runId, services);
  return { run, graph: await services.catalog.graph(run.flowId, run.revision) };
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

/** So many runs are read, and written into the answer, before others have their turn: about 3 ms. */
export const RUNS_AT_ONCE = 500;

const pageOf = async (store: Pick<Store, 'listRuns'>, before?: Run): Promise<Run[]> =>
  (await store.listRuns({ status: 'Running', skip: 0, take: RUNS_AT_ONCE, before })).items;

/**
 * Every run in flight, newest first, as the text of a JSON array in parts. There may be a hundred thousand of them, and
 * an answer made in one go would hold up every delivery meanwhile.
 */
export async function* activeRunsJson(store: Pick<Store, 'listRuns'>): AsyncGenerator<string> {
  let runs = await pageOf(store);
  yield '[';
  for (let isFirst = true; runs.length > 0; isFirst = false) {
    const items = runs.map((run) => JSON.stringify(runView(run))).join(',');
    yield isFirst ? items : `,${items}`;
    runs = runs.length < RUNS_AT_ONCE ? [] : await pageOf(store, runs.at(-1));
  }
  yield ']';
}
