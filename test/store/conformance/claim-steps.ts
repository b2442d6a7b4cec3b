import { describe, expect, test } from 'vitest';
import type { Claim, StepAddress, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  aRun,
  claimAll,
  deployOf,
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

const runId = id(100);
const address = (stepKey: string, run = runId): StepAddress => ({ runId: run, stepKey });

function claim(store: Store, addresses: readonly StepAddress[], { now = T0, owner = 'me' } = {}) {
  return store.claimSteps({ addresses, owner, now, leasedUntil: now + minute });
}

/** Deploys a flow that runs no more than its limits say, and starts one run for each number. */
async function startLimited(store: Store, limits: object, runs: readonly number[]): Promise<StepAddress[]> {
  const snapshot = { id: flowId, steps: graphOf({ a: [] }), ...limits } as never;
  await store.deployFlow({ ...deployOf(graphOf({ a: [] })), snapshot });
  for (const n of runs) {
    const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 + n }];
    await store.accept({ run: aRun({ id: id(200 + n), steps }) });
  }
  return runs.map((n) => address('a', id(200 + n)));
}

/** Makes suspects of the steps that are due: twice they run when their process dies. */
async function makeSuspects(store: Store): Promise<void> {
  for (let deaths = 0; deaths < 2; deaths += 1) {
    await claimAll(store, T0 + deaths);
    await store.recover({ owner: 'me', now: T0 + deaths });
  }
}

