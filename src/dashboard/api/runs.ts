import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Graph } from '../../model/manifest.ts';
import type { RunDetail } from '../../store/store.ts';
import { activeRunsJson } from '../active-runs.ts';
import { errorSchema, REFUSALS, unknownId } from '../error-responses.ts';
import { freeText, guid, NO_QUERY, oneOf, optionalGuid, PAGING, wholeNumber } from '../input.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { id, isoTimeOrNull, listOf, time, toList } from './formats.ts';
import { runDetailSchema, runSchema, runStatusSchema, runView, triggerView } from './run-view.ts';
import { MAX_STEPS, stepPage, stepSchema } from './step-view.ts';

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
