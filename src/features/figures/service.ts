import { z } from 'zod';
import { field, isoTime, isoTimeOrNull } from '../../dashboard/answer.ts';
import { BUILT_IN, LOOK_BACK_HOURS, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, servicePart } from '../../dashboard/services.ts';
import { limitOf, sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import { REASON_CODES } from '../../model/delivery.ts';
import { ALERT_FLOW_ID } from '../../model/manifest.ts';
import type { BucketRange, TimeSpan } from '../../store/store.ts';
import { DELIVERY_FILTER, deliveryFilter, reasonSchema } from '../deliveries/service.ts';
import { sumOf } from '../flows/service.ts';
import { flowsStore } from '../flows/store.ts';
import { RUN_FILTER, runFilter } from '../runs/runs.ts';
import { figuresStore, type RunBucket } from './store.ts';

const BUCKETS = ['minute', 'hour', 'day'] as const;
type Bucket = (typeof BUCKETS)[number];
const BUCKET_MS: Readonly<Record<Bucket, number>> = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS };
/** Six hours: minutes are counted from rows, and there may be a million in that time. */
const MAX_MINUTES = 360;
const MAX_BUCKETS: Readonly<Record<Bucket, number>> = { minute: MAX_MINUTES, hour: 1000, day: 1000 };

/** A parameter that limits how far back buckets go without `since`. */
interface LookBack {
  readonly name: 'minutes' | 'hours' | 'days';
  readonly unitMs: number;
  readonly fallback: number;
}

const MINUTES = { min: 1, max: MAX_MINUTES, fallback: 60 };
const DAYS = { min: 1, max: 365, fallback: 30 };
const MINUTES_BACK: LookBack = { name: 'minutes', unitMs: MINUTE_MS, fallback: MINUTES.fallback };
const HOURS_BACK: LookBack = { name: 'hours', unitMs: HOUR_MS, fallback: LOOK_BACK_HOURS.fallback };
const DAYS_BACK: LookBack = { name: 'days', unitMs: DAY_MS, fallback: DAYS.fallback };
/** The parameter for each bucket. */
const RUNS_BACK: Readonly<Record<Bucket, LookBack>> = { minute: MINUTES_BACK, hour: HOURS_BACK, day: DAYS_BACK };
const DELIVERIES_BACK: typeof RUNS_BACK = { ...RUNS_BACK, day: HOURS_BACK };

/** The length of buckets, and the time that they cover. */
const BUCKETED = {
  bucket: parameter.oneOf(BUCKETS).meta({ description: 'hour by default.' }),
  minutes: parameter.givenWholeNumber(MINUTES).meta({
    description: 'How far back `bucket=minute` goes without `since`; 60 by default.',
  }),
  hours: parameter.givenWholeNumber(LOOK_BACK_HOURS),
  ...SPAN,
};

const OF_FLOW = { flowId: parameter.optionalGuid().meta({ description: 'Figures of this flow alone.' }) };

const runStatsSchema = z.object({
  totalFlows: field.integer(),
  activeRuns: field.integer(),
  succeededToday: field.integer(),
  failedToday: field.integer(),
  cancelledToday: field.integer(),
});

const bucketSchema = z.object({
  timestamp: field.time(),
  total: field.integer(),
  succeeded: field.integer(),
  failed: field.integer(),
  cancelled: field.integer(),
  running: field.integer(),
  p50DurationMs: z
    .number()
    .nullable()
    .describe('Accurate to five per cent; null where hours or days are filtered by a status alone.'),
  p95DurationMs: z.number().nullable().describe('As p50DurationMs.'),
});

const runTimeseriesSchema = z.object({
  bucket: z.enum(BUCKETS),
  since: field.time(),
  until: field.time(),
  flowId: field.id().nullable(),
  buckets: z.array(bucketSchema),
});

const deliveryStatsSchema = z.object({
  windowHours: field.integer(),
  counts: z.partialRecord(reasonSchema, field.integer()),
  accepted: field.integer(),
  rejected: field.integer(),
  total: field.integer(),
});

const flowStatsSchema = z.array(
  z
    .object({
      flowId: field.id(),
      since: field
        .time()
        .describe('The figures are of what came since then: the last hours, rounded up to a whole hour.'),
      deliveries: field.integer(),
      rejected: field.integer().describe('Those of them that failed a gate or were refused.'),
      p95DurationMs: z
        .number()
        .nullable()
        .describe('Of 100 runs that started since then, 95 took no longer; null if none has ended.'),
    })
    .meta({ id: 'FlowStats' }),
);

const deliveryTimeseriesSchema = z.object({
  bucket: z.enum(BUCKETS),
  since: field.time(),
  until: field.time(),
  flowId: field.id().nullable(),
  buckets: z.array(
    z.object({
      timestamp: field.time(),
      accepted: field.integer().describe('No gate failed and the delivery was accepted.'),
      rejected: field.integer().describe('A gate failed, or the delivery was refused.'),
      total: field.integer(),
    }),
  ),
  firstAt: field
    .time()
    .nullable()
    .describe(
      'The hour of the first delivery or run of all that are counted, whatever the filter; of an earlier one the bucket before `since`. Null if there was none.',
    ),
});

