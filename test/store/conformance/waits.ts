import { describe, expect } from 'vitest';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { Claim, StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, finish, graphOf, id, minute, retryAt, startRun, succeeded, T0 } from '../samples.ts';

const waiting = (change: { dueAt?: number | null; signalName?: string | null }): StepResult => ({
  kind: 'waiting',
  state: { asked: 1 },
  dueAt: null,
  signalName: null,
  ...change,
});

export function waits({ test }: StoreUnderTest): void {
  describe('a step that waits for a time', () => {
    test('goes on then, with the attempt that it began and what it kept', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store), waiting({ dueAt: T0 + 500 }));
      expect(await claimAll(store, T0 + 499)).toEqual([]);
      const claim = await claimOne(store, T0 + 500);
      expect(claim).toMatchObject({ attempt: 1, attemptStartedAt: T0, resumed: { state: { asked: 1 }, signal: null } });
      await finish(store, claim, succeeded('there'), T0 + 501);
      expect(await store.listSteps(runId)).toMatchObject([{ status: 'Succeeded', attempts: [{ output: 'there' }] }]);
    });

    test('keeps its due time over the recovery of what a dead process left', async (store) => {
      await startRun(store, graphOf({ a: [], b: [] }));
      const [first, second] = await claimAll(store);
      if (first === undefined || second === undefined) throw new Error('two steps should be due');
      await finish(store, first, waiting({ dueAt: T0 + 500 }));
      expect(await store.recover({ owner: 'me', now: T0 + 1 })).toBe(1);
      expect((await claimAll(store, T0 + 1)).map(({ stepKey }) => stepKey)).toEqual([second.stepKey]);
      expect(await claimOne(store, T0 + 500)).toMatchObject({ stepKey: first.stepKey, interruptions: 0 });
    });
  });

  describe('a signal', () => {
    test('wakes the step that waits for its name, and is handed to it', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store), waiting({ signalName: 'go' }));
      expect(await claimAll(store, T0 + minute)).toEqual([]);
      expect(await signal(store, runId, 'stop')).toEqual({ kind: 'accepted', stepKey: null });
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'accepted', stepKey: 'a' });
      const claim = await claimOne(store, T0 + 8);
      expect(claim.resumed?.signal).toEqual({ body: { by: 'Ada' }, deliveredAt: T0 + 7 });
      expect(await store.of(runsStore).listSignals(runId)).toEqual([
        { name: 'stop', deliveredAt: T0 + 7, stepKey: null, deliveryId: null },
        { name: 'go', deliveredAt: T0 + 7, stepKey: 'a', deliveryId: null },
      ]);
    });

    test('that comes before the step waits is kept for it; a second one is a duplicate', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'accepted', stepKey: null });
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'duplicate' });
      await finish(store, await claimOne(store), waiting({ signalName: 'go' }));
      expect((await claimOne(store, T0 + 9)).resumed?.signal).toMatchObject({ body: { by: 'Ada' } });
    });

    test('to a run that was told to stop, or whose time is up, is refused: no step would go on with it', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }), { timeoutAt: T0 + 7 });
      const [first] = await claimAll(store, T0, 1);
      if (first === undefined) throw new Error('a step should be due');
      await finish(store, first, waiting({ signalName: 'go' }));
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'ended', status: 'TimedOut' });
      await claimAll(store, T0, 1);
      await store.cancelRun({ runId, reason: null, at: T0 + 1 });
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'ended', status: 'Cancelled' });
      expect(await store.of(runsStore).listSignals(runId)).toEqual([]);
    });

    test('is handed over once: a later wait that ends by its time comes without it', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store), waiting({ signalName: 'go' }));
      await signal(store, runId, 'go');
      const second = waiting({ signalName: 'go', dueAt: T0 + 100 });
      await finish(store, await claimOne(store, T0 + 8), second, T0 + 8);
      expect((await claimOne(store, T0 + 100)).resumed).toMatchObject({ signal: null });
      expect(await store.recover({ owner: 'me', now: T0 + 101 })).toBe(1);
      expect((await claimOne(store, T0 + 101)).resumed).toMatchObject({ signal: null });
    });

    test('stays with the step through an interruption, and goes to the attempt that comes after a failed one', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store), waiting({ signalName: 'go' }));
      await signal(store, runId, 'go');
      await claimOne(store, T0 + 8);
      expect(await store.recover({ owner: 'me', now: T0 + 9 })).toBe(1);
      const again = await claimOne(store, T0 + 9);
      expect(again.resumed?.signal).toMatchObject({ body: { by: 'Ada' } });
      await finish(store, again, retryAt(T0 + 10), T0 + 9);
      await finish(store, await claimOne(store, T0 + 10), waiting({ signalName: 'go' }), T0 + 10);
      expect((await claimOne(store, T0 + 11)).resumed?.signal).toMatchObject({ body: { by: 'Ada' } });
      expect(await store.of(runsStore).listSignals(runId)).toHaveLength(1);
    });

    test('refuses a signal to a run that has ended, or to an unknown run', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store), succeeded());
      expect(await signal(store, runId, 'go')).toEqual({ kind: 'ended', status: 'Succeeded' });
      expect(await signal(store, id(999), 'go')).toEqual({ kind: 'unknown' });
    });
  });

  describe('a loop', () => {
    const graph = {
      each: {
        type: 'ForEach',
        inputs: {},
        runAfter: {},
        forEach: [],
        concurrencyLimit: 2,
        steps: { child: { type: 'NoOp', inputs: {}, runAfter: {} } },
      },
    };

    test('runs so many iterations at once, and ends with what they left, in the order of the items', async (store) => {
      const runId = await startRun(store, graph);
      await finish(store, await claimOne(store), { kind: 'loop', items: ['x', 'y', 'z'], concurrency: 2 });
      const first = await claimAll(store);
      expect(first.map(({ stepKey, loop }) => [stepKey, loop])).toEqual([
        ['each.0.child', { item: 'x', index: 0 }],
        ['each.1.child', { item: 'y', index: 1 }],
      ]);
      for (const claim of first.reverse()) await finish(store, claim, succeeded(claim.loop?.item ?? null));
      const last = await claimOne(store);
      expect(last).toMatchObject({ stepKey: 'each.2.child', loop: { item: 'z', index: 2 } });
      expect(await finish(store, last, succeeded('z'))).toMatchObject({
        runStatus: 'Succeeded',
        loops: [{ stepKey: 'each', status: 'Succeeded' }],
      });
      const steps = (await store.listSteps(runId)) ?? [];
      expect(steps.find(({ stepKey }) => stepKey === 'each')?.output).toEqual(['x', 'y', 'z']);
    });

    test('over nothing ends at once', async (store) => {
      const runId = await startRun(store, graph);
      expect(await finish(store, await claimOne(store), { kind: 'loop', items: [], concurrency: 2 })).toMatchObject({
        runStatus: 'Succeeded',
      });
      expect(await store.listSteps(runId)).toMatchObject([{ stepKey: 'each', status: 'Succeeded', output: [] }]);
    });
  });
}

async function claimOne(store: Store, now = T0): Promise<Claim> {
  const [claim, ...more] = await claimAll(store, now);
  if (claim === undefined || more.length > 0)
    throw new Error(`${more.length + Number(claim !== undefined)} steps are due`);
  return claim;
}

function signal(store: Store, runId: string, name: string) {
  return store.deliverSignal({ runId, name, body: { by: 'Ada' }, at: T0 + 7 });
}
