import { describe, expect } from 'vitest';
import { flowsStore } from '../../../src/features/flows/store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, finish, graphOf, minute, succeeded, T0 } from '../samples.ts';
import {
  asking,
  CHILD,
  claimOne,
  deploy,
  end,
  GRANDCHILD,
  PARENT,
  running,
  start,
  startBoth,
  statusOf,
} from '../sub-run-samples.ts';

const overdue = (store: Store, now: number) =>
  store.claimOverdue({ owner: 'me', now, leasedUntil: now + minute, limit: 9 });

export function stoppingSubRuns({ test }: StoreUnderTest): void {
  describe('stops of runs that steps start, or that start them', () => {
    test.each([
      [9, T0 + 8000, T0 + 7000, T0 + 7000],
      [9, T0 + 6000, T0 + 7000, T0 + 6000],
      [5, T0 + 6000, undefined, T0 + 5000],
      [undefined, null, undefined, null],
    ] as const)(
      'of a run limited to %s s, its parent to %s and the step to %s, the first deadline ends it',
      async (store, ownSeconds, parentAt, stepAt, first) => {
        await deploy(store, CHILD, ownSeconds === undefined ? {} : { timeoutSeconds: ownSeconds });
        await start(store, await deploy(store, PARENT, { steps: running(CHILD) }), { timeoutAt: parentAt });
        const { subRun } = await end(store, asking(CHILD, { limitAt: stepAt }));
        expect(subRun?.run?.timeoutAt).toBe(first);
      },
    );

    test('a run that times out makes the step due that waits for it', async (store) => {
      const { parent, child } = await startBoth(store, { ask: asking(CHILD, { limitAt: T0 + 5 }) });
      const { timedOut } = await overdue(store, T0 + 5);
      expect(timedOut).toMatchObject([{ runId: child, completedAt: T0 + 5, woken: { runId: parent, stepKey: 'go' } }]);
      expect(await claimOne(store, T0 + 5)).toMatchObject({ runId: parent, stop: null });
    });

    test.each([['Cancelled'], ['TimedOut']] as const)(
      'a parent that is %s takes the runs that it waits for along, however deep',
      async (store, stop) => {
        await deploy(store, GRANDCHILD);
        await deploy(store, CHILD, { steps: running(GRANDCHILD) });
        const flow = await deploy(store, PARENT, { steps: running(CHILD) });
        const parent = await start(store, flow);
        const child = (await end(store, asking())).subRun?.run?.id ?? '';
        const grandchild = (await end(store, asking(GRANDCHILD))).subRun?.run?.id ?? '';
        if (stop === 'Cancelled') await store.cancelRun({ runId: parent, reason: 'no', at: T0 + 1 });
        else await store.cancelRun({ runId: child, reason: 'no', at: T0 + 1 });
        const stopped: string[] = [];
        for (let at = T0 + 1; ; at += 1) {
          const { orphaned, nextAt } = await overdue(store, at);
          stopped.push(...orphaned.map(({ runId }) => runId));
          if (nextAt === null) break;
        }
        expect(stopped).toEqual(stop === 'Cancelled' ? [child, grandchild] : [grandchild]);
        expect(await statusOf(store, grandchild)).toBe('Cancelled');
        expect((await store.findRun(grandchild))?.cancelReason).toContain(child);
        if (stop === 'Cancelled') expect(await claimAll(store, T0 + 9)).toEqual([]);
        else expect(await claimOne(store, T0 + 9)).toMatchObject({ runId: parent, stop: null });
      },
    );

    test('a parent that is told to stop twice cancels the runs that it waits for once', async (store) => {
      await deploy(store, CHILD);
      const steps = { ...running(CHILD), ...graphOf({ other: [] }) };
      const parent = await start(store, await deploy(store, PARENT, { steps }));
      for (const claim of await claimAll(store)) {
        if (claim.stepKey === 'go') await finish(store, claim, asking());
      }
      for (const at of [T0 + 1, T0 + 2]) await store.cancelRun({ runId: parent, reason: null, at });
      expect((await overdue(store, T0 + 2)).orphaned).toHaveLength(1);
      expect(await store.of(flowsStore).countRuns()).toEqual(
        expect.arrayContaining([
          { flowId: PARENT, status: 'Running', count: 1 },
          { flowId: CHILD, status: 'Cancelled', count: 1 },
        ]),
      );
      expect(await store.listRuns({ status: 'Running', skip: 0, take: 9 })).toMatchObject({ items: [{ id: parent }] });
    });

    test('a run that nobody waits for is not cancelled with its parent', async (store) => {
      await deploy(store, CHILD);
      const steps = { ...running(CHILD), ...graphOf({ other: [] }) };
      const parent = await start(store, await deploy(store, PARENT, { steps }));
      const claims = await claimAll(store);
      const go = claims.find(({ stepKey }) => stepKey === 'go');
      if (go === undefined) throw new Error('the step was not due');
      const child = (await finish(store, go, asking(CHILD, { isAwaited: false })))?.subRun?.run?.id ?? '';
      await store.cancelRun({ runId: parent, reason: null, at: T0 + 1 });
      expect((await overdue(store, T0 + 1)).orphaned).toEqual([]);
      expect(await statusOf(store, child)).toBe('Running');
    });

    test('a run that has ended when its parent is cancelled is left alone', async (store) => {
      const { parent, child } = await startBoth(store);
      const work = await claimOne(store);
      await store.cancelRun({ runId: parent, reason: null, at: T0 + 1 });
      expect(await finish(store, work, succeeded(), T0 + 1)).toMatchObject({ runStatus: 'Succeeded' });
      expect(await overdue(store, T0 + 1)).toMatchObject({ orphaned: [], nextAt: null });
      expect([await statusOf(store, parent), await statusOf(store, child)]).toEqual(['Cancelled', 'Succeeded']);
    });
  });
}
