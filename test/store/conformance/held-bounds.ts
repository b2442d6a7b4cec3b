import { describe, expect, onTestFinished, test } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import type { Store } from '../../../src/store/store.ts';
import { acceptanceOf, aNonce, countHeld, deliveryIds, deployOf, flowId, graphOf, id, T0 } from '../samples.ts';

interface Bounds {
  readonly maxRows: number;
  readonly maxBytes: number;
}

/** Rules for every store with bounds for held deliveries. */
export function heldBounds(open: (held: Bounds) => Promise<Store>): void {
  async function drained(held: Bounds) {
    const store = await open(held);
    onTestFinished(() => store.close());
    await store.deployFlow(deployOf(graphOf({ first: [] })));
    await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
    const hold = (n: number, bodyBytes = 2, of = flowId) => {
      const { delivery, run, ...rest } = acceptanceOf(n, { nonce: aNonce({ value: `nonce ${n}` }) });
      const trigger = { ...run.trigger, body: new Uint8Array(bodyBytes) };
      return store.holdDelivery({ ...rest, delivery, run: { ...run, flowId: of, trigger } });
    };
    const resume = () => store.setFlowDraining({ flowId, isDraining: false, at: T0 });
    return { store, hold, resume };
  }

  describe('bounds of held deliveries', () => {
    test('no more deliveries are held than may be, and what is turned away leaves nothing behind', async () => {
      const { store, hold, resume } = await drained({ maxRows: 3, maxBytes: 1e9 });
      for (const n of [1, 2, 3]) await hold(n);
      await expect(hold(4)).rejects.toThrow(StoreUnavailableError);
      expect(await countHeld(store)).toEqual({ [flowId]: 3 });
      expect(await deliveryIds(store)).toEqual([3, 2, 1].map(id));
      await resume();
      expect(await store.of(holdStore).releaseHeld({ flowId, limit: 1, at: T0 })).toMatchObject({ left: 2 });
      // The same delivery sent again: its nonce was not used up.
      expect(await hold(4)).toMatchObject({ kind: 'held' });
    });

    test('however full it is, a repetition of what was accepted is told, and needs no room', async () => {
      const { store, hold } = await drained({ maxRows: 1, maxBytes: 1e9 });
      const [first, second] = [await hold(1), await hold(1)];
      expect(first).toMatchObject({ kind: 'held' });
      expect(second).toMatchObject({ kind: 'replayed', runId: 'runId' in first ? first.runId : undefined });
      expect(await countHeld(store)).toEqual({ [flowId]: 1 });
    });

    test.each([
      ['one that is too large is not held', [5000], 6000, 0],
      ['several count together', [1000, 1000, 1000], 5000, 2],
      ['a small one still fits next to a large one', [3000, 10, 3000], 6000, 2],
    ])('%s', async (_name, sizes, share, expected) => {
      const { store, hold } = await drained({ maxRows: 100, maxBytes: 2 * share });
      const results = await Promise.allSettled(sizes.map((size, n) => hold(n + 1, size)));
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(expected);
      expect((await countHeld(store))[flowId] ?? 0).toBe(expected);
    });

    test('one flow takes no more than half of the room, and has its half again once its deliveries are gone', async () => {
      const { store, hold, resume } = await drained({ maxRows: 100, maxBytes: 12_000 });
      const other = id(77);
      await store.deployFlow({ ...deployOf(graphOf({ first: [] })), id: other, name: 'other' });
      await store.setFlowDraining({ flowId: other, isDraining: true, at: T0 });
      for (const n of [1, 2]) expect(await hold(n, 1000)).toMatchObject({ kind: 'held' });
      await expect(hold(3, 1000)).rejects.toThrow(StoreUnavailableError);
      for (const n of [4, 5]) expect(await hold(n, 1000, other)).toMatchObject({ kind: 'held' });
      await expect(hold(6, 1000, other)).rejects.toThrow(StoreUnavailableError);
      expect(await countHeld(store)).toEqual({ [flowId]: 2, [other]: 2 });
      await resume();
      expect(await store.of(holdStore).releaseHeld({ flowId, limit: 1, at: T0 })).toMatchObject({ left: 1 });
      expect(await hold(3, 1000)).toMatchObject({ kind: 'held' });
      await expect(hold(7, 1000)).rejects.toThrow(StoreUnavailableError);
      const discard = { flowId: other, heldBefore: T0 + 99, limit: 9, note: 'of no use' };
      expect(await store.of(holdStore).discardHeld(discard)).toEqual({ discarded: 2, left: 0 });
      for (const n of [8, 9]) expect(await hold(n, 1000, other)).toMatchObject({ kind: 'held' });
    });

    test('a flow that starts runs takes deliveries however many are held of others', async () => {
      const { store, hold, resume } = await drained({ maxRows: 0, maxBytes: 0 });
      await expect(hold(1)).rejects.toThrow(StoreUnavailableError);
      await resume();
      expect(await hold(1)).toEqual({ kind: 'open' });
      expect(await store.accept(acceptanceOf(1))).toMatchObject({ kind: 'accepted' });
    });
  });
}
