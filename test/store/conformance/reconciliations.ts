import { describe, expect } from 'vitest';
import { reconcileStore } from '../../../src/features/reconcile/store.ts';
import type { DeliveryNames, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aNonce, deployOf, flowId, graphOf, minute, PLAN, T0 } from '../samples.ts';

const own = { flowId, triggerKey: 'github' };
const one = { ...own, owner: 'one' };
const two = { ...own, owner: 'two' };
const nothing = { state: null };

const take = (
  store: Store,
  who: typeof one,
  { now = T0, lastBefore = now - minute }: { now?: number; lastBefore?: number } = {},
) => store.of(reconcileStore).takeReconciliation({ ...who, now, until: now + minute, lastBefore });

export function reconciliations({ test }: StoreUnderTest): void {
  describe('who asks the publisher of a trigger', () => {
    test('is one process until its lease ends, or it says that it is done', async (store) => {
      expect(await take(store, one)).toEqual(nothing);
      expect(await take(store, two)).toBeUndefined();
      expect(
        await store
          .of(reconcileStore)
          .takeReconciliation({ ...two, triggerKey: 'other', now: T0, until: T0 + 1, lastBefore: 0 }),
      ).toEqual(nothing);
      expect(await take(store, two, { now: T0 + minute })).toEqual(nothing);
      expect(
        await store.of(reconcileStore).renewReconciliation({ ...one, until: T0 + 2 * minute, state: { lost: 1 } }),
      ).toBe(false);
      expect(await store.of(reconcileStore).endReconciliation({ ...one, lastAt: T0, state: { lost: 1 } })).toBe(false);
      expect(await store.of(reconcileStore).endReconciliation({ ...two, lastAt: T0 + minute, state: { n: 2 } })).toBe(
        true,
      );
      expect(await take(store, one, { now: T0 + minute + 1, lastBefore: T0 + minute })).toEqual({ state: { n: 2 } });
    });

    test('goes on while it renews its lease, and what it noted is there when it dies', async (store) => {
      await take(store, one);
      expect(
        await store.of(reconcileStore).renewReconciliation({ ...one, until: T0 + 3 * minute, state: { n: 1 } }),
      ).toBe(true);
      expect(await take(store, two, { now: T0 + 2 * minute })).toBeUndefined();
      expect(await take(store, two, { now: T0 + 3 * minute })).toEqual({ state: { n: 1 } });
    });

    test('may be the same process again at once: it died and came back under its name', async (store) => {
      await take(store, one);
      expect(await take(store, one)).toEqual(nothing);
    });

    test('is nobody before the time has come, whoever asked last', async (store) => {
      await take(store, one);
      await store.of(reconcileStore).endReconciliation({ ...one, lastAt: T0, state: null });
      expect(await take(store, two, { now: T0 + minute - 1 })).toBeUndefined();
      expect(await take(store, one, { now: T0 + minute - 1 })).toBeUndefined();
      expect(await take(store, two, { now: T0 + minute })).toEqual(nothing);
    });

    test('is not kept away by a lease or an end that a fast clock wrote', async (store) => {
      const ahead = 1000 * minute;
      await take(store, one, { now: T0 + ahead });
      expect(await take(store, two)).toEqual(nothing);
      await store.of(reconcileStore).endReconciliation({ ...two, lastAt: T0 + ahead, state: null });
      expect(await take(store, one)).toEqual(nothing);
    });

    test('is listed with when it ended last and what it noted', async (store) => {
      expect(await store.of(reconcileStore).listReconciliations()).toEqual([]);
      await take(store, one);
      expect(await store.of(reconcileStore).listReconciliations()).toEqual([{ ...own, lastAt: null, state: null }]);
      await store.of(reconcileStore).endReconciliation({ ...one, lastAt: T0 + 5, state: { text: 'ä' } });
      expect(await store.of(reconcileStore).listReconciliations()).toEqual([
        { ...own, lastAt: T0 + 5, state: { text: 'ä' } },
      ]);
    });
  });

  describe('names of deliveries that may have been accepted', () => {
    const event = { id: 'evt', arrivedAt: T0, expiresAt: T0 + 10 * minute };
    const header = 'x-id';
    const known = (store: Store, names: readonly DeliveryNames[], at = T0 + 1, trigger = own) =>
      store.areAccepted({ ...trigger, at, names });

    test('are known by event or by nonce, each for its own trigger and until its end', async (store) => {
      await store.accept(acceptanceOf(1, { event }));
      await store.accept(acceptanceOf(2, { nonce: aNonce({ header, value: 'two' }) }));
      const names = [
        { eventId: 'evt' },
        { eventId: 'EVT' },
        { nonce: { header, value: 'two' } },
        { nonce: { header: 'x-other', value: 'two' } },
        { eventId: 'no', nonce: { header, value: 'two' } },
        {},
      ];
      expect(await known(store, names)).toEqual([true, false, true, false, true, false]);
      expect(await known(store, names, T0 + 5 * minute)).toEqual([true, false, false, false, false, false]);
      expect(await known(store, names, T0 + 10 * minute)).toEqual(names.map(() => false));
      expect(await known(store, names, T0 + 1, { ...own, triggerKey: 'other' })).toEqual(names.map(() => false));
      expect(await known(store, [])).toEqual([]);
    });

    test('are known although nothing of it was verified', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce({ header, value: 'one', isTrusted: false }) }));
      expect(await known(store, [{ nonce: { header, value: 'one' } }])).toEqual([true]);
    });

    test('are known under a former key of the trigger', async (store) => {
      const apply = async (n: number, keys: string[], moved: { from: string; to: string }[] = []) => {
        const basedOn = n === 1 ? null : n - 1;
        const plan = { ...deployOf(graphOf({ [`step${n}`]: [] })), ...PLAN, basedOn, triggers: { keys, moved } };
        expect(await store.applyDeploys([plan])).toMatchObject({ kind: 'applied' });
      };
      await apply(1, ['github']);
      expect(await store.accept(acceptanceOf(1, { event, nonce: aNonce({ header, value: 'one' }) }))).toMatchObject({
        kind: 'accepted',
      });
      await apply(2, ['renamed'], [{ from: 'github', to: 'renamed' }]);
      const names = [{ eventId: 'evt' }, { nonce: { header, value: 'one' } }, { eventId: 'new' }];
      expect(await known(store, names, T0 + 1, { ...own, triggerKey: 'renamed' })).toEqual([true, true, false]);
    });
  });
}
