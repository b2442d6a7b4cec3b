import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Decision } from './decision.ts';
import { countsDeliveries, matchingDeliveries } from './deliveries.ts';
import { all, filter } from './lists.ts';
import { fixed, type Port, type Query, sql } from './port.ts';
import type { Answer, Given, Verbs } from './verb.ts';

export const hourOf = (at: number) => Math.floor(at / HOUR_MS);
/** To SQLite a number that is bound is a float, and a division by one keeps its fraction. */
export const whole = (value: number): Query => sql`CAST(${value} AS bigint)`;
export const bucketOf = (column: string, bucketMs: number): Query =>
  sql`${fixed(column)} / ${whole(bucketMs)} * ${whole(bucketMs)}`;
/** Of a column that counts units of so many milliseconds. */
export const bucketOfUnits = (column: string, bucketMs: number, unitMs: number): Query =>
  sql`${fixed(column)} / ${whole(bucketMs / unitMs)} * ${whole(bucketMs)}`;
export const between = (column: string, since: number, until: number): Query =>
  sql`${fixed(column)} >= ${since} AND ${fixed(column)} < ${until}`;

export const accepted = fixed(`coalesce(sum(count) FILTER (WHERE NOT rejected), 0) AS accepted,
  coalesce(sum(count) FILTER (WHERE rejected), 0) AS rejected`);

type FigureReads = Verbs<'countDeliveries' | 'deliveryTimeseries' | 'countRuns' | 'countEndedRuns'>;

// What one writer has counted may be negative, where it ended what another began: only sums mean anything.
export const figureVerbs: FigureReads = {
  countDeliveries: {
    access: 'log',
    *decide(port, { since, recentSince }) {
      return yield* port.all(sql`
        SELECT nullif(flow_id, '') AS "flowId", nullif(trigger_key, '') AS "triggerKey", nullif(reason, '') AS reason,
          rejected::boolean AS rejected, sum(count) AS count,
          coalesce(sum(count) FILTER (WHERE hour >= ${hourOf(recentSince)}), 0) AS recent,
          sum(previous_key) AS "usedPreviousKey"
        FROM sluice.delivery_hours AS h WHERE hour >= ${hourOf(since)}
        GROUP BY flow_id, trigger_key, h.reason, rejected
        ORDER BY h.flow_id, h.trigger_key, h.reason COLLATE "C", rejected`);
    },
  },
  deliveryTimeseries: {
    access: 'log',
    decide: (port, query) => deliveryTimeseries(port, query),
  },
  countRuns: {
    access: 'read',
    *decide(port) {
      return yield* port.all(sql`
        SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_totals
        GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`);
    },
  },
  countEndedRuns: {
    access: 'read',
    *decide(port, since) {
      return yield* port.all(sql`
        SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_ends
        WHERE hour >= ${hourOf(since)} GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`);
    },
  },
};

function* deliveryTimeseries(port: Port, query: Given<'deliveryTimeseries'>): Decision<Answer<'deliveryTimeseries'>> {
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
  // Of one flow no minutes are counted.
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
