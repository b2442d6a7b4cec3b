import { HOUR_MS } from '../../model/clock.ts';
import { sql } from './port.ts';
import type { Verbs } from './verb.ts';

export const hourOf = (at: number) => Math.floor(at / HOUR_MS);

type FigureReads = Verbs<'countDeliveries' | 'countEndedRuns'>;

// One writer's counts can be negative, if it ended what another one began: only sums have a meaning.
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
  countEndedRuns: {
    access: 'read',
    *decide(port, since) {
      return yield* port.all(sql`
        SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_ends
        WHERE hour >= ${hourOf(since)} GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`);
    },
  },
};
