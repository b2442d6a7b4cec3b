import { describe, expect } from 'vitest';
import type { StoreUnderTest } from '../conformance.ts';
import { deployOf, flowId, graphOf, T0 } from '../samples.ts';

const one = graphOf({ a: [] });
const two = graphOf({ a: [], b: ['a'] });

export function flows({ test }: StoreUnderTest): void {
  describe('flows', () => {
    test('a first deploy is revision 1 and enabled', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      expect(flow).toEqual({
        id: flowId,
        name: 'Orders',
        version: '1.0',
        revision: 1,
        isEnabled: true,
        createdAt: T0,
        updatedAt: T0,
      });
      expect(await store.findFlow(flowId)).toEqual(flow);
    });

    test('a deploy of the newest hash changes nothing', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      expect(await store.deployFlow(deployOf(one, { name: 'Other', version: '9', at: T0 + 1 }))).toEqual(flow);
      expect(await store.findRevision(flowId, 2)).toBeUndefined();
    });

    test('a deploy of another hash is the next revision, under its name and version', async (store) => {
      const first = await store.deployFlow(deployOf(one));
      const second = await store.deployFlow(deployOf(two, { name: 'Orders 2', version: '2.0', at: T0 + 1 }));
      expect(second).toEqual({ ...first, name: 'Orders 2', version: '2.0', revision: 2, updatedAt: T0 + 1 });
    });

    test('a deploy of an older hash is a new revision: only the newest one counts', async (store) => {
      await store.deployFlow(deployOf(one));
      await store.deployFlow(deployOf(two));
      expect((await store.deployFlow(deployOf(one))).revision).toBe(3);
    });

    test('a deploy leaves a disabled flow disabled', async (store) => {
      await store.deployFlow(deployOf(one));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      expect((await store.deployFlow(deployOf(two))).isEnabled).toBe(false);
    });

    test('a flow is disabled and enabled', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      const disabled = { ...flow, isEnabled: false, updatedAt: T0 + 1 };
      expect(await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 + 1 })).toEqual(disabled);
      expect(await store.findFlow(flowId)).toEqual(disabled);
      const enabled = { ...flow, updatedAt: T0 + 2 };
      expect(await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 + 2 })).toEqual(enabled);
    });

    test('setting what is already set changes nothing', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      expect(await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 + 1 })).toEqual(flow);
    });

    test('what becomes of its deliveries is as the last disable or drain said, until it is open', async (store) => {
      const flow = await store.deployFlow(deployOf(one));
      const holds = async () => (await store.findFlow(flowId))?.holdsDeliveries;
      await store.setFlowEnabled({ flowId, isEnabled: false, holdsDeliveries: true, at: T0 + 1 });
      expect(await holds()).toBe(true);
      await store.setFlowEnabled({ flowId, isEnabled: false, holdsDeliveries: false, at: T0 + 2 });
      expect(await store.findFlow(flowId)).toEqual({
        ...flow,
        isEnabled: false,
        holdsDeliveries: false,
        updatedAt: T0 + 1,
      });
      await store.setFlowDraining({ flowId, isDraining: true, holdsDeliveries: true, at: T0 + 3 });
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 + 4 });
      expect(await holds()).toBe(true);
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 + 5 });
      expect(await holds()).toBeUndefined();
      await store.setFlowDraining({ flowId, isDraining: true, holdsDeliveries: true, at: T0 + 6 });
      await store.setFlowDraining({ flowId, isDraining: false, holdsDeliveries: true, at: T0 + 7 });
      expect(await store.findFlow(flowId)).toEqual({ ...flow, updatedAt: T0 + 4 });
    });

    test('an unknown flow is neither found, nor enabled, nor has it revisions', async (store) => {
      expect(await store.findFlow(flowId)).toBeUndefined();
      expect(await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 })).toBeUndefined();
      expect(await store.findRevision(flowId, 1)).toBeUndefined();
      expect(await store.listFlows()).toEqual([]);
    });

    test('flows are listed by name, in any case', async (store) => {
      for (const name of ['beta', 'Alpha', 'gamma', 'Delta']) {
        await store.deployFlow(deployOf(one, { id: `id of ${name}`, name }));
      }
      expect((await store.listFlows()).map(({ name }) => name)).toEqual(['Alpha', 'beta', 'Delta', 'gamma']);
    });

    test('every revision stays as it was deployed', async (store) => {
      const snapshot = { steps: {}, text: 'Grüße\u0000 \ud83d\ude80 "\\', list: [null, true, 1.5e-7, []], empty: {} };
      await store.deployFlow(deployOf(one, { snapshot, hash: 'h1', version: 'v1' }));
      await store.deployFlow(deployOf(two, { at: T0 + 1 }));
      expect(await store.findRevision(flowId, 1)).toEqual({
        flowId,
        revision: 1,
        version: 'v1',
        hash: 'h1',
        snapshot,
        createdAt: T0,
        source: null,
        needs: null,
      });
      expect((await store.findRevision(flowId, 2))?.snapshot).toEqual(deployOf(two).snapshot);
    });
  });
}
