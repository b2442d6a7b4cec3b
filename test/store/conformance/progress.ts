import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { Graph, StepStatus } from '../../../src/model/manifest.ts';
import { planNext, wire } from '../../../src/model/planner.ts';
import type { Advance, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  claimAll,
  deployOf,
  failed,
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

export function progress({ test }: StoreUnderTest): void {
  describe('progress of a run', () => {
    test('a step that succeeds makes the steps after it due', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'], c: ['a'] }));
      const advance = await finishDue(store, { a: 'Succeeded' }, T0 + 4);
      expect(advance).toEqual([
        { runStatus: 'Running', endedRun: null, dispatched: ['b', 'c'], skipped: [], loops: [] },
      ]);
      expect(await statuses(store, runId)).toEqual({ a: 'Succeeded', b: 'Pending', c: 'Pending' });
      const { claims } = await store.claimDue({ owner: 'me', now: T0 + 4, leasedUntil: T0 + minute, limit: 9 });
      expect(claims).toMatchObject([
        { stepKey: 'b', stepType: 'NoOp', dueAt: T0 + 4 },
        { stepKey: 'c', dueAt: T0 + 4 },
      ]);
    });

    test('the last step ends the run', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [advance] = await finishDue(store, { a: 'Succeeded' }, T0 + 7);
      const endedRun = { flowId, startedAt: T0, completedAt: T0 + 7 };
      expect(advance).toEqual({ runStatus: 'Succeeded', endedRun, dispatched: [], skipped: [], loops: [] });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded', completedAt: T0 + 7 });
      expect(await store.claimDue({ owner: 'me', now: T0 + minute, leasedUntil: T0 + minute, limit: 9 })).toEqual({
        claims: [],
        nextDueAt: null,
        isKept: false,
      });
    });

    test('a failure skips what needed success, down to the end, and fails the run', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'], c: ['b'] }));
      const [advance] = await finishDue(store, { a: 'Failed' }, T0 + 1);
      expect(advance).toMatchObject({ runStatus: 'Failed', dispatched: [] });
      expect(advance?.skipped.map(({ stepKey }) => stepKey)).toEqual(['b', 'c']);
      const steps = await store.listSteps(runId);
      expect(steps?.find(({ stepKey }) => stepKey === 'b')).toMatchObject({
        status: 'Skipped',
        skipReason: advance?.skipped[0]?.reason,
        completedAt: T0 + 1,
        attemptCount: 0,
        dueAt: null,
      });
    });

    test('a failure that a later step handles does not fail the run', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: { a: ['Failed'] } }));
      expect(await finishDue(store, { a: 'Failed' })).toMatchObject([{ runStatus: 'Running', dispatched: ['b'] }]);
      expect(await finishDue(store, { b: 'Succeeded' })).toMatchObject([{ runStatus: 'Succeeded' }]);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
    });

    test('a step after two starts once, when both have ended at the same time', async (store) => {
      await startRun(store, graphOf({ a: [], b: [], c: ['a', 'b'] }));
      const advances = await finishDue(store, { a: 'Succeeded', b: 'Succeeded' });
      expect(advances.map((advance) => advance?.dispatched)).toEqual([[], ['c']]);
      expect((await claimAll(store)).map(({ stepKey }) => stepKey)).toEqual(['c']);
    });

    test('a large graph runs to its end: many steps side by side, one after all of them, and a chain', async (store) => {
      const many = Array.from({ length: 100 }, (_, at) => `s${at}`);
      const chain = many.map((key, at): [string, string[]] => [
        `after-${key}`,
        [at === 0 ? 'join' : `after-s${at - 1}`],
      ]);
      const graph = graphOf({
        ...Object.fromEntries(many.map((key) => [key, []])),
        join: many,
        ...Object.fromEntries(chain),
        never: { join: ['Failed'] },
      });
      const runId = await startRun(store, graph);
      const claims = await claimAll(store, T0, 100);
      const advances = await Promise.all(claims.map((claim) => finish(store, claim, succeeded())));
      expect(advances.map((advance) => advance?.dispatched).filter((keys) => keys?.length !== 0)).toEqual([['join']]);
      const [join] = await finishDue(store, { join: 'Succeeded' });
      expect(join).toMatchObject({ dispatched: ['after-s0'], skipped: [{ stepKey: 'never' }] });
      await runToEnd(store, () => true);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
      expect(Object.keys(await statuses(store, runId)).sort()).toEqual(Object.keys(graph).sort());
    });

    test('a large graph of a loop runs to its end in each iteration', async (store) => {
      const many = Array.from({ length: 100 }, (_, at) => `s${at}`);
      const inner = graphOf({
        ...Object.fromEntries(many.map((key) => [key, []])),
        join: many,
        never: { s7: ['Failed'] },
      });
      const graph = {
        each: { type: 'ForEach', inputs: {}, runAfter: {}, steps: inner },
        ...graphOf({ last: ['each'] }),
      };
      const runId = await startRun(store, graph);
      const [each] = await claimAll(store);
      if (each === undefined) throw new Error('nothing was due');
      await finish(store, each, { kind: 'loop', items: ['x', 'y'], concurrency: 2 });
      const claims = await claimAll(store, T0, 300);
      const broken = 'each.1.s42';
      const advances = await Promise.all(
        claims.map((claim) => finish(store, claim, claim.stepKey === broken ? failed() : succeeded())),
      );
      expect(advances.flatMap((advance) => advance?.dispatched ?? [])).toEqual(['each.0.join']);
      const skipped = advances.flatMap((advance) => advance?.skipped.map(({ stepKey }) => stepKey) ?? []);
      expect(skipped.sort()).toEqual(['each.0.never', 'each.1.join', 'each.1.never']);
      await runToEnd(store, () => true);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Failed' });
      expect(await statuses(store, runId)).toMatchObject({
        each: 'Failed',
        'each.0.join': 'Succeeded',
        last: 'Skipped',
      });
      await store.retryStep({ runId, stepKey: broken, at: T0 });
      await runToEnd(store, () => true);
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
      expect(await statuses(store, runId)).toMatchObject({ each: 'Succeeded', 'each.1.join': 'Succeeded' });
    });

    test('an attempt that is to be repeated leaves its step due later', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing was due');
      const advance = await finish(store, claim, retryAt(T0 + 500), T0 + 9);
      expect(advance).toEqual({ runStatus: 'Running', endedRun: null, dispatched: ['a'], skipped: [], loops: [] });
      expect(await store.listSteps(runId)).toMatchObject([
        {
          status: 'Pending',
          dueAt: T0 + 500,
          completedAt: null,
          error: { code: 'busy' },
          attempts: [{ status: 'Failed', error: { code: 'busy' }, completedAt: T0 + 9 }],
        },
      ]);
      expect(await store.renewLeases({ tokens: [claim.token], leasedUntil: T0 + minute })).toEqual([claim.token]);
    });

    test('a deploy does not change what a run in flight does', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: ['a'] }));
      const next = graphOf({ a: [], x: ['a'], b: ['x'] });
      await store.deployFlow(deployOf(next));
      await finishDue(store, { a: 'Succeeded' });
      expect(await statuses(store, runId)).toEqual({ a: 'Succeeded', b: 'Pending' });
      const newRun = await startRun(store, next, { id: id(101), revision: 2 });
      await finishDue(store, { a: 'Succeeded', b: 'Succeeded' });
      expect(await statuses(store, newRun)).toEqual({ a: 'Succeeded', x: 'Pending' });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded', revision: 1 });
    });

    test('a step key may be the name of what every object has', async (store) => {
      const runId = await startRun(store, graphOf({ constructor: [], toString: ['constructor'] }));
      await finishDue(store, { constructor: 'Succeeded' });
      await finishDue(store, { toString: 'Succeeded' });
      expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
      const { steps } = await readInput(store, runId);
      expect(Object.keys(steps).sort()).toEqual(['constructor', 'toString']);
    });

    test('whatever the graph and the outcomes, a run ends as the planner says and starts each step once', async (store) => {
      let n = 0;
      await fc.assert(
        fc.asyncProperty(graphs, fc.infiniteStream(fc.boolean()), async (graph, outcomes) => {
          n += 1;
          const runId = await startRun(store, graph, { id: id(n), revision: n });
          await runToEnd(store, () => outcomes.next().value === true);
          const reached = Object.entries(await statuses(store, runId));
          const run = await store.findRun(runId);
          expect(run?.status).toBe(planNext(wire(graph), new Map(reached)).end);
          expect(reached.map(([stepKey]) => stepKey).sort()).toEqual(Object.keys(graph).sort());
          const steps = (await store.listSteps(runId)) ?? [];
          expect(steps.every(({ status, attempts }) => attempts.length === (status === 'Skipped' ? 0 : 1))).toBe(true);
        }),
        { numRuns: 25 },
      );
    });
  });
}