/** Answers of these operations. */
export interface FigureAnswers {
  readonly RunBucket: z.output<typeof bucketSchema>;
  readonly DeliveryStats: z.output<typeof deliveryStatsSchema>;
  readonly FlowStats: z.output<typeof flowStatsSchema>[number];
  readonly DeliveryTimes: z.output<typeof deliveryTimeseriesSchema>;
}

/** Figures of runs and deliveries, from counters: an answer costs the same however many there were. */
const figureRoutes: ApiRoutes = (app, services) => {
  runStatsRoute(app, services);
  runTimeseriesRoute(app, services);
  deliveryStatsRoute(app, services);
  flowStatsRoute(app, services);
  deliveryTimeseriesRoute(app, services);
};

const runStatsRoute: ApiRoutes = (app, services) => {
  const { store, catalog, clock } = services;
  app.get(
    '/flows/api/runs/stats',
    route('runs', {
      operationId: 'runStats',
      limit: 'filtered',
      summary: 'Runs in flight, and runs that ended today (UTC)',
      query: z.strictObject({ ...BUILT_IN, ...OF_FLOW }),
      answer: runStatsSchema,
    }),
    async (request) => {
      const { includeBuiltIn, flowId: asked } = request.query;
      const sight = sightOf(request, services);
      const midnight = Math.floor(clock.now() / DAY_MS) * DAY_MS;
      const counts = await Promise.all([store.of(flowsStore).countRuns(), store.countEndedRuns(midnight)]);
      const isWanted = (flowId: string) =>
        asked === undefined ? includeBuiltIn || flowId !== ALERT_FLOW_ID : flowId === asked;
      const isCounted = (flowId: string) => isWanted(flowId) && sees(sight, flowId);
      const [kept = [], ended = []] = counts.map((each) => each.filter(({ flowId }) => isCounted(flowId)));
      return {
        totalFlows: catalog.list().filter(({ record }) => isCounted(record.id)).length,
        activeRuns: sumOf(kept, 'Running'),
        succeededToday: sumOf(ended, 'Succeeded'),
        failedToday: sumOf(ended, 'Failed', 'TimedOut'),
        cancelledToday: sumOf(ended, 'Cancelled'),
      };
    },
  );
};

