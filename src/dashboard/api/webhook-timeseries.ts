import { z } from 'zod';
import { REFUSALS } from '../error-responses.ts';
import { oneOf, optionalGuid, wholeNumber } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { id, integer, isoTime, time } from './formats.ts';
import { BUCKET_MS, type Bucket, fillBuckets, wholeBuckets } from './run-figures.ts';

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
