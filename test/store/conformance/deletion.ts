import { describe, expect } from 'vitest';
import { holdStore } from '../../../src/features/hold/store.ts';
import { revisionsStore } from '../../../src/features/revisions/store.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import type { PlannedDeploy, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aNonce,
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
import { asking, CHILD, deploy, end, PARENT, running, start, statusOf } from '../sub-run-samples.ts';

const one = graphOf({ first: [] });
const OTHER = '6f2b1c1e-9999-4222-8333-444455556666';

/** A deploy of a flow whose triggers have slugs. */
function planned(
  slugs: Record<string, string>,
  change: Partial<PlannedDeploy> = {},
  graph: Graph = one,
): PlannedDeploy {
  const { id: flow = flowId } = change;
  const triggers = Object.fromEntries(
    Object.entries(slugs).map(([key, webhookSlug]) => [key, { type: 'webhook', inputs: { webhookSlug } }]),
  );
  const snapshot = { id: flow, steps: graph, triggers } as unknown as PlannedDeploy['snapshot'];
  return {
    ...deployOf(graph, { snapshot, hash: JSON.stringify(snapshot) }),
    ...PLAN,
    triggers: { keys: Object.keys(slugs), moved: [] },
    ...change,
  };
}

const remove = (store: Store, flow = flowId, at = T0 + 1) => store.deleteFlow({ flowId: flow, at });

async function apply(store: Store, deployed: PlannedDeploy): Promise<void> {
  expect(await store.applyDeploys([deployed])).toMatchObject({ kind: 'applied' });
}

/** Accepts a delivery by a trigger; returns the result. */
async function deliver(store: Store, n: number, trigger: { flowId?: string; triggerKey: string; nonce: string }) {
  const { flowId: flow = flowId, triggerKey, nonce } = trigger;
  const revision = (await store.findFlow(flow))?.revision ?? 0;
  const given = acceptanceOf(n, {
    at: T0 + n * 1000,
    nonce: aNonce({ value: nonce, expiresAt: T0 + 100 * minute }),
    idempotencyKey: nonce,
  });
  const of = { flowId: flow, triggerKey };
  const delivery = { ...(given.delivery ?? expect.fail()), ...of };
  return (await store.accept({ ...given, delivery, run: { ...given.run, ...of, revision } })).kind;
}

