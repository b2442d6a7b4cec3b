import { describe, expect } from 'vitest';
import { alertsStore } from '../../../src/features/alerts/store.ts';
import type { NewRun, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { aRun, claimAll, failed, finish, flowId, graphOf, id, startRun, succeeded, T0 } from '../samples.ts';

const begin = (store: Store) =>
  store.of(alertsStore).commitAlerts({ version: 0, state: { told: 1 }, taken: [], runs: [] });
const read = (store: Store, limit = 10) => store.of(alertsStore).readAlerts({ limit });
const tellingRun = (n: number): NewRun => aRun({ id: id(n), triggerKey: 'ops', triggerType: 'manual' });

/** Starts a run and ends its only step. */
async function endRun(store: Store, runId: string, result = failed()): Promise<void> {
  await startRun(store, graphOf({ a: [] }), { id: runId });
  const [claim] = await claimAll(store);
  if (claim === undefined) throw new Error('nothing was due');
  await finish(store, claim, result);
}

export function alerts({ test }: StoreUnderTest): void {
  describe('alerts', () => {
    test('before the first commit there is nothing, and no failed run is noted', async (store) => {
      await endRun(store, id(100));
      expect(await read(store)).toEqual({ version: 0, state: null, failures: [] });
    });

    test('a run that fails or times out is noted with its step and error, and no other', async (store) => {
      await begin(store);
      await endRun(store, id(100));
      await endRun(store, id(101), succeeded());
      await startRun(store, graphOf({ a: [] }), { id: id(102), timeoutAt: T0 + 5 });
      await startRun(store, graphOf({ a: [] }), { id: id(103) });
      await store.cancelRun({ runId: id(103), reason: null, at: T0 });
      await store.claimOverdue({ owner: 'me', now: T0 + 5, leasedUntil: T0 + 9, limit: 9 });
      const { failures } = await read(store);
      const run = { flowId, flowName: 'Orders', triggerKey: 'github', startedAt: T0 };
      expect(failures).toEqual([
        {
          ...run,
          seq: expect.any(Number),
          runId: id(100),
          completedAt: T0,
          status: 'Failed',
          stepKey: 'a',
          error: { code: 'broken', message: 'No.', retryable: false },
        },
        {
          ...run,
          seq: expect.any(Number),
          runId: id(102),
          completedAt: T0 + 5,
          status: 'TimedOut',
          stepKey: null,
          error: null,
        },
      ]);
      expect((await read(store, 1)).failures.map(({ runId }) => runId)).toEqual([id(100)]);
      expect((await read(store, 0)).failures).toEqual([]);
    });

    test('a commit keeps the state, takes the notices that it names and starts its runs', async (store) => {
      await begin(store);
      await endRun(store, id(100));
      await endRun(store, id(101));
      const { version, failures } = await read(store);
      const taken = failures.slice(0, 1).map(({ seq }) => seq);
      const state = { 'ä"\\': ['\u2028', null, 0.5] };
      expect(await store.of(alertsStore).commitAlerts({ version, state, taken, runs: [tellingRun(200)] })).toBe(
        'committed',
      );
      const after = await read(store);
      expect(after).toMatchObject({ state, failures: [{ runId: id(101) }] });
      expect(after.version).toBeGreaterThan(version);
      expect(await store.findRun(id(200))).toMatchObject({ triggerKey: 'ops', status: 'Running' });
      expect((await claimAll(store)).map(({ runId }) => runId)).toEqual([id(200)]);
    });

    test('of commits of one version the first wins, and the others do nothing', async (store) => {
      const commit = (n: number, version: number, taken: readonly number[] = []) =>
        store.of(alertsStore).commitAlerts({ version, state: { n }, taken, runs: [tellingRun(200 + n)] });
      const first = await Promise.all([commit(1, 0), commit(2, 0), commit(3, 0)]);
      expect(first.sort()).toEqual(['committed', 'outdated', 'outdated']);
      await endRun(store, id(100));
      const { version, failures } = await read(store);
      const taken = failures.map(({ seq }) => seq);
      const second = await Promise.all([commit(4, version, taken), commit(5, version, taken)]);
      expect(second.sort()).toEqual(['committed', 'outdated']);
      expect(await commit(6, version)).toBe('outdated');
      const runs = (await store.listRuns({ skip: 0, take: 20 })).items;
      expect(runs.filter(({ triggerKey }) => triggerKey === 'ops')).toHaveLength(2);
    });

    test('what is forgotten begins anew', async (store) => {
      await begin(store);
      await endRun(store, id(100));
      await store.of(alertsStore).forgetAlerts();
      await endRun(store, id(101));
      expect(await read(store)).toEqual({ version: 0, state: null, failures: [] });
      expect(await begin(store)).toBe('committed');
    });
  });
}
