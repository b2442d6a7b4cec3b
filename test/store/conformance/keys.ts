import { describe, expect } from 'vitest';
import { type KeyFigures, keysStore } from '../../../src/features/keys/store.ts';
import type { Acceptance, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, aNonce, deployOf, flowId, graphOf, id, T0 } from '../samples.ts';

const hour = 3_600_000;
const day = 24 * hour;
const [current, previous] = ['c0ffee00', 'deadbeef'];
const noted = (keyName: string, role: 'current' | 'previous', triggerKey = 'github') => ({
  ...{ flowId, triggerKey, keyName, role },
});

/** The n-th delivery, verified with a key. */
const verified = (n: number, verifiedBy: string, { at = T0, ...change }: Partial<Acceptance> & { at?: number } = {}) =>
  acceptanceOf(n, { at, verifiedBy, ...change });

async function figuresOf(store: Store, keyName: string, recentSince = T0): Promise<KeyFigures | undefined> {
  return (await store.of(keysStore).listKeyFigures({ recentSince })).find((each) => each.keyName === keyName);
}

export function keys({ test }: StoreUnderTest): void {
  describe('keys of triggers', () => {
    test('count accepted deliveries by the key that verified them, with the last of them and the recent ones', async (store) => {
      expect(await store.of(keysStore).listKeyFigures({ recentSince: T0 })).toEqual([]);
      await store.accept(verified(1, current, { at: T0 - hour }));
      await Promise.all([2, 3, 4].map((n) => store.accept(verified(n, n === 4 ? previous : current, { at: T0 + n }))));
      const none = { role: null, roleSince: null, firstNotedAt: null, notedAt: null, othersSince: 0 };
      const github = { flowId, triggerKey: 'github', ...none };
      expect(await store.of(keysStore).listKeyFigures({ recentSince: T0 })).toEqual([
        { ...github, keyName: current, count: 3, recent: 2, lastAt: T0 + 3, lastId: id(3) },
        { ...github, keyName: previous, count: 1, recent: 1, lastAt: T0 + 4, lastId: id(4) },
      ]);
      expect(await store.of(keysStore).listKeyFigures({ recentSince: T0, flowId: 'another' })).toEqual([]);
      expect(await store.of(keysStore).listKeyFigures({ recentSince: T0, flowId })).toHaveLength(2);
    });

    test('are listed by flow, trigger and name, sorted as bytes are', async (store) => {
      const names = ['a-b', 'aC', 'ab', 'é', 'B'];
      const all = names.flatMap((triggerKey) => names.map((name) => noted(name, 'current', triggerKey)));
      await store.of(keysStore).noteKeys({ keys: all, at: T0 });
      const listed = (await store.of(keysStore).listKeyFigures({ recentSince: T0 })).map((each) => [
        each.triggerKey,
        each.keyName,
      ]);
      const sorted = ['B', 'a-b', 'aC', 'ab', 'é'];
      expect(listed).toEqual(sorted.flatMap((triggerKey) => sorted.map((name) => [triggerKey, name])));
    });

    test('count neither a replay, nor a redelivery, nor what started no run and had no key', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(verified(1, current, { nonce }));
      await store.accept(verified(2, current, { nonce }));
      await store.accept(verified(3, current, { nonce: { ...nonce, isEnforced: true } }));
      await store.accept(acceptanceOf(4));
      await store.recordDelivery(aDelivery({ id: id(5), rejected: true, reason: 'signature_mismatch' }));
      const again = aDelivery({ id: id(6), runId: id(1006), redeliveredFrom: id(5) });
      await store.accept({ ...verified(6, current), delivery: again });
      expect(await figuresOf(store, current)).toMatchObject({ count: 1, lastId: id(1) });
    });

    test('count an honest retry with a known idempotency key and what is held, for both are accepted', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(verified(1, current, { idempotencyKey: 'order-1' }));
      await store.accept(verified(2, current, { idempotencyKey: 'order-1' }));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      expect((await store.holdDelivery(verified(3, previous))).kind).toBe('held');
      expect((await store.accept(verified(4, previous))).kind).toBe('outdated');
      expect(await figuresOf(store, current)).toMatchObject({ count: 2 });
      expect(await figuresOf(store, previous)).toMatchObject({ count: 1 });
    });

    test('know since when a key has its role, and what the others verified since a previous one was last used', async (store) => {
      await store.of(keysStore).noteKeys({ keys: [noted(previous, 'current')], at: T0 });
      await store.accept(verified(1, previous, { at: T0 + 1 }));
      const change = { keys: [noted(current, 'current'), noted(previous, 'previous')], at: T0 + day };
      await store.of(keysStore).noteKeys(change);
      await store.of(keysStore).noteKeys({ ...change, at: T0 + 2 * day });
      expect(await figuresOf(store, previous)).toMatchObject({
        ...{ role: 'previous', roleSince: T0 + day, firstNotedAt: T0, notedAt: T0 + 2 * day, count: 1, othersSince: 0 },
      });
      await store.accept(verified(2, current, { at: T0 + day + 1 }));
      await store.accept(verified(3, previous, { at: T0 + 3 * day }));
      for (const n of [4, 5]) await store.accept(verified(n, current, { at: T0 + n * day }));
      await store.accept({
        ...verified(6, current, { at: T0 + 6 * day }),
        run: { ...verified(6, current).run, triggerKey: 'other' },
      });
      expect(await figuresOf(store, previous)).toMatchObject({ count: 2, othersSince: 2 });
      expect(await figuresOf(store, current)).toMatchObject({ role: 'current', roleSince: T0 + day, othersSince: 0 });
    });

    test('start again when they come back after they were gone', async (store) => {
      const both = [noted(current, 'current'), noted(previous, 'previous')];
      await store.of(keysStore).noteKeys({ keys: both, at: T0 });
      await store.of(keysStore).noteKeys({ keys: both.slice(0, 1), at: T0 + day });
      expect(await figuresOf(store, previous)).toMatchObject({ role: null, firstNotedAt: T0 });
      await store.of(keysStore).noteKeys({ keys: both, at: T0 + 2 * day });
      expect(await figuresOf(store, previous)).toMatchObject({ role: 'previous', roleSince: T0 + 2 * day });
      expect(await figuresOf(store, current)).toMatchObject({ role: 'current', roleSince: T0 });
    });

    test('start again as previous ones when nobody noted them for more than a day, for nobody could use them', async (store) => {
      const keys = [noted(current, 'current'), noted(previous, 'previous')];
      await store.of(keysStore).noteKeys({ keys, at: T0 });
      await store.of(keysStore).noteKeys({ keys, at: T0 + day });
      expect(await figuresOf(store, previous)).toMatchObject({ role: 'previous', roleSince: T0 });
      await store.of(keysStore).noteKeys({ keys, at: T0 + 9 * day });
      expect(await figuresOf(store, previous)).toMatchObject({ role: 'previous', roleSince: T0 + 9 * day });
      expect(await figuresOf(store, current)).toMatchObject({ role: 'current', roleSince: T0 });
    });

    test('keep their times where the clock was set back, for a key is idle since then at the earliest', async (store) => {
      await store.of(keysStore).noteKeys({ keys: [noted(previous, 'previous')], at: T0 });
      await store.accept(verified(1, previous, { at: T0 + day }));
      await store.of(keysStore).noteKeys({ keys: [noted(previous, 'previous')], at: 0 });
      await store.of(keysStore).tidyKeys({ before: 0, limit: 10 });
      expect(await figuresOf(store, previous)).toMatchObject({ roleSince: T0, firstNotedAt: T0, lastAt: T0 + day });
    });

    test('keep the count and the last use of a key when its hours are joined, a few at a time', async (store) => {
      await store.of(keysStore).noteKeys({ keys: [noted(current, 'current')], at: T0 });
      for (const n of [1, 2, 3]) await store.accept(verified(n, current, { at: T0 + n * hour }));
      const tidy = { before: T0 + 3 * hour, limit: 1 };
      expect(await store.of(keysStore).tidyKeys(tidy)).toBe(1);
      expect(await store.of(keysStore).tidyKeys(tidy)).toBe(1);
      expect(await store.of(keysStore).tidyKeys(tidy)).toBe(0);
      const expected = { count: 3, recent: 1, lastAt: T0 + 3 * hour, lastId: id(3) };
      expect(await figuresOf(store, current, T0 + 3 * hour)).toMatchObject(expected);
      await store.accept(verified(4, current, { at: T0 + 4 * hour }));
      await store.of(keysStore).noteKeys({ keys: [noted(current, 'current')], at: T0 + day });
      await store.of(keysStore).tidyKeys({ before: T0 + day, limit: 10 });
      expect(await figuresOf(store, current, T0 + day)).toMatchObject({ count: 4, recent: 0, lastId: id(4) });
    });

    test('forget a key that has been neither configured nor used for so long, and no other', async (store) => {
      await store.of(keysStore).noteKeys({ keys: [noted(current, 'current'), noted(previous, 'previous')], at: T0 });
      await store.accept(verified(1, previous));
      await store.accept(verified(2, 'abad1dea'));
      await store.accept(verified(3, current));
      await store.of(keysStore).noteKeys({ keys: [noted(current, 'current')], at: T0 + 40 * day });
      const now = T0 + 40 * day;
      const tidied = [];
      for (let left = 9; left > 0; left -= 1)
        tidied.push(await store.of(keysStore).tidyKeys({ before: now - 30 * day, limit: 10 }));
      expect(tidied.at(-1)).toBe(0);
      const left = await store.of(keysStore).listKeyFigures({ recentSince: T0 });
      expect(left).toMatchObject([{ keyName: current, count: 1, lastAt: T0, firstNotedAt: T0 }]);
    });

    test('list the deliveries that the previous key of a trigger verified, newest first', async (store) => {
      const used = (n: number, change = {}) => {
        const accepted = verified(n, previous, { at: T0 + n });
        return store.accept({
          ...accepted,
          delivery: { ...aDelivery(accepted.delivery), usedPreviousKey: true, ...change },
        });
      };
      await used(1);
      await used(2, { clientIp: '192.0.2.9', headers: { 'user-agent': 'Publisher/2' } });
      await used(3, { usedPreviousKey: false });
      await used(4, { triggerKey: 'other' });
      await used(5);
      const query = { flowId, triggerKey: 'github', upTo: id(4), since: T0, limit: 10 };
      expect(await store.of(keysStore).listKeyUsers(query)).toEqual([
        { clientIp: '192.0.2.9', headers: { 'user-agent': 'Publisher/2' }, receivedAt: T0 + 2 },
        { clientIp: '192.0.2.7', headers: { 'content-type': 'application/json' }, receivedAt: T0 + 1 },
      ]);
      expect(await store.of(keysStore).listKeyUsers({ ...query, upTo: id(9), limit: 1 })).toMatchObject([
        { receivedAt: T0 + 5 },
      ]);
      expect(await store.of(keysStore).listKeyUsers({ ...query, since: T0 + 2 })).toHaveLength(1);
      expect(await store.of(keysStore).listKeyUsers({ ...query, flowId: 'another' })).toEqual([]);
    });
  });
}
