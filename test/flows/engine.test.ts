import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { Engine } from '../../src/flows/engine.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { planRun } from '../../src/model/planner.ts';
import { FLOW_ID, type FlowService, manifestOf, openFlowService, openStore, START } from './fixture.ts';
import { graphOf } from './graphs.ts';

function plan(steps: Graph) {
  const record = {
    id: FLOW_ID,
    name: 'Orders',
    version: '1.0',
    revision: 7,
    isEnabled: true,
    createdAt: 1,
    updatedAt: 2,
  };
  return planRun({
    runId: 'r',
    flow: { record, prepared: prepareRevision(manifestOf(steps), 'folder') },
    triggerType: 'webhook',
    trigger: { key: 'hook', body: Buffer.from('x'), contentType: null, headers: {} },
    deliveryId: 'd',
    sourceRunId: null,
    traceparent: '00-1-2-01',
    at: START,
  });
}

describe('planRun', () => {
  it('pins the run to the newest revision and makes its entry steps due', () => {
    expect(plan(graphOf({ a: [], b: ['a'], c: [] }))).toEqual({
      id: 'r',
      flowId: FLOW_ID,
      flowName: 'Orders',
      flowVersion: '1.0',
      revision: 7,
      status: 'Running',
      startedAt: START,
      completedAt: null,
      timeoutAt: null,
      triggerKey: 'hook',
      triggerType: 'webhook',
      trigger: { key: 'hook', body: Buffer.from('x'), contentType: null, headers: {} },
      deliveryId: 'd',
      sourceRunId: null,
      traceparent: '00-1-2-01',
      steps: [
        { stepKey: 'a', stepType: 'NoOp', dueAt: START },
        { stepKey: 'c', stepType: 'NoOp', dueAt: START },
      ],
    });
  });

  it('ends a run of a flow without steps at once', () => {
    expect(plan({})).toMatchObject({ status: 'Succeeded', completedAt: START, steps: [] });
  });
});