export function deletion({ test }: StoreUnderTest): void {
  describe('a flow that is deleted', () => {
    test('starts no runs and is not deployed, and a second deletion finds none', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      expect(await remove(store, 'no such flow')).toEqual({ kind: 'unknown' });
      expect(await remove(store)).toEqual({ kind: 'deleted' });
      expect(await remove(store)).toEqual({ kind: 'unknown' });
      expect(await deliver(store, 1, { triggerKey: 'hook', nonce: 'late' })).toBe('outdated');
      expect(await store.holdDelivery(acceptanceOf(2))).toEqual({ kind: 'outdated' });
      expect(await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 })).toBeUndefined();
      expect(await store.setFlowDraining({ flowId, isDraining: true, at: T0 })).toBeUndefined();
      expect(await store.listDeployed()).toEqual([]);
      expect(await store.findFlow(flowId)).toMatchObject({ revision: 1, isEnabled: true, deletedAt: T0 + 1 });
      expect((await store.findFlow(flowId))?.drainingSince).toBeUndefined();
    });

    test('lets its runs in flight end, and keeps them and its revisions', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      await store.accept({ run: aRun({ id: id(101) }) });
      await remove(store);
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
      expect(await statusOf(store, id(101))).toBe('Succeeded');
      expect(await store.of(revisionsStore).listRevisions({ flowId, skip: 0, take: 10 })).toMatchObject({
        total: 1,
        items: [{ runs: 1 }],
      });
    });

    test('is started by runs that pinned it before, and by no others', async (store) => {
      await deploy(store, CHILD);
      const parent = await deploy(store, PARENT, { steps: running(CHILD) });
      await start(store, parent);
      await deploy(store, PARENT, { steps: one });
      expect(await remove(store, CHILD)).toEqual({ kind: 'deleted' });
      expect((await end(store, asking())).subRun?.run).toMatchObject({ flowId: CHILD, revision: 1 });
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
      for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
      // Planned before the deletion, and started after it.
      await start(store, await deploy(store, OTHER, { steps: running(CHILD) }), { id: id(300), startedAt: T0 + 2 });
      const late = await end(store, asking(), T0 + 3);
      expect(late.subRun).toMatchObject({ result: { kind: 'failed', error: { code: 'flow_closed' } }, run: null });
    });

    test('is refused while it holds deliveries, and while other flows start it', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      await store.holdDelivery(acceptanceOf(1));
      expect(await remove(store)).toEqual({ kind: 'holding', held: 1 });
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      await store.of(holdStore).releaseHeld({ flowId, limit: 10, at: T0 });
      await deploy(store, PARENT.replace('1111', '5555'), { steps: running(flowId.toUpperCase()) });
      await deploy(store, PARENT.replace('1111', '6666'), { onFailure: flowId });
      await deploy(store, PARENT.replace('1111', '7777'), { version: flowId });
      expect(await remove(store)).toEqual({
        kind: 'needed',
        callers: [
          { id: PARENT.replace('1111', '5555'), name: 'Flow 5555' },
          { id: PARENT.replace('1111', '6666'), name: 'Flow 6666' },
        ],
      });
      for (const caller of ['5555', '6666']) await remove(store, PARENT.replace('1111', caller));
      expect(await remove(store)).toEqual({ kind: 'deleted' });
    });

    test('is not named by a deploy that was planned before, unless it comes with it', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      await remove(store);
      const caller = planned({}, { id: OTHER }, running(flowId));
      expect(await store.applyDeploys([caller])).toEqual({ kind: 'outdated', flowId: OTHER, others: [flowId] });
      const failing = {
        ...planned({}, { id: OTHER }),
        snapshot: { id: OTHER, steps: one, onFailure: flowId },
      } as unknown as PlannedDeploy;
      expect(await store.applyDeploys([failing])).toEqual({ kind: 'outdated', flowId: OTHER, others: [flowId] });
      expect(await store.applyDeploys([caller, planned({}, { basedOn: 1 })])).toMatchObject({ kind: 'applied' });
    });

    test('comes back as its next revision, as enabled as it was, even with the same manifest', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      await remove(store);
      const again = planned({ hook: 'orders' }, { basedOn: 1, at: T0 + 5 });
      const manifest = { ...again, isNamedByFile: false };
      expect(await store.findSuperseded(manifest)).toEqual({ revision: 1, newest: 1, isRemoved: false });
      expect(await store.applyDeploys([{ ...again, basedOn: null }])).toEqual({ kind: 'outdated', flowId });
      await apply(store, again);
      const flow = await store.findFlow(flowId);
      expect(flow).toMatchObject({ revision: 2, isEnabled: false, createdAt: T0, updatedAt: T0 + 5 });
      expect([flow?.deletedAt, flow?.drainingSince]).toEqual([undefined, undefined]);
      expect(await store.findSuperseded(manifest)).toBeUndefined();
    });
  });

  describe('what a flow accepted before it was deleted', () => {
    test('is known when it comes back under the same id', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      expect(await deliver(store, 1, { triggerKey: 'hook', nonce: 'known' })).toBe('accepted');
      await remove(store);
      await apply(store, planned({ hook: 'orders' }, { basedOn: 1 }));
      expect(await deliver(store, 2, { triggerKey: 'hook', nonce: 'known' })).toBe('replayed');
      expect(await deliver(store, 3, { triggerKey: 'hook', nonce: 'new' })).toBe('accepted');
    });

    test('is known to another flow that takes its slug, from flow to flow and back', async (store) => {
      const of = (flow: string, triggerKey: string, nonce: string) => ({ flowId: flow, triggerKey, nonce });
      await apply(store, planned({ hook: 'Orders', other: 'other' }));
      expect(await deliver(store, 1, of(flowId, 'hook', 'first'))).toBe('accepted');
      expect(await deliver(store, 2, of(flowId, 'other', 'elsewhere'))).toBe('accepted');
      await remove(store);
      await apply(store, planned({ taken: 'oRDERS' }, { id: OTHER }));
      expect(await deliver(store, 3, of(OTHER, 'taken', 'first'))).toBe('replayed');
      expect(await deliver(store, 4, of(OTHER, 'taken', 'elsewhere'))).toBe('accepted');
      expect(await deliver(store, 5, of(OTHER, 'taken', 'second'))).toBe('accepted');
      await remove(store, OTHER);
      const third = OTHER.replace('9999', 'aaaa');
      await apply(store, planned({ third: 'orders' }, { id: third }));
      expect(await deliver(store, 6, of(third, 'third', 'first'))).toBe('replayed');
      expect(await deliver(store, 7, of(third, 'third', 'second'))).toBe('replayed');
      await remove(store, third);
      await apply(store, planned({ hook: 'orders' }, { basedOn: 1 }));
      for (const [n, nonce] of ['first', 'second', 'elsewhere'].entries()) {
        expect(await deliver(store, 8 + n, of(flowId, 'hook', nonce))).toBe('replayed');
      }
      expect(await deliver(store, 20, of(flowId, 'hook', 'new'))).toBe('accepted');
    });

    test('counts for who takes the slug as far as the deletion, and its idempotency keys do too', async (store) => {
      await apply(store, planned({ hook: 'orders' }));
      const key = (n: number, flow: string, triggerKey: string, revision: number) =>
        store.accept({
          run: aRun({ id: id(1000 + n), flowId: flow, triggerKey, revision, startedAt: T0 + n - 10 }),
          idempotencyKey: 'key',
        });
      expect(await key(1, flowId, 'hook', 1)).toMatchObject({ kind: 'accepted' });
      await remove(store);
      await apply(store, planned({ taken: 'orders' }, { id: OTHER }));
      expect(await key(2, OTHER, 'taken', 1)).toMatchObject({ kind: 'duplicate', runId: id(1001) });
      await apply(store, planned({ hook: 'elsewhere' }, { basedOn: 1 }));
      expect(await deliver(store, 30, { triggerKey: 'hook', nonce: 'later' })).toBe('accepted');
      expect(await deliver(store, 31, { flowId: OTHER, triggerKey: 'taken', nonce: 'later' })).toBe('accepted');
    });
  });
}
