import { consumersStore } from '../../src/features/consumers/store.ts';
import { eventually } from '../e2e/service.ts';
import { acceptance } from '../store/conformance/acceptance.ts';
import { coalescingSuite } from '../store/conformance/coalescing.ts';
import { events } from '../store/conformance/events.ts';
import { filters } from '../store/conformance/filters.ts';
import { holds } from '../store/conformance/holds.ts';
import { idempotency } from '../store/conformance/idempotency.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { companyConformance, runSuites, storeConformance } from '../store/conformance.ts';
import { withVerbs } from '../store/with-verbs.ts';
import { openEmpty, runSql } from './schemas.ts';

/** Waits until all running transactions of the server end, including other tests': nothing is forwarded past them. */
async function othersEnd(): Promise<void> {
  const [now] = await runSql('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next');
  await eventually(
    () => runSql('SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8 AS ended', [now?.next]),
    ([row]) => row?.ended === true,
  );
}

storeConformance('PostgreSQL', async () => {
  const store = await openEmpty();
  const { openConsumer, readForwarding } = store.of(consumersStore);
  return withVerbs(store, consumersStore, {
    openConsumer: (consumer) => othersEnd().then(() => openConsumer(consumer)),
    readForwarding: (query) => othersEnd().then(() => readForwarding(query)),
  });
});
companyConformance('PostgreSQL', openEmpty);

const accepting = [acceptance, nonces, idempotency, filters, events, coalescingSuite, holds];
runSuites('PostgreSQL with one connection that accepts', () => openEmpty({ acceptConnections: 1 }), accepting);