describe('triggerFlow', () => {
  const request = {
    flowId: FLOW_ID,
    triggerKey: 'manual',
    triggerType: 'manual',
    body: Buffer.from('{"a":1}'),
    contentType: 'application/json',
    headers: { accept: '*/*' },
  } as const;

  it('keeps what the run was started with', async () => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [] }));
    const result = await service.runtime.engine.triggerFlow(request);
    if (result.kind !== 'started') throw new Error(result.kind);
    const run = await service.store.findRun(result.runId);
    expect(run).toMatchObject({ triggerKey: 'manual', triggerType: 'manual', status: 'Running', startedAt: START });
    expect(run?.trigger).toMatchObject({ contentType: 'application/json', headers: { accept: '*/*' } });
    expect(Buffer.from(run?.trigger.body ?? []).toString()).toBe('{"a":1}');
  });

  it('starts one run for one idempotency key', async () => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [] }));
    const keyed = { ...request, idempotencyKey: 'k' };
    const [first, second] = await Promise.all([
      service.runtime.engine.triggerFlow(keyed),
      service.runtime.engine.triggerFlow(keyed),
    ]);
    expect(first).toMatchObject({ kind: 'started' });
    expect(second).toEqual({ kind: 'duplicate', runId: 'runId' in first ? first.runId : '' });
    expect(service.log.events('RunStarted')).toHaveLength(1);
  });

  it('starts nothing of a disabled flow, and says so', async () => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [] }));
    await service.catalog.setEnabled(FLOW_ID, false);
    expect(await service.runtime.engine.triggerFlow(request)).toEqual({ kind: 'disabled' });
    expect((await service.store.listRuns({ skip: 0, take: 1 })).items).toEqual([]);
    expect(service.log.events('TriggerRejectedDisabledFlow')).toMatchObject([{ eventId: 1010, flowId: FLOW_ID }]);
  });

  it.each<[string, Partial<Parameters<Engine['triggerFlow']>[0]>]>([
    ['flow', { flowId: '0b7c9d10-0000-4000-8000-00000000dead' }],
    ['trigger', { triggerKey: 'toString', triggerType: 'cron' }],
  ])('knows no %s that is not deployed', async (_what, change) => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [] }));
    expect(await service.runtime.engine.triggerFlow({ ...request, ...change })).toEqual({ kind: 'unknown' });
  });

  it('starts a flow by hand under any key', async () => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [] }), { triggers: {} });
    expect(await service.runtime.engine.triggerFlow({ ...request, triggerKey: 'dashboard' })).toMatchObject({
      kind: 'started',
    });
  });

  describe('while the flow changes', () => {
    /** A service that makes one of these changes before each acceptance, until all are made. */
    async function changing(...changes: ((service: FlowService) => Promise<unknown>)[]): Promise<FlowService> {
      const store = await openStore();
      const service: FlowService = await openFlowService({
        store: {
          ...store,
          async accept(acceptance) {
            await changes.shift()?.(service);
            return store.accept(acceptance);
          },
        },
      });
      await service.deploy(graphOf({ a: [] }));
      return service;
    }
    const revisions = async (service: FlowService) =>
      (await service.store.listRuns({ skip: 0, take: 9 })).items.map(({ revision }) => revision);
    const deploy = (step: string) => (service: FlowService) => service.deploy(graphOf({ [step]: [] }));

    it('starts a run of the revision that is deployed when it is accepted', async () => {
      const service = await changing(deploy('b'), deploy('c'));
      expect(await service.runtime.engine.triggerFlow(request)).toMatchObject({ kind: 'started' });
      expect(await revisions(service)).toEqual([3]);
    });

    it('repeats a run with the revision that is deployed when it is accepted', async () => {
      const service = await changing(async () => {}, deploy('b'));
      const source = await service.store.findRun(await service.trigger());
      if (source === undefined) throw new Error('the run is not there');
      expect(await service.runtime.engine.rerun(source)).toMatchObject({ kind: 'started' });
      expect(await revisions(service)).toEqual([2, 1]);
    });

    it('starts nothing once the flow is disabled or the trigger is gone', async () => {
      const disabled = await changing((service) => service.catalog.setEnabled(FLOW_ID, false));
      expect(await disabled.runtime.engine.triggerFlow(request)).toEqual({ kind: 'disabled' });
      const removed = await changing(deploy('b'));
      const cron = { ...request, triggerKey: 'manual', triggerType: 'cron' } as const;
      expect(await removed.runtime.engine.triggerFlow(cron)).toMatchObject({ kind: 'started' });
      const gone = await changing((service) => service.deploy(graphOf({ b: [] }), { triggers: {} }));
      expect(await gone.runtime.engine.triggerFlow(cron)).toEqual({ kind: 'unknown' });
      expect([await revisions(disabled), await revisions(gone)]).toEqual([[], []]);
    });

    it('gives up after five tries', async () => {
      const service = await changing(...['b', 'c', 'd', 'e', 'f'].map(deploy));
      await expect(service.runtime.engine.triggerFlow(request)).rejects.toThrow(StoreUnavailableError);
      expect(await revisions(service)).toEqual([]);
    });
  });

  it('says nothing of a run that could not be stored', async () => {
    const store = await openStore();
    const error = new StoreUnavailableError('the disk is full');
    const service = await openFlowService({ store: { ...store, accept: () => Promise.reject(error) } });
    await service.deploy(graphOf({ a: [] }));
    await expect(service.runtime.engine.triggerFlow(request)).rejects.toBe(error);
    expect(service.log.events('RunStarted', 'DispatchEnqueued')).toEqual([]);
  });

  it('gives its runs ids that grow', async () => {
    const service = await openFlowService();
    await service.deploy({});
    const ids: string[] = [];
    for (let runs = 0; runs < 20; runs += 1) ids.push(await service.trigger());
    expect(ids).toEqual(ids.toSorted());
  });
});
