import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { deliveriesStore } from '../../../src/features/deliveries/store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  countHeld,
  deployOf,
  flowId,
  graphOf,
  id,
  minute,
  runIds,
  T0,
} from '../samples.ts';

const isFiltered = true;

/** A redelivery of the first delivery, with its nonce. */
function redelivery(n: number, more: Parameters<typeof acceptanceOf>[1] = {}) {
  const given = acceptanceOf(n, { nonce: aNonce(), ...more });
  return { ...given, delivery: aDelivery({ id: id(n), receivedAt: T0, redeliveredFrom: id(1) }) };
}

export function filters({ test }: StoreUnderTest): void {
  describe('a filtered delivery', () => {
    test('is kept with its bytes and starts no run', async (store) => {
      expect(await store.accept(acceptanceOf(1, { isFiltered }))).toEqual({ kind: 'filtered', isReplay: false });
      expect(await runIds(store)).toEqual([]);
      const kept = await store.findDelivery(id(1));
      expect(kept).toMatchObject({ runId: null, outcome: 'filtered', rejected: false, statusCode: 200 });
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{}');
      expect(kept?.headers).toEqual({ 'content-type': 'application/json' });
    });

    test('keeps its nonce, which names no run', async (store) => {
      const nonce = aNonce();
      await store.accept(acceptanceOf(1, { nonce, isFiltered }));
      const replayed = { kind: 'replayed', runId: null, hasSameBody: true };
      expect(await store.accept(acceptanceOf(2, { nonce, isFiltered }))).toEqual(replayed);
      expect(await store.accept(acceptanceOf(3, { nonce }))).toEqual(replayed);
      expect(await store.findDelivery(id(3))).toBeUndefined();
    });

    test('keeps no idempotency key', async (store) => {
      await store.accept(acceptanceOf(1, { idempotencyKey: 'key', isFiltered }));
      expect(await store.accept(acceptanceOf(2, { idempotencyKey: 'key' }))).toMatchObject({ kind: 'accepted' });
    });

    test('that repeats a key is a duplicate: the key is asked before the filter', async (store) => {
      await store.accept(acceptanceOf(1, { idempotencyKey: 'key' }));
      const again = acceptanceOf(2, { idempotencyKey: 'key', isFiltered });
      expect(await store.accept(again)).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: false });
      expect(await store.findDelivery(id(2))).toMatchObject({ outcome: 'duplicate', runId: id(1001) });
    });

    test('that is a replay which nothing refuses is filtered and marked', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(acceptanceOf(1, { nonce }));
      expect(await store.accept(acceptanceOf(2, { nonce, isFiltered }))).toEqual({ kind: 'filtered', isReplay: true });
      const marked = { outcome: 'filtered', rejected: true, reason: 'nonce_replayed', runId: null };
      expect(await store.findDelivery(id(2))).toMatchObject(marked);
    });

    test('is not held while its flow starts no runs', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      expect(await store.holdDelivery(acceptanceOf(1, { isFiltered }))).toMatchObject({ kind: 'filtered' });
      expect(await countHeld(store)).toEqual({});
    });

    test('starts one run when it is delivered again and no longer filtered', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce(), isFiltered }));
      expect(await store.accept(redelivery(2, { isFiltered }))).toEqual({ kind: 'filtered', isReplay: false });
      expect(await store.findDelivery(id(2))).toBeUndefined();
      expect(await store.accept(redelivery(3))).toMatchObject({ kind: 'accepted', runId: id(1003) });
      expect(await store.accept(redelivery(4))).toMatchObject({ kind: 'duplicate', runId: id(1003) });
      expect(await runIds(store)).toEqual([id(1003)]);
      // From now on the nonce names its run.
      const nonce = aNonce();
      expect(await store.accept(acceptanceOf(5, { nonce }))).toMatchObject({ kind: 'replayed', runId: id(1003) });
    });

    test('that many deliver again at once starts one run', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce(), isFiltered }));
      const results = await Promise.all(Array.from({ length: 20 }, (_, n) => store.accept(redelivery(10 + n))));
      expect(results.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
      expect(await runIds(store)).toHaveLength(1);
    });

    test('is listed and in the books as such', async (store) => {
      await store.accept(acceptanceOf(1, { isFiltered }));
      await store.accept(acceptanceOf(2, { idempotencyKey: 'key' }));
      await store.accept(acceptanceOf(3, { idempotencyKey: 'key' }));
      const books = await store.of(booksStore).countBooks({ since: T0, until: T0 + minute });
      const none = { held: 0, discarded: 0, coalesced: 0, reconciled: 0, unaccounted: 0, givenUp: 0 };
      expect(books).toEqual({ ...none, accepted: 3, runs: 1, filtered: 1, answered: 0, duplicates: 1 });
      const listed = async (outcome: 'filtered' | 'duplicate') =>
        (await store.listDeliveries({ outcome, skip: 0, take: 9 })).items.map((each) => each.id);
      expect([await listed('filtered'), await listed('duplicate')]).toEqual([[id(1)], [id(3)]]);
    });
  });

  test('deliveries that an expression failed on are counted by trigger', async (store) => {
    const acceptUnevaluated = (n: number, at: number, triggerKey = 'github') => {
      const { delivery, run } = acceptanceOf(n, { at });
      const record = { ...aDelivery(delivery), triggerKey, outcome: 'unevaluated' } as const;
      return store.accept({ delivery: record, run: aRun({ ...run, triggerKey }) });
    };
    await acceptUnevaluated(1, T0);
    await acceptUnevaluated(2, T0, 'another');
    await acceptUnevaluated(3, T0);
    await store.accept(acceptanceOf(4));
    expect(await countedSince(store, 0)).toEqual([
      ['another', 1],
      ['github', 2],
    ]);
    expect(await countedSince(store, T0 * 2)).toEqual([]);
  });

  test('refusals are counted with those that were delivered again, and the time of the first', async (store) => {
    const refused = { rejected: true, enforced: true, statusCode: 401, reason: 'signature_mismatch' } as const;
    const refuse = (n: number, more: Parameters<typeof aDelivery>[0] = {}) =>
      store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0 + n, ...refused, ...more }));
    for (const n of [1, 2, 3]) await refuse(n);
    await refuse(4, { triggerKey: 'another' });
    await refuse(5, { reason: 'timestamp_skew' });
    await refuse(6, { flowId: null, triggerKey: null, reason: 'unknown_flow' });
    expect(await store.accept(redelivery(7))).toMatchObject({ kind: 'accepted' });
    const count = (query: object) =>
      store.of(deliveriesStore).countRefused({ flowId, triggerKey: 'github', reason: undefined, since: 0, ...query });
    expect(await count({ reason: 'signature_mismatch' })).toEqual({ count: 3, firstAt: T0 + 2, redelivered: 1 });
    expect(await count({ triggerKey: null, reason: 'signature_mismatch' })).toMatchObject({ count: 4 });
    expect(await count({})).toEqual({ count: 4, firstAt: T0 + 2, redelivered: 1 });
    expect(await count({ flowId: null, triggerKey: null })).toEqual({ count: 1, firstAt: T0 + 6, redelivered: 0 });
    expect(await count({ reason: 'ip_denied' })).toEqual({ count: 0, firstAt: null, redelivered: 0 });
    // Forced: the gate still fails, and the record says so.
    const forced = { id: id(8), receivedAt: T0 + 8, reason: refused.reason, rejected: true, redeliveredFrom: id(2) };
    const given = { ...acceptanceOf(8), delivery: aDelivery(forced) };
    expect(await store.accept(given)).toMatchObject({ kind: 'accepted' });
    expect(await count({ reason: 'signature_mismatch' })).toEqual({ count: 4, firstAt: T0 + 3, redelivered: 3 });
  });
}

const countedSince = async (store: Store, since: number) =>
  (await store.of(deliveriesStore).countUnevaluated(since)).map(({ triggerKey, count }) => [triggerKey, count]);
