import { describe, expect } from 'vitest';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import type { Claim, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, failed, finish, graphOf, minute, retryAt, startRun, succeeded, T0 } from '../samples.ts';

const looping: Graph = {
  each: { type: 'ForEach', inputs: {}, runAfter: {}, concurrencyLimit: 3, steps: graphOf({ a: [], b: ['a'] }) },
  ...graphOf({ end: ['each'] }),
};

/** Three of four iterations begun: the first has ended, the second has failed in `a`, the third is running. */
async function begunLoop(store: Store): Promise<string> {
  const runId = await startRun(store, looping);
  const claimed = async (stepKey: string, at: number) => {
    const claim = (await claimAll(store, at)).find((each) => each.stepKey === stepKey);
    if (claim === undefined) throw new Error(`${stepKey} is not due`);
    return claim;
  };
  await finish(store, await claimed('each', T0), { kind: 'loop', items: [1, 2, 3, 4], concurrency: 3 }, T0 + 1);
  const children = await claimAll(store, T0 + 1);
  const child = (key: string) => {
    const claim = children.find(({ stepKey }) => stepKey === key);
    if (claim === undefined) throw new Error(`${key} is not due`);
    return claim;
  };
  await finish(store, child('each.0.a'), succeeded('left'), T0 + 2);
  await finish(store, child('each.1.a'), failed(), T0 + 3);
  return runId;
}

