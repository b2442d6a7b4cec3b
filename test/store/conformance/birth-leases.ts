import { describe, expect } from 'vitest';
import { runsStore } from '../../../src/features/runs/store.ts';
import { parseJson } from '../../../src/model/json.ts';
import { holderOf, tokenOf } from '../../../src/model/runtime-keys.ts';
import type { BirthLease, Claim, NewRun, StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  aRun,
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

const runId = id(100);
const mine = (call: number) => holderOf('me', String(call));

function lease(change: Partial<BirthLease> = {}): BirthLease {
  return { holder: mine(1), leasedUntil: T0 + minute, limit: 9, ...change };
}

/** Deploys a graph and starts a run whose first steps are leased. */
async function startLeased(
  store: Store,
  graph: ReturnType<typeof graphOf>,
  { limit = 9, ...change }: Partial<NewRun> & { limit?: number } = {},
): Promise<void> {
  const { revision } = await store.deployFlow(deployOf(graph));
  const entries = Object.entries(graph).filter(([, { runAfter }]) => Object.keys(runAfter).length === 0);
  const steps = entries.map(([stepKey, { type }]) => ({ stepKey, stepType: type, dueAt: T0 }));
  const run = aRun({ revision, steps, ...change });
  expect(await store.accept({ run }, lease({ limit }))).toMatchObject({ kind: 'accepted' });
}

/** Ends the attempt of a step that was leased as it became due. */
function end(store: Store, stepKey: string, result: StepResult, next?: BirthLease, holder = mine(1)) {
  const times = { at: T0 + 8, dueAt: T0, startedAt: T0 + 3 };
  return store.advance({ token: tokenOf(runId, stepKey, holder), runId, stepKey, ...times, input: null, result }, next);
}

async function stepsOf(store: Store) {
  return Object.fromEntries(((await store.listSteps(runId)) ?? []).map((step) => [step.stepKey, step]));
}

export function birthLeases({ test }: StoreUnderTest): void {
  describe('steps that are leased as they become due', () => {
    test('of a new run are not claimed by another, and have no attempt yet', async (store) => {
      await startLeased(store, graphOf({ a: [], b: [], c: [] }), { limit: 2 });
      const batch = await store.claimDue({ owner: 'me', now: T0, leasedUntil: T0 + minute, limit: 9 });
      expect(batch).toMatchObject({ claims: [{ stepKey: 'c', attempt: 1 }], nextDueAt: T0 + minute });
      expect(await stepsOf(store)).toMatchObject({
        a: { status: 'Running', attemptCount: 0, attempts: [] },
        b: { status: 'Running', attemptCount: 0, attempts: [] },
        c: { status: 'Running', attemptCount: 1 },
      });
    });

    test('are only given with an accepted run', async (store) => {
      await startLeased(store, graphOf({ a: [] }), { steps: [] });
      const idempotencyKey = 'k';
      await store.accept({ run: aRun({ id: id(101) }), idempotencyKey });
      const again = await store.accept({ run: aRun({ id: id(102) }), idempotencyKey }, lease());
      expect(again).toMatchObject({ kind: 'duplicate', runId: id(101) });
      expect(await store.listSteps(id(102))).toBeUndefined();
    });

    test('leave one whole attempt when they end', async (store) => {
      await startLeased(store, graphOf({ good: [], bad: [] }));
      await end(store, 'good', succeeded({ ok: true }));
      expect(await end(store, 'bad', failed())).toMatchObject({ runStatus: 'Failed' });
      const times = { slotWaitMs: 0, startedAt: T0 + 3, completedAt: T0 + 8 };
      expect(await stepsOf(store)).toMatchObject({
        good: {
          status: 'Succeeded',
          attemptCount: 1,
          startedAt: T0 + 3,
          completedAt: T0 + 8,
          output: { ok: true },
          attempts: [{ attempt: 1, status: 'Succeeded', output: { ok: true }, ...times }],
        },
        bad: { status: 'Failed', attemptCount: 1, attempts: [{ attempt: 1, status: 'Failed', ...times }] },
      });
    });

    test('that fail are due again with a second attempt', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await end(store, 'a', retryAt(T0 + 500));
      expect(await stepsOf(store)).toMatchObject({ a: { status: 'Pending', attempts: [{ status: 'Failed' }] } });
      expect(await claimAll(store, T0 + 500)).toMatchObject([{ attempt: 2, attemptBase: 0, interruptions: 0 }]);
    });

    test('count no attempt that a fault of our own ended, the first nor a later one', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      const fault = (dueAt: number) => ({ ...retryAt(dueAt), isUncounted: true }) as StepResult;
      await end(store, 'a', fault(T0 + 500));
      const [second] = await claimAll(store, T0 + 500);
      expect(second).toMatchObject({ attempt: 2, attemptBase: 1, interruptions: 0 });
      await finish(store, second as Claim, fault(T0 + 900), T0 + 501);
      expect(await claimAll(store, T0 + 900)).toMatchObject([{ attempt: 3, attemptBase: 2, interruptions: 0 }]);
    });

    test('that are skipped by their condition leave no attempt', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await end(store, 'a', { kind: 'skipped', reason: 'no' });
      expect(await stepsOf(store)).toMatchObject({
        a: { status: 'Skipped', attemptCount: 0, startedAt: null, attempts: [] },
      });
    });

    test('that wait go on with the attempt that they began', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      const dueAt = T0 + minute;
      await end(store, 'a', { kind: 'waiting', state: { seen: 1 }, dueAt, signalName: null });
      expect(await stepsOf(store)).toMatchObject({
        a: { status: 'Pending', attemptCount: 1, attempts: [{ attempt: 1, status: 'Running', startedAt: T0 + 3 }] },
      });
      const [claim] = await claimAll(store, dueAt);
      expect(claim).toMatchObject({ attempt: 1, attemptStartedAt: T0 + 3, resumed: { state: { seen: 1 } } });
      await finish(store, claim as Claim, succeeded(), dueAt);
      expect(await stepsOf(store)).toMatchObject({ a: { attempts: [{ attempt: 1, status: 'Succeeded' }] } });
    });

    test('that wait for a signal that was sent before take it', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.deliverSignal({ runId, name: 'go', body: 7, at: T0 });
      await end(store, 'a', { kind: 'waiting', state: null, dueAt: null, signalName: 'go' });
      expect(await claimAll(store, T0 + 8)).toMatchObject([{ attempt: 1, resumed: { signal: { body: 7 } } }]);
    });

    test('lead to others that are leased in the same way, as many as there is room for', async (store) => {
      await startLeased(store, graphOf({ a: [], b: ['a'], c: ['a'], d: ['a'] }));
      const advance = await end(store, 'a', succeeded(), lease({ holder: mine(2), limit: 2 }));
      expect(advance).toMatchObject({ dispatched: ['b', 'c', 'd'] });
      expect(advance?.leased).toEqual([
        { stepKey: 'b', stepType: 'NoOp', loop: null },
        { stepKey: 'c', stepType: 'NoOp', loop: null },
      ]);
      expect(await claimAll(store, T0 + 8)).toMatchObject([{ stepKey: 'd' }]);
      await end(store, 'b', succeeded(), undefined, mine(2));
      expect(await stepsOf(store)).toMatchObject({ b: { status: 'Succeeded' }, c: { status: 'Running' } });
    });

    test('follow one that was claimed', async (store) => {
      await startRun(store, graphOf({ a: [], b: ['a'] }));
      const [{ token, stepKey } = { token: '', stepKey: '' }] = await claimAll(store);
      const outcome = { token, runId, stepKey, at: T0, input: null, result: succeeded() };
      expect(await store.advance(outcome, lease())).toMatchObject({ leased: [{ stepKey: 'b' }] });
      expect(await end(store, 'b', succeeded())).toMatchObject({ runStatus: 'Succeeded' });
    });

    test('of a loop are handed their items, exact numbers among them', async (store) => {
      const child = { type: 'NoOp', inputs: {}, runAfter: {} };
      await startLeased(store, { each: { ...child, type: 'ForEach', steps: { child } } });
      const big = parseJson('12345678901234567890');
      const items = [big, 2, 3];
      const begun = await end(store, 'each', { kind: 'loop', items, concurrency: 2 }, lease({ holder: mine(2) }));
      expect(begun?.leased).toEqual([
        { stepKey: 'each.0.child', stepType: 'NoOp', loop: { item: big, index: 0 } },
        { stepKey: 'each.1.child', stepType: 'NoOp', loop: { item: 2, index: 1 } },
      ]);
      const next = await end(store, 'each.0.child', succeeded(), lease({ holder: mine(3) }), mine(2));
      expect(next?.leased).toEqual([{ stepKey: 'each.2.child', stepType: 'NoOp', loop: { item: 3, index: 2 } }]);
      await end(store, 'each.1.child', succeeded(), undefined, mine(2));
      expect(await end(store, 'each.2.child', succeeded(), undefined, mine(3))).toMatchObject({
        runStatus: 'Succeeded',
        loops: [{ stepKey: 'each', status: 'Succeeded' }],
      });
      expect(await stepsOf(store)).toMatchObject({ each: { attempts: [{ attempt: 1, status: 'Succeeded' }] } });
    });

    test('of a flow with a limit count against it', async (store) => {
      const snapshot = { id: flowId, steps: graphOf({ a: [] }), concurrency: 1 } as never;
      await store.deployFlow({ ...deployOf(graphOf({ a: [] })), snapshot });
      const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }];
      await store.accept({ run: aRun({ steps }) }, lease());
      await store.accept({ run: aRun({ id: id(101), steps }) });
      expect(await store.claimDue({ owner: 'me', now: T0, leasedUntil: T0 + minute, limit: 9 })).toMatchObject({
        claims: [],
      });
    });
  });

  describe('the attempt of a step that was leased as it became due', () => {
    const begun = { token: tokenOf(runId, 'a', mine(1)), dueAt: T0, startedAt: T0 + 3 };

    test('is shown as running once it is marked as begun, and ends as any other', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.beginAttempts({ attempts: [begun] });
      expect(await stepsOf(store)).toMatchObject({
        a: { status: 'Running', attemptCount: 1, startedAt: T0 + 3, attempts: [{ status: 'Running', slotWaitMs: 3 }] },
      });
      await end(store, 'a', succeeded());
      expect(await stepsOf(store)).toMatchObject({ a: { attemptCount: 1, attempts: [{ status: 'Succeeded' }] } });
    });

    test('is marked at most once, and only under its lease', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      const lost = { ...begun, token: tokenOf(runId, 'a', holderOf('another', '1')) };
      await store.beginAttempts({ attempts: [begun, begun, lost] });
      expect((await stepsOf(store)).a?.attempts).toHaveLength(1);
      await end(store, 'a', succeeded());
      await store.beginAttempts({ attempts: [begun] });
      expect(await stepsOf(store)).toMatchObject({ a: { attemptCount: 1, attempts: [{ status: 'Succeeded' }] } });
    });

    test('keeps what it runs with, under its lease alone, and its outcome replaces that', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      const lost = tokenOf(runId, 'a', holderOf('another', '1'));
      await store.noteInput({ token: lost, input: '{"url":"lost"}', inputsRevision: 1 });
      expect(await stepsOf(store)).toMatchObject({ a: { input: null } });
      await store.noteInput({ token: begun.token, input: '{"url":"kept"}', inputsRevision: 2 });
      expect(await stepsOf(store)).toMatchObject({ a: { status: 'Running', input: { url: 'kept' } } });
      await end(store, 'a', succeeded());
      const ended = await stepsOf(store);
      await store.noteInput({ token: begun.token, input: '{"url":"late"}', inputsRevision: 3 });
      expect(await stepsOf(store)).toEqual(ended);
    });

    test('is recorded with what it ran with where it is interrupted', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.beginAttempts({ attempts: [begun] });
      await store.noteInput({ token: begun.token, input: '{"url":"sent"}', inputsRevision: 2 });
      const sent = { attempt: 1, input: { url: 'sent' }, inputsRevision: 2 };
      expect((await stepsOf(store)).a?.attempts).toMatchObject([{ ...sent, status: 'Running' }]);
      await store.recover({ owner: 'me', now: T0 + 5 });
      const [claim] = await claimAll(store, T0 + 5);
      expect((await stepsOf(store)).a?.attempts).toMatchObject([
        { ...sent, status: 'Failed', error: { code: 'interrupted' } },
        { attempt: 2, status: 'Running', input: null, inputsRevision: null },
      ]);
      await store.noteInput({ token: claim?.token ?? '', input: '{"url":"new"}', inputsRevision: 3 });
      expect((await stepsOf(store)).a?.attempts).toMatchObject([sent, { attempt: 2, input: { url: 'new' } }]);
    });

    test('is listed once it runs for long, with how long it took before', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.beginAttempts({ attempts: [begun] });
      expect(await store.of(runsStore).listLongSteps({ startedBefore: T0 + 3 })).toEqual([]);
      const long = { runId, stepKey: 'a', flowId, startedAt: T0 + 3 };
      expect(await store.of(runsStore).listLongSteps({ startedBefore: T0 + 4 })).toEqual([
        { ...long, known: 0, longestMs: 0 },
      ]);
      for (const n of [7, 8]) {
        const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }];
        await store.accept({ run: aRun({ id: id(n), revision: 1, steps }) });
        for (const claim of await claimAll(store, T0 + n)) await finish(store, claim, succeeded(), T0 + n * 100);
      }
      expect(await store.of(runsStore).listLongSteps({ startedBefore: T0 + 4 })).toEqual([
        { ...long, known: 2, longestMs: 792 },
      ]);
      await end(store, 'a', succeeded());
      expect(await store.of(runsStore).listLongSteps({ startedBefore: T0 + 9999 })).toEqual([]);
    });

    test('counts neither as interrupted nor as tried where the process died before it was marked', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      expect(await store.recover({ owner: 'me', now: T0 + 5 })).toBe(1);
      expect(await stepsOf(store)).toMatchObject({ a: { status: 'Pending', startedAt: null, attemptCount: 0 } });
      expect(await claimAll(store, T0 + 5)).toMatchObject([
        { attempt: 1, attemptBase: 0, interruptions: 0, loneDeaths: 0, aloneMs: null },
      ]);
      // That claim wrote the attempt, so from now on deaths count.
      await store.recover({ owner: 'me', now: T0 + 6 });
      expect(await claimAll(store, T0 + 6)).toMatchObject([{ attempt: 2, interruptions: 1, loneDeaths: 1 }]);
    });

    test('is freed with the leases of its owner alone', async (store) => {
      await startLeased(store, graphOf({ a: [], b: ['a'] }));
      expect(await store.recover({ owner: 'another', now: T0 + 5 })).toBe(0);
      await store.beginAttempts({ attempts: [begun] });
      expect(await store.recover({ owner: 'another', now: T0 + 5 })).toBe(0);
      expect(await end(store, 'a', succeeded(), lease({ holder: holderOf('another', '7') }))).toMatchObject({
        leased: [{ stepKey: 'b' }],
      });
      expect(await store.recover({ owner: 'me', now: T0 + 9 })).toBe(0);
      expect(await store.recover({ owner: 'another', now: T0 + 9 })).toBe(1);
    });

    test('counts as interrupted where the process died after it was marked', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.beginAttempts({ attempts: [begun] });
      await store.recover({ owner: 'me', now: T0 + 5 });
      expect(await claimAll(store, T0 + 5)).toMatchObject([{ attempt: 2, interruptions: 1, loneDeaths: 1 }]);
    });

    test('that was not marked may have ended the process, so that none that ran beside it is blamed', async (store) => {
      await startLeased(store, graphOf({ a: [], b: [] }));
      await store.beginAttempts({ attempts: [begun] });
      expect(await store.recover({ owner: 'me', now: T0 + 5 })).toBe(2);
      expect(await claimAll(store, T0 + 5)).toMatchObject([
        { stepKey: 'a', interruptions: 1, loneDeaths: 0 },
        { stepKey: 'b', interruptions: 0, loneDeaths: 0 },
      ]);
    });

    test('is not counted where its lease ran out before it was marked', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      expect(await claimAll(store, T0 + minute)).toMatchObject([
        { attempt: 1, attemptBase: 0, interruptions: 0, loneDeaths: 0 },
      ]);
      expect(await end(store, 'a', succeeded())).toBeUndefined();
    });

    test('is not counted where it was given back before it was marked', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.returnLeases({ tokens: [begun.token], at: T0 + 4 });
      expect(await stepsOf(store)).toMatchObject({ a: { status: 'Pending', startedAt: null, attemptCount: 0 } });
      expect(await claimAll(store, T0 + 4)).toMatchObject([{ attempt: 1, attemptBase: 0, interruptions: 0 }]);
    });

    test('keeps its place among those that wait where it was given back before it began, and no other does', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await store.accept({ run: aRun({ id: id(77), steps: [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 + 2 }] }) });
      const tokens = [`${id(999)}/given/out`, begun.token];
      await store.returnLeases({ tokens, at: T0 + 4, dueAt: [T0 + 3, T0 + 1] });
      const claims = await claimAll(store, T0 + 4);
      expect(claims.map((claim) => [claim.runId, claim.dueAt])).toEqual([
        [runId, T0 + 1],
        [id(77), T0 + 2],
      ]);
      await store.returnLeases({ tokens: claims.map(({ token }) => token), at: T0 + 9, dueAt: [T0 + 1, T0 + 2] });
      expect((await claimAll(store, T0 + 9)).map(({ dueAt }) => dueAt)).toEqual([T0 + 9, T0 + 9]);
    });

    test('keeps its lease for as long as it is renewed', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      expect(await store.renewLeases({ tokens: [begun.token], leasedUntil: T0 + 3 * minute })).toEqual([]);
      expect(await claimAll(store, T0 + 2 * minute)).toEqual([]);
    });

    test.each([['cancelled'], ['timedOut']] as const)('ends with its run where that was %s', async (store, stop) => {
      await startLeased(store, graphOf({ a: [], b: ['a'] }), { timeoutAt: T0 + 5 });
      if (stop === 'cancelled') await store.cancelRun({ runId, reason: null, at: T0 + 5 });
      else await store.claimOverdue({ owner: 'me', now: T0 + 5, leasedUntil: T0 + minute, limit: 9 });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Running' });
      const advance = await end(store, 'a', retryAt(T0 + 500), lease({ holder: mine(2) }));
      expect(advance).toMatchObject({ runStatus: stop === 'cancelled' ? 'Cancelled' : 'TimedOut', dispatched: [] });
      expect(advance?.leased).toBeUndefined();
      expect(await stepsOf(store)).toMatchObject({ a: { status: 'Failed', attempts: [{ status: 'Failed' }] } });
    });

    test('of a step that failed for good is kept when the step is tried again by hand', async (store) => {
      await startLeased(store, graphOf({ a: [] }));
      await end(store, 'a', failed());
      await store.retryStep({ runId, stepKey: 'a', at: T0 + 9 });
      expect(await stepsOf(store)).toMatchObject({
        a: { attempts: [{ attempt: 1, status: 'Failed', startedAt: T0 + 3 }] },
      });
      expect(await claimAll(store, T0 + 9)).toMatchObject([{ attempt: 2, attemptBase: 1 }]);
      expect(await stepsOf(store)).toMatchObject({ a: { attempts: [{ status: 'Failed' }, { status: 'Running' }] } });
    });
  });
}
