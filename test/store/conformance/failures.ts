import { describe, expect } from 'vitest';
import { flowsStore } from '../../../src/features/flows/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
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
  readInput,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

const alarm = '6f2b1c1e-2222-4222-8333-444455556666';
const other = '6f2b1c1e-3333-4222-8333-444455556666';

/** Deploys a flow whose failed runs start another. */
async function deployNaming(store: Store, onFailure: string, change: { id?: string; steps?: object } = {}) {
  const { id: own = flowId, steps = graphOf({ a: [] }) } = change;
  const snapshot = { id: own, steps, onFailure } as never;
  return store.deployFlow({ ...deployOf(graphOf({})), id: own, hash: `${own} names ${onFailure}`, snapshot });
}

/** Starts a run of the newest revision of that flow, without deploying again. */
async function startNaming(store: Store, runId = id(100), change: Parameters<typeof startRun>[2] = {}) {
  const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }];
  const revision = (await store.findFlow(flowId))?.revision ?? 1;
  const snapshot = { deployFlow: async () => ({ revision }), accept: store.accept.bind(store) } as unknown as Store;
  return startRun(snapshot, graphOf({ a: [] }), { id: runId, steps, ...change });
}

async function deployAlarm(store: Store, change: object = {}) {
  return store.deployFlow({ ...deployOf(graphOf({ tell: [] }), { id: alarm, name: 'Alarm' }), ...change });
}

/** Ends the only due step. */
async function endStep(store: Store, result = failed(), at = T0 + 9): Promise<Advance | undefined> {
  const [claim] = await claimAll(store, at);
  if (claim === undefined) throw new Error('nothing was due');
  return finish(store, claim, result, at);
}

async function derivedOf(store: Store, runId: string) {
  return (await store.of(runsStore).findLineage(runId))?.derived ?? [];
}

export function failures({ test }: StoreUnderTest): void {
  describe('flows that a failed run starts', () => {
    test('a run that fails starts a run of the newest revision of the flow that its own revision names', async (store) => {
      await deployAlarm(store);
      await deployAlarm(store, { hash: 'newer', snapshot: { id: alarm, steps: graphOf({ page: [] }) } });
      await deployNaming(store, alarm);
      const runId = await startNaming(store);
      // This applies only to runs that start later.
      await deployNaming(store, other);
      const advance = await endStep(store);
      expect(advance).toMatchObject({ runStatus: 'Failed', failure: { kind: 'started', run: { flowId: alarm } } });
      const [run] = await derivedOf(store, runId);
      expect(run).toMatchObject({
        flowId: alarm,
        flowName: 'Alarm',
        revision: 2,
        status: 'Running',
        triggerKey: 'onFailure',
        triggerType: 'failure',
        sourceRunId: runId,
        startedAt: T0 + 9,
      });
      const { trigger } = await readInput(store, run?.id ?? '');
      expect(JSON.parse(Buffer.from(trigger.body).toString())).toEqual({
        run: {
          id: runId,
          flowId,
          flowName: 'Orders',
          flowVersion: '1.0',
          revision: 1,
          status: 'Failed',
          triggerKey: 'github',
          triggerType: 'webhook',
          deliveryId: null,
          sourceRunId: null,
          startedAt: new Date(T0).toISOString(),
          completedAt: new Date(T0 + 9).toISOString(),
        },
        step: { key: 'a', type: 'NoOp' },
        error: { code: 'broken', message: 'No.', retryable: false },
      });
      expect((await claimAll(store, T0 + 9)).map(({ stepKey }) => stepKey)).toEqual(['page']);
    });

    test('a run that times out starts one too, and one that is cancelled or succeeds starts none', async (store) => {
      await deployAlarm(store);
      await deployNaming(store, alarm);
      const late = await startNaming(store, id(100), { timeoutAt: T0 + 5 });
      const cancelled = await startNaming(store, id(101));
      await store.cancelRun({ runId: cancelled, reason: null, at: T0 });
      const claim = { owner: 'me', now: T0 + 5, leasedUntil: T0 + 500, limit: 9 };
      const { timedOut } = await store.claimOverdue(claim);
      expect(timedOut).toMatchObject([{ runId: late, failure: { kind: 'started', run: { flowId: alarm } } }]);
      const [run] = await derivedOf(store, late);
      const { trigger } = await readInput(store, run?.id ?? '');
      expect(JSON.parse(Buffer.from(trigger.body).toString())).toMatchObject({
        run: { status: 'TimedOut' },
        step: null,
        error: { code: 'run_timed_out' },
      });
      await endStep(store, succeeded());
      const good = await startNaming(store, id(102));
      expect(await endStep(store, succeeded())).not.toHaveProperty('failure');
      expect([await derivedOf(store, cancelled), await derivedOf(store, good)]).toEqual([[], []]);
    });

    test('a run that a failure started starts none, though the flows name each other', async (store) => {
      await deployNaming(store, flowId, { id: alarm, steps: graphOf({ tell: [] }) });
      await deployNaming(store, alarm);
      const runId = await startNaming(store);
      await endStep(store);
      const [started] = await derivedOf(store, runId);
      expect(await endStep(store)).toMatchObject({ runStatus: 'Failed' });
      expect(await derivedOf(store, started?.id ?? '')).toEqual([]);
      expect((await store.listRuns({ skip: 0, take: 10 })).items).toHaveLength(2);
    });

    test('a run that is tried again and fails again starts no second one', async (store) => {
      await deployAlarm(store);
      await deployNaming(store, alarm);
      const runId = await startNaming(store);
      await endStep(store);
      await endStep(store, succeeded());
      await store.retryStep({ runId, stepKey: 'a', at: T0 + 20 });
      expect(await endStep(store, failed(), T0 + 20)).toMatchObject({ runStatus: 'Failed' });
      expect(await derivedOf(store, runId)).toHaveLength(1);
    });

    test.each([
      ['unknown', async (_store: Store) => undefined],
      ['disabled', async (store: Store) => store.setFlowEnabled({ flowId: alarm, isEnabled: false, at: T0 })],
      ['draining', async (store: Store) => store.setFlowDraining({ flowId: alarm, isDraining: true, at: T0 })],
    ])('a flow that is %s is not started, and the outcome says why', async (store, why, close) => {
      if (why !== 'unknown') await deployAlarm(store);
      await close(store);
      await deployNaming(store, alarm);
      const runId = await startNaming(store);
      expect(await endStep(store)).toMatchObject({
        runStatus: 'Failed',
        failure: { kind: 'closed', flowId: alarm, why },
      });
      expect(await derivedOf(store, runId)).toEqual([]);
      // A later failure of the same run starts it if the flow is open by then.
      await deployAlarm(store);
      await store.setFlowEnabled({ flowId: alarm, isEnabled: true, at: T0 });
      await store.setFlowDraining({ flowId: alarm, isDraining: false, at: T0 });
      await store.retryStep({ runId, stepKey: 'a', at: T0 + 20 });
      await endStep(store, failed(), T0 + 20);
      expect(await derivedOf(store, runId)).toHaveLength(1);
    });

    test('it is counted, and ends at once where it has no steps', async (store) => {
      await deployAlarm(store, { snapshot: { id: alarm, steps: {} } });
      await deployNaming(store, alarm);
      await startNaming(store);
      expect(await endStep(store)).toMatchObject({ failure: { run: { status: 'Succeeded' } } });
      expect(await store.of(flowsStore).countRuns()).toEqual(
        expect.arrayContaining([
          { flowId: alarm, status: 'Succeeded', count: 1 },
          { flowId, status: 'Failed', count: 1 },
        ]),
      );
    });
  });
}
