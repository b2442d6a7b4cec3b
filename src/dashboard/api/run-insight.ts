import { z } from 'zod';
import type { Run } from '../../model/run.ts';
import { errorSchema, REFUSALS, unknownId } from '../error-responses.ts';
import { guid, NO_QUERY, oneOf, optionalGuid, optionalTime, wholeNumber } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { id, integer, isoTime, isoTimeOrNull, time } from './formats.ts';
import { runEventSchema, runEvents } from './run-events.ts';
import { BUCKET_MS, type Bucket, bucketSchema, runBuckets, sumOf, wholeBuckets } from './run-figures.ts';
import { runStatusSchema } from './run-view.ts';

const tags = ['runs'];
const params = z.object({ id: guid() });
/** A loop over all the items that one may have makes hundreds of thousands. */
const MAX_EVENTS = 10_000;
const DAY_MS = BUCKET_MS.day;

const statsSchema = z.object({
  totalFlows: integer(),
  activeRuns: integer(),
  succeededToday: integer(),
  failedToday: integer(),
  cancelledToday: integer(),
});

const timeseriesSchema = z.object({
  bucket: z.enum(['hour', 'day']),
  since: time(),
  until: time(),
  flowId: id().nullable(),
  buckets: z.array(bucketSchema),
});

const relativeSchema = z.object({
  id: id(),
  status: runStatusSchema,
  startedAt: time(),
  completedAt: time().nullable(),
  flowName: z.string(),
});
export const lineageSchema = z.object({
  runId: id(),
  source: relativeSchema.nullable(),
  derived: z.array(relativeSchema),
});

/** Figures over runs, what happened to one, and where it comes from. */
export const runInsightRoutes: ApiRoutes = (app, services) => {
  statsRoute(app, services);
  timeseriesRoute(app, services);
  eventsRoute(app, services);
  lineageRoute(app, services);
};

const statsRoute: ApiRoutes = (app, { store, catalog, clock }) => {
  app.get(
    '/flows/api/runs/stats',
    {
      schema: {
        tags,
        operationId: 'runStats',
        summary: 'Runs in flight, and runs that ended today (UTC)',
        querystring: NO_QUERY,
        response: { 200: statsSchema, ...REFUSALS },
      },
    },
    async () => {
      const midnight = Math.floor(clock.now() / DAY_MS) * DAY_MS;
      const [kept, ended] = await Promise.all([store.countRuns(), store.countEndedRuns(midnight)]);
      return {
        totalFlows: catalog.list().length,
        activeRuns: sumOf(kept, 'Running'),
        succeededToday: sumOf(ended, 'Succeeded'),
        failedToday: sumOf(ended, 'Failed', 'TimedOut'),
        cancelledToday: sumOf(ended, 'Cancelled'),
      };
    },
  );
};

const timeseriesRoute: ApiRoutes = (app, { store, clock }) => {
  app.get(
    '/flows/api/runs/timeseries',
    {
      schema: {
        tags,
        operationId: 'runTimeseries',
        summary: 'Runs by the hour or day in which they started, empty ones included',
        querystring: z.strictObject({
          bucket: oneOf(['hour', 'day']),
          hours: wholeNumber({ min: 1, max: 720, fallback: 24 }),
          days: wholeNumber({ min: 1, max: 365, fallback: 30 }),
          since: optionalTime(),
          until: optionalTime(),
          flowId: optionalGuid(),
        }),
        response: { 200: timeseriesSchema, ...REFUSALS },
      },
    },
    async ({ query }) => {
      const bucket: Bucket = query.bucket === 'day' ? 'day' : 'hour';
      const lookBackMs = bucket === 'day' ? query.days * DAY_MS : query.hours * BUCKET_MS.hour;
      const range = wholeBuckets(bucket, { since: query.since, until: query.until, lookBackMs }, clock.now());
      const counted = await store.runTimeseries({ ...range, flowId: query.flowId });
      return {
        bucket,
        since: isoTime(range.since),
        until: isoTime(range.until),
        flowId: query.flowId ?? null,
        buckets: runBuckets(range, counted),
      };
    },
  );
};

const eventsRoute: ApiRoutes = (app, { store }) => {
  app.get(
    '/flows/api/runs/:id/events',
    {
      schema: {
        tags,
        operationId: 'listRunEvents',
        summary: 'What happened to a run, oldest first',
        params,
        querystring: z.strictObject({
          take: wholeNumber({ min: 1, max: MAX_EVENTS, fallback: MAX_EVENTS }).meta({
            description: `The newest so many; ${MAX_EVENTS} by default. The sequence of the first says how many came before.`,
          }),
        }),
        response: { 200: z.array(runEventSchema), ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const runId = request.params.id;
      const { take } = request.query;
      const [run, moments, signals] = await Promise.all([
        store.findRun(runId),
        store.listMoments({ runId, limit: take }),
        store.listSignals(runId),
      ]);
      if (run === undefined) throw unknownId('run', runId);
      return runEvents({ run, moments, signals }, take);
    },
  );
};

const lineageRoute: ApiRoutes = (app, { store }) => {
  app.get(
    '/flows/api/runs/:id/lineage',
    {
      schema: {
        tags,
        operationId: 'getRunLineage',
        summary: 'The run that this one repeats, and those that repeat it',
        params,
        querystring: NO_QUERY,
        response: { 200: lineageSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const runId = request.params.id;
      const lineage = await store.findLineage(runId);
      if (lineage === undefined) throw unknownId('run', runId);
      const { source, derived } = lineage;
      return { runId, source: source === undefined ? null : relativeView(source), derived: derived.map(relativeView) };
    },
  );
};

function relativeView({ id: runId, status, startedAt, completedAt, flowName }: Run): z.output<typeof relativeSchema> {
  return { id: runId, status, startedAt: isoTime(startedAt), completedAt: isoTimeOrNull(completedAt), flowName };
}
