import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { RunCount } from '../../store/store.ts';

export const flowsStore = storePart({
  name: 'flows',
  verbs: {
    /** Counts stored runs by flow and status. */
    countRuns: {
      access: 'read',
      *decide(port: Port): Decision<RunCount[]> {
        return yield* port.all<RunCount>(sql`
          SELECT flow_id AS "flowId", status, sum(count) AS count FROM sluice.run_totals
          GROUP BY flow_id, status HAVING sum(count) > 0 ORDER BY flow_id, status`);
      },
    },
  },
});
