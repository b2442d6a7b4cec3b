import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, id, T0 } from './samples.ts';

const newPath = newPaths();
const page = { skip: 0, take: 10 };
/** More than a segment of the index, and one more than two segments. */
const [MANY, MORE] = [2500, 4097];

async function openStore(path: string): Promise<Store> {
  const store = await openSqliteStore({ path });
  onTestFinished(() => store.close());
  return store;
}

/** Accepts deliveries n to m, each with an ended run and its own key. */
async function accept(store: Store, n: number, m: number): Promise<void> {
  const acceptances = Array.from({ length: m - n + 1 }, (_, at) => {
    const { run, ...given } = acceptanceOf(n + at);
    const searchKeys = { order: keyOf(n + at), event: 'Push' };
    const ended = { ...run, id: runOf(n + at), status: 'Succeeded', completedAt: T0, steps: [], searchKeys } as const;
    return { ...given, run: ended };
  });
  for (const acceptance of acceptances.slice(0, -1)) void store.accept(acceptance);
  await Promise.all(acceptances.slice(-1).map((acceptance) => store.accept(acceptance)));
}

const runOf = (n: number) => id(100_000 + n);
/** In no order. */
const keyOf = (n: number) => `${((n * 7919) % 10_007).toString().padStart(5, '0')}-of-${n}`;

async function found(store: Store, query: object): Promise<string[]> {
  const runs = await store.listRuns({ ...page, ...query });
  const deliveries = await store.listDeliveries({ ...page, ...query });
  expect(deliveries.items.map(({ runId }) => runId)).toEqual(runs.items.map((run) => run.id));
  return runs.items.map((run) => run.id);
}

async function expectFound(store: Store, numbers: readonly number[]): Promise<void> {
  for (const n of numbers) {
    expect(await found(store, { searchKeys: { order: keyOf(n) } })).toEqual([runOf(n)]);
    expect(await found(store, { search: keyOf(n) })).toEqual([runOf(n)]);
    expect(await found(store, { search: keyOf(n).slice(0, 7) })).toEqual([runOf(n)]);
    expect(await found(store, { searchKeys: { event: keyOf(n) } })).toEqual([]);
  }
}

function readRows<Row>(path: string, text: string): Row[] {
  const db = new SqliteDatabase(path, { readonly: true });
  const rows = db.prepare<[], Row>(text).all();
  db.close();
  return rows;
}

async function purge(store: Store, before: number): Promise<void> {
  for (let isDone = false; !isDone; ) ({ isDone } = await store.purgeRuns({ before, maxRows: 1000 }));
}

