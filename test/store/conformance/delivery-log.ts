import { describe, expect, onTestFinished, test } from 'vitest';
import { figuresStore } from '../../../src/features/figures/store.ts';
import { reviewStore } from '../../../src/features/review/store.ts';
import type { DeliveryRecord, GateResult } from '../../../src/model/delivery.ts';
import type { DeliveryQuery, Store } from '../../../src/store/store.ts';
import { acceptanceOf, aDelivery, aRun, deliveryIds, flowId, id, minute, runIds, T0 } from '../samples.ts';

interface Bounds {
  readonly maxRows: number;
  readonly maxBytes: number;
}

const UNBOUNDED: Bounds = { maxRows: 1e6, maxBytes: 1e9 };

const gateResults: GateResult[] = [
  { gate: 'replay', outcome: 'passed', reason: null, detail: null, facts: { nonce: 'say "n"', replaySkewMs: 3 } },
];

export function refused(n: number, change: Partial<DeliveryRecord> = {}): DeliveryRecord {
  const why = { rejected: true, enforced: true, statusCode: 401, reason: 'signature_mismatch' } as const;
  return aDelivery({ id: id(n), ...why, violations: ['signature_mismatch'], body: new Uint8Array(100), ...change });
}

/** Rules for every delivery log, wherever it is kept. `isAllBounded`: its bounds also count accepted deliveries. */
export function deliveryLog(
  name: string,
  openBounded: (bounds: Bounds) => Promise<Store>,
  { isAllBounded }: { isAllBounded: boolean },
): void {
  async function open(bounds = UNBOUNDED): Promise<Store> {
    const store = await openBounded(bounds);
    onTestFinished(() => store.close());
    return store;
  }

  describe(name, () => {
    test('keeps gate results, URL and origin of a delivery', async () => {
      const store = await open();
      const record = refused(1, {
        gateResults,
        requestUrl: 'https://a.example/x?y=1',
        redeliveredFrom: id(9),
        runId: id(2),
      });
      await store.recordDelivery(record);
      expect(await store.findDelivery(id(1))).toMatchObject({ ...record, body: new Uint8Array(100) });
      expect(await store.of(reviewStore).findRedelivery(id(9))).toEqual({ deliveryId: id(1), runId: id(2) });
      expect(await store.of(reviewStore).findRedelivery(id(1))).toBeUndefined();
    });

    test('accepts a refused delivery only once, however often it is redelivered', async () => {
      const store = await open();
      const again = (n: number) => {
        const acceptance = acceptanceOf(n);
        const delivery = aDelivery({ ...acceptance.delivery, redeliveredFrom: id(500) });
        return store.accept({ ...acceptance, delivery });
      };
      const results = await Promise.all([again(1), again(2), again(3)]);
      const winner = results.findIndex(({ kind }) => kind === 'accepted') + 1;
      const runId = id(1000 + winner);
      const others = results.filter((_, n) => n + 1 !== winner);
      expect(others).toEqual(others.map(() => ({ kind: 'duplicate', runId, isReplay: false })));
      expect(await runIds(store)).toEqual([runId]);
      expect(await deliveryIds(store)).toEqual([id(winner)]);
      expect(await again(4)).toEqual({ kind: 'duplicate', runId, isReplay: false });
    });

    test('forgets that a delivery was redelivered with the record of that', async () => {
      const store = await open();
      const { run, delivery } = acceptanceOf(1);
      await store.accept({ run, delivery: aDelivery({ ...delivery, redeliveredFrom: id(500) }) });
      expect(await store.of(reviewStore).findRedelivery(id(500))).toEqual({ deliveryId: id(1), runId: id(1001) });
      expect(await store.purgeDeliveries({ before: T0 + 1, limit: 1 })).toBe(1);
      expect(await store.of(reviewStore).findRedelivery(id(500))).toBeUndefined();
    });

    test('a delivery whose idempotency key was known keeps its own body', async () => {
      const store = await open();
      const trigger = { key: 'github', body: Buffer.from('its own bytes'), contentType: null, headers: {} };
      const ofKey = (n: number) =>
        store.accept({ ...acceptanceOf(n), run: aRun({ id: id(1000 + n), trigger }), idempotencyKey: 'key' });
      await ofKey(1);
      expect(await ofKey(2)).toMatchObject({ kind: 'duplicate' });
      expect(Buffer.from((await store.findDelivery(id(2)))?.body ?? []).toString()).toBe('its own bytes');
    });

    test('finds the run of a nonce that was accepted, at its own trigger and since then alone', async () => {
      const store = await open();
      const acceptance = acceptanceOf(1);
      await store.accept({ ...acceptance, delivery: aDelivery({ ...acceptance.delivery, gateResults }) });
      await store.recordDelivery(refused(2, { gateResults }));
      const search = { flowId, triggerKey: 'github', nonce: 'say "n"', since: T0 };
      expect(await store.of(reviewStore).findAcceptedNonce(search)).toBe(id(1001));
      for (const other of [{ nonce: 'n' }, { triggerKey: 'x' }, { flowId: 'x' }, { since: T0 + 1 }]) {
        expect(await store.of(reviewStore).findAcceptedNonce({ ...search, ...other })).toBeUndefined();
      }
    });

    test('lists what was refused between two instants', async () => {
      const store = await open();
      await store.accept(acceptanceOf(1));
      for (const n of [2, 3, 4]) await store.recordDelivery(refused(n, { receivedAt: T0 + n }));
      await store.recordDelivery(aDelivery({ id: id(5), receivedAt: T0 + 3 }));
      const query = { skip: 0, take: 10, refusedOnly: true, since: T0 + 3, until: T0 + 4, includeTotal: true };
      const { items, total } = await store.listDeliveries(query);
      expect([items.map((item) => item.id), total]).toEqual([[id(3)], 1]);
    });

    test('lists those of a span of time, whatever the order of their ids and the age of the counts', async () => {
      const store = await open();
      const day = 24 * 60 * minute;
      // Ids out of order, as after setting the clock back; the counts of the first have been deleted.
      const times = [T0 - 60 * day, T0, T0 + minute, T0 - minute, T0 + 2 * minute];
      for (const [n, receivedAt] of times.entries()) {
        await store.recordDelivery(refused(n + 1, { receivedAt, flowId: n === 4 ? null : flowId }));
      }
      await store.purgeDeliveries({ before: T0 - 61 * day, limit: 10 });
      const idsIn = async (query: Partial<DeliveryQuery>) => {
        const { items, total } = await store.listDeliveries({ skip: 0, take: 10, includeTotal: true, ...query });
        expect(total).toBe(items.length);
        return items.map((item) => item.id);
      };
      expect(await idsIn({ since: T0 })).toEqual([5, 3, 2].map(id));
      expect(await idsIn({ until: T0 })).toEqual([4, 1].map(id));
      expect(await idsIn({ since: T0, until: T0 + minute })).toEqual([id(2)]);
      expect(await idsIn({ since: T0 - 60 * day, until: T0 - day })).toEqual([id(1)]);
      expect(await idsIn({ since: T0, flowId })).toEqual([3, 2].map(id));
      expect(await idsIn({ since: T0 + 3 * minute })).toEqual([]);
      expect(await idsIn({ since: T0, search: id(3).slice(-4) })).toEqual([id(3)]);
    });

    test('sums up by trigger, mode and what was found wrong', async () => {
      const store = await open();
      await store.accept(acceptanceOf(1));
      await store.accept(acceptanceOf(2, { at: T0 + 1 }));
      await store.recordDelivery(refused(3));
      await store.recordDelivery(refused(4, { flowId: null, triggerKey: null }));
      await store.recordDelivery(refused(5, { receivedAt: T0 - 1 }));
      await store.recordDelivery(refused(6, { redeliveredFrom: id(3), runId: id(7) }));
      const group = { flowId, triggerKey: 'github', mode: 'Enforce', firstAt: T0 };
      const groups = [
        { ...group, violations: [], count: 2, firstId: id(1), lastId: id(2) },
        { ...group, violations: ['signature_mismatch'], count: 1, firstId: id(3), lastId: id(3) },
      ];
      expect(await store.of(reviewStore).summariseDeliveries({ since: T0 })).toEqual(groups);
      expect(await store.of(reviewStore).summariseDeliveries({ since: T0, flowId })).toEqual(groups);
      expect(await store.of(reviewStore).summariseDeliveries({ since: T0, flowId: 'other' })).toEqual([]);
    });

    test('forgets what is too old, in chunks, and still counts it', async () => {
      const store = await open();
      for (let n = 1; n <= 5; n += 1) await store.recordDelivery(refused(n, { receivedAt: T0 + n * minute }));
      const before = T0 + 4 * minute;
      expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(2);
      expect(await deliveryIds(store)).toEqual([5, 4, 3].map(id));
      expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(1);
      expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(0);
      expect((await store.of(figuresStore).deliveryStats({ since: T0 })).total).toBe(5);
      expect((await store.of(figuresStore).deliveryStats({ since: T0 + 4 * minute })).counts).toEqual({
        signature_mismatch: 2,
      });
    });

    test('forgets what is too old and nothing else, whatever the clock did', async () => {
      const store = await open();
      const moments = [5, 1, 3, 2, 4];
      for (const [n, at] of moments.entries()) {
        await store.recordDelivery(refused(n + 1, { receivedAt: T0 + at * minute }));
      }
      expect(await store.purgeDeliveries({ before: T0 + 3 * minute, limit: 9 })).toBe(2);
      expect(await deliveryIds(store)).toEqual([5, 3, 1].map(id));
    });

    test.each([
      ['bodies', (n: number) => ({ body: Buffer.alloc(10_000), id: id(n) })],
      ['headers', (n: number) => ({ headers: { 'x-long': 'h'.repeat(10_000) }, id: id(n) })],
      ['details', (n: number) => ({ detail: 'd'.repeat(10_000), id: id(n) })],
      ['addresses', (n: number) => ({ requestUrl: `https://a.example/${'u'.repeat(10_000)}`, id: id(n) })],
      [
        'what gates found',
        (n: number) => ({ gateResults: [{ ...gateResults, facts: { found: 'f'.repeat(10_000) } }], id: id(n) }),
      ],
    ])('a flood that is large by its %s leaves no more than the bound after any commit', async (_name, flood) => {
      const store = await open({ maxRows: 1e6, maxBytes: 100_000 });
      for (let n = 1; n <= 60; n += 1) {
        await store.recordDelivery(refused(n, flood(n) as Partial<DeliveryRecord>));
        expect((await deliveryIds(store)).length).toBeLessThanOrEqual(9);
      }
      expect((await deliveryIds(store))[0]).toBe(id(60));
      expect((await store.of(figuresStore).deliveryStats({ since: T0 })).total).toBe(60);
    });

    test('holds no more rows than its bound after any commit, however many come at once', async () => {
      const store = await open({ maxRows: 7, maxBytes: 1e9 });
      for (let turn = 0; turn < 3; turn += 1) {
        const calls = Array.from({ length: 300 }, (_, n) => store.recordDelivery(refused(turn * 300 + n + 1)));
        await Promise.all(calls);
        expect((await deliveryIds(store)).length).toBe(7);
      }
      expect(await deliveryIds(store)).toEqual([900, 899, 898, 897, 896, 895, 894].map(id));
      expect(await store.of(figuresStore).deliveryStats({ since: T0 })).toMatchObject({ rejected: 900, total: 900 });
    });

    test('lets go of the oldest for one that is larger than many', async () => {
      const store = await open({ maxRows: 1e6, maxBytes: 2_000_000 });
      await Promise.all(Array.from({ length: 1200 }, (_, n) => store.recordDelivery(refused(n + 1))));
      await store.recordDelivery(refused(5000, { body: Buffer.alloc(1_500_000) }));
      const kept = await deliveryIds(store);
      expect(kept[0]).toBe(id(5000));
      expect(kept.length).toBeGreaterThan(100);
      expect(kept.length).toBeLessThan(500);
    });

    test.skipIf(isAllBounded)('never lets go of what was accepted for what was refused', async () => {
      const store = await open({ maxRows: 4, maxBytes: 1e9 });
      await store.accept(acceptanceOf(1));
      for (let n = 2; n <= 11; n += 1) await store.recordDelivery(refused(n));
      expect(await deliveryIds(store)).toEqual([11, 10, 9, 8, 1].map(id));
      expect(await store.of(figuresStore).deliveryStats({ since: T0 })).toMatchObject({
        accepted: 1,
        rejected: 10,
        total: 11,
      });
    });

    test.skipIf(isAllBounded)('never lets go of what a filter kept for what was refused', async () => {
      const store = await open({ maxRows: 4, maxBytes: 1e9 });
      await store.accept({ ...acceptanceOf(1), isFiltered: true });
      for (let n = 2; n <= 11; n += 1) await store.recordDelivery(refused(n));
      expect(await deliveryIds(store)).toEqual([11, 10, 9, 8, 1].map(id));
    });
  });
}
