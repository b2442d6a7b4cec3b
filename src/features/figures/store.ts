import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import type { RunStatus } from '../../model/manifest.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { countsDeliveries, idsWithin, matchingDeliveries } from '../../store/decisions/deliveries.ts';
import { hourOf } from '../../store/decisions/figures.ts';
import { all, filter, where } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, type Query, sql } from '../../store/decisions/port.ts';
import { isPlain, matchingRuns, PLACE_OF_RUN } from '../../store/decisions/runs.ts';
import { roundDuration } from '../../store/durations.ts';
import type { BucketRange, DeliveryFilter, RunFilter } from '../../store/store.ts';

export interface RunBucket {
  readonly at: number;
  readonly counts: Readonly<Partial<Record<RunStatus, number>>>;
  /** For runs that ended, nearest rank, within five per cent; null if none ended. */
  readonly p50DurationMs: number | null;
  readonly p95DurationMs: number | null;
}

interface DeliveryStats {
  /** Deliveries by the reason that Enforce answers with. */
  readonly counts: Readonly<Partial<Record<Reason, number>>>;
  readonly accepted: number;
  readonly rejected: number;
  readonly total: number;
}

interface StatsRow {
  readonly reason: Reason | '';
  readonly rejected: boolean;
  readonly count: number;
}

/** The same for some flows. Only hours are counted by flow, so the rest of the first hour comes from records. */
function* statsOf(
  port: Port,
  { since, flowIds }: { readonly since: number; readonly flowIds: readonly string[] },
): Decision<Query> {
  const hour = Math.ceil(since / HOUR_MS);
  const rest = { since, until: hour * HOUR_MS };
  const records = [yield* idsWithin(port, rest), filter.within('received_at', rest), filter.among('flow_id', flowIds)];
  return sql`
    SELECT reason, rejected::boolean AS rejected, sum(count) AS count FROM (
      SELECT coalesce(reason, '') AS reason, rejected, 1 AS count FROM sluice.deliveries ${where(records)}
      UNION ALL
      SELECT reason, rejected, count FROM sluice.delivery_hours WHERE hour >= ${hour} AND flow_id = ANY (${flowIds})
    ) AS counted GROUP BY reason, rejected`;
}

/** Counts of one flow. */
interface FlowDeliveries {
  readonly flowId: string;
  readonly accepted: number;
  readonly rejected: number;
}

interface DurationRow {
  readonly at: number;
  readonly durationMs: number;
  readonly count: number;
}

interface StatusRow {
  readonly at: number;
  readonly status: RunStatus;
  readonly count: number;
}

function groupBy<Key, Row>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>();
  for (const row of rows) {
    const own = groups.get(keyOf(row));
    if (own === undefined) groups.set(keyOf(row), [row]);
    else own.push(row);
  }
  return groups;
}

const byBucket = <Row extends { readonly at: number }>(rows: readonly Row[]) => groupBy(rows, ({ at }) => at);

/** Nearest rank, from ordered durations and their counts. */
function percentile(durations: readonly Omit<DurationRow, 'at'>[], share: number): number | null {
  const rank = Math.ceil(durations.reduce((sum, { count }) => sum + count, 0) * share);
  let passed = 0;
  for (const { durationMs, count } of durations) {
    passed += count;
    if (passed >= rank) return durationMs;
  }
  return null;
}

interface Figures {
  readonly statuses: readonly StatusRow[];
  readonly durations: readonly DurationRow[];
}

function bucketsOf({ statuses, durations }: Figures): RunBucket[] {
  const ended = byBucket(durations);
  return [...byBucket(statuses)]
    .sort(([a], [b]) => a - b)
    .map(([at, rows]) => {
      const counts = Object.fromEntries(rows.map(({ status, count }) => [status, count]));
      const own = (ended.get(at) ?? []).sort((a, b) => a.durationMs - b.durationMs);
      return { at, counts, p50DurationMs: percentile(own, 0.5), p95DurationMs: percentile(own, 0.95) };
    });
}

