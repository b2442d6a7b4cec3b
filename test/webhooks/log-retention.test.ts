import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogRetention } from '../../src/features/deliveries/service.ts';
import type { Store } from '../../src/store/store.ts';
import { openEmptyStore } from '../database.ts';
import { eventually, until } from '../eventually.ts';
import { aDelivery, id, T0 } from '../store/samples.ts';

const DAY_MS = 86_400_000;

async function open(retentionDays = 30) {
  const store = await openEmptyStore();
  const warnings: string[] = [];
  const clock = { aheadMs: 0 };
  const retention = createLogRetention({
    store,
    clock: { now: () => T0 + clock.aheadMs, monotonic: () => 0 },
    logger: pino({}, { write: (line) => warnings.push(line) }),
    retentionDays,
  });
  onTestFinished(() => store.close());
  return { store, retention, warnings, clock };
}

async function total(store: Store): Promise<number | undefined> {
  return (await store.listDeliveries({ skip: 0, take: 1, includeTotal: true })).total;
}

describe('the retention of the delivery log', () => {
  it('deletes what is older than it may be at the start, in chunks', async () => {
    const { store, retention } = await open(2);
    for (let n = 1; n <= 250; n += 1) {
      await store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0 - 2 * DAY_MS - 1, runId: id(9999) }));
    }
    await store.recordDelivery(aDelivery({ id: id(251), receivedAt: T0 - 2 * DAY_MS }));
    retention.start();
    await eventually(
      () => total(store),
      (left = 0) => left <= 1,
    );
    expect(await total(store)).toBe(1);
    await retention.stop();
  });

  it('deletes nothing for its age once the clock was set ahead by more than an hour', async () => {
    const { store, retention, clock } = await open(2);
    await store.recordDelivery(aDelivery({ id: id(1), receivedAt: T0 }));
    clock.aheadMs = 400 * DAY_MS;
    retention.start();
    await retention.stop();
    expect(await total(store)).toBe(1);
  });

  it('goes on after a sweep that failed', async () => {
    const { store, retention, warnings } = await open();
    await store.close();
    retention.start();
    await until(() => warnings.length > 0);
    await retention.stop();
    expect(warnings[0]).toContain('the delivery log could not be trimmed');
  });
});
