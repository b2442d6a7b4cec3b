import { describe, expect } from 'vitest';
import type { Claim, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  aRun,
  claimAll,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  readInput,
  retryAt,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

export function leases({ test }: StoreUnderTest): void {
  describe('leases', () => {
    test('a claim tells all that a worker needs', async (store) => {
      await startRun(store, graphOf({ a: [] }), { traceparent: '00-x-y-01', triggerKey: 'nightly' });
      const { claims, nextDueAt } = await store.claimDue({
        owner: 'me',
        now: T0 + 3,
        leasedUntil: T0 + minute,
        limit: 9,
      });
      expect(claims).toEqual([
        {
          token: expect.any(String),
          runId: id(100),
          flowId,
          revision: 1,
          // Only from a database that other processes deploy to.
          ...(claims[0]?.newestRevision !== undefined && { newestRevision: 1 }),
          stepKey: 'a',
          stepType: 'NoOp',
          attempt: 1,
          interruptions: 0,
          loneDeaths: 0,
          aloneMs: null,
          triggerKey: 'nightly',
          traceparent: '00-x-y-01',
          dueAt: T0,
          startedAt: T0 + 3,
          attemptBase: 0,
          attemptStartedAt: T0 + 3,
          resumed: null,
          loop: null,
          stop: null,
        },
      ]);
      expect(nextDueAt).toBeNull();
      expect(await store.listSteps(id(100))).toMatchObject([
        { status: 'Running', attemptCount: 1, startedAt: T0 + 3, attempts: [{ attempt: 1, status: 'Running' }] },
      ]);
    });

    test('due steps are claimed oldest first, no more than asked for', async (store) => {
      const dueAts = [T0 + 3, T0 + 1, T0 + 2, T0 + 9, T0 - 1];
      for (const [n, dueAt] of dueAts.entries()) await startDue(store, n, dueAt);
      const batch = await store.claimDue({ owner: 'me', now: T0 + 3, leasedUntil: T0 + minute, limit: 3 });
      expect(batch.claims.map(({ dueAt }) => dueAt)).toEqual([T0 - 1, T0 + 1, T0 + 2]);
      expect(batch.nextDueAt).toBe(T0 + 3);
      const rest = await store.claimDue({ owner: 'me', now: T0 + 3, leasedUntil: T0 + minute, limit: 3 });
      expect(rest.claims.map(({ dueAt }) => dueAt)).toEqual([T0 + 3]);
      expect(rest.nextDueAt).toBe(T0 + 9);
    });

    test('a step is due from its very instant on', async (store) => {
      await startDue(store, 1, T0 + 5);
      expect(await store.claimDue({ owner: 'me', now: T0 + 4, leasedUntil: T0 + minute, limit: 5 })).toEqual({
        claims: [],
        nextDueAt: T0 + 5,
        isKept: false,
      });
      expect(await claimAll(store, T0 + 5)).toHaveLength(1);
    });

    test('nothing is claimed twice under one lease, not even at once', async (store) => {
      for (let n = 0; n < 20; n += 1) await startDue(store, n, T0);
      const batches = await Promise.all([claimAll(store, T0, 7), claimAll(store, T0, 7), claimAll(store, T0, 7)]);
      // A claim may lock one extra step to see whether more are due; meanwhile other claims skip that step.
      const claims = [...batches.flat(), ...(await claimAll(store, T0))];
      expect(claims).toHaveLength(20);
      expect(new Set(claims.map(({ runId }) => runId)).size).toBe(20);
      expect(new Set(claims.map(({ token }) => token)).size).toBe(20);
      expect(await claimAll(store, T0)).toEqual([]);
    });

    test('a lease that has run out is due again, as a new attempt after an interrupted one', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      const first = await claimOne(store, T0);
      expect(await claimAll(store, T0 + minute - 1)).toEqual([]);
      const second = await claimOne(store, T0 + minute);
      expect(second).toMatchObject({ attempt: 2, interruptions: 1, dueAt: T0 + minute, startedAt: T0 + minute });
      expect(second.token).not.toBe(first.token);
      expect(await store.listSteps(id(100))).toMatchObject([
        {
          status: 'Running',
          attemptCount: 2,
          startedAt: T0,
          attempts: [
            { attempt: 1, status: 'Failed', error: { code: 'interrupted', retryable: true }, completedAt: T0 + minute },
            { attempt: 2, status: 'Running', error: null, startedAt: T0 + minute, completedAt: null },
          ],
        },
      ]);
    });

    test('a step that is tried again was not interrupted', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      await finish(store, await claimOne(store, T0), retryAt(T0 + 1));
      expect(await claimOne(store, T0 + 1)).toMatchObject({ attempt: 2, interruptions: 0 });
    });

    test('an outcome under a lost lease changes nothing', async (store) => {
      await startRun(store, graphOf({ a: [], b: ['a'] }));
      const lost = await claimOne(store, T0);
      const held = await claimOne(store, T0 + minute);
      const before = await store.listSteps(id(100));
      expect(await finish(store, lost, succeeded('late'))).toBeUndefined();
      expect(await store.listSteps(id(100))).toEqual(before);
      expect(await finish(store, held, succeeded('in time'))).toMatchObject({ dispatched: ['b'] });
    });

    test('an outcome is taken once', async (store) => {
      await startRun(store, graphOf({ a: [], b: ['a'] }));
      const claim = await claimOne(store, T0);
      const advances = await Promise.all([finish(store, claim, succeeded(0)), finish(store, claim, succeeded(1))]);
      const taken = advances.findIndex((advance) => advance !== undefined);
      expect(advances[taken]).toMatchObject({ dispatched: ['b'] });
      expect(advances[1 - taken]).toBeUndefined();
      expect((await readInput(store, id(100))).steps.a?.output).toBe(taken);
    });

    test('an outcome names the step of its token', async (store) => {
      await startRun(store, graphOf({ a: [], b: [] }));
      const [a, b] = await claimAll(store);
      if (a === undefined || b === undefined) throw new Error('two steps should be due');
      expect(await finish(store, { ...b, token: a.token }, succeeded())).toBeUndefined();
      expect(await finish(store, b, succeeded())).toBeDefined();
    });

    test('renews leases, and names those no longer held', async (store) => {
      await startRun(store, graphOf({ a: [], b: [], c: [] }));
      const [a, b, c] = await claimAll(store);
      if (a === undefined || b === undefined || c === undefined) throw new Error('three steps should be due');
      await finish(store, b, succeeded());
      const tokens = [a.token, b.token, `${id(999)}/given/out`, 'nonsense', ''];
      const lost = await store.renewLeases({ tokens, leasedUntil: T0 + 5 * minute });
      expect(lost).toEqual([b.token, `${id(999)}/given/out`, 'nonsense', '']);
      const taken = await store.claimDue({ owner: 'me', now: T0 + minute, leasedUntil: T0 + 2 * minute, limit: 9 });
      expect(taken.claims.map(({ stepKey }) => stepKey)).toEqual(['c']);
      expect(taken.nextDueAt).toBe(T0 + 5 * minute);
      expect(await store.renewLeases({ tokens: [c.token], leasedUntil: T0 })).toEqual([c.token]);
    });

    test('recovery makes every leased step due now, and nothing else', async (store) => {
      await startRun(store, graphOf({ a: [], b: [] }));
      await startDue(store, 1, T0 + 30 * minute);
      await claimAll(store, T0);
      expect(await store.recover({ owner: 'me', now: T0 + 1 })).toBe(2);
      const batch = await store.claimDue({ owner: 'me', now: T0 + 1, leasedUntil: T0 + minute, limit: 9 });
      expect(batch.claims).toMatchObject([
        { stepKey: 'a', interruptions: 1, attempt: 2 },
        { stepKey: 'b', interruptions: 1, attempt: 2 },
      ]);
      expect(batch.nextDueAt).toBe(T0 + 30 * minute);
    });

    test('recovery frees the leases of one owner, and blames that owner’s steps alone', async (store) => {
      await startRun(store, graphOf({ a: [], b: [], c: [] }));
      const claimAs = async (owner: string, limit: number, now = T0) =>
        (await store.claimDue({ owner, now, leasedUntil: now + minute, limit })).claims;
      const [mine] = await claimAs('one', 1);
      const others = await claimAs('two', 9);
      expect(await store.recover({ owner: 'one', now: T0 + 1 })).toBe(1);
      expect(await claimAs('three', 9, T0 + 1)).toMatchObject([{ stepKey: mine?.stepKey, attempt: 2, loneDeaths: 1 }]);
      // The other owner's steps are not affected.
      for (const claim of others)
        expect(await finish(store, claim, succeeded())).toMatchObject({ runStatus: 'Running' });
      expect(await store.recover({ owner: 'one', now: T0 + 2 })).toBe(0);
      expect(await store.recover({ owner: 'two', now: T0 + 2 })).toBe(0);
      expect(await store.recover({ owner: 'three', now: T0 + 2 })).toBe(1);
    });

    test('an owner whose name begins another’s does not recover its leases', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      await store.claimDue({ owner: 'host-12', now: T0, leasedUntil: T0 + minute, limit: 1 });
      expect(await store.recover({ owner: 'host-1', now: T0 })).toBe(0);
      expect(await store.recover({ owner: 'host-12', now: T0 })).toBe(1);
    });

    test('what was given back while the clock was ahead is due at the recovery, uncounted', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      const { token } = await claimOne(store, T0);
      await store.returnLeases({ tokens: [token], at: T0 + 1000 * minute });
      expect(await store.recover({ owner: 'me', now: T0 + 1 })).toBe(0);
      expect(await claimOne(store, T0 + 1)).toMatchObject({ interruptions: 0, loneDeaths: 0, aloneMs: null });
    });

    test('there is nothing to recover where nothing is leased', async (store) => {
      await startDue(store, 1, T0);
      expect(await store.recover({ owner: 'me', now: T0 })).toBe(0);
      expect(await claimOne(store, T0)).toMatchObject({ interruptions: 0 });
    });
  });
}

async function startDue(store: Store, n: number, dueAt: number): Promise<void> {
  await store.accept({ run: aRun({ id: id(200 + n), steps: [{ stepKey: 'a', stepType: 'NoOp', dueAt }] }) });
}

async function claimOne(store: Store, now: number): Promise<Claim> {
  const claims = await claimAll(store, now);
  expect(claims).toHaveLength(1);
  return claims[0] as Claim;
}
