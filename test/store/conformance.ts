import { afterAll, beforeAll, describe, onTestFinished, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { inCompany } from './company.ts';
import { acceptance } from './conformance/acceptance.ts';
import { activity } from './conformance/activity.ts';
import { alerts } from './conformance/alerts.ts';
import { birthLeases } from './conformance/birth-leases.ts';
import { causes } from './conformance/causes.ts';
import { coalescingSuite as coalescing } from './conformance/coalescing.ts';
import { consumers } from './conformance/consumers.ts';
import { control } from './conformance/control.ts';
import { deletion } from './conformance/deletion.ts';
import { deliveries } from './conformance/deliveries.ts';
import { deploys } from './conformance/deploys.ts';
import { events } from './conformance/events.ts';
import { failures } from './conformance/failures.ts';
import { figures } from './conformance/figures.ts';
import { filters } from './conformance/filters.ts';
import { flowLimits } from './conformance/flow-limits.ts';
import { flows } from './conformance/flows.ts';
import { holds } from './conformance/holds.ts';
import { hostileStrings } from './conformance/hostile-strings.ts';
import { hosts } from './conformance/hosts.ts';
import { idempotency } from './conformance/idempotency.ts';
import { keys } from './conformance/keys.ts';
import { largeRuns } from './conformance/large-runs.ts';
import { learnedKeys } from './conformance/learned-keys.ts';
import { leases } from './conformance/leases.ts';
import { ledgerTime } from './conformance/ledger-time.ts';
import { lifetime } from './conformance/lifetime.ts';
import { nonceNames } from './conformance/nonce-names.ts';
import { nonces } from './conformance/nonces.ts';
import { orders } from './conformance/orders.ts';
import { outline } from './conformance/outline.ts';
import { payloads } from './conformance/payloads.ts';
import { progress } from './conformance/progress.ts';
import { reconciliations } from './conformance/reconciliations.ts';
import { replicas } from './conformance/replicas.ts';
import { revisions } from './conformance/revisions.ts';
import { rhythms } from './conformance/rhythms.ts';
import { routes } from './conformance/routes.ts';
import { runs } from './conformance/runs.ts';
import { schedules } from './conformance/schedules.ts';
import { searchKeys } from './conformance/search-keys.ts';
import { shared } from './conformance/shared.ts';
import { standing } from './conformance/standing.ts';
import { stoppingSubRuns } from './conformance/stopping-sub-runs.ts';
import { subRuns } from './conformance/sub-runs.ts';
import { turns } from './conformance/turns.ts';
import { waits } from './conformance/waits.ts';

/** Vitest's `test`; each gets a store. */
export interface StoreTest {
  (rule: string, run: (store: Store) => Promise<void>, timeoutMs?: number): void;
  each<Row extends readonly unknown[] | [unknown]>(
    rows: readonly Row[],
  ): (rule: string, run: (store: Store, ...row: [...Row]) => Promise<void>) => void;
}

function testOn(storeOfTest: () => Promise<Store>): StoreTest {
  const onStore: StoreTest = (rule, run, timeoutMs) => test(rule, async () => run(await storeOfTest()), timeoutMs);
  onStore.each = (rows) => (rule, run) => test.for(rows)(rule, async (row) => run(await storeOfTest(), ...row));
  return onStore;
}

export interface StoreUnderTest {
  /** With an empty store, closed when the test ends. */
  readonly test: StoreTest;
  /** One store for all tests of a `describe`; they only read what `seed` wrote. */
  seeded(seed: (store: Store) => Promise<unknown>): StoreTest;
}

/** Rules for every backend of the store. `open` returns an empty store each time. */
export function storeConformance(name: string, open: () => Promise<Store>): void {
  const accepting = [
    flows,
    deploys,
    revisions,
    deletion,
    learnedKeys,
    holds,
    acceptance,
    consumers,
    nonces,
    nonceNames,
    routes,
    ledgerTime,
    idempotency,
    filters,
    shared,
    events,
    coalescing,
    deliveries,
    searchKeys,
    keys,
  ];
  const running = [
    runs,
    leases,
    birthLeases,
    standing,
    turns,
    progress,
    waits,
    control,
    failures,
    subRuns,
    stoppingSubRuns,
    orders,
    schedules,
    figures,
    flowLimits,
    causes,
    outline,
    largeRuns,
    activity,
    alerts,
    payloads,
    rhythms,
    reconciliations,
    hosts,
    hostileStrings,
    replicas,
  ];
  runSuites(name, open, [...accepting, ...running, lifetime]);
}

/** Acceptances give the same results while others are accepted in the same turn. */
export function companyConformance(name: string, open: () => Promise<Store>): void {
  const suites = [acceptance, nonces, nonceNames, idempotency, filters, shared, events, coalescing, holds];
  runSuites(`${name}, in company`, async () => inCompany(await open()), suites);
}

export function runSuites(
  name: string,
  open: () => Promise<Store>,
  suites: readonly ((backend: StoreUnderTest) => void)[],
): void {
  const backend: StoreUnderTest = {
    test: testOn(async () => {
      const store = await open();
      onTestFinished(() => store.close());
      return store;
    }),
    seeded(seed) {
      let store: Store | undefined;
      beforeAll(async () => {
        store = await open();
        await seed(store);
      });
      afterAll(() => store?.close());
      return testOn(async () => store as Store);
    },
  };
  describe(name, () => {
    for (const suite of suites) suite(backend);
  });
}
