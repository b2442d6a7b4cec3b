import { describe, expect } from 'vitest';
import { holdStore } from '../../../src/features/hold/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
import { schedulesStore } from '../../../src/features/schedules/store.ts';
import type { Advance, NewRun, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  aRun,
  claimAll,
  failed,
  finish,
  graphOf,
  id,
  minute,
  PLAN,
  readInput,
  retryAt,
  succeeded,
  T0,
} from '../samples.ts';
import {
  asking,
  CHILD,
  claimOne,
  deploy,
  end,
  GRANDCHILD,
  PARENT,
  running,
  start,
  startBoth,
  statusOf,
} from '../sub-run-samples.ts';

const derivedOf = async (store: Store, runId: string) => (await store.of(runsStore).findLineage(runId))?.derived ?? [];

export function subRuns({ test }: StoreUnderTest): void {
  describe('runs that steps start', () => {
    test('a step starts a run of the flow with its body, and waits without a slot', async (store) => {
      const { parent, child } = await startBoth(store);
      expect(await store.findRun(child)).toMatchObject({
        flowId: CHILD,
        flowName: 'Flow 2222',
        flowVersion: '1',
        revision: 1,
        status: 'Running',
        triggerType: 'flow',
        triggerKey: 'runFlow',
        sourceRunId: parent,
      });
      const { trigger } = await readInput(store, child);
      expect(JSON.parse(Buffer.from(trigger.body).toString())).toEqual({ total: 7 });
      const claim = await claimOne(store);
      expect(claim).toMatchObject({ runId: child, traceparent: expect.stringContaining('0123456789abcdef') });
      const { waits } = await store.describeRuns({ running: [parent], ended: [], dueBefore: T0 });
      expect(waits).toEqual([
        {
          runId: parent,
          kind: 'run',
          stepKey: 'go',
          signalName: null,
          host: null,
          lacking: null,
          awaitedRunId: child,
          until: null,
          steps: 1,
        },
      ]);
      expect(await store.outlineSteps(parent, ['go'])).toMatchObject([{ status: 'Pending', subRunId: child }]);
      const query = { skip: 0, take: 9, waiting: { kind: 'run', dueBefore: T0 } } as const;
      expect((await store.listRuns(query)).items.map((run) => run.id)).toEqual([parent]);
      expect((await store.listSlotWaits({ now: T0, dueBefore: T0 })).waits).toEqual([]);
    });

    test.each([
      ['succeeds', succeeded('done'), 'Succeeded'],
      ['fails', failed(), 'Failed'],
    ] as const)(
      'the step is due as soon as that run %s, with the run in its state',
      async (store, _how, result, status) => {
        const { parent, child } = await startBoth(store);
        const advance = await end(store, result, T0 + 5);
        expect(advance).toMatchObject({ runStatus: status, woken: { runId: parent, stepKey: 'go' } });
        const claim = await claimOne(store, T0 + 5);
        expect(claim).toMatchObject({
          runId: parent,
          stepKey: 'go',
          attempt: 1,
          resumed: { state: { subRun: child } },
        });
        expect(await finish(store, claim, succeeded({ runId: child }), T0 + 6)).toMatchObject({
          runStatus: 'Succeeded',
        });
      },
    );

    test('a step that does not wait succeeds with the id of the run, which lives on its own', async (store) => {
      const { parent, child } = await startBoth(store, {
        run: { timeoutAt: T0 + 50 },
        ask: asking(CHILD, { isAwaited: false }),
      });
      expect(await statusOf(store, parent)).toBe('Succeeded');
      expect(await store.findStep(parent, 'go')).toMatchObject({ output: { runId: child } });
      expect(await store.findRun(child)).toMatchObject({ status: 'Running', timeoutAt: null });
      expect(await end(store)).not.toHaveProperty('woken');
    });

    test('an outcome under a lost lease starts nothing, and a repeated attempt starts one run', async (store) => {
      await deploy(store, CHILD);
      const parent = await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      const dead = await claimOne(store);
      await store.recover({ owner: 'me', now: T0 + 1 });
      await end(store, asking(), T0 + 1);
      expect(await finish(store, dead, asking(), T0 + 2)).toBeUndefined();
      expect(await derivedOf(store, parent)).toHaveLength(1);
    });

    test('a process that dies with the woken step leaves it to another, with the same run', async (store) => {
      const { parent, child } = await startBoth(store);
      await end(store);
      await claimOne(store);
      await store.recover({ owner: 'me', now: T0 + 1 });
      const again = await claimOne(store, T0 + 1);
      expect(again).toMatchObject({
        runId: parent,
        attempt: 2,
        interruptions: 1,
        resumed: { state: { subRun: child } },
      });
      expect(await derivedOf(store, parent)).toHaveLength(1);
    });

    test('a new attempt starts a new run, and the end of the one before wakes nothing', async (store) => {
      const { parent, child } = await startBoth(store);
      await end(store, failed());
      await end(store, retryAt(T0 + 10));
      const second = await end(store, asking(), T0 + 10);
      expect(second.subRun?.run?.id).not.toBe(child);
      await store.retryStep({ runId: child, stepKey: 'work', at: T0 + 11 });
      const claims = await claimAll(store, T0 + 11);
      const first = claims.find(({ runId }) => runId === child);
      if (first === undefined) throw new Error('the first run was not due');
      await finish(store, first, succeeded(), T0 + 11);
      expect(await store.findStep(parent, 'go')).toMatchObject({ status: 'Pending', dueAt: null });
      expect(await store.outlineSteps(parent, ['go'])).toMatchObject([{ subRunId: second.subRun?.run?.id }]);
    });

    test('a flow without steps has ended at once, and its step is due', async (store) => {
      await deploy(store, CHILD, { steps: {} });
      await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      expect(await end(store, asking())).toMatchObject({ subRun: { run: { status: 'Succeeded' } } });
      expect(await claimOne(store)).toMatchObject({
        stepKey: 'go',
        resumed: { state: { subRun: expect.any(String) } },
      });
    });

    test('a run pins the flows that it can reach when it starts, and its sub-runs follow them', async (store) => {
      await deploy(store, GRANDCHILD);
      await deploy(store, CHILD, { steps: running(GRANDCHILD) });
      const parent = await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      await deploy(store, CHILD, { version: '2', steps: graphOf({ other: [] }) });
      await deploy(store, GRANDCHILD, { version: '2', steps: graphOf({ other: [] }) });
      expect((await end(store, asking())).subRun?.run).toMatchObject({ revision: 1, flowVersion: '1' });
      expect((await end(store, asking(GRANDCHILD))).subRun?.run).toMatchObject({ revision: 1 });
      expect(await claimOne(store)).toMatchObject({ flowId: GRANDCHILD, stepKey: 'work' });
      const later = await start(
        store,
        { ...(await deploy(store, PARENT, { steps: running(CHILD) })) },
        { id: id(101) },
      );
      const claim = (await claimAll(store)).find(({ runId }) => runId === later);
      if (claim === undefined) throw new Error('the later run was not due');
      expect((await finish(store, claim, asking()))?.subRun?.run).toMatchObject({ revision: 2 });
      expect(await statusOf(store, parent)).toBe('Running');
    });

    test.each([
      [
        'by time',
        async (store: Store, run: NewRun) => {
          const { flowId, triggerKey } = run;
          const schedule = {
            flowId,
            triggerKey,
            cron: '* * * * *',
            timeZone: 'UTC',
            cronOverride: null,
            isPaused: false,
          };
          await store.of(schedulesStore).changeSchedule({ ...schedule, nextAt: T0, lastAt: null, revision: 0 });
          await store.of(schedulesStore).fireSchedule({ flowId, triggerKey, dueAt: T0, nextAt: null, run, at: T0 });
        },
      ],
      [
        'by a delivery that was held',
        async (store: Store, run: NewRun) => {
          const { flowId } = run;
          await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
          await store.holdDelivery({ run });
          await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
          await store.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 });
        },
      ],
      [
        'by a failure',
        async (store: Store, run: NewRun) => {
          await start(store, await deploy(store, GRANDCHILD, { onFailure: run.flowId }), { id: id(200) });
          await end(store, failed());
        },
      ],
    ])('a run that is started %s pins flows too', async (store, _how, begin) => {
      await deploy(store, CHILD);
      const { record } = await deploy(store, PARENT, { steps: running(CHILD) });
      const steps = [{ stepKey: 'go', stepType: 'RunFlow', dueAt: T0 }];
      await begin(store, aRun({ flowId: PARENT, revision: record.revision, subFlows: [CHILD], steps }));
      await deploy(store, CHILD, { version: '2', steps: graphOf({ other: [] }) });
      expect((await end(store, asking())).subRun?.run).toMatchObject({ flowId: CHILD, revision: 1 });
    });

    test('a flow that came after the run started is not run', async (store) => {
      await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      await deploy(store, CHILD);
      expect(await end(store, asking(CHILD, { retryAt: T0 + 9 }))).toMatchObject({
        runStatus: 'Failed',
        subRun: { run: null, result: { kind: 'failed', error: { code: 'flow_not_pinned' } } },
      });
    });

    test.each([
      [
        'disabled',
        (store: Store, isClosed: boolean) => store.setFlowEnabled({ flowId: CHILD, isEnabled: !isClosed, at: T0 }),
      ],
      [
        'draining',
        (store: Store, isClosed: boolean) => store.setFlowDraining({ flowId: CHILD, isDraining: isClosed, at: T0 }),
      ],
    ] as const)(
      'a flow that is %s is not run, and the step is tried again as its policy says',
      async (store, why, close) => {
        await deploy(store, CHILD);
        const parent = await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
        await close(store, true);
        expect(await end(store, asking(CHILD, { retryAt: T0 + 9 }))).toMatchObject({
          runStatus: 'Running',
          subRun: { run: null, result: { kind: 'retry', dueAt: T0 + 9, error: { code: 'flow_closed' } } },
        });
        expect((await store.findStep(parent, 'go'))?.error?.message).toContain(why);
        await close(store, false);
        expect((await end(store, asking(), T0 + 9)).subRun?.run).toMatchObject({ flowId: CHILD });
        await end(store, failed(), T0 + 9);
        await end(store, retryAt(T0 + 20), T0 + 9);
        await close(store, true);
        expect(await end(store, asking(), T0 + 20)).toMatchObject({ runStatus: 'Failed' });
      },
    );

    test('a flow that is drained is still run by what was in flight then, which a deploy that has to wait is told of', async (store) => {
      const record = (await deploy(store, CHILD)).record;
      const flow = await deploy(store, PARENT, { steps: running(CHILD) });
      const parent = await start(store, flow);
      await start(store, flow, { id: id(101), startedAt: T0 + 2 });
      const callersOf = async () => (await store.readLiveFlow(CHILD)).callers;
      const runs = [
        { id: parent, flowId: PARENT, flowName: 'Flow 1111', startedAt: T0 },
        { id: id(101), flowId: PARENT, flowName: 'Flow 1111', startedAt: T0 + 2 },
      ];
      expect(await callersOf()).toEqual({ runsInFlight: 2, runs });
      await store.setFlowDraining({ flowId: CHILD, isDraining: true, at: T0 + 1 });
      expect(await callersOf()).toEqual({ runsInFlight: 1, runs: runs.slice(0, 1) });
      const { id: flowId, name, version } = record;
      const planned = { id: flowId, name, version, hash: 'new', snapshot: { id: CHILD, steps: {} }, at: T0 };
      const change = { ...planned, ...PLAN, basedOn: 1, needsIdle: true };
      expect(await store.applyDeploys([change])).toEqual({ kind: 'busy', flowId: CHILD, runsInFlight: 1 });
      const results = new Map<string, Advance | undefined>();
      for (const claim of await claimAll(store, T0 + 3))
        results.set(claim.runId, await finish(store, claim, asking(), T0 + 3));
      expect(results.get(parent)?.subRun?.run).toMatchObject({ flowId: CHILD, revision: 1 });
      expect(results.get(id(101))?.subRun).toMatchObject({ run: null, result: { error: { code: 'flow_closed' } } });
      // The run that it started counts as in flight since its own start.
      expect((await store.readLiveFlow(CHILD)).runsInFlight).toBe(1);
      await end(store, succeeded(), T0 + 4);
      await end(store, succeeded(), T0 + 4);
      expect(await callersOf()).toBeUndefined();
      expect(await store.applyDeploys([change])).toMatchObject({ kind: 'applied' });
    });

    test('a run that starts while a flow is drained runs what is deployed when the drain has ended, all of one time', async (store) => {
      await deploy(store, GRANDCHILD);
      await deploy(store, CHILD, { steps: running(GRANDCHILD) });
      const flow = await deploy(store, PARENT, { steps: running(CHILD) });
      const drain = (isDraining: boolean) => store.setFlowDraining({ flowId: CHILD, isDraining, at: T0 + 1 });
      await drain(true);
      await start(store, flow, { startedAt: T0 + 2 });
      await end(store, asking(CHILD, { retryAt: T0 + 9 }), T0 + 3);
      // No run in flight could start it, so the change was allowed.
      expect((await store.readLiveFlow(CHILD)).callers).toBeUndefined();
      await deploy(store, CHILD, { version: '2', steps: running(GRANDCHILD) });
      await drain(false);
      expect((await end(store, asking(), T0 + 9)).subRun?.run).toMatchObject({ revision: 2 });
      await deploy(store, GRANDCHILD, { version: '2' });
      expect((await end(store, asking(GRANDCHILD), T0 + 9)).subRun?.run).toMatchObject({ revision: 1 });
    });

    test('a run that starts while a flow is drained does not start it in a later drain', async (store) => {
      await deploy(store, CHILD);
      const flow = await deploy(store, PARENT, { steps: running(CHILD) });
      const drain = (isDraining: boolean, at: number) => store.setFlowDraining({ flowId: CHILD, isDraining, at });
      await drain(true, T0 + 1);
      await start(store, flow, { startedAt: T0 + 2 });
      await drain(false, T0 + 3);
      await drain(true, T0 + 4);
      expect(await end(store, asking(), T0 + 5)).toMatchObject({
        subRun: { run: null, result: { error: { code: 'flow_closed' } } },
      });
    });

    test('so many flows run each other in a chain, and the next one is refused', async (store) => {
      const flow = (n: number) => `6f2b1c1e-0000-4222-8333-4444555566${n.toString().padStart(2, '0')}`;
      for (let n = 9; n >= 0; n -= 1) await deploy(store, flow(n), { steps: running(flow(n + 1)) });
      await start(store, await deploy(store, flow(0), { steps: running(flow(1)) }));
      for (let n = 1; n < 8; n += 1) expect((await end(store, asking(flow(n)))).subRun?.run).not.toBeNull();
      expect(await end(store, asking(flow(8)))).toMatchObject({
        subRun: { result: { error: { code: 'flows_too_deep' } } },
      });
    });

    test('a failure below a run that a failure started starts no other', async (store) => {
      const flow = await deploy(store, CHILD, { onFailure: PARENT });
      await deploy(store, PARENT, { steps: running(CHILD) });
      await start(store, flow);
      expect(await end(store, failed())).toMatchObject({ failure: { kind: 'started', run: { flowId: PARENT } } });
      await end(store, asking());
      expect(await end(store, failed())).not.toHaveProperty('failure');
      // Started by itself, it does.
      await start(store, await deploy(store, PARENT, { steps: running(CHILD) }), { id: id(101) });
      const go = (await claimAll(store)).find(({ runId }) => runId === id(101));
      if (go !== undefined) await finish(store, go, asking());
      const work = (await claimAll(store)).find(({ flowId }) => flowId === CHILD);
      if (work === undefined) throw new Error('nothing was due');
      expect(await finish(store, work, failed())).toMatchObject({ failure: { kind: 'started' } });
    });

    test('retention keeps a run that a run in flight waited for, and forgets it with that', async (store) => {
      const { parent, child } = await startBoth(store);
      await end(store);
      const purge = async () => {
        while (!(await store.purgeRuns({ before: T0 + minute, maxRows: 100 })).isDone);
      };
      await purge();
      expect(await statusOf(store, child)).toBe('Succeeded');
      await end(store);
      await purge();
      expect([await statusOf(store, parent), await statusOf(store, child)]).toEqual([undefined, undefined]);
    });

    test('runs of a flow are listed by their start, though one follows an older revision', async (store) => {
      await deploy(store, CHILD);
      await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      const newer = await deploy(store, CHILD, { version: '2' });
      await start(store, newer, { id: id(101), startedAt: T0 + 1, steps: [] });
      const child = (await end(store, asking(), T0 + 2)).subRun?.run?.id;
      const listed = async (query: object) =>
        (await store.listRuns({ skip: 0, take: 9, flowId: CHILD, ...query })).items.map((run) => run.id);
      expect(await listed({})).toEqual([child, id(101)]);
      expect(await listed({ skip: 1 })).toEqual([id(101)]);
      expect(await listed({ since: T0 + 2 })).toEqual([child]);
    });
  });
}