const runTimeseriesRoute: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  app.get(
    '/flows/api/runs/timeseries',
    route('runs', {
      operationId: 'runTimeseries',
      limit: 'filtered',
      summary: 'Runs by the minute, hour or day in which they started, including empty buckets',
      description:
        'Takes the filters of the list of runs. Hours and days that are filtered by flow or status alone also count runs that were deleted since; otherwise only stored runs are counted, and with other filters as many as the list finds.',
      query: z.strictObject({
        ...RUN_FILTER,
        ...BUCKETED,
        hours: BUCKETED.hours.meta({ description: 'How far back `bucket=hour` goes without `since`; 24 by default.' }),
        days: parameter.givenWholeNumber(DAYS).meta({
          description: 'How far back `bucket=day` goes without `since`; 30 by default.',
        }),
      }),
      answer: runTimeseriesSchema,
    }),
    async (request) => {
      const { query } = request;
      const { bucket = 'hour', minutes, hours, days, ...filter } = query;
      const range = wholeBuckets(bucket, { ...query, lookBackMs: lookBackMs(query, bucket, RUNS_BACK) }, clock.now());
      const counted = await store.of(figuresStore).runTimeseries({
        ...runFilter(filter, request, services),
        ...range,
      });
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

const deliveryStatsRoute: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  app.get(
    '/flows/api/webhooks/stats',
    route('deliveries', {
      operationId: 'deliveryStats',
      limit: 'filtered',
      summary: 'Counts by reason over the last hours',
      query: z.strictObject({ hours: parameter.lookBackHours(), ...OF_FLOW }),
      answer: deliveryStatsSchema,
    }),
    async (request) => {
      const { query } = request;
      const since = clock.now() - query.hours * HOUR_MS;
      const isSeen = query.flowId !== undefined && sees(sightOf(request, services), query.flowId);
      const ofFlow =
        query.flowId === undefined ? limitOf(request, services) : { flowIds: isSeen ? [query.flowId] : [] };
      const { counts, ...stats } = await store.of(figuresStore).deliveryStats({ since, ...ofFlow });
      const inOrder = REASON_CODES.filter((reason) => counts[reason] !== undefined);
      return {
        ...stats,
        counts: Object.fromEntries(inOrder.map((reason) => [reason, counts[reason]])),
        windowHours: query.hours,
      };
    },
  );
};

const flowStatsRoute: ApiRoutes = (app, services) => {
  const { store, catalog, clock } = services;
  app.get(
    '/flows/api/flows/stats',
    route('flows', {
      operationId: 'flowStats',
      limit: 'filtered',
      summary: 'Deliveries, refusals and the duration of runs of each flow over the last hours',
      query: z.strictObject({ hours: parameter.lookBackHours(), ...BUILT_IN }),
      answer: flowStatsSchema,
    }),
    async (request) => {
      const { hours, includeBuiltIn } = request.query;
      const since = Math.ceil(clock.now() / HOUR_MS - hours) * HOUR_MS;
      const own = store.of(figuresStore);
      const [counted, slowest] = await Promise.all([
        own.deliveriesByFlow({ since, flowIds: limitOf(request, services).flowIds }),
        own.slowestByFlow(since),
      ]);
      const deliveries = new Map(counted.map((each) => [each.flowId, each]));
      const sight = sightOf(request, services);
      return catalog
        .list()
        .filter(({ record: { id } }) => sees(sight, id) && (includeBuiltIn || id !== ALERT_FLOW_ID))
        .map(({ record: { id } }) => {
          const { accepted, rejected } = deliveries.get(id) ?? { accepted: 0, rejected: 0 };
          const figures = { deliveries: accepted + rejected, rejected, p95DurationMs: slowest.get(id) ?? null };
          return { flowId: id, since: isoTime(since), ...figures };
        });
    },
  );
};

/** Deliveries over time, from counters: the answer costs the same however many there were. */
const deliveryTimeseriesRoute: ApiRoutes = (app, services) => {
  const { store, clock } = services;
  app.get(
    '/flows/api/webhooks/timeseries',
    route('deliveries', {
      operationId: 'webhookTimeseries',
      limit: 'filtered',
      summary: 'Deliveries by the minute, hour or day, including empty buckets',
      description:
        'Takes the filters of the list of deliveries. What a search, a search key or `heldOnly` finds is counted from stored deliveries, as many as the list finds; so are the minutes of one flow.',
      query: z.strictObject({
        ...DELIVERY_FILTER,
        ...BUCKETED,
        hours: BUCKETED.hours.meta({
          description: 'How far back `bucket=hour` and `bucket=day` go without `since`; 24 by default.',
        }),
      }),
      answer: deliveryTimeseriesSchema,
    }),
    async (request) => {
      const { query } = request;
      const { bucket = 'hour', minutes, hours, ...filter } = query;
      const { flowId } = filter;
      const asked = { ...query, lookBackMs: lookBackMs(query, bucket, DELIVERIES_BACK) };
      const range = wholeBuckets(bucket, asked, clock.now());
      const counted = await store.of(figuresStore).deliveryTimeseries({
        ...deliveryFilter(filter, request, services),
        ...range,
      });
      const { flowIds } = limitOf(request, services);
      const own = store.of(figuresStore);
      const span = { flowIds, since: range.since - range.bucketMs };
      const firsts = await Promise.all([own.firstDeliveryHour(span), own.firstRunHour(span)]);
      const first = Math.min(...firsts.map((at) => at ?? Number.POSITIVE_INFINITY));
      return {
        bucket,
        since: isoTime(range.since),
        until: isoTime(range.until),
        flowId: flowId ?? null,
        firstAt: isoTimeOrNull(Number.isFinite(first) ? first : null),
        buckets: fillBuckets(range, counted, (timestamp, found) => {
          const { accepted, rejected } = found ?? { accepted: 0, rejected: 0 };
          return { timestamp, accepted, rejected, total: accepted + rejected };
        }),
      };
    },
  );
};

/** The requested time span. Throws a 400 for the parameter of another bucket, which would have no effect. */
function lookBackMs(
  given: Partial<Record<LookBack['name'], number | undefined>>,
  bucket: Bucket,
  lookBacks: typeof RUNS_BACK,
): number {
  const { name, unitMs, fallback } = lookBacks[bucket];
  const other = (['minutes', 'hours', 'days'] as const).find((each) => each !== name && given[each] !== undefined);
  if (other === undefined) return (given[name] ?? fallback) * unitMs;
  throw new HttpError('invalid_request', `${other}: does not fit bucket=${bucket}, which takes ${name}`);
}

/** The requested range, widened to whole buckets in UTC. Throws a 400 if it is empty or too long. */
function wholeBuckets(bucket: Bucket, asked: TimeSpan & { lookBackMs: number }, now: number): BucketRange {
  const size = BUCKET_MS[bucket];
  const until = Math.ceil((asked.until ?? now + 1) / size) * size;
  const since =
    asked.since === undefined
      ? until - Math.ceil(asked.lookBackMs / size) * size
      : Math.floor(asked.since / size) * size;
  if (since >= until) throw new HttpError('invalid_request', 'since: must be before until');
  const count = (until - since) / size;
  const most = MAX_BUCKETS[bucket];
  if (count <= most) return { since, until, bucketMs: size };
  throw new HttpError(
    'invalid_request',
    `since: asks for ${count} buckets of one ${bucket}; at most ${most} are allowed`,
  );
}

/** One entry for each bucket of a range; the store leaves empty ones out. */
function fillBuckets<Counted extends { readonly at: number }, View>(
  range: BucketRange,
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

/** Runs by the bucket in which they started. Skipped runs count only in the total; timed-out runs count as failed. */
function runBuckets(range: BucketRange, counted: readonly RunBucket[]): z.output<typeof bucketSchema>[] {
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

export const figures = servicePart({ name: 'figures', routes: [figureRoutes] });
