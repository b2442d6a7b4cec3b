import type { Json } from '../../model/json.ts';
import type { ReconciliationRow } from '../store.ts';
import { sql } from './port.ts';
import type { Verbs } from './verb.ts';

export const reconciliationVerbs: Verbs<
  'takeReconciliation' | 'renewReconciliation' | 'endReconciliation' | 'listReconciliations'
> = {
  takeReconciliation: {
    access: 'write',
    changes: null,
    *decide(port, { flowId, triggerKey, owner, until, now, lastBefore }) {
      // One statement: of two processes the second finds the lease of the first.
      const taken = yield* port.get<{ state: string | null }>(sql`
        INSERT INTO sluice.reconciliations AS own (flow_id, trigger_key, owner, leased_until, last_at, state)
        VALUES (${flowId}, ${triggerKey}, ${owner}, ${until}, NULL, NULL)
        ON CONFLICT (flow_id, trigger_key) DO UPDATE SET owner = excluded.owner, leased_until = excluded.leased_until
        WHERE (own.owner IS NULL OR own.owner = excluded.owner OR own.leased_until <= ${now} OR own.leased_until > ${until})
          AND (own.last_at IS NULL OR own.last_at <= ${lastBefore} OR own.last_at > ${now})
        RETURNING state`);
      return taken && { state: taken.state === null ? null : (JSON.parse(taken.state) as Json) };
    },
  },
  renewReconciliation: {
    access: 'write',
    changes: null,
    *decide(port, { flowId, triggerKey, owner, until, state }) {
      const renewed = yield* port.run(sql`
        UPDATE sluice.reconciliations SET leased_until = ${until}, state = ${JSON.stringify(state)}
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND owner = ${owner}`);
      return renewed > 0;
    },
  },
  endReconciliation: {
    access: 'write',
    changes: null,
    *decide(port, { flowId, triggerKey, owner, lastAt, state }) {
      const ended = yield* port.run(sql`
        UPDATE sluice.reconciliations SET owner = NULL, leased_until = 0, last_at = ${lastAt}, state = ${JSON.stringify(state)}
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND owner = ${owner}`);
      return ended > 0;
    },
  },
  listReconciliations: {
    access: 'read',
    *decide(port) {
      const rows = yield* port.all<Omit<ReconciliationRow, 'state'> & { state: string | null }>(sql`
        SELECT flow_id AS "flowId", trigger_key AS "triggerKey", last_at AS "lastAt", state FROM sluice.reconciliations
        ORDER BY flow_id COLLATE "C", trigger_key COLLATE "C"`);
      return rows.map((row) => ({ ...row, state: row.state === null ? null : (JSON.parse(row.state) as Json) }));
    },
  },
};
