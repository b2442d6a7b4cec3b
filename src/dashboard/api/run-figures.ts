import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import type { RunTime } from '../../store/store.ts';
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
  p50DurationMs: z.number().nullable(),
  p95DurationMs: z.number().nullable(),
});

export interface Range {
  readonly since: number;
  readonly until: number;
}

/** Whole buckets, in UTC, around what was asked for. Throws a 400 where that is nothing, or too much. */
export function wholeBuckets(
  bucket: Bucket,
  asked: { since: number | undefined; until: number | undefined; lookBackMs: number },
  now: number,
): Range {
  const size = BUCKET_MS[bucket];
  const until = Math.ceil((asked.until ?? now + 1) / size) * size;
  const since =
    asked.since === undefined
      ? until - Math.ceil(asked.lookBackMs / size) * size
      : Math.floor(asked.since / size) * size;
  if (since >= until) throw new HttpError(400, 'since: is not before until');
  const count = (until - since) / size;
  if (count <= MAX_BUCKETS) return { since, until };
  throw new HttpError(400, `since: asks for ${count} buckets; at most ${MAX_BUCKETS} are given`);
}

/** Runs by the bucket that they started in. Skipped runs count in the total alone; a run that timed out has failed. */
export function fillBuckets(
  bucket: Bucket,
  { since, until }: Range,
  runs: readonly RunTime[],
): z.output<typeof bucketSchema>[] {
  const size = BUCKET_MS[bucket];
  const filled: RunTime[][] = Array.from({ length: (until - since) / size }, () => []);
  for (const run of runs) filled[Math.floor((run.startedAt - since) / size)]?.push(run);
  return filled.map((own, index) => figuresOf(own, since + index * size));
}

function figuresOf(runs: readonly RunTime[], startsAt: number): z.output<typeof bucketSchema> {
  const count = (...statuses: RunTime['status'][]) => runs.filter(({ status }) => statuses.includes(status)).length;
  const durations = runs
    .flatMap(({ startedAt, completedAt }) => (completedAt === null ? [] : [completedAt - startedAt]))
    .sort((a, b) => a - b);
  return {
    timestamp: isoTime(startsAt),
    total: runs.length,
    succeeded: count('Succeeded'),
    failed: count('Failed', 'TimedOut'),
    cancelled: count('Cancelled'),
    running: count('Running'),
    p50DurationMs: percentile(durations, 0.5),
    p95DurationMs: percentile(durations, 0.95),
  };
}

/** Nearest rank; null of nothing. */
function percentile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
}
