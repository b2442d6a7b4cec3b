import { describe, expect, test } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, failed, finish, flowId, graphOf, id, minute, startRun, succeeded, T0 } from '../samples.ts';

const nobody = id(999);

export function control({ open }: StoreUnderTest): void {
  describe('cancelling a run', () => {
    test('ends it at once where nothing of it runs, and nothing of it falls due again', async () => {
      const store = await open();
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      expect(await store.cancelRun({ runId, reason: 'wrong order', at: T0 + 5 })).toEqual({
        kind: 'accepted',
        run: { runId, flowId, startedAt: T0, completedAt: T0 + 5 },
      });
      expect(await store.findRun(runId)).toMatchObject({
        ...{ status: 'Cancelled', completedAt: T0 + 5, cancelReason: 'wrong order', cancelRequestedAt: T0 + 5 },
      });
      expect(await claimAll(store, T0 + minute)).toEqual([]);
    });

    test('waits for a step that runs: the run ends with it, and starts nothing more', async () => {
      const store = await open();
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

    test('says so of a run that has ended, and of one that nobody knows', async () => {
      const store = await open();
      const runId = await startRun(store, graphOf({ a: [] }));
      await finishAll(store, 'Succeeded');
      expect(await store.cancelRun({ runId, reason: null, at: T0 })).toEqual({ kind: 'ended', status: 'Succeeded' });
      expect(await store.cancelRun({ runId: nobody, reason: null, at: T0 })).toEqual({ kind: 'unknown' });
    });
  });

  describe('retrying a failed step', () => {
    test('goes on with the run: its attempts are kept, what it skipped is planned anew', async () => {
      const store = await open();
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

    test('is refused for what did not fail, was stopped, or is not there', async () => {
      const store = await open();
      const runId = await startRun(store, graphOf({ a: [] }));
      expect(await store.retryStep({ runId, stepKey: 'a', at: T0 })).toEqual({
        kind: 'notFailed',
        stepStatus: 'Pending',
      });
      expect(await store.retryStep({ runId, stepKey: 'x', at: T0 })).toEqual({ kind: 'unknownStep' });
      expect(await store.retryStep({ runId: nobody, stepKey: 'a', at: T0 })).toEqual({ kind: 'unknownRun' });
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

  describe('a run whose time is up', () => {
    test('is ended by the next claim, once', async () => {
      const store = await open();
      const runId = await startRun(store, graphOf({ a: [] }), { timeoutAt: T0 + 100 });
      const early = await store.claimDue({ now: T0 - 1, leasedUntil: T0, limit: 9 });
      expect(early).toMatchObject({ claims: [], nextDueAt: T0, timedOut: [] });
      const late = await store.claimDue({ now: T0 + 100, leasedUntil: T0 + minute, limit: 9 });
      expect(late).toMatchObject({ claims: [], timedOut: [{ runId, completedAt: T0 + 100 }] });
      expect(await store.findRun(runId)).toMatchObject({ status: 'TimedOut', timedOutAt: T0 + 100 });
      expect((await store.claimDue({ now: T0 + 101, leasedUntil: T0 + minute, limit: 9 })).timedOut).toEqual([]);
    });
  });
}

async function finishAll(store: Store, outcome: 'Succeeded' | 'Failed', at = T0): Promise<void> {
  for (const claim of await claimAll(store, at)) {
    await finish(store, claim, outcome === 'Failed' ? failed() : succeeded(), at);
  }
}
