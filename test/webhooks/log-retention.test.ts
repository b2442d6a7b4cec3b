import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { createLogRetention } from '../../src/webhooks/log-retention.ts';
import { aDelivery, id, T0 } from '../store/samples.ts';

const DAY_MS = 86_400_000;

async function open(retentionDays = 30) {
  const store = await openSqliteStore({ path: ':memory:' });
  const warnings: string[] = [];
  const retention = createLogRetention({
    store,
    clock: { now: () => T0, monotonic: () => 0 },
    logger: pino({}, { write: (line) => warnings.push(line) }),
    retentionDays,
  });
  onTestFinished(() => store.close());
  return { store, retention, warnings };
}

async function total(store: Store): Promise<number | undefined> {
  return (await store.listDeliveries({ skip: 0, take: 1, includeTotal: true })).total;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((again) => setTimeout(again, 5));
}

describe('the retention of the delivery log', () => {
  it('deletes what is older than it may be at the start, in chunks', async () => {
    const { store, retention } = await open(2);
    for (let n = 1; n <= 250; n += 1) {
      await store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0 - 2 * DAY_MS - 1, runId: id(9999) }));
    }
    await store.recordDelivery(aDelivery({ id: id(251), receivedAt: T0 - 2 * DAY_MS }));
    retention.start();
    await until(async () => (await total(store)) === 1);
    await retention.stop();
  });

  it('goes on after a sweep that failed', async () => {
    const { store, retention, warnings } = await open();
    await store.close();
    retention.start();
    await until(async () => warnings.length > 0);
    await retention.stop();
    expect(warnings[0]).toContain('the delivery log could not be trimmed');
  });
});