function* ofHours(port: Port, query: RunFilter & BucketRange): Decision<Figures> {
  const { since, until, bucketMs, flowId, flowIds, withoutFlow, status } = query;
  const ofFlow = all(
    sql`flow_id <> ${withoutFlow ?? ''}`,
    filter.equals('flow_id', flowId),
    filter.among('flow_id', flowIds),
    filter.equals('status', status),
  );
  const hours = between('hour', hourOf(since), hourOf(until));
  const hour = bucketOfUnits('hour', bucketMs, HOUR_MS);
  const ended = yield* port.all<StatusRow>(sql`
    SELECT ${hour} AS at, status, sum(count) AS count FROM sluice.run_starts WHERE ${all(hours, ofFlow)}
    GROUP BY 1, 2 HAVING sum(count) > 0`);
  // The second condition makes SQLite use its index.
  const running = yield* port.all<StatusRow>(sql`
    SELECT ${bucketOf('started_at', bucketMs)} AS at, status, count(*) AS count FROM sluice.runs
    WHERE ${all(sql`status = 'Running' /*sqlite: AND status <> 'Succeeded' */`, between('started_at', since, until), ofFlow)}
    GROUP BY 1, 2`);
  const statuses = [...ended, ...running];
  // Durations are not counted by status.
  if (status !== undefined) return { statuses, durations: [] };
  // The row without a flow counts all flows.
  const ofDurations =
    flowIds === undefined
      ? sql`flow_id = ${flowId ?? ''}`
      : all(filter.among('flow_id', flowIds), filter.equals('flow_id', flowId));
  const durations = yield* port.all<DurationRow>(sql`
    SELECT ${hour} AS at, duration_ms AS "durationMs", sum(count) AS count FROM sluice.run_durations
    WHERE ${ofDurations} AND ${hours} GROUP BY 1, 2 HAVING sum(count) > 0`);
  return { statuses, durations };
}

/** For buckets below an hour, or a finer filter: no counts are that fine. */
function* ofRuns(port: Port, query: RunFilter & BucketRange): Decision<Figures> {
  const rows = yield* matchingRuns(port, query);
  const runs = sql`${rows} /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.${fixed(PLACE_OF_RUN)} = found.place`;
  const at = bucketOf('r.started_at', query.bucketMs);
  const statuses = yield* port.all<StatusRow>(
    sql`SELECT ${at} AS at, r.status, count(*) AS count FROM ${runs} GROUP BY 1, 2`,
  );
  const durations = yield* port.all<DurationRow>(sql`
    SELECT at, took AS "durationMs", count(*) AS count FROM (
      SELECT ${at} AS at, r.completed_at - r.started_at AS took FROM ${runs} WHERE r.completed_at IS NOT NULL
    ) AS ended GROUP BY 1, 2`);
  return { statuses, durations: durations.map((row) => ({ ...row, durationMs: roundDuration(row.durationMs) })) };
}

interface DeliveryBucket {
  readonly at: number;
  readonly accepted: number;
  readonly rejected: number;
}

const between = (column: string, since: number, until: number): Query =>
  sql`${fixed(column)} >= ${since} AND ${fixed(column)} < ${until}`;

const accepted = fixed(`coalesce(sum(count) FILTER (WHERE NOT rejected), 0) AS accepted,
  coalesce(sum(count) FILTER (WHERE rejected), 0) AS rejected`);

/** SQLite binds numbers as floats, and a division by a float keeps its fraction. */
const whole = (value: number): Query => sql`CAST(${value} AS bigint)`;

const bucketOf = (column: string, bucketMs: number): Query =>
  sql`${fixed(column)} / ${whole(bucketMs)} * ${whole(bucketMs)}`;

