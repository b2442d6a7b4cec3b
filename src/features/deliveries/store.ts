import { firstIdAt } from '../../model/payload.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { SEARCHED_ROWS } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';

export interface UnevaluatedCount {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly count: number;
}

export const deliveriesStore = storePart({
  name: 'deliveries',
  verbs: {
    /** Of each trigger, deliveries received since then that started runs unevaluated: of the newest 10 000. */
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