/** Acyclic graphs: steps run after earlier ones. A step of its own gives each graph a different hash. */
const graphs: fc.Arbitrary<Graph> = fc
  .tuple(
    fc.uuid(),
    fc.array(
      fc.array(fc.tuple(fc.nat(5), fc.subarray<StepStatus>(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 })), {
        maxLength: 3,
      }),
      { maxLength: 6 },
    ),
  )
  .map(([unique, steps]) => {
    const entries = steps.map((edges, at): [string, Record<string, StepStatus[]>] => {
      const earlier = edges.filter(([upstream]) => upstream < at);
      return [`s${at}`, Object.fromEntries(earlier.map(([upstream, allowed]) => [`s${upstream}`, allowed]))];
    });
    return graphOf({ [unique]: [], ...Object.fromEntries(entries) });
  });

async function runToEnd(store: Store, succeeds: () => boolean): Promise<void> {
  for (;;) {
    const claims = await claimAll(store, T0, 2);
    if (claims.length === 0) return;
    await Promise.all(claims.map((claim) => finish(store, claim, succeeds() ? succeeded() : failed())));
  }
}

/** Claims all due steps, and ends the named ones as `Succeeded` or `Failed`, all in one turn. */
async function finishDue(
  store: Store,
  outcomes: Readonly<Record<string, unknown>>,
  at = T0,
): Promise<(Advance | undefined)[]> {
  const claims = (await claimAll(store, at)).filter(({ stepKey }) => Object.hasOwn(outcomes, stepKey));
  expect(claims.length).toBe(Object.keys(outcomes).length);
  return Promise.all(
    claims.map((claim) => finish(store, claim, outcomes[claim.stepKey] === 'Failed' ? failed() : succeeded(), at)),
  );
}

async function statuses(store: Store, runId: string): Promise<Record<string, StepStatus>> {
  const steps = (await store.listSteps(runId)) ?? [];
  return Object.fromEntries(steps.map(({ stepKey, status }) => [stepKey, status]));
}