/** Bucket of a column that counts units of `unitMs` milliseconds. */
const bucketOfUnits = (column: string, bucketMs: number, unitMs: number): Query =>
  sql`${fixed(column)} / ${whole(bucketMs / unitMs)} * ${whole(bucketMs)}`;

function* deliveryTimeseries(port: Port, query: DeliveryFilter & BucketRange): Decision<DeliveryBucket[]> {
  const { since, until, bucketMs, flowId, flowIds, reason, rejectedOnly, acceptedOnly } = query;
  const filters = [
    filter.equals('flow_id', flowId),
    filter.among('flow_id', flowIds),
    filter.equals('reason', reason),
    filter.holds('rejected', rejectedOnly),
    filter.holds('NOT rejected', acceptedOnly),
  ];
  const isCounted = countsDeliveries(query);
  if (isCounted && bucketMs >= HOUR_MS) {
    const hours = between('hour', hourOf(since), hourOf(until));
    return yield* port.all(sql`
      SELECT ${bucketOfUnits('hour', bucketMs, HOUR_MS)} AS at, ${accepted} FROM sluice.delivery_hours
      WHERE ${all(hours, ...filters)} GROUP BY 1 ORDER BY 1`);
  }
  // Minutes are not counted by flow.
  if (isCounted && flowId === undefined && flowIds === undefined) {
    const minutes = between('minute', since / MINUTE_MS, until / MINUTE_MS);
    return yield* port.all(sql`
      SELECT ${bucketOfUnits('minute', bucketMs, MINUTE_MS)} AS at, ${accepted} FROM sluice.delivery_counts
      WHERE ${all(minutes, ...filters)} GROUP BY 1 ORDER BY 1`);
  }
  const rows = yield* matchingDeliveries(port, query);
  return yield* port.all(sql`
    SELECT at, ${accepted} FROM (
      SELECT ${bucketOf('d.received_at', bucketMs)} AS at, d.rejected, 1 AS count
      FROM ${rows} /*sqlite: CROSS */ JOIN sluice.deliveries AS d ON d.id = found.place
    ) AS own GROUP BY 1 ORDER BY 1`);
}

interface FirstQuery {
  /** Only these flows; all if undefined. */
  readonly flowIds: readonly string[] | undefined;
  /** Milliseconds since the Unix epoch; also returned if the first hour was earlier. */
  readonly since: number;
}

/** Reads only the span, however much was counted before it. */
function* firstHour(port: Port, counts: Query, { flowIds, since }: FirstQuery): Decision<number | null> {
  const hour = hourOf(since);
  const ofFlows = filter.among('flow_id', flowIds);
  const before = yield* port.get(
    sql`SELECT 1 AS found FROM ${counts} ${where([ofFlows, sql`hour < ${hour}`])} LIMIT 1`,
  );
  if (before !== undefined) return since;
  const row = yield* port.get<{ hour: number | null }>(
    sql`SELECT min(hour) AS hour FROM ${counts} ${where([ofFlows, sql`hour >= ${hour}`])}`,
  );
  return row?.hour == null ? null : row.hour * HOUR_MS;
}

