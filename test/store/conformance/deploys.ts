import { describe, expect } from 'vitest';
import { learnedKeysStore } from '../../../src/features/learned-keys/store.ts';
import { revisionsStore } from '../../../src/features/revisions/store.ts';
import type { Finding } from '../../../src/model/finding.ts';
import type { PlannedDeploy, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aNonce,
  aRun,
  claimAll,
  deployOf,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  PLAN,
  retryAt,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';
import { CHILD, GRANDCHILD, PARENT, running } from '../sub-run-samples.ts';

const one = graphOf({ a: [] });
const two = graphOf({ a: [], b: ['a'] });

function planned(graph: typeof one, change: Partial<PlannedDeploy> = {}): PlannedDeploy {
  return { ...deployOf(graph), ...PLAN, ...change };
}

async function endRun(store: Store): Promise<void> {
  for (let claims = await claimAll(store); claims.length > 0; claims = await claimAll(store)) {
    for (const claim of claims) await finish(store, claim, succeeded());
  }
}

const applyOne = (store: Store, deploy: PlannedDeploy) => store.applyDeploys([deploy]);

export function deploys({ test }: StoreUnderTest): void {
  describe('a planned deploy', () => {
    test('is outdated where another flow has its slug by a revision that the plan did not know', async (store) => {
      const hook = { push: { type: 'webhook', inputs: { webhookSlug: 'Push' } } };
      const snapshot = (name: string) => ({ name, triggers: hook, steps: {} });
      const [mine, other] = [CHILD, PARENT].map((id) => planned(one, { id, snapshot: snapshot(id) }));
      if (mine === undefined || other === undefined) throw new Error('no deploys');
      await applyOne(store, other);
      const outdated = { kind: 'outdated', flowId: CHILD, others: [PARENT] };
      expect(await applyOne(store, { ...mine, known: new Map() })).toEqual(outdated);
      expect(await applyOne(store, { ...mine, known: new Map([[PARENT, 2]]) })).toEqual(outdated);
      await store.deleteFlow({ flowId: PARENT, at: T0 });
      expect(await applyOne(store, { ...mine, known: new Map() })).toMatchObject({ kind: 'applied' });
      expect(await applyOne(store, { ...other, basedOn: 1, known: new Map([[CHILD, 1]]) })).toMatchObject({
        kind: 'applied',
      });
    });

    test('is outdated where a flow would come to run itself, by flows that are deployed or deployed with it', async (store) => {
      const flow = (id: string, runs: string | null, basedOn: number | null) => {
        const inLoop = (steps: typeof one) => ({
          each: { type: 'ForEach', inputs: { items: [] }, runAfter: {}, steps },
        });
        return planned(runs === null ? one : inLoop(running(runs)), { id, basedOn });
      };
      const first = [flow(PARENT, CHILD, null), flow(CHILD, GRANDCHILD, null), flow(GRANDCHILD, null, null)];
      expect(await store.applyDeploys(first)).toMatchObject({ kind: 'applied' });
      const cycle = [GRANDCHILD, PARENT, CHILD];
      const closing = flow(GRANDCHILD, PARENT, 1);
      expect(await applyOne(store, closing)).toEqual({ kind: 'outdated', flowId: GRANDCHILD, others: cycle });
      await store.setFlowDraining({ flowId: CHILD, isDraining: true, at: T0 });
      expect(await applyOne(store, closing)).toMatchObject({ others: cycle });
      expect(await applyOne(store, flow(GRANDCHILD, GRANDCHILD, 1))).toMatchObject({ others: [GRANDCHILD] });
      expect(await store.applyDeploys([closing, flow(CHILD, null, 1)])).toMatchObject({ kind: 'applied' });
      expect(await applyOne(store, flow(CHILD, GRANDCHILD, 2))).toMatchObject({ kind: 'outdated', flowId: CHILD });
      expect(await applyOne(store, flow(CHILD, null, 2))).toMatchObject({ kind: 'applied' });
    });

    test('is a revision with its findings, its overrides and where it came from', async (store) => {
      const finding: Finding = { rule: 'r', class: 'caution', path: 'steps.a', message: 'm', consequence: 'c' };
      expect(await applyOne(store, planned(one))).toMatchObject({ kind: 'applied', flows: [{ revision: 1 }] });
      const change = { basedOn: 1, findings: [finding], overrides: ['caution'], source: 'api', at: T0 + 1 } as const;
      expect(await applyOne(store, planned(two, change))).toMatchObject({ kind: 'applied', flows: [{ revision: 2 }] });
      const page = await store.of(revisionsStore).listRevisions({ flowId, skip: 0, take: 50 });
      expect(page).toEqual({
        total: 2,
        items: [
          {
            flowId,
            revision: 2,
            version: '1.0',
            hash: deployOf(two).hash,
            createdAt: T0 + 1,
            source: 'api',
            actor: 'somebody',
            reason: null,
            access: 'same',
            isRemoved: false,
            findings: [finding],
            overrides: ['caution'],
            runs: 0,
            runsInFlight: 0,
          },
          {
            flowId,
            revision: 1,
            version: '1.0',
            hash: deployOf(one).hash,
            createdAt: T0,
            source: 'folder',
            actor: 'somebody',
            reason: null,
            access: 'same',
            isRemoved: false,
            findings: [],
            overrides: [],
            runs: 0,
            runsInFlight: 0,
          },
        ],
      });
      expect((await store.of(revisionsStore).listRevisions({ flowId, skip: 1, take: 1 }))?.items).toEqual(
        page?.items.slice(1),
      );
    });

    test('of the manifest that is deployed changes nothing', async (store) => {
      await store.deployFlow(deployOf(one));
      const again = await applyOne(store, planned(one, { basedOn: 1, isUnchanged: true, at: T0 + 1 }));
      expect(again).toMatchObject({ kind: 'applied', flows: [{ revision: 1, updatedAt: T0 }] });
    });

    test('that was made against another revision is outdated, and nothing is written', async (store) => {
      await store.deployFlow(deployOf(one));
      expect(await applyOne(store, planned(two, { basedOn: null }))).toEqual({ kind: 'outdated', flowId });
      expect(await applyOne(store, planned(two, { basedOn: 2 }))).toEqual({ kind: 'outdated', flowId });
      expect((await store.findFlow(flowId))?.revision).toBe(1);
      expect(await store.findRevision(flowId, 2)).toBeUndefined();
    });

    test('waits for the runs of its flow where it must, and for no other flow', async (store) => {
      await startRun(store, one);
      await store.accept({ run: aRun({ id: id(101), flowId: 'another flow', steps: [] }) });
      const change = planned(two, { basedOn: 1, needsIdle: true });
      expect(await applyOne(store, change)).toEqual({ kind: 'busy', flowId, runsInFlight: 1 });
      expect((await store.findFlow(flowId))?.revision).toBe(1);
      await endRun(store);
      expect(await applyOne(store, change)).toMatchObject({ kind: 'applied' });
    });

    test('of several manifests writes all or nothing', async (store) => {
      const other = { ...planned(one), id: 'another flow' };
      const deploys = [other, planned(two, { basedOn: 7 })];
      expect(await store.applyDeploys(deploys)).toEqual({ kind: 'outdated', flowId });
      expect(await store.listFlows()).toEqual([]);
      expect(await store.applyDeploys([other, planned(two)])).toMatchObject({
        kind: 'applied',
        flows: [{ id: 'another flow' }, { id: flowId }],
      });
    });

    test('is superseded by what was deployed since, however it was', async (store) => {
      const search = (graph: typeof one, change: object = {}) => {
        return store.findSuperseded({ ...deployOf(graph, change), isNamedByFile: false });
      };
      await applyOne(store, planned(one));
      expect(await search(one)).toBeUndefined();
      await applyOne(store, planned(two, { basedOn: 1, source: 'api' }));
      expect([await search(one), await search(two)]).toEqual([{ revision: 1, newest: 2, isRemoved: false }, undefined]);
      expect(await search(graphOf({ fresh: [] }))).toBeUndefined();
      await applyOne(store, planned(one, { basedOn: 2 }));
      expect([await search(one), await search(two)]).toEqual([undefined, { revision: 2, newest: 3, isRemoved: false }]);
    });

    test('is outdated where a step has got history since', async (store) => {
      await store.deployFlow(deployOf(one));
      const change = planned(two, { basedOn: 1, withoutHistory: ['a', 'unknown'] });
      await startRun(store, one);
      expect(await applyOne(store, change)).toEqual({ kind: 'outdated', flowId });
    });
  });

  describe('what is live of a flow', () => {
    test('is nothing where it never ran', async (store) => {
      const nothing = { runsInFlight: 0, runs: [], stepsWithHistory: [], lastRunOfStep: {} };
      expect(await store.readLiveFlow(flowId)).toEqual(nothing);
      const flow = await store.deployFlow(deployOf(one));
      const revision = await store.findRevision(flowId, 1);
      expect(await store.readLiveFlow(flowId)).toEqual({ ...nothing, deployed: { flow, revision } });
    });

    test('names runs in flight, oldest first, with the status of their steps', async (store) => {
      const graph = graphOf({ a: [], b: ['a'], c: ['b'] });
      await startRun(store, graph, { id: id(102), startedAt: T0 + 2 });
      await startRun(store, graph, { id: id(101), startedAt: T0 + 1 });
      for (const claim of await claimAll(store)) {
        await finish(store, claim, claim.runId === id(101) ? succeeded() : retryAt(T0 + minute));
      }
      const live = await store.readLiveFlow(flowId);
      expect(live.runsInFlight).toBe(2);
      expect(live.runs).toEqual([
        {
          id: id(101),
          revision: 1,
          triggerKey: 'github',
          startedAt: T0 + 1,
          steps: { a: { status: 'Succeeded', isWaiting: false }, b: { status: 'Pending', isWaiting: false } },
        },
        {
          id: id(102),
          revision: 1,
          triggerKey: 'github',
          startedAt: T0 + 2,
          steps: { a: { status: 'Pending', isWaiting: true } },
        },
      ]);
    });

    test('names the steps of a run by key, in whichever order they ran', async (store) => {
      await startRun(store, graphOf({ b: [], a: [], Z: ['b'], é: ['a'] }), { id: id(101) });
      const claims = await claimAll(store);
      for (const claim of claims.toSorted((x, y) => (x.stepKey < y.stepKey ? 1 : -1)))
        await finish(store, claim, succeeded());
      const [run] = (await store.readLiveFlow(flowId)).runs;
      expect(Object.keys(run?.steps ?? {})).toEqual(['Z', 'a', 'b', 'é']);
    });

    test('counts a step that waits for a signal as waiting, and no run that ended', async (store) => {
      await startRun(store, one, { id: id(101) });
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing was due');
      await finish(store, claim, { kind: 'waiting', state: null, dueAt: null, signalName: 'go' });
      expect((await store.readLiveFlow(flowId)).runs[0]?.steps).toEqual({ a: { status: 'Pending', isWaiting: true } });
      await store.cancelRun({ runId: id(101), reason: null, at: T0 });
      expect(await store.readLiveFlow(flowId)).toMatchObject({ runsInFlight: 0, runs: [], stepsWithHistory: ['a'] });
    });

    test('knows each step that a kept run has a row of, and when its newest such run began', async (store) => {
      await startRun(store, two, { id: id(101), startedAt: T0 });
      await endRun(store);
      await startRun(store, graphOf({ a: [], c: ['a'] }), { id: id(102), startedAt: T0 + 5 });
      for (const claim of await claimAll(store)) await finish(store, claim, failed());
      await startRun(store, graphOf({ a: [], d: ['a'] }), { id: id(103), startedAt: T0 + 9 });
      const { stepsWithHistory, lastRunOfStep } = await store.readLiveFlow(flowId);
      expect([...stepsWithHistory].sort()).toEqual(['a', 'b', 'c']);
      expect(lastRunOfStep).toEqual({ a: T0 + 9, b: T0, c: T0 + 5 });
    });

    test('forgets a step with the last run that knew it', async (store) => {
      await startRun(store, two, { id: id(101) });
      await endRun(store);
      await startRun(store, one, { id: id(102), startedAt: T0 + 5 });
      await store.purgeRuns({ before: T0 + 1, maxRows: 100 });
      expect((await store.readLiveFlow(flowId)).stepsWithHistory).toEqual(['a']);
    });
  });

  describe('deployed flows', () => {
    test('are those that a planned deploy deployed, not the service for itself, with their newest revision', async (store) => {
      await store.deployFlow(deployOf(one, { id: 'own' }));
      expect(await store.listDeployed()).toEqual([]);
      await applyOne(store, planned(one));
      const [deployed, ...others] = await store.listDeployed();
      expect(others).toEqual([]);
      expect(deployed).toMatchObject({ flow: { id: flowId }, revision: { revision: 1, snapshot: { steps: one } } });
    });

    test('are drained and resumed; both twice change nothing', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      const drained = { ...flow, drainingSince: T0 + 1 };
      expect(await store.setFlowDraining({ flowId, isDraining: true, at: T0 + 1 })).toEqual(drained);
      expect(await store.setFlowDraining({ flowId, isDraining: true, at: T0 + 2 })).toEqual(drained);
      expect(await store.findFlow(flowId)).toEqual(drained);
      expect(await store.setFlowDraining({ flowId, isDraining: false, at: T0 + 3 })).toEqual(flow);
      expect(await store.setFlowDraining({ flowId: 'unknown', isDraining: true, at: T0 })).toBeUndefined();
    });

    test('have no revisions where they are unknown', async (store) => {
      expect(await store.of(revisionsStore).listRevisions({ flowId, skip: 0, take: 50 })).toBeUndefined();
    });

    test('count the runs of each revision', async (store) => {
      await startRun(store, one, { id: id(101) });
      await endRun(store);
      await startRun(store, one, { id: id(102) });
      await startRun(store, two, { id: id(103) });
      const page = await store.of(revisionsStore).listRevisions({ flowId, skip: 0, take: 50 });
      expect(page?.items.map(({ revision, runs, runsInFlight }) => [revision, runs, runsInFlight])).toEqual([
        [2, 1, 1],
        [1, 2, 1],
      ]);
    });
  });

  describe('a trigger that a deploy renames', () => {
    /** Counts calls; the time advances with each. */
    let count = 0;
    const rename = (from: string, to: string, keys = [to]) => ({ triggers: { keys, moved: [{ from, to }] } });
    const deploy = async (store: Store, n: number, change: Partial<PlannedDeploy>) => {
      const graph = graphOf({ [`step${n}`]: [] });
      count += 1;
      const result = await applyOne(
        store,
        planned(graph, { basedOn: n === 1 ? null : n - 1, at: T0 + count, ...change }),
      );
      expect(result.kind).toBe('applied');
    };
    const accept = async (store: Store, triggerKey: string, nonce: string, idempotencyKey?: string) => {
      count += 1;
      const { delivery, run } = acceptanceOf(count, { at: T0 + count });
      const { revision = 1 } = (await store.findFlow(flowId)) ?? {};
      return store.accept({
        delivery: delivery && { ...delivery, triggerKey },
        run: { ...run, triggerKey, revision },
        nonce: aNonce({ value: nonce }),
        idempotencyKey,
      });
    };
    const kinds = async (results: Promise<{ kind: string }>[]) => (await Promise.all(results)).map(({ kind }) => kind);

    test('accepts no other key than the one learnt before, until that is forgotten', async (store) => {
      const learn = (triggerKey: string, secret: string) =>
        store.of(learnedKeysStore).learnKey({
          flowId,
          triggerKey,
          scheme: 'Asana',
          secret: new TextEncoder().encode(secret),
          learnedAt: T0,
        });
      await deploy(store, 1, { triggers: { keys: ['a'], moved: [] } });
      const genuine = await learn('a', 'genuine');
      await deploy(store, 2, rename('a', 'b'));
      expect(await learn('b', 'forged')).toEqual(genuine);
      expect(await store.of(learnedKeysStore).listLearnedKeys()).toEqual([genuine]);
      expect(await store.of(learnedKeysStore).forgetKey({ flowId, triggerKey: 'b' })).toBe(true);
      expect(await learn('b', 'made again')).toMatchObject({ triggerKey: 'b' });
    });

    test('refuses what was accepted under the key that it had, however often it is renamed', async (store) => {
      await deploy(store, 1, { triggers: { keys: ['a'], moved: [] } });
      await accept(store, 'a', 'n1', 'key');
      await deploy(store, 2, rename('a', 'b'));
      await accept(store, 'b', 'n2');
      await deploy(store, 3, rename('b', 'c'));
      expect(await kinds([accept(store, 'c', 'n1'), accept(store, 'c', 'n2')])).toEqual(['replayed', 'replayed']);
      expect(await accept(store, 'c', 'n3', 'key')).toMatchObject({ kind: 'duplicate' });
      await deploy(store, 4, rename('c', 'a'));
      expect(await kinds(['n1', 'n2', 'n3'].map((nonce) => accept(store, 'a', nonce)))).toEqual(
        ['n1', 'n2', 'n3'].map(() => 'replayed'),
      );
      expect(await accept(store, 'a', 'n4')).toMatchObject({ kind: 'accepted' });
    });

    test('refuses what came before the rename and was accepted after it, under either key', async (store) => {
      await deploy(store, 1, rename('a', 'b'));
      await accept(store, 'a', 'late');
      expect(await accept(store, 'b', 'late')).toMatchObject({ kind: 'replayed' });
      await accept(store, 'b', 'early');
      expect(await accept(store, 'a', 'early')).toMatchObject({ kind: 'replayed' });
    });

    test('gives each nonce and each key one run, whichever key the deliveries name and however many come at once', async (store) => {
      await accept(store, 'a', 'n0', 'k0');
      await deploy(store, 1, rename('a', 'b'));
      const claims = Array.from({ length: 60 }, (_, n) => [n % 2 === 0 ? 'a' : 'b', `n${n % 5}`, `k${n % 4}`] as const);
      const nonces = await kinds(claims.map(([key, nonce]) => accept(store, key, nonce)));
      expect(nonces.filter((kind) => kind === 'accepted')).toHaveLength(4);
      expect(nonces.filter((kind) => kind === 'replayed')).toHaveLength(56);
      const keys = await kinds(claims.map(([key, _nonce, idempotent], n) => accept(store, key, `m${n}`, idempotent)));
      expect(keys.filter((kind) => kind === 'accepted')).toHaveLength(3);
      expect(keys.filter((kind) => kind === 'duplicate')).toHaveLength(57);
      expect((await store.listRuns({ skip: 0, take: 1, includeTotal: true })).total).toBe(8);
    });

    test('has nothing to do with another trigger that takes its former key', async (store) => {
      await accept(store, 'a', 'n1', 'key 1');
      await deploy(store, 1, rename('a', 'b'));
      await deploy(store, 2, { triggers: { keys: ['a', 'b'], moved: [] } });
      await accept(store, 'a', 'n2', 'key 2');
      expect(await accept(store, 'b', 'n2', 'key 2')).toMatchObject({ kind: 'accepted' });
      await accept(store, 'b', 'n3');
      expect(await accept(store, 'a', 'n3')).toMatchObject({ kind: 'accepted' });
      expect(await accept(store, 'b', 'n1')).toMatchObject({ kind: 'replayed' });
    });

    test('leaves the triggers of other flows alone, and a deploy that is not applied renames nothing', async (store) => {
      await accept(store, 'a', 'n1');
      const outdated = planned(graphOf({ other: [] }), { basedOn: 7, ...rename('a', 'b') });
      expect(await applyOne(store, outdated)).toEqual({ kind: 'outdated', flowId });
      expect(await accept(store, 'b', 'n1')).toMatchObject({ kind: 'accepted' });
      await deploy(store, 1, rename('a', 'c'));
      const { run } = acceptanceOf(9000);
      const elsewhere = { run: { ...run, flowId: 'another flow', triggerKey: 'c' }, nonce: aNonce({ value: 'n1' }) };
      expect(await store.accept(elsewhere)).toMatchObject({ kind: 'accepted' });
    });
  });
}
