import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import type { Run } from '../../model/run.ts';
import type { BucketRange, RunBucket, RunCount } from '../../store/store.ts';
import { errorSchema, id, integer, isoTime, isoTimeOrNull, REFUSALS, time, unknownId } from '../answer.ts';
import { guid, NO_QUERY, oneOf, optionalGuid, optionalTime, wholeNumber } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { runEventSchema, runEvents } from './run-history.ts';
import { runStatusSchema } from './runs.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BUCKET_MS = { hour: HOUR_MS, day: DAY_MS } as const;
type Bucket = keyof typeof BUCKET_MS;
const MAX_BUCKETS = 1000;

export const bucketSchema = z.object({
  timestamp: time(),
  total: integer(),
  succeeded: integer(),
  failed: integer(),
  cancelled: integer(),
  running: integer(),
  p50DurationMs: z.number().nullable().describe('Within five per cent.'),
  p95DurationMs: z.number().nullable().describe('Within five per cent.'),
});

/** Whole buckets, in UTC, around what was asked for. Throws a 400 where that is nothing, or too much. */
function wholeBuckets(
  bucket: Bucket,
  asked: { since: number | undefined; until: number | undefined; lookBackMs: number },
  now: number,
): Omit<BucketRange, 'flowId'> {
  const size = BUCKET_MS[bucket];
  const until = Math.ceil((asked.until ?? now + 1) / size) * size;
  const since =
    asked.since === undefined
      ? until - Math.ceil(asked.lookBackMs / size) * size
      : Math.floor(asked.since / size) * size;
  if (since >= until) throw new HttpError(400, 'since: is not before until');
  const count = (until - since) / size;
  if (count <= MAX_BUCKETS) return { since, until, bucketMs: size };
  throw new HttpError(400, `since: asks for ${count} buckets; at most ${MAX_BUCKETS} are given`);
}

/** One entry for each bucket of a range: what the store counted there, or what nothing makes. */
function fillBuckets<Counted extends { readonly at: number }, View>(
  range: Omit<BucketRange, 'flowId'>,
  counted: readonly Counted[],
  view: (timestamp: string, bucket: Counted | undefined) => View,
): View[] {
  const { since, until, bucketMs } = range;
  const byStart = new Map(counted.map((bucket) => [bucket.at, bucket]));
  return Array.from({ length: (until - since) / bucketMs }, (_, index) => {
    const at = since + index * bucketMs;
    return view(isoTime(at), byStart.get(at));
  });
}

/** Runs by the bucket that they started in. Skipped runs count in the total alone; a run that timed out has failed. */
function runBuckets(
  range: Omit<BucketRange, 'flowId'>,
  counted: readonly RunBucket[],
): z.output<typeof bucketSchema>[] {
  return fillBuckets(range, counted, (timestamp, bucket) => {
    const { Succeeded = 0, Failed = 0, TimedOut = 0, Cancelled = 0, Running = 0, Skipped = 0 } = bucket?.counts ?? {};
    return {
      timestamp,
      total: Succeeded + Failed + TimedOut + Cancelled + Running + Skipped,
      succeeded: Succeeded,
      failed: Failed + TimedOut,
      cancelled: Cancelled,
      running: Running,
      p50DurationMs: bucket?.p50DurationMs ?? null,
      p95DurationMs: bucket?.p95DurationMs ?? null,
    };
  });
}

export function sumOf(counts: readonly RunCount[], ...statuses: RunCount['status'][]): number {
  return counts.reduce((sum, { status, count }) => (statuses.includes(status) ? sum + count : sum), 0);
}

export const timeseriesSchema = z.object({
  bucket: z.enum(['hour', 'day']),
  since: time(),
  until: time(),
  flowId: id().nullable(),
  buckets: z.array(
    z.object({
      timestamp: time(),
      accepted: integer().describe('No gate failed and the delivery was taken.'),
      rejected: integer().describe('A gate failed, or the delivery was refused.'),
      total: integer(),
    }),
  ),
});

/** Deliveries over time, from counters: the answer costs the same however many there were. */
export const webhookTimeseriesRoutes: ApiRoutes = (app, { store, clock }) => {
  app.get(
    '/flows/api/webhooks/timeseries',
    {
      schema: {
        tags: ['deliveries'],
        operationId: 'webhookTimeseries',
        summary: 'Deliveries by the hour or day, empty ones included',
        querystring: z.strictObject({
          bucket: oneOf(['hour', 'day']),
          hours: wholeNumber({ min: 1, max: 720, fallback: 24 }),
          flowId: optionalGuid(),
        }),
        response: { 200: timeseriesSchema, ...REFUSALS },
      },
    },
    async ({ query: { hours, flowId, ...query } }) => {
      const bucket: Bucket = query.bucket === 'day' ? 'day' : 'hour';
      const asked = { since: undefined, until: undefined, lookBackMs: hours * BUCKET_MS.hour };
      const range = wholeBuckets(bucket, asked, clock.now());
      const counted = await store.deliveryTimeseries({ ...range, flowId });
      return {
        bucket,
        since: isoTime(range.since),
        until: isoTime(range.until),
        flowId: flowId ?? null,
        buckets: fillBuckets(range, counted, (timestamp, found) => {
          const { accepted, rejected } = found ?? { accepted: 0, rejected: 0 };
          return { timestamp, accepted, rejected, total: accepted + rejected };
        }),
      };
    },
  );
};

const tags = ['runs'];
const params = z.object({ id: guid() });
/** A loop over all the items that one may have makes hundreds of thousands. */
const MAX_EVENTS = 10_000;

const statsSchema = z.object({
  totalFlows: integer(),
  activeRuns: integer(),
  succeededToday: integer(),
  failedToday: integer(),
  cancelledToday: integer(),
});

const runTimeseriesSchema = z.object({
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
        response: { 200: runTimeseriesSchema, ...REFUSALS },
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
