import { HOUR_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { listTriggerKeys } from '../../store/decisions/nonce-names.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { readGateResults } from '../../store/new-rows.ts';
import { uuidOf } from '../../store/uuids.ts';

/** Deliveries to one trigger with the same mode and violations. */
export interface DeliveryGroup {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  readonly violations: readonly Reason[];
  readonly count: number;
  readonly firstAt: number;
  readonly firstId: string;
  readonly lastId: string;
}

interface NonceSearch {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly nonce: string;
  readonly since: number;
}

/** Records that contain the nonce anywhere are read a few at a time; nearly always the first is the right one. */
const READ_RECORDS = 20;

function* summariseDeliveries(
  port: Port,
  { since, flowId }: { since: number; flowId?: string | undefined },
): Decision<DeliveryGroup[]> {
  const rows = yield* port.all<Omit<DeliveryGroup, 'violations'> & { violations: string }>(
    // PostgreSQL compares UUIDs but has no min() for them. Counts outlive records, and a deleted record is no example.
    sql`
      SELECT g.flow_id AS "flowId", g.trigger_key AS "triggerKey", g.mode, g.violations, g.count,
        g.first_at AS "firstAt", coalesce(d.id, g.last_id) AS "firstId", g.last_id AS "lastId"
      FROM (
        SELECT flow_id, trigger_key, mode, violations, sum(count) AS count, min(first_at) AS first_at,
          min(first_id::text COLLATE "C")::uuid AS first_id, max(last_id::text COLLATE "C")::uuid AS last_id
        FROM sluice.delivery_hours
        WHERE hour >= ${Math.floor(since / HOUR_MS)} AND flow_id = coalesce(${flowId ?? null}, flow_id) AND flow_id <> ''
          AND NOT redelivered
        GROUP BY flow_id, trigger_key, mode, violations
      ) AS g LEFT JOIN sluice.deliveries AS d ON d.id = g.first_id
      ORDER BY g.first_id`,
  );
  return rows.map((row) => ({ ...row, violations: JSON.parse(row.violations) }));
}

export const reviewStore = storePart({
  name: 'review',
  verbs: {
    /** The accepted delivery that repeats this refused one. */
    findRedelivery: {
      access: 'log',
      /** PostgreSQL has a table of redeliveries, so that only one of two replicas wins. */
      *decide(port: Port, deliveryId: string): Decision<{ deliveryId: string; runId: string } | undefined> {
        return yield* port.get<{ deliveryId: string; runId: string }>(sql`
        SELECT delivery_id AS "deliveryId", run_id AS "runId"
        FROM sluice.redeliveries /*sqlite instead: (SELECT redelivered_from AS source, id AS delivery_id, run_id FROM deliveries) */ AS own
        WHERE source = ${uuidOf(deliveryId)}`);
      },
    },
    /**
     * The run of an accepted delivery received since then with this nonce, expired or not. Searches the log, so use it
     * for people's questions, not for each delivery.
     */
    findAcceptedNonce: {
      access: 'log',
      *decide(port: Port, { flowId, triggerKey, nonce, since }: NonceSearch): Decision<string | undefined> {
        const [keys = []] = yield* listTriggerKeys(port, [{ flowId, triggerKey }]);
        for (const key of keys) {
          const until = key.reusedAt ?? Number.MAX_SAFE_INTEGER;
          for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
            // Parsed here, because PostgreSQL's JSON functions refuse an escaped NUL anywhere in a text.
            const rows = yield* port.all<{ id: string; runId: string; gateResults: string }>(sql`
            SELECT id, run_id AS "runId", gate_results AS "gateResults" FROM sluice.deliveries
            WHERE flow_id = ${key.flowId} AND trigger_key = ${key.triggerKey} AND received_at >= ${since}
              AND received_at < ${until} AND run_id IS NOT NULL
              AND strpos(gate_results, ${JSON.stringify(nonce)}) > 0 AND id > ${after}
            ORDER BY id LIMIT ${READ_RECORDS}`);
            const found = rows.find(({ gateResults }) =>
              readGateResults(gateResults).some(({ facts }) => facts.nonce === nonce),
            );
            if (found !== undefined) return found.runId;
            const last = rows.at(-1);
            if (last === undefined || rows.length < READ_RECORDS) break;
            after = last.id;
          }
        }
        return undefined;
      },
    },
    /**
     * Counts deliveries received since then, from the start of that hour, by trigger and violations. Omits
     * redeliveries; includes deliveries whose records are deleted.
     */
    summariseDeliveries: { access: 'log', decide: summariseDeliveries },
  },
});