export function outline({ test }: StoreUnderTest): void {
  describe('outline of a run', () => {
    test('tells of the named steps when they were tried, and nothing of their values', async (store) => {
      const runId = await begunLoop(store);
      const error = { code: 'broken', message: 'No.', retryable: false };
      const steps = await store.outlineSteps(runId, ['each.1.a', 'each', 'each.1.b', 'end', 'no-such-step']);
      expect(steps).toEqual([
        expect.objectContaining({ stepKey: 'each', stepType: 'ForEach', status: 'Running', completedAt: null }),
        {
          stepKey: 'each.1.a',
          stepType: 'NoOp',
          status: 'Failed',
          error,
          skipReason: null,
          signalName: null,
          lastPoll: null,
          subRunId: null,
          dueAt: null,
          startedAt: T0 + 1,
          completedAt: T0 + 3,
          attempts: [
            {
              attempt: 1,
              status: 'Failed',
              slotWaitMs: 0,
              startedAt: T0 + 1,
              completedAt: T0 + 3,
              errorCode: 'broken',
            },
          ],
        },
        expect.objectContaining({ stepKey: 'each.1.b', status: 'Skipped', attempts: [] }),
      ]);
    });

    test('tells what a step that waits noted of its last look, until it ends', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [first] = await claimAll(store, T0);
      if (first === undefined) throw new Error('a is not due');
      const state = { polls: 1, lastPoll: { status: 503, why: 'no' } };
      await finish(store, first, { kind: 'waiting', state, dueAt: T0 + minute, signalName: null }, T0 + 1);
      expect(await store.outlineSteps(runId, ['a'])).toMatchObject([{ lastPoll: { status: 503, why: 'no' } }]);
      const [again] = await claimAll(store, T0 + minute);
      if (again === undefined) throw new Error('a is not due again');
      await finish(store, again, succeeded('done'), T0 + minute + 1);
      expect(await store.outlineSteps(runId, ['a'])).toMatchObject([{ status: 'Succeeded', lastPoll: null }]);
    });

    test('tells how long each attempt was due before it began, and so do the views of the step', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [first] = await claimAll(store, T0 + 3200);
      await finish(store, first as Claim, retryAt(T0 + 9000), T0 + 4000);
      const [second] = await claimAll(store, T0 + 9050);
      await finish(store, second as Claim, succeeded(), T0 + 9060);
      const attempts = [{ slotWaitMs: 3200 }, { slotWaitMs: 50 }];
      const limits = { valueBytes: 100, answerBytes: 100 };
      expect(await store.outlineSteps(runId, ['a'])).toMatchObject([{ attempts }]);
      expect(await store.findStep(runId, 'a', limits)).toMatchObject({ attempts });
      expect(await store.listSteps(runId)).toMatchObject([{ attempts }]);
    });

    test('a wait for a signal counts as none for a slot', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [claim] = await claimAll(store, T0 + 5);
      await finish(store, claim as Claim, { kind: 'waiting', state: null, dueAt: T0 + minute, signalName: null });
      const [resumed] = await claimAll(store, T0 + minute + 700);
      await finish(store, resumed as Claim, succeeded(), T0 + 2 * minute);
      expect(await store.outlineSteps(runId, ['a'])).toMatchObject([{ attempts: [{ slotWaitMs: 5 }] }]);
    });

    test('names the signal that a step waits for', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing is due');
      await finish(store, claim, { kind: 'waiting', state: null, dueAt: null, signalName: 'go' });
      expect(await store.outlineSteps(runId, ['a'])).toMatchObject([{ status: 'Pending', signalName: 'go' }]);
    });

    test('sums the iterations of loops up', async (store) => {
      const runId = await begunLoop(store);
      const loops = await store.of(runsStore).listLoops(runId);
      const children = await store.of(runsStore).countChildren(runId);
      expect(loops).toEqual([expect.objectContaining({ stepKey: 'each', total: 4, ended: 1, failed: 1 })]);
      expect(children).toContainEqual({ path: 'each.a', status: 'Failed', count: 1 });
      expect(children).toContainEqual({ path: 'each.b', status: 'Skipped', count: 1 });
      const order = children.map(({ path, status }) => `${path} ${status}`);
      expect(order).toEqual(order.toSorted());
    });

    test('tells what happened to its steps, and of a long one the newest', async (store) => {
      const runId = await begunLoop(store);
      const { items, total } = await store.of(runsStore).listStepEvents({ runId, limit: 100 });
      expect(total).toBe(items.length);
      const seen = items.map(({ stepKey, kind, at }) => [stepKey, kind, at - T0]);
      expect(seen.slice(0, 5)).toEqual([
        ['each', 'started', 0],
        ['each.0.a', 'started', 1],
        ['each.1.a', 'started', 1],
        ['each.2.a', 'started', 1],
        ['each.0.a', 'completed', 2],
      ]);
      expect(items).toContainEqual({ stepKey: 'each.1.a', attempt: 1, kind: 'failed', at: T0 + 3, reason: 'No.' });
      expect(items).toContainEqual(expect.objectContaining({ stepKey: 'each.1.b', attempt: 0, kind: 'skipped' }));
      expect(await store.of(runsStore).listStepEvents({ runId, limit: 2 })).toEqual({ items: items.slice(-2), total });
    });

    test('calls an attempt retried where the step was not given up', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing is due');
      await finish(store, claim, retryAt(T0 + 5), T0 + 1);
      expect((await store.of(runsStore).listStepEvents({ runId, limit: 9 })).items).toMatchObject([
        { kind: 'started' },
        { kind: 'retried', attempt: 1, reason: 'Not now.' },
      ]);
    });

    test('finds the iterations in which a step has a status', async (store) => {
      const runId = await begunLoop(store);
      const find = (status: 'Failed' | 'Succeeded', limit = 9) =>
        store.of(runsStore).findIterations({ runId, loopKey: 'each', status, limit });
      expect(await find('Failed')).toEqual([1]);
      expect(await find('Succeeded')).toEqual([0]);
      expect(await find('Failed', 0)).toEqual([]);
    });

    test('finds one step as the list of all has it', async (store) => {
      const runId = await begunLoop(store);
      const listed = (await store.listSteps(runId)) ?? [];
      expect(await store.findStep(runId, 'each.0.a')).toEqual(listed.find(({ stepKey }) => stepKey === 'each.0.a'));
      expect(await store.findStep(runId, 'end')).toBeUndefined();
    });
  });
}
