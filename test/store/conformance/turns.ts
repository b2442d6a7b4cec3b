import { describe, expect } from 'vitest';
import type { Claim, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { aRun, claimAll, deployOf, finish, graphOf, id, minute, retryAt, startRun, succeeded, T0 } from '../samples.ts';

const busy = id(1);
const quiet = id(2);

export function turns({ test }: StoreUnderTest): void {
  describe('turns of flows', () => {
    test.each([[1], [4], [64]])(
      'a thousand due steps of 4 s delay the first step of another flow by less than one of them, with %i slots',
      async (store, slots) => {
        await manyDue(store, 1000);
        let now = T0;
        let running = await claim(store, now, slots);
        now += 2000;
        await due(store, { n: 2000, flowId: quiet, dueAt: now });
        expect(await claim(store, now, 0)).toEqual([]);
        now = T0 + 4000;
        for (const each of running) await finish(store, each, succeeded(), now);
        running = await claim(store, now, slots);
        expect(running.map(({ flowId }) => flowId)).toContain(quiet);
        expect(running).toHaveLength(slots);
      },
    );

    test('two flows with much to do share the slots, whichever came first', async (store) => {
      for (let n = 0; n < 40; n += 1) await due(store, { n, flowId: busy, dueAt: T0 });
      for (let n = 40; n < 80; n += 1) await due(store, { n, flowId: quiet, dueAt: T0 + 1 });
      const claims = await claim(store, T0 + 1, 10);
      expect(claims.filter(({ flowId }) => flowId === quiet)).toHaveLength(5);
    });
  });

  describe('slots that are kept for flows that run nothing', () => {
    const claimKept = async (store: Store, limit: number, keptForIdle = 2) => {
      const request = { owner: 'me', now: T0, leasedUntil: T0 + minute, limit, keptForIdle };
      const { claims, ...left } = await store.claimDue(request);
      return { claims, left, flows: claims.map(({ flowId }) => flowId) };
    };
    const kept = { isKept: true, nextDueAt: T0 + 1000 };

    test('go to no flow that runs steps, and a claim says whether it left any because of that', async (store) => {
      for (let n = 0; n < 20; n += 1) await due(store, { n, flowId: busy, dueAt: T0 });
      const first = await claimKept(store, 10);
      expect(first).toMatchObject({ flows: Array.from({ length: 8 }, () => busy), left: kept });
      expect(await claimKept(store, 2)).toMatchObject({ flows: [], left: kept });
      await due(store, { n: 3000, flowId: quiet, dueAt: T0 });
      await due(store, { n: 3001, flowId: quiet, dueAt: T0 });
      expect(await claimKept(store, 2)).toMatchObject({ flows: [quiet], left: kept });
      for (const each of first.claims) await finish(store, each, succeeded(), T0);
      expect(await claimKept(store, 2)).toMatchObject({ flows: [busy], left: kept });
      const { flows, left } = await claimKept(store, 20);
      expect([flows.length, left.isKept]).toEqual([12, false]);
    });

    test('are none where the claim keeps none', async (store) => {
      for (let n = 0; n < 20; n += 1) await due(store, { n, flowId: busy, dueAt: T0 });
      const { flows, left } = await claimKept(store, 10, 0);
      expect([flows.length, left]).toEqual([10, { isKept: false, nextDueAt: T0 }]);
    });
  });

  describe('waits for a slot', () => {
    const look = (store: Store, now: number) => store.listSlotWaits({ now, dueBefore: now - 10_000 });

    test('are those of steps that have been due for long, flow by flow', async (store) => {
      for (const [n, dueAt] of [T0, T0 + 5, T0 + 6, T0 + minute].entries()) {
        await due(store, { n, flowId: n === 1 ? quiet : busy, dueAt });
      }
      const others = { limit: null, isMore: false };
      expect(await look(store, T0 + 9999)).toEqual({ running: 0, alone: null, waits: [] });
      expect((await look(store, T0 + 10_006)).waits).toEqual([
        { ...others, flowId: busy, count: 2, oldestDueAt: T0 },
        { ...others, flowId: quiet, count: 1, oldestDueAt: T0 + 5 },
      ]);
      await claim(store, T0 + 10_006, 1);
      expect(await look(store, T0 + 10_006)).toMatchObject({ running: 1, waits: [{ count: 1 }, { count: 1 }] });
    });

    test('name the limit of the manifest that holds them back, of the flow or of a type of step', async (store) => {
      const graph = {
        a: { type: 'NoOp', inputs: {}, runAfter: {}, concurrency: 1 },
        b: { type: 'Delay', inputs: {}, runAfter: {} },
      };
      const deployAs = (change: object) => {
        const snapshot = { id: busy, steps: graph, ...change };
        return store.deployFlow({ ...deployOf(graph, { hash: JSON.stringify(change), snapshot }), id: busy });
      };
      await deployAs({});
      for (let n = 0; n < 2; n += 1) {
        const steps = [
          { stepKey: 'a', stepType: 'NoOp', dueAt: T0 - 1 },
          { stepKey: 'b', stepType: 'Delay', dueAt: T0 },
        ];
        await store.accept({ run: aRun({ id: id(3000 + n), flowId: busy, steps }) });
      }
      await claim(store, T0, 2);
      const later = T0 + 10_000;
      expect((await look(store, later)).waits).toMatchObject([
        { limit: null, count: 1 },
        { limit: { concurrency: 1, stepType: 'NoOp' }, count: 1 },
      ]);
      await deployAs({ concurrency: 2 });
      expect((await look(store, later)).waits).toMatchObject([{ limit: { concurrency: 2, stepType: null }, count: 2 }]);
    });

    test('say which step runs alone', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }));
      for (let deaths = 0; deaths < 2; deaths += 1) {
        await claimAll(store, T0);
        await store.recover({ owner: 'me', now: T0 });
      }
      expect((await look(store, T0)).alone).toBeNull();
      await claimAll(store, T0);
      expect(await look(store, T0)).toMatchObject({ running: 1, alone: { runId, stepKey: 'a' } });
    });

    test('are counted up to a thousand of one type, so that a look stays cheap', async (store) => {
      await manyDue(store, 1000);
      expect((await look(store, T0 + minute)).waits).toMatchObject([{ count: 1000, isMore: false }]);
      await due(store, { n: 1001, flowId: busy, dueAt: T0 });
      expect((await look(store, T0 + minute)).waits).toMatchObject([{ count: 1000, isMore: true }]);
    });
  });

  describe('interruptions', () => {
    test('a lease that is given back counts neither as an interruption nor as a try', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      for (let stops = 0; stops < 6; stops += 1) {
        const [claimed] = await claimAll(store, T0 + stops);
        if (claimed === undefined) throw new Error('the step should be due');
        expect(claimed).toMatchObject({ interruptions: 0, loneDeaths: 0, aloneMs: null });
        expect(claimed.attempt - claimed.attemptBase).toBe(1);
        await store.returnLeases({ tokens: [claimed.token, `${id(999)}/given/out`], at: T0 + stops + 1 });
        expect(await store.recover({ owner: 'me', now: T0 + stops + 1 })).toBe(0);
      }
    });

    test('of several steps none is blamed; from the second on each runs alone, before all others', async (store) => {
      await startRun(store, graphOf({ a: [], b: [] }));
      await claimAll(store, T0);
      await store.recover({ owner: 'me', now: T0 + 1 });
      expect(await claimAll(store, T0 + 1)).toMatchObject([{ loneDeaths: 0 }, { loneDeaths: 0 }]);
      await store.recover({ owner: 'me', now: T0 + 2 });
      await due(store, { n: 7, flowId: quiet, dueAt: T0 - minute });
      const first = await claimAll(store, T0 + 2);
      expect(first).toMatchObject([{ stepKey: 'a', interruptions: 2, loneDeaths: 0, aloneMs: 10_000 }]);
    });

    test('of several suspects the one begun last goes first, so that one that goes on for ever shields no other', async (store) => {
      await startRun(store, graphOf({ a: [], b: [] }));
      for (let deaths = 0; deaths < 2; deaths += 1) {
        await claimAll(store, T0 + deaths);
        await store.recover({ owner: 'me', now: T0 + deaths });
      }
      const [first] = await claimAll(store, T0 + 10);
      const at = T0 + 10 + (first?.aloneMs ?? 0);
      const [second] = await claimAll(store, at);
      expect(second?.stepKey).not.toBe(first?.stepKey);
      for (let loneDeaths = 0; loneDeaths < 3; loneDeaths += 1) {
        await store.recover({ owner: 'me', now: at });
        const [again] = await claimAll(store, at);
        expect(again).toMatchObject({ stepKey: second?.stepKey, loneDeaths });
      }
    });

    test('a suspect that is due later holds nothing back until then', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      for (let deaths = 0; deaths < 2; deaths += 1) {
        await claimAll(store, T0 + deaths);
        await store.recover({ owner: 'me', now: T0 + deaths });
      }
      const [suspect] = await claimAll(store, T0 + 10);
      await due(store, { n: 7, flowId: quiet, dueAt: T0 + 5 });
      const request = { owner: 'me', now: T0 + 11, leasedUntil: T0 + 2 * minute, limit: 9 };
      const others = await store.claimDue(request);
      expect(others.claims).toMatchObject([{ flowId: quiet }]);
      expect(others.nextDueAt).toBe(T0 + 10 + minute);
      const lapsed = await store.claimDue({ ...request, now: T0 + 10 + minute });
      expect(lapsed.claims).toMatchObject([{ stepKey: suspect?.stepKey, attempt: (suspect?.attempt ?? 0) + 1 }]);
    });

    test('the backlog is what is due and waits, and its oldest step that no limit holds back', async (store) => {
      const measure = (most = 100) => store.measureBacklog({ now: T0 + 10, most });
      expect(await measure()).toEqual({ dueSteps: 0, oldestDueAt: null });
      const snapshot = { id: busy, steps: graphOf({ a: [] }), concurrency: 1 } as never;
      await store.deployFlow({ ...deployOf(graphOf({ a: [] })), id: busy, snapshot });
      for (let n = 1; n <= 3; n += 1) await due(store, { n, flowId: busy, dueAt: T0 + n });
      await due(store, { n: 4, flowId: quiet, dueAt: T0 + 7 });
      await due(store, { n: 5, flowId: quiet, dueAt: T0 + 11 });
      expect(await measure()).toEqual({ dueSteps: 4, oldestDueAt: T0 + 1 });
      expect((await measure(3)).dueSteps).toBe(3);
      await claim(store, T0 + 1, 1);
      expect(await measure()).toEqual({ dueSteps: 3, oldestDueAt: T0 + 7 });
    });

    test('a step that was alone is blamed, and twice as long alone each time; an outcome clears it', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      for (const [deaths, aloneMs] of [null, null, 10_000, 20_000].entries()) {
        const [claimed] = await claimAll(store, T0 + deaths);
        expect(claimed).toMatchObject({ loneDeaths: deaths, interruptions: deaths, aloneMs });
        await store.recover({ owner: 'me', now: T0 + deaths + 1 });
      }
      const [last] = await claimAll(store, T0 + 9);
      await finish(store, last as Claim, retryAt(T0 + 10));
      const [next] = await claimAll(store, T0 + 10);
      expect(next).toMatchObject({ loneDeaths: 0, interruptions: 0, aloneMs: null });
    });
  });
}

async function due(store: Store, { n, flowId, dueAt }: { n: number; flowId: string; dueAt: number }): Promise<void> {
  if (n % 1000 === 0) await store.deployFlow({ ...deployOf(graphOf({ a: [] })), id: flowId });
  const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt }];
  await store.accept({ run: aRun({ id: id(3000 + n), flowId, steps }) });
}

/** Steps of the busy flow, accepted in one turn. */
async function manyDue(store: Store, count: number): Promise<void> {
  await due(store, { n: 0, flowId: busy, dueAt: T0 });
  await Promise.all(Array.from({ length: count - 1 }, (_, at) => due(store, { n: at + 1, flowId: busy, dueAt: T0 })));
}

async function claim(store: Store, now: number, limit: number): Promise<Claim[]> {
  return (await store.claimDue({ owner: 'me', now, leasedUntil: now + minute, limit })).claims;
}
