import { describe, expect } from 'vitest';
import { holdStore } from '../../../src/features/hold/store.ts';
import { revisionsStore } from '../../../src/features/revisions/store.ts';
import type { Finding } from '../../../src/model/finding.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aRun,
  claimAll,
  deployOf,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  PLAN,
  succeeded,
  T0,
} from '../samples.ts';
import { asking, CHILD, claimOne, deploy, end, PARENT, running, start } from '../sub-run-samples.ts';

const graph = (n: number): Graph => graphOf({ [`step${n}`]: [] });

/** Deploys revisions from one to `last`. */
async function deployUpTo(store: Store, last: number, change: { id?: string } = {}): Promise<void> {
  for (let n = 1; n <= last; n += 1) await store.deployFlow(deployOf(graph(n), { version: `${n}`, ...change }));
}

/** Removes all that may be removed, in chunks; returns the number. */
async function purge(store: Store, { kept = 2, limit = 100 } = {}): Promise<number> {
  let removed = 0;
  for (let after: { flowId: string; revision: number } | null = { flowId: '', revision: 0 }; after !== null; ) {
    const chunk: Awaited<ReturnType<Store['purgeRevisions']>> = await store.purgeRevisions({ kept, after, limit });
    removed += chunk.removed;
    after = chunk.next;
  }
  return removed;
}

async function removedOf(store: Store, flow = flowId): Promise<number[]> {
  const page = await store.of(revisionsStore).listRevisions({ flowId: flow, skip: 0, take: 500 });
  return (page?.items ?? []).filter(({ isRemoved }) => isRemoved).map(({ revision }) => revision);
}

async function endRuns(store: Store): Promise<void> {
  for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
}

async function purgeRuns(store: Store): Promise<void> {
  while (!(await store.purgeRuns({ before: T0 + minute, maxRows: 100 })).isDone);
}

