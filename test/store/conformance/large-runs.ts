import { describe, expect } from 'vitest';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, finish, graphOf, id, minute, startRun, succeeded, T0 } from '../samples.ts';

const looping: Graph = {
  ...graphOf({ first: [] }),
  each: { type: 'ForEach', inputs: {}, runAfter: {}, steps: graphOf({ child: [] }) },
  ...graphOf({ last: ['each'] }),
};

/** Runs to the end; each child outputs the text. */
async function ended(store: Store, items: number, output: string, number = 100): Promise<string> {
  const runId = await startRun(store, looping, { id: id(number) });
  for (;;) {
    const claims = await claimAll(store);
    if (claims.length === 0) return runId;
    for (const claim of claims) {
      const isLoop = claim.stepKey === 'each';
      const list = Array.from({ length: items }, (_, index) => index);
      await finish(store, claim, isLoop ? { kind: 'loop', items: list, concurrency: 50 } : succeeded(output));
    }
  }
}

const planned = ['first', 'each', 'last'];
const limits = { valueBytes: 100, answerBytes: 1000 };

export function largeRuns({ test }: StoreUnderTest): void {
  describe('a page of steps', () => {
    test('has the planned ones in their order, and children behind their loop by the number of the iteration', async (store) => {
      const runId = await startRun(store, looping);
      const all = async (skip: number, take: number) => {
        const page = await store.pageSteps({ runId, planned, skip, take, limits });
        return { keys: page?.items.map(({ stepKey }) => stepKey), total: page?.total };
      };
      expect(await all(0, 9)).toEqual({ keys: planned, total: 3 });
      expect(await store.pageSteps({ runId, planned, skip: 2, take: 1, limits })).toEqual({
        items: [{ stepKey: 'last' }],
        total: 3,
      });
      const done = await ended(store, 12, 'x', 101);
      const page = await store.pageSteps({ runId: done, planned, skip: 2, take: 11, limits });
      const children = Array.from({ length: 11 }, (_, index) => `each.${index}.child`);
      expect({ keys: page?.items.map(({ stepKey }) => stepKey), total: page?.total }).toEqual({
        keys: children,
        total: 15,
      });
      expect(await store.pageSteps({ runId: id(999), planned, skip: 0, take: 9, limits })).toBeUndefined();
    });

    test('cuts a value that is too large, and every value once the answer is full', async (store) => {
      const runId = await ended(store, 2, 'ü'.repeat(100));
      const step = await store.findStep(runId, 'each.0.child', limits);
      const cut = { truncated: true, length: 202, preview: `"${'ü'.repeat(100)}"` };
      expect(step).toMatchObject({ output: cut, truncated: true, attempts: [{ output: cut, truncated: true }] });
      const whole = await store.findStep(runId, 'each.0.child', { valueBytes: 202, answerBytes: 1000 });
      expect(whole?.output).toBe('ü'.repeat(100));
      expect(whole?.truncated).toBeUndefined();
      const full = { valueBytes: 202, answerBytes: 300 };
      const page = await store.pageSteps({ runId, planned, skip: 2, take: 2, limits: full });
      expect(page?.items.map((item) => item.runId !== undefined && item.truncated === true)).toEqual([false, true]);
    });

    test('reads one value in pieces that make the whole', async (store) => {
      const runId = await ended(store, 1, 'äöü'.repeat(50));
      const read = async (offset: number, attempt?: number) =>
        store.of(runsStore).readValue({ runId, stepKey: 'each.0.child', attempt, value: 'output', offset, bytes: 100 });
      const pieces = [await read(0), await read(100), await read(200), await read(300)];
      const text = Buffer.concat(pieces.map((each) => each?.piece ?? new Uint8Array())).toString();
      expect(JSON.parse(text)).toBe('äöü'.repeat(50));
      expect(new Set(pieces.map((each) => each?.changes)).size).toBe(1);
      expect(await read(0, 1)).toMatchObject({ totalBytes: 302 });
      expect(await read(0, 2)).toBeUndefined();
      const nothing = { runId, stepKey: 'each', attempt: 1, value: 'output', offset: 0, bytes: 9 } as const;
      expect(await store.of(runsStore).readValue(nothing)).toMatchObject({ totalBytes: null });
    });
  });

  describe('removing old runs', () => {
    test('deletes no more rows at a time than it may, in the end all of them, and no others', async (store) => {
      const old = await ended(store, 200, 'x');
      const kept = await startRun(store, graphOf({ a: [] }), { id: id(101), startedAt: T0 + minute });
      const purge = () => store.purgeRuns({ before: T0 + 1, maxRows: 50 });
      expect(await purge()).toMatchObject({ runs: 1 });
      expect(await store.findRun(old)).toBeUndefined();
      expect(await store.listSteps(old)).toBeUndefined();
      const rows: number[] = [];
      for (let slice = await purge(); !slice.isDone; slice = await purge()) rows.push(slice.rows);
      expect(Math.max(...rows)).toBe(50);
      // A row each for the loop and its items, and for each of 203 steps a row and an attempt.
      expect(rows.reduce((sum, each) => sum + each, 0)).toBe(2 + 2 * 203);
      expect(await store.findRun(kept)).toMatchObject({ status: 'Running' });
      expect(await store.findStep(kept, 'a')).toBeDefined();
      expect(await store.findStep(old, 'first')).toBeUndefined();
    });

    test('deletes the rows of several small runs in one slice', async (store) => {
      for (let number = 100; number < 110; number += 1) await ended(store, 1, 'x', number);
      const purge = (maxRows: number) => store.purgeRuns({ before: T0 + 1, maxRows });
      expect(await purge(100)).toMatchObject({ runs: 10 });
      const part = await purge(45);
      expect(part.rows).toBeGreaterThan(30);
      expect(part.rows).toBeLessThanOrEqual(45);
      // For each run, a row each for a loop and its items, and for each of four steps a row and an attempt.
      expect(part.rows + (await purge(1000)).rows).toBe(10 * (2 + 2 * 4));
      expect(await purge(1000)).toEqual({ runs: 0, rows: 0, isDone: true });
    });

    test('ends a slice with the row that brings it to a mebibyte, and takes a run of that size alone', async (store) => {
      await ended(store, 9, 'x'.repeat(400_000));
      const purge = () => store.purgeRuns({ before: T0 + 1, maxRows: 1000 });
      await purge();
      const rows: number[] = [];
      for (let slice = await purge(); !slice.isDone; slice = await purge()) rows.push(slice.rows);
      expect(rows.length).toBeGreaterThan(6);
    });
  });
}
