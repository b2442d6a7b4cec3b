import { describe, expect } from 'vitest';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import type { StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, failed, finish, flowId, graphOf, id, minute, startRun, succeeded, T0 } from '../samples.ts';

const unknownRun = id(999);

export function control({ test }: StoreUnderTest): void {
  describe('cancelling a run', () => {
    test('ends it at once where nothing of it runs, and nothing of it falls due again', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      expect(await store.cancelRun({ runId, reason: 'wrong order', at: T0 + 5 })).toEqual({
        kind: 'accepted',
        run: { runId, flowId, startedAt: T0, completedAt: T0 + 5 },
      });
      expect(await store.findRun(runId)).toMatchObject({
        status: 'Cancelled',
        completedAt: T0 + 5,
        cancelReason: 'wrong order',
        cancelRequestedAt: T0 + 5,
      });
      expect(await claimAll(store, T0 + minute)).toEqual([]);
    });

    test('waits for a step that runs: the run ends with it, and starts nothing more', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing was due');
      expect(await store.cancelRun({ runId, reason: null, at: T0 + 1 })).toMatchObject({
        kind: 'accepted',
        run: { completedAt: null },
      });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running' });
      expect(await finish(store, claim, succeeded(), T0 + 2)).toMatchObject({ runStatus: 'Cancelled', dispatched: [] });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Cancelled', completedAt: T0 + 2 });
    });

    test('reports a run that has ended, and an unknown one', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      await finishAll(store, 'Succeeded');
      expect(await store.cancelRun({ runId, reason: null, at: T0 })).toEqual({ kind: 'ended', status: 'Succeeded' });
      expect(await store.cancelRun({ runId: unknownRun, reason: null, at: T0 })).toEqual({ kind: 'unknown' });
    });
  });

  describe('retrying a failed step', () => {
    test('goes on with the run: keeps its attempts, and plans skipped steps again', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      await finishAll(store, 'Failed');
      expect(await store.findRun(runId)).toMatchObject({ status: 'Failed' });
      expect(await store.retryStep({ runId, stepKey: 'a', at: T0 + 10 })).toEqual({ kind: 'accepted', steps: ['a'] });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running', completedAt: null });
      expect((await store.listSteps(runId))?.map(({ stepKey, status }) => [stepKey, status])).toEqual([
        ['a', 'Pending'],
      ]);
      await finishAll(store, 'Succeeded', T0 + 11);
      await finishAll(store, 'Succeeded', T0 + 12);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
      const [a] = (await store.listSteps(runId)) ?? [];
      expect(a?.attempts.map(({ status }) => status)).toEqual(['Failed', 'Succeeded']);
    });

    test('is refused for what did not fail, was stopped, or is not there', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      expect(await store.retryStep({ runId, stepKey: 'a', at: T0 })).toEqual({
        kind: 'notFailed',
        stepStatus: 'Pending',
      });
      expect(await store.retryStep({ runId, stepKey: 'x', at: T0 })).toEqual({ kind: 'unknownStep' });
      expect(await store.retryStep({ runId: unknownRun, stepKey: 'a', at: T0 })).toEqual({ kind: 'unknownRun' });
      const stopped = await startRun(store, graphOf({ a: [], b: [] }), { id: id(101), revision: 2 });
      const claims = (await claimAll(store)).filter((claim) => claim.runId === stopped);
      const [first] = claims;
      if (first === undefined) throw new Error('nothing was due');
      await finish(store, first, failed());
      await store.cancelRun({ runId: stopped, reason: null, at: T0 });
      for (const claim of claims.slice(1)) await finish(store, claim, succeeded());
      expect(await store.retryStep({ runId: stopped, stepKey: first.stepKey, at: T0 })).toEqual({
        kind: 'stopped',
        runStatus: 'Cancelled',
      });
    });
  });

  describe('retrying in a loop', () => {
    test('of a failure that its iteration handled leaves the other iterations to be run', async (store) => {
      const runId = await startRun(store, handledLoop);
      await finishStep(store, 'each', { kind: 'loop', items: [1, 2, 3], concurrency: 1 });
      await finishStep(store, 'each.0.a', failed());
      await finishStep(store, 'each.0.mend', succeeded());
      expect(await store.retryStep({ runId, stepKey: 'each.0.a', at: T0 })).toMatchObject({ kind: 'accepted' });
      expect(await store.of(runsStore).listLoops(runId)).toMatchObject([{ started: 2, ended: 0, failed: 0 }]);
      for (const key of ['each.0.a', 'each.1.a', 'each.2.a']) await finishStep(store, key, succeeded());
      expect(await store.of(runsStore).listLoops(runId)).toMatchObject([{ started: 3, ended: 3, failed: 0 }]);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
    });

    test('of a failure that was handled opens a loop that had succeeded', async (store) => {
      const runId = await startRun(store, handledLoop);
      await finishStep(store, 'each', { kind: 'loop', items: [1], concurrency: 1 });
      await finishStep(store, 'each.0.a', failed());
      await finishStep(store, 'each.0.mend', succeeded());
      expect(await store.findStep(runId, 'each')).toMatchObject({ status: 'Succeeded' });
      await store.retryStep({ runId, stepKey: 'each.0.a', at: T0 });
      expect(await store.findStep(runId, 'each')).toMatchObject({ status: 'Running' });
      await finishStep(store, 'each.0.a', failed());
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
    });

    test('tries what made it fail, not what its iterations handled, and names that as the cause', async (store) => {
      const runId = await startRun(store, handledLoop);
      await finishStep(store, 'each', { kind: 'loop', items: [1, 2], concurrency: 1 });
      await finishStep(store, 'each.0.a', failed());
      await finishStep(store, 'each.0.mend', succeeded());
      await finishStep(store, 'each.1.a', failed());
      await finishStep(store, 'each.1.mend', failed());
      expect((await store.findStep(runId, 'each'))?.error?.message).toContain('"each.1.a"');
      expect(await store.retryStep({ runId, stepKey: 'each', at: T0 })).toEqual({
        kind: 'accepted',
        steps: ['each.1.a', 'each.1.mend'],
      });
    });

    test('of one of two failed iterations leaves the loop failed', async (store) => {
      const runId = await startRun(store, handledLoop);
      await finishStep(store, 'each', { kind: 'loop', items: [1, 2], concurrency: 2 });
      for (const key of ['each.0.a', 'each.1.a', 'each.0.mend', 'each.1.mend']) await finishStep(store, key, failed());
      await store.retryStep({ runId, stepKey: 'each.1.mend', at: T0 });
      expect(await store.of(runsStore).listLoops(runId)).toMatchObject([{ ended: 1, failed: 1 }]);
      await finishStep(store, 'each.1.mend', succeeded());
      expect(await store.of(runsStore).listLoops(runId)).toMatchObject([{ ended: 2, failed: 1 }]);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Failed' });
    });

    test('is refused where every iteration ended well and together they left too much; the limit of the run stays', async (store) => {
      const graph: Graph = { ...handledLoop, ...graphOf({ parallel: [] }) };
      const runId = await startRun(store, graph, { timeoutAt: T0 + minute });
      await finishStep(store, 'each', { kind: 'loop', items: Array.from({ length: 9 }, () => 1), concurrency: 9 });
      const large = 'x'.repeat(1024 * 1024 - 2);
      for (let index = 0; index < 9; index += 1) await finishStep(store, `each.${index}.a`, failed());
      for (let index = 0; index < 9; index += 1) await finishStep(store, `each.${index}.mend`, succeeded(large));
      const loop = await store.findStep(runId, 'each');
      expect(loop).toMatchObject({ status: 'Failed', output: null, error: { code: 'output_too_large' } });
      expect(await store.retryStep({ runId, stepKey: 'each', at: T0 })).toEqual({
        kind: 'nothingToRetry',
        error: loop?.error,
      });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running', timeoutAt: T0 + minute });
      await finishStep(store, 'parallel', succeeded());
      expect(await store.findRun(runId)).toMatchObject({ status: 'Failed' });
      expect(await store.retryStep({ runId, stepKey: 'each', at: T0 })).toMatchObject({ kind: 'nothingToRetry' });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Failed', timeoutAt: T0 + minute });
    });

    test('of a run that goes on leaves its limit, and drops that of one that had ended', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }), { timeoutAt: T0 + minute });
      await finishStep(store, 'a', failed());
      await store.retryStep({ runId, stepKey: 'a', at: T0 });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running', timeoutAt: T0 + minute });
      for (const key of ['a', 'b']) await finishStep(store, key, failed());
      await store.retryStep({ runId, stepKey: 'b', at: T0 });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running', timeoutAt: null });
    });

    test('is refused in a run that was told to stop and has not ended yet', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }));
      const claims = await claimAll(store);
      for (const claim of claims.slice(0, 1)) await finish(store, claim, failed());
      await store.cancelRun({ runId, reason: null, at: T0 });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running' });
      const stepKey = claims[0]?.stepKey ?? '';
      expect(await store.retryStep({ runId, stepKey, at: T0 })).toEqual({ kind: 'stopped', runStatus: 'Cancelled' });
    });

    test('leaves no output of a failed loop that is larger than that of one that succeeded', async (store) => {
      const runId = await startRun(store, handledLoop);
      await finishStep(store, 'each', { kind: 'loop', items: Array.from({ length: 9 }, () => 1), concurrency: 9 });
      const large = 'x'.repeat(1024 * 1024 - 2);
      for (let index = 0; index < 9; index += 1) await finishStep(store, `each.${index}.a`, failed());
      for (let index = 0; index < 8; index += 1) await finishStep(store, `each.${index}.mend`, succeeded(large));
      const output = { kind: 'failed', output: large, error: { code: 'no', message: 'no', retryable: false } } as const;
      await finishStep(store, 'each.8.mend', output);
      expect(await store.findStep(runId, 'each')).toMatchObject({
        status: 'Failed',
        output: null,
        error: { code: 'iteration_failed', message: expect.stringContaining('its output is not kept') },
      });
    });
  });

  describe('a run whose time is up', () => {
    test('is ended by the next look at time limits, once', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }), { timeoutAt: T0 + 100 });
      const early = await store.claimOverdue({ owner: 'me', now: T0 + 99, leasedUntil: T0 + minute, limit: 9 });
      expect(early).toEqual({ timedOut: [], orphaned: [], claims: [], nextAt: T0 + 100 });
      const late = await store.claimOverdue({ owner: 'me', now: T0 + 100, leasedUntil: T0 + minute, limit: 9 });
      expect(late).toMatchObject({ timedOut: [{ runId, completedAt: T0 + 100 }], claims: [], nextAt: null });
      expect(await store.findRun(runId)).toMatchObject({ status: 'TimedOut', timedOutAt: T0 + 100 });
      expect(await store.claimDue({ owner: 'me', now: T0 + 101, leasedUntil: T0 + minute, limit: 9 })).toMatchObject({
        claims: [],
      });
      expect(
        (await store.claimOverdue({ owner: 'me', now: T0 + 101, leasedUntil: T0 + minute, limit: 9 })).timedOut,
      ).toEqual([]);
    });
  });
}

const handledLoop: Graph = {
  each: { type: 'ForEach', inputs: {}, runAfter: {}, steps: graphOf({ a: [], mend: { a: ['Failed'] } }) },
};

/** Claims all due steps and ends one; the others become due again. */
async function finishStep(store: Store, stepKey: string, result: StepResult): Promise<void> {
  const claims = await claimAll(store);
  const claim = claims.find((each) => each.stepKey === stepKey);
  const others = claims.filter((each) => each !== claim);
  await store.returnLeases({ tokens: others.map(({ token }) => token), at: T0 });
  if (claim === undefined) throw new Error(`${stepKey} is not due`);
  await finish(store, claim, result);
}

async function finishAll(store: Store, outcome: 'Succeeded' | 'Failed', at = T0): Promise<void> {
  for (const claim of await claimAll(store, at)) {
    await finish(store, claim, outcome === 'Failed' ? failed() : succeeded(), at);
  }
}
