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
  /** As its process wrote it; null where none did. */
  readonly state: Json;
}

interface ReconciliationEnd extends TriggerName, StoredReconciliation {
  readonly owner: string;
  /** When this one began. */
  readonly lastAt: number;
}

export interface ReconciliationRow extends TriggerName, StoredReconciliation {
  /** Null where none has ended. */
  readonly lastAt: number | null;
}

/** Which process asks a trigger's publisher what it sent, and what came of it. */
export const reconcileStore = storePart({
  name: 'reconcile',
  verbs: {
    /**
     * Lets a process ask until then, where nobody else does and nobody asked since `lastBefore`; yields what the last one noted.
     * Undefined where it may not. A time that is further ahead than `until` was written by a clock that was fast, and counts for nothing.
     */
    takeReconciliation: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        { flowId, triggerKey, owner, until, now, lastBefore }: ReconciliationTake,
      ): Decision<StoredReconciliation | undefined> {
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
    /** Notes what came of it so far and goes on until then; false where another process asks now, and then nothing is noted. */
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
    /** Notes what came of it, and lets others ask; false where another process asks now, and then nothing is noted. */
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