export function revisions({ test }: StoreUnderTest): void {
  describe('the manifests of revisions', () => {
    test.each([[1], [2], [3], [100]])(
      'stay of the newest of each flow, and of no older ones, with chunks of %s',
      async (store, limit) => {
        await deployUpTo(store, 5);
        await deployUpTo(store, 2, { id: 'a flow with few' });
        await deployUpTo(store, 4, { id: 'another flow' });
        expect(await purge(store, { kept: 2, limit })).toBe(5);
        expect(await removedOf(store)).toEqual([3, 2, 1]);
        expect(await removedOf(store, 'a flow with few')).toEqual([]);
        expect(await removedOf(store, 'another flow')).toEqual([2, 1]);
        expect(await purge(store, { kept: 2, limit })).toBe(0);
      },
    );

    test('that are removed leave what the revision was known by, without what quotes the manifest', async (store) => {
      const finding: Finding = { rule: 'r', class: 'safe', path: 'steps.a', before: 1, message: 'm', consequence: 'c' };
      await store.applyDeploys([
        {
          ...deployOf(graph(1)),
          ...PLAN,
          source: 'api',
          findings: [finding],
          overrides: ['caution'],
          needs: { files: {}, sealed: null, digestedWith: { salt: 's' }, digests: {}, signed: [], settings: {} },
        },
      ]);
      await store.deployFlow(deployOf(graph(2)));
      await purge(store, { kept: 1 });
      const { hash } = deployOf(graph(1));
      const known = { flowId, revision: 1, version: '1.0', hash, createdAt: T0, source: 'api' };
      expect(await store.findRevision(flowId, 1)).toEqual({ ...known, snapshot: undefined, needs: null });
      const listed = await store.of(revisionsStore).listRevisions({ flowId, skip: 1, take: 1 });
      const said = { actor: 'somebody', reason: null, access: 'same', runs: 0, runsInFlight: 0 };
      expect(listed?.items).toEqual([{ ...known, isRemoved: true, findings: [], overrides: ['caution'], ...said }]);
    });

    test('need what was last said of them, and nothing once they are removed', async (store) => {
      const needs = { files: {}, sealed: null, digestedWith: { salt: 's' }, digests: {}, signed: [], settings: {} };
      await store.applyDeploys([{ ...deployOf(graph(1)), ...PLAN, needs }]);
      const renewed = { ...needs, settings: { enforcementMode: 'Off' } };
      await store.renewNeeds({ flowId, revision: 1, needs: renewed });
      expect(await store.findRevision(flowId, 1)).toMatchObject({ needs: renewed });
      await store.deployFlow(deployOf(graph(2)));
      await purge(store, { kept: 1 });
      await store.renewNeeds({ flowId, revision: 1, needs });
      expect(await store.findRevision(flowId, 1)).toMatchObject({ needs: null });
    });

    test('stay for as long as a run of the revision is stored, whether it has ended or not', async (store) => {
      await store.deployFlow(deployOf(graph(1)));
      const steps = [{ stepKey: 'step1', stepType: 'NoOp', dueAt: T0 }];
      await store.accept({ run: aRun({ id: id(101), steps }) });
      for (const n of [2, 3]) await store.deployFlow(deployOf(graph(n)));
      expect(await purge(store, { kept: 1 })).toBe(1);
      await endRuns(store);
      expect(await purge(store, { kept: 1 })).toBe(0);
      expect(await removedOf(store)).toEqual([2]);
      await purgeRuns(store);
      expect(await purge(store, { kept: 1 })).toBe(1);
    });

    test('stay for as long as a run has pinned the revision, for its sub-runs too', async (store) => {
      await deploy(store, CHILD, { version: '1' });
      await start(store, await deploy(store, PARENT, { steps: running(CHILD) }));
      for (const version of ['2', '3']) await deploy(store, CHILD, { version });
      expect(await purge(store, { kept: 1 })).toBe(1);
      expect(await removedOf(store, CHILD)).toEqual([2]);
      const { subRun } = await end(store, asking());
      expect(subRun?.run).toMatchObject({ flowId: CHILD, revision: 1 });
      expect((await store.findRevision(CHILD, 1))?.snapshot).toMatchObject({ version: '1' });
      await finish(store, await claimOne(store), succeeded());
      await finish(store, await claimOne(store), succeeded());
      expect(await purge(store, { kept: 1 })).toBe(0);
      await purgeRuns(store);
      expect(await purge(store, { kept: 1 })).toBe(1);
      expect(await removedOf(store, CHILD)).toEqual([2, 1]);
    });

    test('are not needed by deliveries that are held: they start with the newest', async (store) => {
      await store.deployFlow(deployOf(graph(1)));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      expect(await store.holdDelivery(acceptanceOf(1))).toMatchObject({ kind: 'held' });
      for (const n of [2, 3]) await store.deployFlow(deployOf(graph(n)));
      expect(await purge(store, { kept: 1 })).toBe(2);
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      const { runs } = await store.of(holdStore).releaseHeld({ flowId, limit: 10, at: T0 });
      expect(runs).toMatchObject([{ revision: 3, steps: [{ stepKey: 'step3' }] }]);
    });
  });

  describe('a manifest that was deployed before', () => {
    const search = (store: Store, given: Graph, change: { name?: string; isNamedByFile?: boolean } = {}) => {
      const { name = 'Orders', isNamedByFile = false } = change;
      return store.findSuperseded({ ...deployOf(given, { name }), isNamedByFile });
    };

    test('is known after retention removed it, and said to be removed', async (store) => {
      await deployUpTo(store, 3);
      expect(await search(store, graph(1))).toEqual({ revision: 1, newest: 3, isRemoved: false });
      await purge(store, { kept: 1 });
      expect(await search(store, graph(1))).toEqual({ revision: 1, newest: 3, isRemoved: true });
      expect(await search(store, graph(3))).toBeUndefined();
      expect(await search(store, graph(4))).toBeUndefined();
    });

    test('is known in another order of keys, and by another name only if its file names it', async (store) => {
      await store.deployFlow(deployOf(graphOf({ a: [], 7: [], b: ['a'] })));
      await deployUpTo(store, 1);
      const other = graphOf({ b: ['a'], 7: [], a: [] });
      expect(await search(store, other)).toMatchObject({ revision: 1 });
      expect(await search(store, other, { name: 'Renamed' })).toBeUndefined();
      expect(await search(store, other, { name: 'Renamed', isNamedByFile: true })).toMatchObject({ revision: 1 });
      expect(await search(store, graphOf({ a: [], 7: [], b: [] }))).toBeUndefined();
    });
  });

  test('a step is known to have been retired after the revision is removed in which it did something', async (store) => {
    const acting: Graph = {
      a: { type: 'LogMessage', inputs: {}, runAfter: {} },
      kept: { type: 'NoOp', inputs: {}, runAfter: {} },
    };
    await store.deployFlow(deployOf(acting));
    const idle = graphOf({ a: [], kept: [] });
    await store.deployFlow(deployOf(idle));
    const steps = Object.keys(idle).map((stepKey) => ({ stepKey, stepType: 'NoOp', dueAt: T0 }));
    await store.accept({ run: aRun({ id: id(101), revision: 2, steps }) });
    await endRuns(store);
    expect((await store.readLiveFlow(flowId)).stepsWithHistory).toEqual(['kept']);
    expect(await purge(store, { kept: 1 })).toBe(1);
    expect((await store.readLiveFlow(flowId)).stepsWithHistory).toEqual(['kept']);
  });
}