export function claimSteps({ open }: StoreUnderTest): void {
  describe('steps that are claimed by address', () => {
    test('are leased as by a claim of what is due, and the others stay', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [], b: [], c: [] }));
      const byAddress = await claim(store, [address('b')]);
      expect(byAddress).toMatchObject({ claims: [{ stepKey: 'b', attempt: 1, dueAt: T0, startedAt: T0 }], left: [] });
      const [first, second] = await claimAll(store);
      expect([first?.stepKey, second?.stepKey].sort()).toEqual(['a', 'c']);
      const { token, stepKey, ...rest } = byAddress.claims[0] as Claim;
      expect({ ...first, token, stepKey }).toEqual({ ...rest, token, stepKey });
      expect(await finish(store, byAddress.claims[0] as Claim, succeeded())).toMatchObject({ runStatus: 'Running' });
    });

    test('belong to the owner who asked', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [], b: [] }));
      await claim(store, [address('a')], { owner: 'one' });
      await claim(store, [address('b')], { owner: 'two' });
      expect(await store.recover({ owner: 'one', now: T0 + 1 })).toBe(1);
      expect((await claimAll(store, T0 + 1)).map(({ stepKey }) => stepKey)).toEqual(['a']);
    });

    test('that are due later are named with when', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [] }));
      const [first] = await claimAll(store);
      await finish(store, first as Claim, retryAt(T0 + 500));
      expect(await claim(store, [address('a')], { now: T0 + 499 })).toEqual({
        claims: [],
        left: [{ ...address('a'), askAt: T0 + 500 }],
      });
      expect(await claim(store, [address('a')], { now: T0 + 500 })).toMatchObject({ claims: [{ attempt: 2 }] });
    });

    test('that another holds are named with the end of its lease, and are taken over from then on', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [] }));
      const [held] = await claimAll(store);
      expect(await claim(store, [address('a')], { now: T0 + minute - 1 })).toEqual({
        claims: [],
        left: [{ ...address('a'), askAt: T0 + minute }],
      });
      const taken = await claim(store, [address('a')], { now: T0 + minute });
      expect(taken.claims).toMatchObject([{ attempt: 2, interruptions: 1 }]);
      expect(await finish(store, held as Claim, succeeded())).toBeUndefined();
    });

    test('that are unknown, have ended, or wait without a time are named nowhere', async () => {
      const store = await open();
      await startRun(store, graphOf({ ended: [], waits: [], next: ['ended'] }));
      for (const each of await claimAll(store)) {
        const waiting = { kind: 'waiting', state: null, dueAt: null, signalName: 'go' } as const;
        await finish(store, each, each.stepKey === 'waits' ? waiting : succeeded());
      }
      const addresses = [address('ended'), address('waits'), address('nothing'), address('a', id(999))];
      expect(await claim(store, addresses)).toEqual({ claims: [], left: [] });
      expect(await claim(store, [])).toEqual({ claims: [], left: [] });
      await store.cancelRun({ runId, reason: null, at: T0 });
      expect(await claim(store, [address('next')])).toEqual({ claims: [], left: [] });
    });

    test('of a run that was told to stop are ended, not tried', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [], b: [] }));
      const { claims } = await claim(store, [address('a')]);
      await store.cancelRun({ runId, reason: null, at: T0 });
      expect(await finish(store, claims[0] as Claim, succeeded())).toMatchObject({ runStatus: 'Cancelled' });
      expect(await claim(store, [address('b')])).toEqual({ claims: [], left: [] });
    });

    test('are leased once, however often they are named', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [] }));
      expect((await claim(store, [address('a'), address('a')])).claims).toHaveLength(1);
    });

    test('are leased once, though many ask at once', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [], b: [] }));
      const both = [address('a'), address('b')];
      const batches = await Promise.all(Array.from({ length: 10 }, (_, n) => claim(store, both, { owner: `o${n}` })));
      expect(batches.flatMap(({ claims }) => claims)).toHaveLength(2);
      for (const { claims, left } of batches) expect(claims.length + left.length).toBe(2);
    });

    test.each([
      ['flow', { concurrency: 2 }],
      ['step type', { steps: { a: { type: 'NoOp', inputs: {}, runAfter: {}, concurrency: 2 } } }],
    ])('run no more at once than their %s may, the oldest first', async (_name, limits) => {
      const store = await open();
      const all = await startLimited(store, limits, [3, 1, 2]);
      const batch = await claim(store, all, { now: T0 + 9 });
      expect(batch.claims.map(({ dueAt }) => dueAt)).toEqual([T0 + 1, T0 + 2]);
      expect(batch.left).toEqual([{ ...all[0], askAt: null }]);
      expect((await claim(store, all.slice(0, 1), { now: T0 + 9 })).claims).toEqual([]);
      await finish(store, batch.claims[0] as Claim, succeeded());
      expect((await claim(store, all.slice(0, 1), { now: T0 + 9 })).claims).toHaveLength(1);
    });

    test('count what was leased as it became due', async () => {
      const store = await open();
      const all = await startLimited(store, { concurrency: 1 }, [1, 2]);
      expect((await claimAll(store, T0 + 9, 1)).map((each) => each.runId)).toEqual([id(201)]);
      expect(await claim(store, all, { now: T0 + 9 })).toEqual({
        claims: [],
        left: [
          { ...all[1], askAt: null },
          { ...all[0], askAt: T0 + 9 + minute },
        ],
      });
    });

    test('of several suspects the one begun last is leased, and nothing with it', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [], b: [] }));
      await makeSuspects(store);
      await store.accept({ run: aRun({ id: id(101), steps: [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }] }) });
      const addresses = [address('a', id(101)), address('a'), address('b')];
      const { claims, left } = await claim(store, addresses, { now: T0 + 10 });
      expect(claims).toMatchObject([{ runId, interruptions: 2, aloneMs: 10_000 }]);
      expect(left.map(({ askAt }) => askAt)).toEqual([T0 + 10, T0 + 10]);
      const again = await claim(store, addresses, { now: T0 + 11 });
      const [first, second] = [claims[0]?.stepKey, again.claims[0]?.stepKey];
      expect([first, second].sort()).toEqual(['a', 'b']);
      // Both are leased: what was no suspect has its turn.
      expect((await claim(store, addresses, { now: T0 + 12 })).claims).toMatchObject([{ runId: id(101) }]);
      await store.recover({ owner: 'me', now: T0 + 13 });
      const next = await claim(store, addresses.slice(1), { now: T0 + 13 });
      expect(next.claims).toMatchObject([{ stepKey: second, interruptions: 3 }]);
    });

    test('are not held back by a suspect that is not among them', async () => {
      const store = await open();
      await startRun(store, graphOf({ a: [] }));
      await makeSuspects(store);
      await store.accept({ run: aRun({ id: id(101), steps: [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }] }) });
      expect((await claim(store, [address('a', id(101))], { now: T0 + 10 })).claims).toHaveLength(1);
    });
  });
}
