import type { DeletedBefore, ExaminedContents } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, type Query, sql } from './port.ts';

/** Counting stops here, since it reads each row. */
const MOST_DUE = 100_000;
const limit = fixed(String(MOST_DUE));

/** The oldest entries of a database, and how much is about to be deleted from it. */
export function* examineContents(port: Port, before: DeletedBefore): Decision<ExaminedContents> {
  const run = yield* port.get<NonNullable<ExaminedContents['oldestRun']>>(sql`
    SELECT id, flow_name AS "flowName", started_at AS "startedAt" FROM sluice.runs
    WHERE status = 'Running' ORDER BY started_at LIMIT 1`);
  const held = yield* port.get<{ deliveryId: string; flowId: string }>(sql`
    SELECT delivery_id AS "deliveryId", flow_id AS "flowId" FROM sluice.held_deliveries ORDER BY seq LIMIT 1`);
  const nonce = yield* port.get<{ end: number | null }>(sql`SELECT min(expires_at) AS "end" FROM sluice.nonces`);
  function* count(from: Query): Decision<number> {
    const counted = yield* port.get<{ rows: number }>(
      sql`SELECT count(*) AS rows FROM (SELECT 1 FROM ${from} LIMIT ${limit}) AS due`,
    );
    return counted?.rows ?? 0;
  }
  const due = {
    nonces: before.nonces === null ? 0 : yield* count(sql`sluice.nonces WHERE expires_at < ${before.nonces}`),
    runs:
      before.runs === null
        ? 0
        : yield* count(
            sql`sluice.runs WHERE started_at < ${before.runs} AND completed_at < ${before.runs} AND status <> 'Running'`,
          ),
    deliveries:
      before.deliveries === null ? 0 : yield* count(sql`sluice.deliveries WHERE received_at < ${before.deliveries}`),
    activity: before.activity === null ? 0 : yield* count(sql`sluice.interventions WHERE at < ${before.activity}`),
  };
  return {
    oldestRun: run ?? null,
    oldestHeld: held === undefined ? null : { ...held, at: timeOf(held.deliveryId) },
    oldestNonceEnd: nonce?.end ?? null,
    mostDue: MOST_DUE,
    due,
  };
}

/** The first 48 bits of an id are its milliseconds. */
const timeOf = (id: string) => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
