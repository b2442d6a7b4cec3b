import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import { roundDuration } from '../durations.ts';
import { type DurationRow, type StatusRow, Tallies } from '../run-buckets.ts';
import type { DeliveryBucket, DeliveryCount, RunBucket, RunCount } from '../store.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const figureOperations: Operations<
  'deliveryStats' | 'countDeliveries' | 'deliveryTimeseries' | 'countRuns' | 'countEndedRuns' | 'runTimeseries'
> = {
  deliveryStats: { lane: 'read', run: deliveryStats },
  countDeliveries: { lane: 'read', run: countDeliveries },
  deliveryTimeseries: { lane: 'read', run: deliveryTimeseries },
  countRuns: { lane: 'read', run: countRuns },
  countEndedRuns: { lane: 'read', run: countEndedRuns },
  runTimeseries: { lane: 'read', run: runTimeseries },
};

const hourOf = (at: number) => Math.floor(at / HOUR_MS);
/** Begin of the bucket of $1 milliseconds that an hour, by its number, is in. */
const BUCKET_OF_HOUR = `hour / ($1::bigint / ${HOUR_MS}) * $1::bigint`;

interface Counted {
  readonly reason: Reason | '';
  readonly rejected: boolean;
  readonly count: number;
}

/** Reads whole hours and minutes from counts, and the rest of the first minute from records. */
async function deliveryStats(sql: Sql, since: number): Promise<Answer<'deliveryStats'>> {
  const minute = Math.ceil(since / MINUTE_MS);
  const hour = Math.ceil(minute / 60);
  const rows = await sql.all<Counted>(
    `SELECT reason, rejected, sum(count) AS count FROM (
      SELECT coalesce(reason, '') AS reason, rejected, 1 AS count FROM sluice.deliveries
      WHERE id BETWEEN (SELECT first_id FROM sluice.delivery_counts WHERE minute = $1 - 1 ORDER BY first_id LIMIT 1)
          AND (SELECT last_id FROM sluice.delivery_counts WHERE minute = $1 - 1 ORDER BY last_id DESC LIMIT 1)
        AND received_at >= $2 AND received_at < $3
      UNION ALL
      SELECT reason, rejected, count FROM sluice.delivery_counts WHERE minute >= $1::bigint AND minute < $4
      UNION ALL
      SELECT reason, rejected, count FROM sluice.delivery_hours WHERE hour >= $5
    ) AS counted GROUP BY reason, rejected`,
    [minute, since, minute * MINUTE_MS, hour * 60, hour],
  );
  const counts: Partial<Record<Reason, number>> = {};
  const sums = { accepted: 0, rejected: 0 };
  for (const { reason, rejected, count } of rows) {
    if (reason !== '') counts[reason] = (counts[reason] ?? 0) + count;
    sums[rejected ? 'rejected' : 'accepted'] += count;
  }
  return { counts, ...sums, total: sums.accepted + sums.rejected };
}

async function countDeliveries(sql: Sql, { since, recentSince }: Given<'countDeliveries'>): Promise<DeliveryCount[]> {
  return sql.all(
    `SELECT nullif(flow_id, '') AS "flowId", nullif(trigger_key, '') AS "triggerKey", nullif(reason, '') AS reason,
      rejected, sum(count) AS count, coalesce(sum(count) FILTER (WHERE hour >= $1), 0) AS recent,
      sum(previous_key) AS "usedPreviousKey"
    FROM sluice.delivery_hours WHERE hour >= $2 GROUP BY flow_id, trigger_key, delivery_hours.reason, rejected
    ORDER BY delivery_hours.flow_id, delivery_hours.trigger_key, delivery_hours.reason COLLATE "C", rejected`,
    [hourOf(recentSince), hourOf(since)],
  );
}

