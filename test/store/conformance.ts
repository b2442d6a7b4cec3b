import { describe, onTestFinished } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { acceptance } from './conformance/acceptance.ts';
import { deliveries } from './conformance/deliveries.ts';
import { flows } from './conformance/flows.ts';
import { idempotency } from './conformance/idempotency.ts';
import { leases } from './conformance/leases.ts';
import { lifetime } from './conformance/lifetime.ts';
import { nonces } from './conformance/nonces.ts';
import { progress } from './conformance/progress.ts';
import { runs } from './conformance/runs.ts';

/** Opens an empty store that is closed when the test ends. */
export type OpenStore = () => Promise<Store>;

/** What every backend of the store does. `open` yields an empty store each time. */
export function storeConformance(name: string, open: () => Promise<Store>): void {
  const openStore: OpenStore = async () => {
    const store = await open();
    onTestFinished(() => store.close());
    return store;
  };
  describe(name, () => {
    for (const suite of [flows, acceptance, nonces, idempotency, deliveries, runs, leases, progress, lifetime]) {
      suite(openStore);
    }
  });
}
