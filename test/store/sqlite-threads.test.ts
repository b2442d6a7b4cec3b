import { statSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { newDatabases } from './files.ts';
import {
  acceptanceOf,
  aDelivery,
  claimAll,
  deliveryIds,
  finish,
  graphOf,
  id,
  minute,
  retryAt,
  startRun,
  succeeded,
  T0,
} from './samples.ts';

const newPath = newDatabases();

describe('the threads of a store', () => {
  test.each([
    ['the writer', 0],
    ['the reader', 1],
  ])('where %s dies, all that waits and all that comes is refused, and it is told once', async (_name, at) => {
    const onFatal = vi.fn();
    const { store, threads } = await openOnNewThreads(onFatal);

    const waiting = [store.accept(acceptanceOf(1)), store.listFlows()];
    const outcomes = Promise.allSettled(waiting);
    await threads[at]?.terminate();
    for (const outcome of await outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(StoreUnavailableError);
    }
    await expect(store.ping()).rejects.toThrow(StoreUnavailableError);
    await expect(store.listFlows()).rejects.toThrow(StoreUnavailableError);
    expect(onFatal).toHaveBeenCalledTimes(1);
    expect(onFatal).toHaveBeenCalledWith(expect.objectContaining({ message: expect.stringContaining('stopped') }));
    await store.close();
    expect(onFatal).toHaveBeenCalledTimes(1);
  });

  test('closing does not count as a death', async () => {
    const onFatal = vi.fn();
    const store = await openSqliteStore({ path: newPath(), onFatal });
    await store.close();
    expect(onFatal).not.toHaveBeenCalled();
  });

  test('a store takes the threads of one that was closed, and nothing else of it', async () => {
    const { store: first } = await openOnNewThreads();
    await first.accept(acceptanceOf(1));
    await first.close();
    const { store, threads } = await openCountingThreads();
    expect(threads).toEqual([]);
    expect(await deliveryIds(store)).toEqual([]);
    await store.accept(acceptanceOf(1));
    await expect(first.ping()).rejects.toThrow(StoreUnavailableError);
  });

  test('what cannot cross to a thread fails alone', async () => {
    const store = await anOpenStore();
    const unsendable = { ...aDelivery({ id: id(2) }), detail: (() => 'no') as unknown as string };
    const calls = [
      store.recordDelivery(aDelivery({ id: id(1), body: Buffer.from('one') })),
      store.recordDelivery(unsendable),
      store.recordDelivery(aDelivery({ id: id(3), body: Buffer.from('three') })),
    ];
    expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    await expect(calls[1]).rejects.toThrow(StoreUnavailableError);
    expect(await deliveryIds(store)).toEqual([id(3), id(1)]);
    expect((await store.findDelivery(id(3)))?.body).toEqual(new TextEncoder().encode('three'));
  });

  test('more bytes than are sent at once wait for their turn, and closing waits for them', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    const bodyOf = (n: number) => Buffer.alloc(1024 * 1024, `body ${n} `);
    const ns = Array.from({ length: 20 }, (_, n) => n);
    const records = ns.map((n) => aDelivery({ id: id(n), body: bodyOf(n), bodyBytes: 1024 * 1024 }));
    const calls = records.map((record) => store.recordDelivery(record));
    await store.close();
    await Promise.all(calls);
    const again = await openSqliteStore({ path });
    onTestFinished(() => again.close());
    for (const n of ns) expect(bodyOf(n).equals((await again.findDelivery(id(n)))?.body ?? Buffer.alloc(0))).toBe(true);
  });

  test('a read sees what was written before it was called', async () => {
    const store = await anOpenStore();
    for (let n = 1; n <= 50; n += 1) {
      await store.accept(acceptanceOf(n));
      expect(await store.findRun(id(1000 + n))).toBeDefined();
    }
  });

  test('in a run that was ended meanwhile nothing is claimed, tried again or started', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    const graph = graphOf({ done: [], retried: [], waiting: [], next: ['done'] });
    const runId = await startRun(store, graph);
    const [done, retried] = await claimAll(store, T0, 2);
    if (done === undefined || retried === undefined) throw new Error('two steps should be due');
    const other = new SqliteDatabase(path);
    other.prepare("UPDATE runs SET status = 'Cancelled' WHERE id = ?").run(runId);
    other.close();

    const nothing = { runStatus: 'Cancelled', endedRun: null, dispatched: [], skipped: [], loops: [] };
    expect(await finish(store, done, succeeded())).toEqual(nothing);
    expect(await finish(store, retried, retryAt(T0 + 1))).toEqual(nothing);
    const steps = (await store.listSteps(runId)) ?? [];
    expect(steps.map(({ stepKey, status }) => [stepKey, status]).sort()).toEqual([
      ['done', 'Succeeded'],
      ['retried', 'Failed'],
      ['waiting', 'Pending'],
    ]);
    expect(await store.claimDue({ owner: 'me', now: T0 + minute, leasedUntil: T0 + 2 * minute, limit: 9 })).toEqual({
      claims: [],
      nextDueAt: null,
      isKept: false,
    });
  });

  test('the log stays short while much is written', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    const body = Buffer.alloc(64 * 1024, 'payload ');
    const TURNS = 40;
    let longest = 0;
    for (let turn = 0; turn < TURNS; turn += 1) {
      const calls = Array.from({ length: 32 }, (_, at) => {
        const { run, ...rest } = acceptanceOf(turn * 100 + at);
        return store.accept({ ...rest, run: { ...run, trigger: { ...run.trigger, body } } });
      });
      await Promise.all(calls);
      longest = Math.max(longest, statSync(`${path}-wal`).size);
    }
    const written = TURNS * 32 * body.length;
    expect(longest).toBeLessThan(written / 2);
    expect(longest).toBeLessThan(64 * 1024 * 1024);
  });
});

interface OpenedStore {
  readonly store: Store;
  /** The threads that were started for it: the writer's, then the reader's. */
  readonly threads: readonly Worker[];
}

async function openCountingThreads(onFatal?: (error: Error) => void): Promise<OpenedStore> {
  const threads: Worker[] = [];
  const onWorker = (worker: Worker) => threads.push(worker);
  process.on('worker', onWorker);
  const store = await openSqliteStore({ path: newPath(), ...(onFatal && { onFatal }) });
  process.off('worker', onWorker);
  onTestFinished(() => store.close());
  return { store, threads };
}

/** Earlier stores may have left threads; stores that reuse them stay open until the test ends. */
async function openOnNewThreads(onFatal?: (error: Error) => void): Promise<OpenedStore> {
  for (;;) {
    const opened = await openCountingThreads(onFatal);
    if (opened.threads.length === 2) return opened;
  }
}

async function anOpenStore(): Promise<Store> {
  const store = await openSqliteStore({ path: newPath() });
  onTestFinished(() => store.close());
  return store;
}