export const figuresStore = storePart({
  name: 'figures',
  verbs: {
    /** The hour of the first counted delivery, but not before `since`; null if there was none. */
    firstDeliveryHour: {
      access: 'log',
      decide: (port: Port, query: FirstQuery) => firstHour(port, sql`sluice.delivery_hours`, query),
    },
    /** The same for runs. */
    firstRunHour: {
      access: 'read',
      decide: (port: Port, query: FirstQuery) => firstHour(port, sql`sluice.run_starts`, query),
    },
    /**
     * Deliveries by bucket, oldest first; empty buckets are left out. Counts outlive the records; if a filter is finer
     * than the counts, counts the records that a list with this filter has.
     */
    deliveryTimeseries: {
      access: 'log',
      decide: (port: Port, query: DeliveryFilter & BucketRange) => deliveryTimeseries(port, query),
    },
    /** Counts of `receivedAt >= since`, only of these flows if given. */
    deliveryStats: {
      access: 'log',
      /** Reads whole hours and minutes from counts, and the rest of the first minute from records. */
      *decide(
        port: Port,
        { since, flowIds }: { since: number; flowIds?: readonly string[] | undefined },
      ): Decision<DeliveryStats> {
        const minute = Math.ceil(since / MINUTE_MS);
        const hour = Math.ceil(minute / 60);
        const ofAll = sql`
        SELECT reason, rejected::boolean AS rejected, sum(count) AS count FROM (
          SELECT coalesce(reason, '') AS reason, rejected, 1 AS count FROM sluice.deliveries
          WHERE id BETWEEN
              (SELECT first_id FROM sluice.delivery_counts WHERE minute = ${minute - 1} ORDER BY first_id LIMIT 1)
              AND (SELECT last_id FROM sluice.delivery_counts WHERE minute = ${minute - 1} ORDER BY last_id DESC LIMIT 1)
            AND received_at >= ${since} AND received_at < ${minute * MINUTE_MS}
          UNION ALL
          SELECT reason, rejected, count FROM sluice.delivery_counts WHERE minute >= ${minute} AND minute < ${hour * 60}
          UNION ALL
          SELECT reason, rejected, count FROM sluice.delivery_hours WHERE hour >= ${hour}
        ) AS counted GROUP BY reason, rejected`;
        const rows = yield* port.all<StatsRow>(
          flowIds === undefined ? ofAll : yield* statsOf(port, { since, flowIds }),
        );
        const counts: Partial<Record<Reason, number>> = {};
        const sums = { accepted: 0, rejected: 0 };
        for (const { reason, rejected, count } of rows) {
          if (reason !== '') counts[reason] = (counts[reason] ?? 0) + count;
          sums[rejected ? 'rejected' : 'accepted'] += count;
        }
        return { counts, ...sums, total: sums.accepted + sums.rejected };
      },
    },
    /** Counts by flow since the hour of `since`, only of these flows if given; leaves out flows without deliveries. */
    deliveriesByFlow: {
      access: 'log',
      *decide(port: Port, { since, flowIds }: FirstQuery): Decision<FlowDeliveries[]> {
        return yield* port.all<FlowDeliveries>(sql`
          SELECT flow_id AS "flowId", ${accepted} FROM sluice.delivery_hours
          ${where([sql`hour >= ${hourOf(since)}`, sql`flow_id <> ${''}`, filter.among('flow_id', flowIds)])} GROUP BY 1`);
      },
    },
    /** The 95th percentile of durations in milliseconds, by flow, of runs since the hour of `since`. */
    slowestByFlow: {
      access: 'read',
      *decide(port: Port, since: number): Decision<ReadonlyMap<string, number | null>> {
        const rows = yield* port.all<Omit<DurationRow, 'at'> & { readonly flowId: string }>(sql`
          SELECT flow_id AS "flowId", duration_ms AS "durationMs", sum(count) AS count FROM sluice.run_durations
          WHERE hour >= ${hourOf(since)} AND flow_id <> ${''} GROUP BY 1, 2 HAVING sum(count) > 0 ORDER BY 1, 2`);
        return new Map([...groupBy(rows, ({ flowId }) => flowId)].map(([id, own]) => [id, percentile(own, 0.95)]));
      },
    },
    /**
     * Runs by the bucket in which they started, oldest first; empty buckets are left out. If a filter is finer than the
     * counts, counts the runs that a list with this filter has.
     */
    runTimeseries: {
      access: 'read',
      *decide(port: Port, query: RunFilter & BucketRange): Decision<RunBucket[]> {
        const isFine = query.bucketMs < HOUR_MS || !isPlain(query);
        return bucketsOf(yield* isFine ? ofRuns(port, query) : ofHours(port, query));
      },
    },
  },
});
