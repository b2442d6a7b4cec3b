import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { createLogRetention, withLogRetention } from '../../src/webhooks/log-retention.ts';
import { aDelivery, id, T0 } from '../store/samples.ts';

const DAY_MS = 86_400_000;

async function open(bounds: { retentionDays?: number; maxRefusedRows?: number; maxRefusedBytes?: number } = {}) {
  const database = await openSqliteStore({ path: ':memory:' });
  const warnings: string[] = [];
  const retention = createLogRetention({
    store: database,
    clock: { now: () => T0, monotonic: () => 0 },
    logger: pino({}, { write: (line) => warnings.push(line) }),
    ...{ retentionDays: 30, maxRefusedRows: 1e6, maxRefusedBytes: 1e9, ...bounds },
  });
  onTestFinished(() => database.close());
  return { store: withLogRetention(database, retention), retention, warnings };
}

async function total(store: Store): Promise<number | undefined> {
  return (await store.listDeliveries({ skip: 0, take: 1, includeTotal: true })).total;
}

const refused = (n: number, bodyBytes = 10) =>
  aDelivery({ id: id(n), rejected: true, statusCode: 401, body: Buffer.alloc(bodyBytes), bodyBytes });

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((again) => setTimeout(again, 5));
}

describe('the retention of the delivery log', () => {
  it('deletes what is older than it may be at the start, in chunks', async () => {
    const { store, retention } = await open({ retentionDays: 2 });
    for (let n = 1; n <= 250; n += 1) {
      await store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0 - 2 * DAY_MS - 1, runId: id(9999) }));
    }
    await store.recordDelivery(aDelivery({ id: id(251), receivedAt: T0 - 2 * DAY_MS }));
    retention.start();
    await until(async () => (await total(store)) === 1);
    await retention.stop();
  });

  it('trims refused records without waiting for its timer once many came in, and no accepted one', async () => {
    const { store, retention } = await open({ maxRefusedRows: 50 });
    await store.recordDelivery(aDelivery({ id: id(1), runId: id(9999) }));
    await Promise.all(Array.from({ length: 1000 }, (_, n) => store.recordDelivery(refused(n + 2))));
    await until(async () => (await total(store)) === 51);
    await retention.stop();
    expect(await store.findDelivery(id(1))).toBeDefined();
    expect((await store.deliveryStats(T0)).total).toBe(1001);
  });

  it('trims large bodies as soon as they are too much', async () => {
    const { store, retention } = await open({ maxRefusedBytes: 4_194_304 });
    for (let n = 1; n <= 16; n += 1) await store.recordDelivery(refused(n, 1_048_576));
    await until(async () => (await total(store)) === 4);
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
