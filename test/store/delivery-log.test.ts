import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { figuresStore } from '../../src/features/figures/store.ts';
import type { GateResult } from '../../src/model/delivery.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { deliveryLog, refused } from './conformance/delivery-log.ts';
import { newDatabases } from './files.ts';
import { acceptanceOf, aNonce, deliveryIds, id, runIds, T0 } from './samples.ts';

const newPath = newDatabases();
const gateResults: GateResult[] = [
  { gate: 'replay', outcome: 'passed', reason: null, detail: null, facts: { nonce: 'say "n"', replaySkewMs: 3 } },
];

type Log = NonNullable<SqliteStoreOptions['log']>;

const UNBOUNDED = { maxRows: 1e6, maxBytes: 1e9 };

describe.each([
  ['a file', true, false],
  ['memory, next to memory', false, true],
])('the delivery log', (place, isFile, inMemory) => {
  const openBounded = (bounds: Omit<Log, 'inMemory'> = UNBOUNDED) =>
    openSqliteStore({ path: isFile ? newPath() : ':memory:', log: { inMemory, ...bounds } });
  deliveryLog(`in ${place}`, openBounded, { isAllBounded: inMemory });

  async function open(): Promise<Store> {
    const store = await openBounded();
    onTestFinished(() => store.close());
    return store;
  }

  test('counts all that it keeps of refused deliveries, to the byte that its bound compares', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path, log: { inMemory: false, ...UNBOUNDED } });
    for (let n = 1; n <= 3; n += 1) {
      const detail = 'ü'.repeat(n * 100);
      const headers = { 'x-long': 'h'.repeat(n * 1000) };
      await store.recordDelivery(
        refused(n, { gateResults, headers, detail, requestUrl: `https://a.example/${n}`, scheme: null }),
      );
    }
    await store.close();
    const db = new SqliteDatabase(path);
    onTestFinished(() => void db.close());
    const kept = db.prepare<[], Record<string, unknown>>('SELECT * FROM deliveries').all();
    const sizeOf = (value: unknown) =>
      typeof value === 'string' || value instanceof Uint8Array ? Buffer.byteLength(value) : 0;
    const sizes = kept.map((row) => Object.values(row).reduce<number>((sum, value) => sum + sizeOf(value), 0));
    expect(kept.map(({ kept_bytes }) => kept_bytes)).toEqual(sizes.map((size) => size + 1024));
    expect(db.prepare('SELECT rows, bytes FROM refused_state').raw().get()).toEqual([
      3,
      sizes.reduce((sum, size) => sum + size + 1024, 0),
    ]);
  });

  test.skipIf(!isFile || inMemory)('gives space back once much is free', async () => {
    const store = await open();
    expect(await store.releaseSpace({ pages: 100 })).toBe(0);
    for (let n = 1; n <= 12; n += 1) await store.recordDelivery(refused(n, { body: Buffer.alloc(1 << 20) }));
    await store.purgeDeliveries({ before: T0 + 1, limit: 100 });
    expect(await store.releaseSpace({ pages: 100 })).toBe(100);
  });
});

describe('the delivery log in a file', () => {
  test('meets bounds that were lowered at the start', async () => {
    const path = newPath();
    const log = { inMemory: false, ...UNBOUNDED };
    const before = await openSqliteStore({ path, log });
    for (let n = 1; n <= 1300; n += 1) void before.recordDelivery(refused(n));
    await before.accept(acceptanceOf(2000));
    await before.close();
    const store = await openSqliteStore({ path, log: { ...log, maxRows: 2 } });
    onTestFinished(() => store.close());
    expect(await deliveryIds(store)).toEqual([2000, 1300, 1299].map(id));
  });
});

describe('the delivery log in memory', () => {
  test('leaves none in the database, and is gone with the process; what it accepted is not', async () => {
    const path = newPath();
    const log = { inMemory: true, ...UNBOUNDED };
    const before = await openSqliteStore({ path, log });
    await before.accept(acceptanceOf(1, { nonce: aNonce() }));
    await before.recordDelivery(refused(2));
    expect(await deliveryIds(before)).toEqual([2, 1].map(id));
    await before.close();
    for (const inMemory of [true, false]) {
      const store = await openSqliteStore({ path, log: { ...log, inMemory } });
      expect(await deliveryIds(store)).toEqual([]);
      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await store.accept(acceptanceOf(3, { nonce: aNonce() }))).toMatchObject({ kind: 'replayed' });
      await store.close();
    }
  });

  test('holds the newest, whatever became of them, and counts all', async () => {
    const log = { inMemory: true, maxRows: 3, maxBytes: 1e9 };
    const store = await openSqliteStore({ path: ':memory:', log });
    onTestFinished(() => store.close());
    for (const n of [1, 2, 3]) await store.accept(acceptanceOf(n));
    await store.recordDelivery(refused(4));
    await store.accept(acceptanceOf(5));
    expect(await deliveryIds(store)).toEqual([5, 4, 3].map(id));
    expect(await store.of(figuresStore).deliveryStats({ since: T0 })).toMatchObject({
      accepted: 4,
      rejected: 1,
      total: 5,
    });
    expect((await store.listDeliveries({ skip: 0, take: 9, includeTotal: true })).total).toBe(3);
  });

  test('lets records in the database grow old that an earlier setting left there', async () => {
    const path = newPath();
    const before = await openSqliteStore({ path });
    for (const n of [1, 2, 3]) await before.recordDelivery(refused(n));
    await before.close();
    const store = await openSqliteStore({ path, log: { inMemory: true, ...UNBOUNDED } });
    expect(await store.purgeDeliveries({ before: T0 + 1, limit: 2 })).toBe(2);
    expect(await store.purgeDeliveries({ before: T0 + 1, limit: 2 })).toBe(1);
    await store.close();
    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    expect(await after.listDeliveries({ skip: 0, take: 9, includeTotal: true })).toEqual({ items: [], total: 0 });
    const db = new SqliteDatabase(path, { readonly: true });
    onTestFinished(() => void db.close());
    expect(db.prepare('SELECT rows, bytes FROM refused_state').raw().get()).toEqual([0, 0]);
  });
});
