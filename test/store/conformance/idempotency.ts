import { describe, expect } from 'vitest';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, aNonce, aRun, claimAll, id, runIdOf, runIds } from '../samples.ts';

const idempotencyKey = 'order-1';

export function idempotency({ test }: StoreUnderTest): void {
  describe('idempotency keys', () => {
    test('a known key starts no run; its delivery is kept under the first run', async (store) => {
      await store.accept(acceptanceOf(1, { idempotencyKey }));
      const second = acceptanceOf(2, { idempotencyKey });
      expect(await store.accept(second)).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: false });
      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await store.findDelivery(id(2))).toMatchObject({ runId: id(1001), rejected: false, reason: null });
      expect(await claimAll(store)).toHaveLength(1);
    });

    test('a known key with another body is a conflict and writes nothing, and the first body stays its own', async (store) => {
      const nonce = aNonce({ value: 'n1' });
      await store.accept(acceptanceOf(1, { idempotencyKey }));
      const trigger = { key: 'github', body: Buffer.from('other bytes'), contentType: null, headers: {} };
      const run = aRun({ id: id(1002), trigger });
      const other = { delivery: aDelivery({ id: id(2) }), run, idempotencyKey, nonce };
      expect(await store.accept(other)).toEqual({ kind: 'conflict', runId: id(1001) });
      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await store.findDelivery(id(2))).toBeUndefined();
      expect(await store.accept(acceptanceOf(3, { idempotencyKey }))).toMatchObject({ kind: 'duplicate' });
      expect(await store.accept(acceptanceOf(4, { nonce }))).toMatchObject({ kind: 'accepted' });
    });

    test('a key counts for its flow and trigger alone', async (store) => {
      await store.accept(acceptanceOf(1, { idempotencyKey }));
      for (const [n, scope] of [
        [2, { flowId: 'another flow' }],
        [3, { triggerKey: 'another trigger' }],
      ] as const) {
        const run = aRun({ id: id(1000 + n), ...scope });
        expect(await store.accept({ run, idempotencyKey })).toMatchObject({ kind: 'accepted' });
        const again = { ...run, id: id(99) };
        expect(await store.accept({ run: again, idempotencyKey })).toMatchObject({ kind: 'duplicate', runId: run.id });
      }
    });

    test('of many calls with one key at once exactly one starts a run', async (store) => {
      const calls = Array.from({ length: 30 }, (_, n) => store.accept(acceptanceOf(n, { idempotencyKey })));
      const results = await Promise.all(calls);
      const winners = results.filter(({ kind }) => kind === 'accepted');
      expect(winners).toHaveLength(1);
      expect(results.filter(({ kind }) => kind === 'duplicate')).toHaveLength(29);
      expect(new Set(results.map(runIdOf))).toEqual(new Set([runIdOf(winners[0])]));
      expect(await runIds(store)).toEqual([runIdOf(winners[0])]);
    });

    test('a new nonce with a known key is kept and names the first run', async (store) => {
      await store.accept(acceptanceOf(1, { idempotencyKey, nonce: aNonce({ value: 'n1' }) }));
      const nonce = aNonce({ value: 'n2' });
      await store.accept(acceptanceOf(2, { idempotencyKey, nonce }));
      expect(await store.accept(acceptanceOf(3, { nonce }))).toEqual({
        kind: 'replayed',
        runId: id(1001),
        hasSameBody: true,
      });
    });

    test('the nonce is asked before the key', async (store) => {
      const nonce = aNonce();
      await store.accept(acceptanceOf(1, { idempotencyKey, nonce }));
      expect(await store.accept(acceptanceOf(2, { idempotencyKey, nonce }))).toMatchObject({ kind: 'replayed' });
      expect(await store.findDelivery(id(2))).toBeUndefined();
    });

    test('a known key under a known nonce that is not enforced is a duplicate and a replay', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(acceptanceOf(1, { idempotencyKey, nonce }));
      const again = acceptanceOf(2, { idempotencyKey, nonce });
      expect(await store.accept(again)).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: true });
      expect(await store.findDelivery(id(2))).toMatchObject({ reason: 'nonce_replayed', runId: id(1001) });
    });
  });
}
