import { describe, expect } from 'vitest';
import { holdStore } from '../../../src/features/hold/store.ts';
import { WAIT_KINDS } from '../../../src/model/run.ts';
import type { RunQuery, StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  claimAll,
  deployOf,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  retryAt,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

const wait = (change: Partial<Extract<StepResult, { kind: 'waiting' }>>): StepResult => ({
  kind: 'waiting',
  state: null,
  dueAt: null,
  signalName: null,
  ...change,
});

const WAITS: Readonly<Record<string, StepResult>> = {
  approve: wait({ signalName: 'go', dueAt: T0 + 9 * minute, limitAt: T0 + 8 * minute }),
  approveToo: wait({ signalName: 'stop' }),
  cool: wait({ dueAt: T0 + 2 * minute, state: { text: '"lastPoll":1' } }),
  charge: retryAt(T0 + 3 * minute),
  ask: wait({ dueAt: T0 + minute, state: { polls: 1, lastPoll: { at: T0, why: 'not yet' } } }),
  hand: wait({ state: { subRun: id(9) } }),
  call: wait({
    dueAt: T0 + 4 * minute,
    state: { secretWait: 'KEY is not set', resumed: '{"lastPoll":1,"hostTurn":"x"}' },
  }),
};

/** A run in which each step waits for something else, and a later run whose only step has no slot. */
async function waiting(store: Store): Promise<void> {
  await startRun(store, graphOf(Object.fromEntries(Object.keys(WAITS).map((key) => [key, []]))), { id: id(1) });
  for (const claim of await claimAll(store)) await finish(store, claim, WAITS[claim.stepKey] ?? succeeded());
  await startRun(store, graphOf({ first: [] }), { id: id(2), startedAt: T0 + 1 });
}

export function standing({ test }: StoreUnderTest): void {
  describe('where runs stand', () => {
    const describeRun = async (store: Store, dueBefore = T0 - 1) =>
      (await store.describeRuns({ running: [id(1), id(2)], ended: [], dueBefore })).waits;

    test('what a run waits for is told by kind: the step that goes on first, until when, and how many there are', async (store) => {
      await waiting(store);
      const run = { runId: id(1), signalName: null, host: null, awaitedRunId: null, lacking: null, steps: 1 };
      expect(await describeRun(store)).toEqual([
        { ...run, kind: 'signal', stepKey: 'approve', signalName: 'go', until: T0 + 8 * minute, steps: 2 },
        { ...run, kind: 'delay', stepKey: 'cool', until: T0 + 2 * minute },
        { ...run, kind: 'retry', stepKey: 'charge', until: T0 + 3 * minute },
        { ...run, kind: 'poll', stepKey: 'ask', until: T0 + minute },
        { ...run, kind: 'secret', stepKey: 'call', lacking: 'KEY is not set', until: T0 + 4 * minute },
        { ...run, kind: 'run', stepKey: 'hand', awaitedRunId: id(9), until: null },
      ]);
    });

    test('a step that is due waits for a slot, whatever it waited for until then', async (store) => {
      await waiting(store);
      const run = { signalName: null, host: null, awaitedRunId: null, lacking: null, until: null };
      const slot = { ...run, kind: 'slot' };
      expect((await describeRun(store, T0 + 2 * minute)).slice(1)).toEqual([
        { ...run, runId: id(1), kind: 'retry', stepKey: 'charge', until: T0 + 3 * minute, steps: 1 },
        {
          ...run,
          runId: id(1),
          kind: 'secret',
          stepKey: 'call',
          lacking: 'KEY is not set',
          until: T0 + 4 * minute,
          steps: 1,
        },
        { ...run, runId: id(1), kind: 'run', stepKey: 'hand', awaitedRunId: id(9), steps: 1 },
        { ...slot, runId: id(1), stepKey: 'ask', steps: 2 },
        { ...slot, runId: id(2), stepKey: 'first', steps: 1 },
      ]);
    });

    test('a step that runs, or has ended, waits for nothing', async (store) => {
      await waiting(store);
      const claims = await claimAll(store, T0 + 20 * minute);
      const stepKeys = ['approveToo', 'hand'];
      expect((await describeRun(store, T0 + 20 * minute)).map(({ stepKey }) => stepKey)).toEqual(stepKeys);
      await store.deliverSignal({ runId: id(1), name: 'stop', body: null, at: T0 + 20 * minute });
      for (const claim of claims) await finish(store, claim, succeeded(), T0 + 20 * minute);
      expect((await describeRun(store, T0)).map(({ kind, stepKey }) => [kind, stepKey])).toEqual([
        ['delay', 'approveToo'],
        ['run', 'hand'],
      ]);
      await store.cancelRun({ runId: id(1), reason: null, at: T0 + 21 * minute });
      expect(await describeRun(store, T0 + 30 * minute)).toEqual([]);
    });

    test('runs are listed by what they wait for, and so is their total', async (store) => {
      await waiting(store);
      await startRun(store, graphOf({ other: [] }), { id: id(3), status: 'Succeeded', completedAt: T0 });
      const listed = async (query: Partial<RunQuery>) => {
        const { items, total } = await store.listRuns({ skip: 0, take: 9, includeTotal: true, ...query });
        expect(total).toBe(items.length);
        return items.map((run) => run.id);
      };
      for (const kind of WAIT_KINDS.filter((each) => !['slot', 'host', 'order', 'coalesce'].includes(each))) {
        expect(await listed({ waiting: { kind, dueBefore: T0 - 1 } })).toEqual([id(1)]);
        expect(await listed({ flowId, status: 'Running', waiting: { kind, dueBefore: T0 - 1 } })).toEqual([id(1)]);
        expect(await listed({ flowId: 'other', waiting: { kind, dueBefore: T0 - 1 } })).toEqual([]);
        expect(await listed({ since: T0 + 1, waiting: { kind, dueBefore: T0 - 1 } })).toEqual([]);
      }
      const slot = (dueBefore: number) => ({ waiting: { kind: 'slot', dueBefore } as const });
      expect(await listed(slot(T0 - 1))).toEqual([]);
      expect(await listed(slot(T0))).toEqual([id(2)]);
      expect(await listed({ ...slot(T0 + minute), flowId })).toEqual([id(2), id(1)]);
      expect(await listed({ ...slot(T0 + minute), flowId: 'other' })).toEqual([]);
      expect(await listed({ ...slot(T0 + minute), status: 'Failed' })).toEqual([]);
      expect(await listed({ waiting: { kind: 'delay', dueBefore: T0 + 2 * minute } })).toEqual([]);
    });

    test('a run tells the steps that failed, first to last, without those within loops', async (store) => {
      const loop = { type: 'ForEach', inputs: {}, runAfter: {}, concurrencyLimit: 1, steps: graphOf({ child: [] }) };
      await startRun(store, { each: loop, ...graphOf({ mend: { each: ['Failed'] }, last: ['mend'] }) }, { id: id(1) });
      const [each] = await claimAll(store);
      if (each === undefined) throw new Error('nothing was due');
      await finish(store, each, { kind: 'loop', items: [1], concurrency: 1 });
      for (const claim of await claimAll(store)) await finish(store, claim, failed(), T0 + 1);
      for (const claim of await claimAll(store, T0 + 2)) await finish(store, claim, succeeded(), T0 + 2);
      for (const claim of await claimAll(store, T0 + 3)) await finish(store, claim, failed(), T0 + 3);
      const { failures } = await store.describeRuns({ running: [], ended: [id(1), id(9)], dueBefore: T0 });
      const message = '"each.0.child" failed: No.';
      expect(failures).toEqual([
        { runId: id(1), stepKey: 'each', error: { code: 'iteration_failed', message, retryable: false } },
        { runId: id(1), stepKey: 'last', error: { code: 'broken', message: 'No.', retryable: false } },
      ]);
    });

    test('of steps that wait or failed at the same time the first by key is named', async (store) => {
      const graph = graphOf({ b: [], Z: [], a: [], é: [], A: [] });
      await startRun(store, graph, { id: id(1) });
      const named = async (dueBefore: number) =>
        (await store.describeRuns({ running: [id(1)], ended: [], dueBefore })).waits.map(({ stepKey }) => stepKey);
      expect(await named(T0)).toEqual(['A']);
      const claims = await claimAll(store);
      for (const claim of claims) await finish(store, claim, retryAt(T0 + minute));
      expect(await named(T0)).toEqual(['A']);
      for (const claim of await claimAll(store, T0 + minute)) await finish(store, claim, failed(), T0 + minute);
      const { failures } = await store.describeRuns({ running: [], ended: [id(1)], dueBefore: T0 });
      expect(failures.map(({ stepKey }) => stepKey)).toEqual(['A', 'Z', 'a', 'b', 'é']);
    });

    test('deliveries that are held are listed, of all flows or of one', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(acceptanceOf(1));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      for (const n of [2, 3]) await store.holdDelivery(acceptanceOf(n));
      const listed = async (query: object) => {
        const page = await store.listDeliveries({ skip: 0, take: 9, includeTotal: true, heldOnly: true, ...query });
        return [page.total, ...page.items.map((item) => item.id)];
      };
      expect(await listed({})).toEqual([2, id(3), id(2)]);
      expect(await listed({ flowId })).toEqual([2, id(3), id(2)]);
      expect(await listed({ flowId: 'other' })).toEqual([0]);
      expect(await listed({ skip: 1, take: 1 })).toEqual([2, id(2)]);
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
      await store.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 + 1 });
      expect(await listed({})).toEqual([0]);
    });
  });
}
