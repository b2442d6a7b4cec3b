import type { Json } from '../../model/json.ts';
import type { TriggerName } from '../../model/trigger-name.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';

interface ReconciliationLease extends TriggerName {
  readonly owner: string;
  readonly until: number;
}

interface ReconciliationTake extends ReconciliationLease {
  readonly now: number;
  readonly lastBefore: number;
}

interface StoredReconciliation {
  /** As written by its process; null if no process wrote one. */
  readonly state: Json;
}

interface ReconciliationEnd extends TriggerName, StoredReconciliation {
  readonly owner: string;
  /** When the last look began. */
  readonly lastAt: number;
}

export interface ReconciliationRow extends TriggerName, StoredReconciliation {
  /** Null if no look has ended. */
  readonly lastAt: number | null;
}

/** Which process asks a trigger's publisher, and the results. */
export const reconcileStore = storePart({
  name: 'reconcile',
  verbs: {
    /**
     * Leases a trigger's log until `until`, if no other process has it and none asked since `lastBefore`; yields the
     * last state. Undefined if it is not free. Ignores times that only a fast clock can have written.
     */
    takeReconciliation: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        { flowId, triggerKey, owner, until, now, lastBefore }: ReconciliationTake,
      ): Decision<StoredReconciliation | undefined> {
        // One statement, so that the second of two processes finds the lease of the first.
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
    /** Stores interim results and extends the lease; false, without storing, if another process has taken over. */
    renewReconciliation: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        { flowId, triggerKey, owner, until, state }: ReconciliationLease & StoredReconciliation,
      ): Decision<boolean> {
        const renewed = yield* port.run(sql`
        UPDATE sluice.reconciliations SET leased_until = ${until}, state = ${JSON.stringify(state)}
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND owner = ${owner}`);
        return renewed > 0;
      },
    },
    /** Stores the results and ends the lease; false, without storing, if another process has taken over. */
    endReconciliation: {
      access: 'write',
      changes: null,
      *decide(port: Port, { flowId, triggerKey, owner, lastAt, state }: ReconciliationEnd): Decision<boolean> {
        const ended = yield* port.run(sql`
        UPDATE sluice.reconciliations SET owner = NULL, leased_until = 0, last_at = ${lastAt}, state = ${JSON.stringify(state)}
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND owner = ${owner}`);
        return ended > 0;
      },
    },
    listReconciliations: {
      access: 'read',
      *decide(port: Port): Decision<ReconciliationRow[]> {
        const rows = yield* port.all<Omit<ReconciliationRow, 'state'> & { state: string | null }>(sql`
        SELECT flow_id AS "flowId", trigger_key AS "triggerKey", last_at AS "lastAt", state FROM sluice.reconciliations
        ORDER BY flow_id COLLATE "C", trigger_key COLLATE "C"`);
        return rows.map((row) => ({ ...row, state: row.state === null ? null : (JSON.parse(row.state) as Json) }));
      },
    },
  },
});
