import { describe, expect } from 'vitest';
import type { Attempt } from '../../../src/model/run.ts';
import type { NewRun, RunQuery, StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  aRun,
  claimAll,
  failed,
  finish,
  graphOf,
  id,
  readInput,
  retryAt,
  runIds,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

const page = { skip: 0, take: 50 };

export function runs({ test }: StoreUnderTest): void {
  describe('runs', () => {
    test('an unknown run is not found, has no steps and no input', async (store) => {
      expect(await store.findRun(id(1))).toBeUndefined();
      expect(await store.listSteps(id(1))).toBeUndefined();
      expect(await store.readRunInput({ runId: id(1) })).toBeUndefined();
    });

    test('are listed newest first; of one millisecond the one stored last is the newest', async (store) => {
      for (const [n, startedAt] of [
        [1, T0 + 2],
        [2, T0],
        [3, T0 + 1],
        [4, T0 + 1],
      ] as const) {
        await store.accept({ run: aRun({ id: id(n), startedAt }) });
      }
      expect(await runIds(store)).toEqual([1, 4, 3, 2].map(id));
    });

    test('are listed by pages; the total is counted only when asked for', async (store) => {
      await startAll(store, [{}, {}, {}, {}, {}]);
      const second = await store.listRuns({ skip: 2, take: 2 });
      expect(second.items.map((run) => run.id)).toEqual([3, 2].map(id));
      expect(second.total).toBeUndefined();
      expect((await store.listRuns({ skip: 4, take: 2, includeTotal: true })).total).toBe(5);
    });

    test('are listed from a run on that was removed since, with those of its millisecond', async (store) => {
      const ended: Partial<NewRun> = { status: 'Succeeded', completedAt: T0, steps: [] };
      for (const n of [1, 2, 3, 4, 5, 6]) {
        await store.accept({ run: aRun({ id: id(n), startedAt: n === 1 ? T0 - 1 : T0, ...(n === 4 ? ended : {}) }) });
      }
      const listedAfter = async (n: number) => {
        const { items } = await store.listRuns({ ...page, before: { startedAt: n === 1 ? T0 - 1 : T0, id: id(n) } });
        return items.map((run) => run.id);
      };
      const following = [3, 2, 1].map(id);
      expect(await listedAfter(4)).toEqual(following);
      while (!(await store.purgeRuns({ before: T0 + 1, maxRows: 9 })).isDone);
      expect(await store.findRun(id(4))).toBeUndefined();
      expect(await listedAfter(4)).toEqual(following);
      expect(await listedAfter(1)).toEqual([]);
      expect(await listedAfter(0)).toEqual([id(1)]);
    });

    test('a run in a list is the run without its trigger', async (store) => {
      const run = aRun({ sourceRunId: id(3) });
      await store.accept({ run });
      const { trigger, steps, timeoutAt, traceparent, ...listed } = run;
      expect((await store.listRuns(page)).items).toEqual([listed]);
    });

    test.each<[string, Partial<RunQuery>, number[]]>([
      ['no filter', {}, [6, 5, 4, 3, 2, 1]],
      ['a flow', { flowId: 'other flow' }, [4, 2]],
      ['Running', { status: 'Running' }, [6, 1]],
      ['Succeeded', { status: 'Succeeded' }, [3, 2]],
      ['Failed', { status: 'Failed' }, [4]],
      ['Skipped', { status: 'Skipped' }, [5]],
      ['Cancelled', { status: 'Cancelled' }, []],
      ['a status within a flow', { status: 'Succeeded', flowId: 'other flow' }, [2]],
      ['part of an id', { search: id(5).slice(-5) }, [5]],
      ['part of a flow name, in any case', { search: 'rECHN' }, [1]],
      ['part of a flow name in any case, beyond ASCII too', { search: 'ÄNDER' }, [1]],
      ['part of a trigger key', { search: 'NIGHT' }, [6]],
      ['part of a delivery id', { search: id(303).slice(-5).toUpperCase() }, [3]],
      ['a search within a status', { status: 'Running', search: 'orders' }, [6]],
      ['a percent sign, taken literally', { search: '%' }, []],
      ['since, which is included', { since: T0 + 4 }, [6, 5]],
      ['until, which is not', { until: T0 + 2 }, [2, 1]],
      ['a span of time', { since: T0 + 1, until: T0 + 4 }, [4, 3, 2]],
      ['an empty span', { since: T0 + 1, until: T0 + 1 }, []],
      ['a span within a flow', { since: T0 + 2, until: T0 + 9, flowId: 'other flow' }, [4]],
      ['a span within a status', { since: T0 + 1, until: T0 + 5, status: 'Succeeded' }, [3, 2]],
      ['a span within a status of a flow', { until: T0 + 3, status: 'Succeeded', flowId: 'other flow' }, [2]],
      ['a search within a span', { since: T0 + 1, search: 'nightly' }, [6]],
    ])('are filtered by %s, and so is their total', async (store, _name, filter, expected) => {
      await startAll(store, [
        { flowName: 'Rechnung ändern' },
        { flowId: 'other flow', status: 'Succeeded' },
        { status: 'Succeeded', deliveryId: id(303) },
        { flowId: 'other flow', status: 'Failed' },
        { status: 'Skipped' },
        { triggerKey: 'nightly' },
      ]);
      const { items, total } = await store.listRuns({ ...page, ...filter, includeTotal: true });
      expect(items.map((run) => run.id)).toEqual(expected.map(id));
      expect(total).toBe(expected.length);
    });

    test('a run that ends moves from one status to the other', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded(), T0 + 5);
      expect((await store.listRuns({ ...page, status: 'Running' })).items).toEqual([]);
      const { items } = await store.listRuns({ ...page, status: 'Succeeded' });
      expect(items).toMatchObject([{ id: runId, status: 'Succeeded', completedAt: T0 + 5 }]);
    });

    test('a step shows what its last attempt took and gave, and every attempt shows its own', async (store) => {
      const runId = await startRun(store, graphOf({ a: [] }));
      const [first] = await claimAll(store);
      if (first === undefined) throw new Error('nothing was due');
      await finish(store, first, retryAt(T0 + 10, { status: 503 }), T0 + 1);
      const [second] = await claimAll(store, T0 + 10);
      if (second === undefined) throw new Error('nothing was due again');
      await finish(store, second, succeeded({ status: 200 }), T0 + 12);

      const error = { code: 'busy', message: 'Not now.', retryable: true };
      const input = { of: 'a' };
      const tried = { input, inputsRevision: null, slotWaitMs: 0 };
      const end = { status: 'Succeeded', input, output: { status: 200 }, error: null };
      expect(await store.listSteps(runId)).toEqual([
        {
          ...end,
          runId,
          stepKey: 'a',
          stepType: 'NoOp',
          skipReason: null,
          evaluationTrace: null,
          attemptCount: 2,
          dueAt: null,
          startedAt: T0,
          completedAt: T0 + 12,
          attempts: [
            {
              ...tried,
              attempt: 1,
              status: 'Failed',
              output: { status: 503 },
              error,
              startedAt: T0,
              completedAt: T0 + 1,
            },
            { ...tried, ...end, attempt: 2, startedAt: T0 + 10, completedAt: T0 + 12 },
          ],
        },
      ]);
    });

    for (const [how, before] of [
      ['its own row says all', []],
      ['it is tried again', [retryAt(T0)]],
      ['it waits', [{ kind: 'waiting', state: null, dueAt: T0, signalName: null }]],
    ] as readonly [string, readonly StepResult[]][]) {
      test(`an attempt keeps which revision its inputs came from, where ${how}`, async (store) => {
        const runId = await startRun(store, graphOf({ a: [] }));
        let inputsRevision = 1;
        for (const result of [...before, succeeded()]) {
          const [claim] = await claimAll(store, T0);
          if (claim === undefined) throw new Error('nothing was due');
          inputsRevision += 1;
          const { token, stepKey } = claim;
          await store.advance({ token, runId, stepKey, at: T0, input: {}, inputsRevision, result });
        }
        const kept = (attempts: readonly Attempt[] = []) => attempts.map((attempt) => attempt.inputsRevision);
        const expected = before.some(({ kind }) => kind === 'retry') ? [2, 3] : [inputsRevision];
        expect(kept((await store.listSteps(runId))?.[0]?.attempts)).toEqual(expected);
        const page = await store.pageSteps({
          runId,
          planned: ['a'],
          skip: 0,
          take: 1,
          limits: { valueBytes: 100, answerBytes: 1000 },
        });
        expect(page?.items.map((item) => (item.runId === undefined ? [] : kept(item.attempts)))).toEqual([expected]);
      });
    }

    test('steps are listed in the order in which they were reached', async (store) => {
      const runId = await startRun(store, graphOf({ z: [], y: ['z'], x: ['y'] }));
      for (const [at] of ['z', 'y', 'x'].entries()) {
        for (const claim of await claimAll(store, T0 + at)) await finish(store, claim, succeeded(), T0 + at);
      }
      expect((await store.listSteps(runId))?.map(({ stepKey }) => stepKey)).toEqual(['z', 'y', 'x']);
    });

    test('the input of a run has the ended steps alone', async (store) => {
      const graph = graphOf({ done: [], broken: [], waiting: [], after: { broken: ['Succeeded'] } });
      const runId = await startRun(store, graph);
      for (const claim of await claimAll(store)) {
        if (claim.stepKey === 'done') await finish(store, claim, succeeded([1, 'zwei', null]));
        if (claim.stepKey === 'broken') await finish(store, claim, failed());
        if (claim.stepKey === 'waiting') await finish(store, claim, retryAt(T0 + 1));
      }
      const input = await readInput(store, runId);
      expect(input.trigger).toEqual(aRun().trigger);
      expect(input).toMatchObject({ startedAt: aRun().startedAt, triggerType: aRun().triggerType });
      expect(input.steps).toEqual({
        done: { status: 'Succeeded', output: [1, 'zwei', null], error: null },
        broken: { status: 'Failed', output: null, error: { code: 'broken', message: 'No.', retryable: false } },
        after: { status: 'Skipped', output: null, error: null },
      });
    });

    test('the input of a run has its steps by key, in whichever order they ended', async (store) => {
      const runId = await startRun(store, graphOf({ b: [], a: [], Z: ['b'] }));
      const claims = await claimAll(store);
      for (const claim of claims.toSorted((one, other) => (one.stepKey < other.stepKey ? 1 : -1))) {
        await finish(store, claim, succeeded());
      }
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
      expect(Object.keys((await readInput(store, runId)).steps)).toEqual(['Z', 'a', 'b']);
      const named = await store.readRunInput({ runId, stepKeys: ['b', 'Z'] });
      expect(Object.keys(named?.kind === undefined ? (named?.steps ?? {}) : {})).toEqual(['Z', 'b']);
    });

    test('the input of a run is measured before it is read, and not read where it is too large', async (store) => {
      const runId = await startRun(store, graphOf({ a: [], b: [] }));
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded('ü'.repeat(100)));
      const large = { kind: 'tooLarge', bodyBytes: 2 };
      expect(await store.readRunInput({ runId, maxBytes: 405 })).toEqual({ ...large, outputBytes: 404 });
      expect(await store.readRunInput({ runId, stepKeys: ['a'], maxBytes: 203 })).toEqual({
        ...large,
        outputBytes: 202,
      });
      expect(await store.readRunInput({ runId, stepKeys: ['a'], maxBytes: 204 })).toMatchObject({ steps: { a: {} } });
      expect(await store.readRunInput({ runId, stepKeys: [], maxBytes: 2 })).toMatchObject({ steps: {} });
    });

    test('every kind of output comes back as it was', async (store) => {
      const outputs = [null, false, 0, '', 'null', [], {}, { deep: [{ text: 'ü\u0000' }, 1e21] }];
      const runId = await startRun(store, graphOf(Object.fromEntries(outputs.map((_, n) => [`s${n}`, []]))));
      for (const claim of await claimAll(store)) {
        await finish(store, claim, succeeded(outputs[Number(claim.stepKey.slice(1))]));
      }
      const { steps } = await readInput(store, runId);
      expect(outputs.map((_, n) => steps[`s${n}`]?.output)).toEqual(outputs);
    });
  });
}

/** Starts runs numbered from 1, one per millisecond. */
async function startAll(store: Store, changes: readonly Partial<NewRun>[]): Promise<void> {
  for (const [at, change] of changes.entries()) {
    await store.accept({ run: aRun({ id: id(at + 1), startedAt: T0 + at, ...change }) });
  }
}