async function deliveryTimeseries(sql: Sql, range: Given<'deliveryTimeseries'>): Promise<DeliveryBucket[]> {
  const { since, until, bucketMs, flowId } = range;
  const sums = `coalesce(sum(count) FILTER (WHERE NOT rejected), 0) AS accepted,
    coalesce(sum(count) FILTER (WHERE rejected), 0) AS rejected`;
  const minutes = [since / MINUTE_MS, until / MINUTE_MS];
  if (bucketMs < HOUR_MS && flowId === undefined) {
    return sql.all(
      `SELECT minute / ($1::bigint / ${MINUTE_MS}) * $1::bigint AS at, ${sums}
      FROM sluice.delivery_counts WHERE minute >= $2 AND minute < $3 GROUP BY 1 ORDER BY 1`,
      [bucketMs, ...minutes],
    );
  }
  if (bucketMs < HOUR_MS) {
    const counted = 'FROM sluice.delivery_counts WHERE minute >= $5 AND minute < $6';
    // Of one flow no minutes are counted.
    return sql.all(
      `SELECT at, ${sums} FROM (
        SELECT received_at / $1::bigint * $1::bigint AS at, rejected, 1 AS count FROM sluice.deliveries
        WHERE flow_id = $2 AND received_at >= $3 AND received_at < $4
          AND id BETWEEN (SELECT first_id ${counted} ORDER BY first_id LIMIT 1)
            AND (SELECT last_id ${counted} ORDER BY last_id DESC LIMIT 1)
      ) AS own GROUP BY 1 ORDER BY 1`,
      [bucketMs, flowId ?? null, since, until, ...minutes],
    );
  }
  return sql.all(
    `SELECT ${BUCKET_OF_HOUR} AS at, ${sums}
    FROM sluice.delivery_hours WHERE hour >= $2 AND hour < $3 AND flow_id = coalesce($4, flow_id)
    GROUP BY 1 ORDER BY 1`,
    [bucketMs, hourOf(since), hourOf(until), flowId ?? null],
  );
}

// One writer's own count may be negative, where it ended what another began: only sums mean anything.

async function countRuns(sql: Sql): Promise<RunCount[]> {
  return sql.all(
    `SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_totals
    GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`,
  );
}

async function countEndedRuns(sql: Sql, since: number): Promise<RunCount[]> {
  return sql.all(
    `SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_ends
    WHERE hour >= $1 GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`,
    [hourOf(since)],
  );
}

async function runTimeseries(sql: Sql, range: Given<'runTimeseries'>): Promise<RunBucket[]> {
  const { since, until, bucketMs, flowId = null } = range;
  const hours = [hourOf(since), hourOf(until)];
  const tallies = new Tallies(bucketMs);
  if (bucketMs < HOUR_MS) {
    const started = `FROM (
      SELECT started_at / $1::bigint * $1::bigint AS at, status, completed_at - started_at AS took FROM sluice.runs
      WHERE started_at >= $2 AND started_at < $3 AND flow_id = coalesce($4, flow_id)
    ) AS started`;
    const values = [bucketMs, since, until, flowId];
    const counts = await sql.all<StatusRow>(`SELECT at, status, count(*) AS count ${started} GROUP BY 1, 2`, values);
    for (const row of counts) tallies.addStatus(row);
    const durations = await sql.all<{ at: number; p50: number; p95: number }>(
      `SELECT at, percentile_disc(0.5) WITHIN GROUP (ORDER BY took) AS p50,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY took) AS p95
      ${started} WHERE took IS NOT NULL GROUP BY 1`,
      values,
    );
    const byBucket = new Map(durations.map(({ at, p50, p95 }) => [at, { p50, p95 }]));
    return tallies.buckets().map((bucket) => {
      const found = byBucket.get(bucket.at);
      if (found === undefined) return bucket;
      return { ...bucket, p50DurationMs: roundDuration(found.p50), p95DurationMs: roundDuration(found.p95) };
    });
  }
  const ended = await sql.all<StatusRow>(
    `SELECT ${BUCKET_OF_HOUR} AS at, status, sum(count) AS count FROM sluice.run_starts
    WHERE hour >= $2 AND hour < $3 AND flow_id = coalesce($4, flow_id) GROUP BY 1, 2 HAVING sum(count) > 0`,
    [bucketMs, ...hours, flowId],
  );
  const running = await sql.all<StatusRow>(
    `SELECT started_at / $1::bigint * $1::bigint AS at, status, count(*) AS count FROM sluice.runs
    WHERE status = 'Running' AND started_at >= $2 AND started_at < $3
      AND flow_id = coalesce($4, flow_id)
    GROUP BY 1, 2`,
    [bucketMs, since, until, flowId],
  );
  const durations = await sql.all<DurationRow>(
    `SELECT hour, duration_ms AS "durationMs", sum(count) AS count FROM sluice.run_durations
    WHERE flow_id = $1 AND hour >= $2 AND hour < $3
    GROUP BY hour, duration_ms HAVING sum(count) > 0 ORDER BY hour, duration_ms`,
    [flowId ?? '', ...hours],
  );
  for (const row of [...ended, ...running]) tallies.addStatus(row);
  for (const row of durations) tallies.addDuration(row);
  return tallies.buckets();
}
