import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  claimAll,
  countHeld,
  deliveryIds,
  deployOf,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  runIds,
  succeeded,
  T0,
} from '../samples.ts';

const one = graphOf({ first: [] });
const two = graphOf({ other: [], last: ['other'] });

async function drain(store: Store): Promise<void> {
  await store.deployFlow(deployOf(one));
  await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
}

const resume = (store: Store) => store.setFlowDraining({ flowId, isDraining: false, at: T0 });
const release = (store: Store, limit = 100) => store.of(holdStore).releaseHeld({ flowId, limit, at: T0 + minute });

export function holds({ test }: StoreUnderTest): void {
  describe('held deliveries', () => {
    const hold = async (store: Store, n: number, at: number) => {
      const given = { nonce: aNonce({ value: `nonce ${n}` }), idempotencyKey: `key ${n}` };
      expect(await store.holdDelivery(acceptanceOf(n, { at, ...given }))).toMatchObject({ kind: 'held' });
    };

    test('are listed by flow with the time of the oldest', async (store) => {
      await drain(store);
      expect(await store.of(holdStore).listHeld()).toEqual([]);
      for (const n of [1, 2, 3]) await hold(store, n, T0 + n);
      expect(await store.of(holdStore).listHeld()).toEqual([{ flowId, held: 3, oldestAt: T0 + 1 }]);
    });

    test('that are discarded start no run, oldest first and so many at a time, and stay known', async (store) => {
      await drain(store);
      for (const n of [1, 2, 3, 4]) await hold(store, n, T0 + n);
      const discard = (heldBefore: number, limit = 100) =>
        store.of(holdStore).discardHeld({ flowId, heldBefore, limit, note: 'discarded: moved' });
      expect(
        await store.of(holdStore).discardHeld({ flowId: 'another', heldBefore: T0 + 9, limit: 9, note: '' }),
      ).toEqual({
        discarded: 0,
        left: 0,
      });
      expect(await discard(T0 + 1)).toEqual({ discarded: 0, left: 4 });
      expect(await discard(T0 + 4, 2)).toEqual({ discarded: 2, left: 2 });
      expect(await discard(T0 + 4, 2)).toEqual({ discarded: 1, left: 1 });
      expect(await store.of(holdStore).listHeld()).toEqual([{ flowId, held: 1, oldestAt: T0 + 4 }]);
      expect(await store.findDelivery(id(1))).toMatchObject({ detail: 'discarded: moved' });
      expect((await store.findDelivery(id(1)))?.isHeld).toBeUndefined();
      expect(await store.findDelivery(id(4))).toMatchObject({ detail: null, isHeld: true });
      await resume(store);
      expect((await release(store)).runs).toMatchObject([{ id: id(1004) }]);
      expect(await runIds(store)).toEqual([id(1004)]);
      for (const known of [{ nonce: aNonce({ value: 'nonce 1' }) }, { idempotencyKey: 'key 1' }]) {
        expect((await store.accept(acceptanceOf(9, known))).kind).toBe('nonce' in known ? 'replayed' : 'duplicate');
      }
    });
  });

  describe('the books', () => {
    const rest = { filtered: 0, answered: 0, duplicates: 0, coalesced: 0, reconciled: 0, unaccounted: 0, givenUp: 0 };
    const NONE = { accepted: 0, runs: 0, held: 0, discarded: 0, ...rest };
    const books = (store: Store, since = T0, until = T0 + minute) => store.of(booksStore).countBooks({ since, until });

    test('say of each accepted delivery what became of it, and of nothing else', async (store) => {
      expect(await books(store)).toEqual(NONE);
      await store.deployFlow(deployOf(one));
      await store.accept(acceptanceOf(1, { idempotencyKey: 'first' }));
      expect((await store.accept(acceptanceOf(2, { idempotencyKey: 'first' }))).kind).toBe('duplicate');
      await store.accept(acceptanceOf(3, { at: T0 - 1 }));
      await store.accept(acceptanceOf(4, { at: T0 + minute }));
      await store.recordDelivery(aDelivery({ id: id(5), receivedAt: T0, runId: null, detail: 'handshake challenge' }));
      const refused = { statusCode: 401, rejected: true, reason: 'signature_missing', runId: null } as const;
      await store.recordDelivery(aDelivery({ id: id(6), receivedAt: T0, ...refused }));
      expect(await books(store)).toEqual({ ...NONE, accepted: 2, runs: 1, duplicates: 1 });
      expect(await books(store, 0, T0 + 2 * minute)).toEqual({ ...NONE, accepted: 4, runs: 3, duplicates: 1 });
    });

    test('count what is held, its repetitions, and what was discarded of it', async (store) => {
      await drain(store);
      for (const n of [1, 2]) await store.holdDelivery(acceptanceOf(n, { idempotencyKey: `key ${n}` }));
      const again = (n: number) => store.holdDelivery(acceptanceOf(10 + n, { idempotencyKey: `key ${n}` }));
      expect((await again(1)).kind).toBe('duplicate');
      expect(await books(store)).toEqual({ ...NONE, accepted: 3, held: 2, duplicates: 1 });
      const note = 'held, and discarded by ops: moved';
      await store.of(holdStore).discardHeld({ flowId, heldBefore: T0 + 1, limit: 1, note });
      expect(await books(store)).toEqual({ ...NONE, accepted: 3, held: 1, discarded: 1, duplicates: 1 });
      await resume(store);
      await release(store);
      expect(await books(store)).toEqual({ ...NONE, accepted: 3, runs: 1, discarded: 1, duplicates: 1 });
    });

    test('count what was given up apart from all that was accepted', async (store) => {
      const never = {
        statusCode: 0,
        rejected: true,
        runId: null,
        outcome: 'givenUp',
        body: null,
        bodyBytes: 0,
      } as const;
      for (const n of [1, 2]) await store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0, ...never }));
      await store.recordDelivery(aDelivery({ id: id(3), receivedAt: T0 + minute, ...never }));
      expect(await books(store)).toEqual({ ...NONE, givenUp: 2 });
      expect(await store.of(booksStore).countBooks({ since: T0, until: T0 + minute, flowIds: ['another'] })).toEqual(
        NONE,
      );
    });

    test('count what has neither a run nor another place as unaccounted for', async (store) => {
      await store.recordDelivery(aDelivery({ id: id(1), receivedAt: T0, runId: id(2000) }));
      expect(await books(store)).toEqual({ ...NONE, accepted: 1, unaccounted: 1 });
    });
  });

  describe('a held delivery', () => {
    test('is kept with its run to be, and starts none yet', async (store) => {
      await drain(store);
      expect(await store.holdDelivery(acceptanceOf(1))).toEqual({ kind: 'held', runId: id(1001), isReplay: false });
      expect(await runIds(store)).toEqual([]);
      expect(await countHeld(store)).toEqual({ [flowId]: 1 });
      const kept = await store.findDelivery(id(1));
      expect(kept).toMatchObject({ runId: id(1001), statusCode: 200, isHeld: true });
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{}');
      expect((await store.listDeliveries({ skip: 0, take: 1 })).items[0]?.body).toEqual(kept?.body);
      expect(await release(store)).toEqual({ runs: [], left: 1 });
    });

    test('uses its nonce and its idempotency key up', async (store) => {
      await drain(store);
      await store.holdDelivery(acceptanceOf(1, { nonce: aNonce(), idempotencyKey: 'key' }));
      expect(await store.holdDelivery(acceptanceOf(2, { nonce: aNonce() }))).toEqual({
        kind: 'replayed',
        runId: id(1001),
        hasSameBody: true,
      });
      expect(await store.holdDelivery(acceptanceOf(3, { idempotencyKey: 'key' }))).toMatchObject({
        kind: 'duplicate',
        runId: id(1001),
      });
      expect(await deliveryIds(store)).toEqual([id(3), id(1)]);
      await resume(store);
      expect((await release(store)).runs.map((run) => run.id)).toEqual([id(1001)]);
      expect(await store.findDelivery(id(1))).toMatchObject({ runId: id(1001), isHeld: undefined });
      expect(await store.accept(acceptanceOf(4, { nonce: aNonce() }))).toMatchObject({ kind: 'replayed' });
      expect(await store.findRun(id(1001))).toMatchObject({ idempotencyKey: 'key' });
    });

    test('is not taken where the flow starts runs', async (store) => {
      await drain(store);
      await resume(store);
      expect(await store.holdDelivery(acceptanceOf(1, { nonce: aNonce() }))).toEqual({ kind: 'open' });
      expect(await store.accept(acceptanceOf(1, { nonce: aNonce() }))).toMatchObject({ kind: 'accepted' });
    });

    test('is taken while the flow is disabled', async (store) => {
      await store.deployFlow(deployOf(one));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      expect(await store.holdDelivery(acceptanceOf(1))).toMatchObject({ kind: 'held' });
      await resume(store);
      expect((await release(store)).left).toBe(1);
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      expect(await release(store)).toMatchObject({ runs: [{ id: id(1001) }], left: 0 });
    });

    test('is queued behind those held already, also once the flow starts runs', async (store) => {
      await drain(store);
      await store.holdDelivery(acceptanceOf(1));
      await resume(store);
      expect(await store.holdDelivery(acceptanceOf(2))).toMatchObject({ kind: 'held' });
      expect((await release(store)).runs.map((run) => run.id)).toEqual([id(1001), id(1002)]);
      expect(await store.holdDelivery(acceptanceOf(3))).toEqual({ kind: 'open' });
    });

    test('is not kept where a deploy came in between', async (store) => {
      await drain(store);
      await store.deployFlow(deployOf(two));
      expect(await store.holdDelivery(acceptanceOf(1, { nonce: aNonce(), idempotencyKey: 'key' }))).toEqual({
        kind: 'outdated',
      });
      expect([await deliveryIds(store), await countHeld(store)]).toEqual([[], {}]);
    });

    test('outlasts the retention of deliveries', async (store) => {
      await drain(store);
      await store.holdDelivery(acceptanceOf(1));
      const { delivery } = acceptanceOf(2);
      if (delivery !== undefined) await store.recordDelivery(delivery);
      expect(await store.purgeDeliveries({ before: T0 + minute, limit: 10 })).toBe(1);
      expect(await deliveryIds(store)).toEqual([id(1)]);
    });
  });

  describe('a release', () => {
    test('starts runs once, in order of arrival, so many at a time', async (store) => {
      await drain(store);
      for (const n of [3, 1, 2]) await store.holdDelivery(acceptanceOf(n));
      await resume(store);
      expect(await release(store, 2)).toMatchObject({ runs: [{ id: id(1003) }, { id: id(1001) }], left: 1 });
      expect(await release(store, 2)).toMatchObject({ runs: [{ id: id(1002) }], left: 0 });
      expect(await release(store, 2)).toEqual({ runs: [], left: 0 });
      expect((await runIds(store)).sort()).toEqual([id(1001), id(1002), id(1003)]);
    });

    test('starts runs of the newest revision, with what the delivery brought', async (store) => {
      await drain(store);
      const { run, delivery } = acceptanceOf(1);
      const trigger = { ...run.trigger, body: new Uint8Array([0, 255, 10]), contentType: null, headers: { a: 'ü' } };
      await store.holdDelivery({ delivery, run: { ...run, trigger, traceparent: '00-1-2-01' } });
      await store.deployFlow(deployOf(two, { version: '2.0' }));
      await resume(store);
      const released = await release(store);
      expect(released.runs).toEqual([
        {
          id: id(1001),
          flowId,
          flowName: 'Orders',
          flowVersion: '2.0',
          revision: 2,
          status: 'Running',
          triggerKey: 'github',
          triggerType: 'webhook',
          deliveryId: id(1),
          sourceRunId: null,
          startedAt: T0 + minute,
          completedAt: null,
          timeoutAt: null,
          traceparent: '00-1-2-01',
          steps: [{ stepKey: 'other', stepType: 'NoOp', dueAt: T0 + minute }],
        },
      ]);
      const started = await store.findRun(id(1001));
      expect(Buffer.from(started?.trigger.body ?? [])).toEqual(Buffer.from([0, 255, 10]));
      expect(started?.trigger).toMatchObject({ key: 'github', contentType: null, headers: { a: 'ü' } });
      expect(Buffer.from((await store.findDelivery(id(1)))?.body ?? [])).toEqual(Buffer.from([0, 255, 10]));
      const [claim] = await claimAll(store, T0 + minute);
      if (claim === undefined) throw new Error('nothing is due');
      expect(await finish(store, claim, succeeded())).toMatchObject({ dispatched: ['last'] });
    });

    test('of large bodies takes a few at a time', async (store) => {
      await drain(store);
      for (const n of [1, 2, 3, 4]) {
        const { run, delivery } = acceptanceOf(n);
        const body = new Uint8Array(3 * 1024 * 1024);
        await store.holdDelivery({ delivery, run: { ...run, trigger: { ...run.trigger, body } } });
      }
      await resume(store);
      expect(await release(store)).toMatchObject({ runs: [{ id: id(1001) }, { id: id(1002) }], left: 2 });
    });
  });
}
