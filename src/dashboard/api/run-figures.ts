import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import type { BucketRange, RunBucket, RunCount } from '../../store/store.ts';
import { integer, isoTime, time } from './formats.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
export const BUCKET_MS = { hour: HOUR_MS, day: DAY_MS } as const;
export type Bucket = keyof typeof BUCKET_MS;
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
export function wholeBuckets(
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
export function fillBuckets<Counted extends { readonly at: number }, View>(
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
export function runBuckets(
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
