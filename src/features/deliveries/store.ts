import { firstIdAt } from '../../model/delivery-ids.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { SEARCHED_ROWS } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';

export interface UnevaluatedCount {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly count: number;
}

interface RefusedQuery {
  /** Null for deliveries of no flow. */
  readonly flowId: string | null;
  /** Null for all triggers of the flow. */
  readonly triggerKey: string | null;
  /** Undefined for all reasons. */
  readonly reason: string | undefined;
  /** Milliseconds since the Unix epoch. */
  readonly since: number;
}

interface RefusedCount {
  readonly count: number;
  /** How many were accepted when redelivered, or are redeliveries that were accepted. */
  readonly redelivered: number;
  /** Time of the first of the others, milliseconds since the Unix epoch; null if there are none. */
  readonly firstAt: number | null;
}

export const deliveriesStore = storePart({
  name: 'deliveries',
  verbs: {
    /** Counts deliveries that failed a gate or were refused: among the newest 10 000 recorded since then. */
    countRefused: {
      access: 'log',
      *decide(port: Port, { flowId, triggerKey, reason, since }: RefusedQuery): Decision<RefusedCount> {
        const ofFlow = flowId === null ? sql`flow_id IS NULL` : sql`flow_id = ${flowId}`;
        const ofReason = reason === undefined ? sql`reason IS NOT NULL` : sql`reason = ${reason}`;
        const ofTrigger = triggerKey === null ? sql`true` : sql`newest.trigger_key = ${triggerKey}`;
        const isDone = sql`coalesce(newest.redelivered_from, own.source) IS NOT NULL`;
        const counted = yield* port.get<RefusedCount>(sql`
          SELECT count(*) AS count, min(received_at) FILTER (WHERE NOT (${isDone})) AS "firstAt",
            count(*) FILTER (WHERE ${isDone}) AS redelivered
          FROM (
            SELECT id, trigger_key, received_at, redelivered_from FROM sluice.deliveries
            WHERE ${ofFlow} AND ${ofReason} AND id >= ${firstIdAt(since)}
            ORDER BY id DESC LIMIT ${fixed(String(SEARCHED_ROWS))}
          ) AS newest
          LEFT JOIN sluice.redeliveries /*sqlite instead: (SELECT redelivered_from AS source FROM deliveries WHERE redelivered_from IS NOT NULL) */ AS own
            ON own.source = newest.id
          WHERE ${ofTrigger}`);
        return counted ?? { count: 0, firstAt: null, redelivered: 0 };
      },
    },
    /** Counts, by trigger, deliveries that started runs unevaluated: among the newest 10 000 received since then. */
    countUnevaluated: {
      access: 'log',
      *decide(port: Port, since: number): Decision<UnevaluatedCount[]> {
        return yield* port.all<UnevaluatedCount>(sql`
          SELECT flow_id AS "flowId", trigger_key AS "triggerKey", count(*) AS count
          FROM (
            SELECT flow_id, trigger_key FROM (
              SELECT id, flow_id, trigger_key FROM sluice.deliveries
              WHERE outcome = 'unevaluated' AND id >= ${firstIdAt(since)} ORDER BY id DESC LIMIT ${fixed(String(SEARCHED_ROWS))}
            ) AS recorded
            UNION ALL
            SELECT flow_id, trigger_key FROM (
              SELECT delivery_id, flow_id, trigger_key FROM sluice.delivery_shares
              WHERE outcome = 'unevaluated' AND place > 0 AND delivery_id >= ${firstIdAt(since)}
              ORDER BY delivery_id DESC LIMIT ${fixed(String(SEARCHED_ROWS))}
            ) AS shared
          ) AS newest GROUP BY flow_id, trigger_key ORDER BY flow_id, trigger_key`);
      },
    },
  },
});
