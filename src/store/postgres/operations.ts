import pg from 'pg';
import { type Port, sql } from '../decisions/port.ts';
import { verbsWith } from '../decisions/verbs.ts';
import type { StorageMeasure } from '../store.ts';
import { acceptanceOperations } from './acceptance.ts';
import { deliveryOperations } from './deliveries.ts';
import { type Operations, operationsOf } from './operation.ts';
import { replicaOperations } from './replicas.ts';
import type { Sql } from './sql.ts';
import { dispatchOperations } from './turns.ts';

const ownOperations: Operations<'ping' | 'releaseSpace' | 'measureStorage'> = {
  ping: { purpose: 'write', run: ping },
  measureStorage: { purpose: 'read', run: measureStorage },
  // PostgreSQL's autovacuum finds free pages and reuses them.
  releaseSpace: { purpose: 'read', run: async () => 0 },
};

function forgetRuns({ later }: Port, runIds: readonly string[]): void {
  later(sql`DELETE FROM sluice.run_keys WHERE run_id = ANY (${runIds})`);
}

function forgetRedeliveries({ later }: Port, ids: readonly string[]): void {
  later(sql`DELETE FROM sluice.redeliveries WHERE delivery_id = ANY (${ids})`);
}

export const operations = {
  ...ownOperations,
  ...operationsOf(verbsWith({ forgetRuns, forgetRedeliveries })),
  ...acceptanceOperations,
  ...deliveryOperations,
  ...dispatchOperations,
  ...replicaOperations,
};

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
async function ping({ run, slot }: Sql): Promise<void> {
  await run(
    'INSERT INTO sluice.pings AS p (slot, count) VALUES ($1, 1) ON CONFLICT (slot) DO UPDATE SET count = p.count + 1',
    [slot],
  );
}

async function measureStorage(sql: Sql): Promise<StorageMeasure> {
  const measure = await sql.get<Pick<StorageMeasure, 'fileBytes' | 'oldestNonceEnd'>>(
    `SELECT (
        SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
        WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'm')
      ) AS "fileBytes", (SELECT min(expires_at) FROM sluice.nonces) AS "oldestNonceEnd"`,
    [pg.escapeIdentifier(sql.schema)],
  );
  return { fileBytes: 0, oldestNonceEnd: null, ...measure, walBytes: null, freeBytes: null };
}
