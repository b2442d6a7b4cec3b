import { describe, expect, test } from 'vitest';
import { flowsStore } from '../../src/features/flows/store.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { cel, FLOW_ID, openFlowService, stepOf } from '../flows/fixture.ts';
import { openReplicas, runSql } from './schemas.ts';

const MIDDLE = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a12';
const LAST = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a13';

const run = (flow: string, change = {}) => stepOf('RunFlow', { inputs: { flow, body: 1 }, ...change });

/** A database that follows the test's clock. */
function inTestTime(store: Store): Store {
  return { ...store, beat: async (given) => ({ ...(await store.beat(given)), at: given.now }) };
}

/** Two runtimes on one schema with three flows, each of which runs the next. */
async function twoRuntimes() {
  const { schema, stores } = await openReplicas(['one', 'two']);
  const [first, second] = stores.map(inTestTime) as [Store, Store];
  const services = [await openFlowService({ store: first }), await openFlowService({ store: second })] as const;
  for (const service of services) {
    await service.deploy(
      { a: stepOf('NoOp'), b: stepOf('NoOp', { runAfter: { a: { statuses: ['Succeeded'] } } }) },
      { id: LAST },
    );
    await service.deploy({ go: run(LAST), too: run(LAST) }, { id: MIDDLE });
    await service.deploy({ go: run(MIDDLE), own: stepOf('NoOp') });
  }
  await Promise.all(services.map(({ runtime }) => runtime.start()));
  return { schema, services };
}

/** Every run of a schema, once none is in flight. */
async function allEnded(store: Store) {
  await eventually(
    () => store.listRuns({ status: 'Running', skip: 0, take: 1, includeTotal: true }),
    ({ items }) => items.length === 0,
    { seconds: 60, because: 'hundreds of runs are in flight' },
  );
  return (await store.listRuns({ skip: 0, take: 5000 })).items;
}

describe('two replicas', () => {
  test('run chains of flows, whichever of them runs which step', async () => {
    const { services } = await twoRuntimes();
    const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => services[n % 2 === 0 ? 0 : 1].trigger()));
    const runs = await allEnded(services[0].store);
    expect(runs.filter(({ status }) => status !== 'Succeeded')).toEqual([]);
    for (const id of ids) expect(runs.filter(({ sourceRunId }) => sourceRunId === id)).toHaveLength(1);
    expect(runs).toHaveLength(60 * 4);
  });

  test('leave nothing in flight where runs are cancelled at any level while others of them end', {
    timeout: 120_000,
  }, async () => {
    const { schema, services } = await twoRuntimes();
    const [one, two] = services;
    for (let round = 0; round < 15; round += 1) {
      const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => services[n % 2 === 0 ? 0 : 1].trigger()));
      const { items } = await one.store.listRuns({ status: 'Running', skip: 0, take: 500 });
      // Some runs that others started, whose parents then fail, and some of the first runs.
      const children = items.filter(({ sourceRunId }, n) => sourceRunId !== null && n % 3 === round % 3);
      const cancelled = [...children.map(({ id }) => id), ...ids.slice(0, 7)];
      await Promise.all(cancelled.map((id, n) => (n % 2 === 0 ? two : one).runtime.control.cancel(id, 'any')));
    }
    const runs = await allEnded(one.store);
    // The counters agree with the runs: lists by status rely on them.
    const counted = (await one.store.of(flowsStore).countRuns()).filter(({ count }) => count !== 0);
    expect(counted.reduce((sum, { count }) => sum + count, 0)).toBe(runs.length);
    for (const { flowId, status, count } of counted) {
      expect(runs.filter((each) => each.flowId === flowId && each.status === status)).toHaveLength(count);
    }
    const byId = new Map(runs.map((each) => [each.id, each]));
    expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(['Succeeded', 'Failed', 'Cancelled']));
    for (const { id, sourceRunId, status, flowId } of runs) {
      // A failed run has a cancelled or failed sub-run; in a successful run, all sub-runs succeeded.
      const own = runs.filter((each) => each.sourceRunId === id).map((each) => each.status);
      if (status === 'Failed') expect(own.some((each) => each === 'Cancelled' || each === 'Failed')).toBe(true);
      if (status === 'Succeeded' && flowId !== LAST)
        expect(own).toEqual(flowId === FLOW_ID ? ['Succeeded'] : ['Succeeded', 'Succeeded']);
      if (sourceRunId !== null) expect(byId.has(sourceRunId)).toBe(true);
    }
    // Everything that a stop noted is done; only runs that had ended by then may remain, to be forgotten.
    for (let looks = 0; looks < 50; looks += 1) {
      const { orphaned } = await one.store.claimOverdue({
        owner: 'one',
        now: one.clock.now(),
        leasedUntil: one.clock.now() + 1,
        limit: 100,
      });
      expect(orphaned).toEqual([]);
    }
    expect(await runSql(`SELECT 1 FROM "${schema}".orphaned_runs`)).toMatchObject([]);
  });

  test('run a thousand at once from a loop', { timeout: 300_000 }, async () => {
    const { services } = await twoRuntimes();
    const [one, two] = services;
    const steps = {
      each: stepOf('ForEach', { forEach: cel('trigger.body'), concurrencyLimit: 1000, steps: { go: run(LAST) } }),
    };
    for (const service of services) await service.deploy(steps);
    const id = await two.trigger(Array.from({ length: 1000 }, (_, n) => n));
    const ended = await eventually(
      () => one.store.findRun(id),
      (found) => found?.status !== 'Running',
      { seconds: 240, because: 'it waits for a thousand others' },
    );
    expect(ended).toMatchObject({ status: 'Succeeded' });
    expect((await one.store.listRuns({ flowId: LAST, skip: 0, take: 1, includeTotal: true })).total).toBe(1000);
  });
});