describe('search keys of runs', () => {
  test('are found whether or not they are indexed, and after a restart', async () => {
    const path = newPath();
    const store = await openStore(path);
    await accept(store, 1, 3);
    await expectFound(store, [1, 3]);
    await accept(store, 4, MANY);
    await expectFound(store, [1, 2047, 2048, 2049, MANY]);
    await accept(store, MANY + 1, MORE);
    expect(readRows(path, 'SELECT segment, last_run FROM run_key_segments')).toEqual([
      { segment: 1, last_run: 2048 },
      { segment: 2, last_run: 4096 },
    ]);
    await expectFound(store, [1, 2048, 2049, 4096, MORE]);
    await store.close();
    await expectFound(await openStore(path), [1, 2048, 2049, 4096, MORE]);
  });

  test('that many runs have are found newest first', async () => {
    const store = await openStore(newPath());
    await accept(store, 1, MANY);
    const newest = Array.from({ length: page.take }, (_, at) => runOf(MANY - at));
    expect(await found(store, { searchKeys: { event: 'push' } })).toEqual(newest);
    expect(await found(store, { search: 'push' })).toEqual(newest);
  });

  test('leave the index with their runs, as do its segments, and no number is given again', async () => {
    const path = newPath();
    const store = await openStore(path);
    await accept(store, 1, MORE);
    expect(readRows(path, 'SELECT 1 FROM run_key_index')).toHaveLength(2 * 4096);
    await purge(store, T0 + 1);
    expect(readRows(path, 'SELECT 1 FROM run_key_index')).toEqual([]);
    await accept(store, MORE + 1, MORE + 3);
    await expectFound(store, [MORE + 1, MORE + 3]);
    await accept(store, MORE + 4, MORE + 2500);
    expect(readRows(path, 'SELECT segment, last_run FROM run_key_segments')).toEqual([{ segment: 3, last_run: 6144 }]);
    await expectFound(store, [MORE + 1, MORE + 2047, MORE + 2048, MORE + 2500]);
  });

  test('leave the index with runs of its oldest segment that is kept', async () => {
    const path = newPath();
    const store = await openStore(path);
    const { run, ...given } = acceptanceOf(3000);
    await accept(store, 1, 2999);
    const searchKeys = { order: keyOf(3000), event: 'Push' };
    await store.accept({ ...given, run: { ...run, id: runOf(3000), searchKeys } });
    await accept(store, 3001, MORE);
    await purge(store, T0 + 1);
    await accept(store, MORE + 1, MORE + 2500);
    const segments = 'SELECT segment FROM run_key_segments';
    expect(readRows(path, segments)).toEqual([{ segment: 2 }, { segment: 3 }]);
    await expectFound(store, [3000, MORE + 1, MORE + 2500]);
    await store.cancelRun({ runId: runOf(3000), reason: null, at: T0 });
    await purge(store, T0 + 1);
    expect(readRows(path, 'SELECT 1 FROM run_key_index')).toEqual([]);
  });

  test('go on where the runs of the last segment are all gone before any batch, at a start', async () => {
    const path = newPath();
    const store = await openStore(path);
    await accept(store, 1, MANY);
    await purge(store, T0 + 1);
    await store.close();
    const again = await openStore(path);
    await accept(again, MANY + 1, MANY + 100);
    await accept(again, MANY + 101, MANY + 2 * 2048);
    const last = readRows<{ segment: number }>(path, 'SELECT segment FROM run_key_segments').at(-1)?.segment;
    expect(last).toBe(3);
    await expectFound(again, [MANY + 1, MANY + 2048, MANY + 2 * 2048]);
  });

  describe('of a run that outlives those that came after it', () => {
    async function outlive(): Promise<{ store: Store; rows: (text: string) => unknown[] }> {
      const path = newPath();
      const store = await openStore(path);
      const { run, ...given } = acceptanceOf(1);
      await store.accept({ ...given, run: { ...run, id: runOf(1), searchKeys: { order: keyOf(1), event: 'Push' } } });
      await accept(store, 2, MANY);
      await purge(store, T0 + 1);
      const rows = (text: string) => readRows(path, text);
      expect(rows('SELECT run, name FROM run_key_index')).toEqual([
        { run: 1, name: 'order' },
        { run: 1, name: 'event' },
      ]);
      return { store, rows };
    }

    test('are found beside those of the next segment', async () => {
      const { store, rows } = await outlive();
      await accept(store, MANY + 1, MANY + 2500);
      expect(rows('SELECT segment, last_run FROM run_key_segments')).toEqual([
        { segment: 1, last_run: 2048 },
        { segment: 2, last_run: 4096 },
      ]);
      expect(rows('SELECT 1 FROM run_key_index')).toHaveLength(2 * (1 + 4096 - MANY));
      await expectFound(store, [1, MANY + 1, 4096, 4097, MANY + 2500]);
    });

    test('leave the index with it before', async () => {
      const { store, rows } = await outlive();
      await store.cancelRun({ runId: runOf(1), reason: null, at: T0 });
      await purge(store, T0 + 1);
      expect(rows('SELECT 1 FROM runs')).toEqual([]);
      expect(rows('SELECT 1 FROM run_key_index')).toEqual([]);
    });
  });
});
