import pg from 'pg';
import { activityVerbs } from '../decisions/activity.ts';
import { alertVerbs } from '../decisions/alerts.ts';
import { controlVerbs } from '../decisions/control.ts';
import { deliveryVerbs } from '../decisions/deliveries.ts';
import { deployVerbs } from '../decisions/deploys.ts';
import { figureVerbs } from '../decisions/figures.ts';
import { flowVerbs } from '../decisions/flows.ts';
import { hostVerbs } from '../decisions/hosts.ts';
import { keyVerbs } from '../decisions/keys.ts';
import { learnedKeyVerbs } from '../decisions/learned-keys.ts';
import { leaseVerbs } from '../decisions/leases.ts';
import type { KeyIndex } from '../decisions/lists.ts';
import { payloadVerbs } from '../decisions/payloads.ts';
import { type Port, sql } from '../decisions/port.ts';
import { removalVerbs } from '../decisions/removal.ts';
import { revisionVerbs } from '../decisions/revisions.ts';
import { routeVerbs } from '../decisions/routes.ts';
import { runVerbs } from '../decisions/runs.ts';
import { scheduleVerbs } from '../decisions/schedules.ts';
import { stepVerbs } from '../decisions/step-views.ts';
import { waitingVerbs } from '../decisions/waiting-steps.ts';
import type { StorageMeasure } from '../store.ts';
import { acceptanceOperations } from './acceptance.ts';
import { deliveryOperations } from './deliveries.ts';
import { holdOperations } from './holds.ts';
import { type Operations, operationsOf } from './operation.ts';
import { replicaOperations } from './replicas.ts';
import type { Sql } from './sql.ts';
import { dispatchOperations } from './turns.ts';

const runKeys: readonly KeyIndex[] = [
  { table: 'sluice.run_keys', owner: 'k.run_id', newest: 'k.run_id DESC', any: 'k.folded' },
];

const ownOperations: Operations<'ping' | 'releaseSpace' | 'measureStorage'> = {
  ping: { purpose: 'write', run: ping },
  measureStorage: { purpose: 'read', run: measureStorage },
  // PostgreSQL's autovacuum finds free pages, and uses them again.
  releaseSpace: { purpose: 'read', run: async () => 0 },
};

function forgetRedeliveries({ later }: Port, ids: readonly string[]): void {
  later(sql`DELETE FROM sluice.redeliveries WHERE delivery_id = ANY (${ids})`);
}

export const operations = {
  ...ownOperations,
  ...operationsOf(flowVerbs),
  ...operationsOf(scheduleVerbs),
  ...operationsOf(deployVerbs),
  ...operationsOf(revisionVerbs),
  ...operationsOf(routeVerbs),
  ...operationsOf(learnedKeyVerbs),
  ...acceptanceOperations,
  ...holdOperations,
  ...deliveryOperations,
  ...operationsOf(deliveryVerbs(runKeys)),
  ...operationsOf(removalVerbs({ forgetRedeliveries })),
  ...operationsOf(leaseVerbs),
  ...operationsOf(runVerbs(runKeys)),
  ...dispatchOperations,
  ...operationsOf(waitingVerbs),
  ...replicaOperations,
  ...operationsOf(controlVerbs),
  ...operationsOf(stepVerbs),
  ...operationsOf(figureVerbs),
  ...operationsOf(activityVerbs),
  ...operationsOf(alertVerbs),
  ...operationsOf(keyVerbs),
  ...operationsOf(payloadVerbs),
  ...operationsOf(hostVerbs),
};

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
async function ping({ run, slot }: Sql): Promise<void> {
  await run(
    'INSERT INTO sluice.pings AS p (slot, count) VALUES ($1, 1) ON CONFLICT (slot) DO UPDATE SET count = p.count + 1',
    [slot],
  );
}

async function measureStorage(sql: Sql): Promise<StorageMeasure> {
  const measure = await sql.get<Omit<StorageMeasure, 'walBytes'>>(
    `SELECT (
        SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
        WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'm')
      ) AS "fileBytes", (SELECT min(expires_at) FROM sluice.nonces) AS "oldestNonceEnd"`,
    [pg.escapeIdentifier(sql.schema)],
  );
  return { fileBytes: 0, oldestNonceEnd: null, ...measure, walBytes: null };
}
