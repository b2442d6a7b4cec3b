import { describe, expect } from 'vitest';
import { figuresStore } from '../../../src/features/figures/store.ts';
import { keysStore } from '../../../src/features/keys/store.ts';
import type { DeliveryRecord } from '../../../src/model/delivery.ts';
import type { DeliveryQuery, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, aRun, deliveryIds, flowId, id, T0 } from '../samples.ts';

const page = { skip: 0, take: 50 };

export function deliveries({ seeded, test }: StoreUnderTest): void {
  describe('deliveries', () => {
    test.each<[string, DeliveryRecord]>([
      ['with everything', { ...refused(1), detail: 'Grüße "\\ \u{1f680}', usedPreviousKey: true, runId: id(9) }],
      ['with nothing', { ...refused(1), flowId: null, triggerKey: null, scheme: null, reason: null, body: null }],
      ['of no byte', { ...refused(1), body: new Uint8Array(0), bodyBytes: 0, headers: {} }],
    ])('a record %s is kept as it is', async (store, _name, record) => {
      await store.recordDelivery(record);
      expect(await store.findDelivery(record.id)).toEqual(record);
      expect((await store.listDeliveries(page)).items).toEqual([record]);
    });

    test('an unknown delivery is not found', async (store) => {
      expect(await store.findDelivery(id(1))).toBeUndefined();
      expect(await store.listDeliveries(page)).toEqual({ items: [], total: undefined });
    });

    test('are listed newest first, in whatever order they were stored', async (store) => {
      for (const n of [2, 1, 4, 3]) await store.recordDelivery(aDelivery({ id: id(n) }));
      expect(await deliveryIds(store)).toEqual([4, 3, 2, 1].map(id));
    });

    test('are listed by pages; the total is counted only when asked for', async (store) => {
      for (let n = 1; n <= 7; n += 1) await store.recordDelivery(aDelivery({ id: id(n) }));
      const second = await store.listDeliveries({ skip: 3, take: 3 });
      expect(second.items.map((delivery) => delivery.id)).toEqual([4, 3, 2].map(id));
      expect(second.total).toBeUndefined();
      expect((await store.listDeliveries({ skip: 6, take: 3, includeTotal: true })).total).toBe(7);
      expect(await store.listDeliveries({ skip: 9, take: 3, includeTotal: true })).toEqual({ items: [], total: 7 });
      expect(await store.listDeliveries({ skip: 0, take: 0 })).toEqual({ items: [], total: undefined });
    });

    describe('are filtered', () => {
      const test = seeded(async (empty) => {
        const limited = { rejected: true, reason: 'rate_limited', violations: ['rate_limited'] } as const;
        const skewed = { rejected: true, reason: 'timestamp_skew', violations: ['timestamp_skew'] } as const;
        await recordAll(empty, [
          {},
          { flowId: 'other flow', ...limited },
          limited,
          { flowId: 'other flow', ...skewed },
          {},
        ]);
      });

      test.each<[string, Partial<DeliveryQuery>, number[]]>([
        ['no filter', {}, [5, 4, 3, 2, 1]],
        ['a flow', { flowId: 'other flow' }, [4, 2]],
        ['a reason', { reason: 'rate_limited' }, [3, 2]],
        ['the rejected', { rejectedOnly: true }, [4, 3, 2]],
        ['the accepted', { acceptedOnly: true }, [5, 1]],
        ['neither, which is both', { rejectedOnly: false, acceptedOnly: false }, [5, 4, 3, 2, 1]],
        ['a reason within a flow', { reason: 'rate_limited', flowId: 'other flow' }, [2]],
        ['the rejected of a flow', { rejectedOnly: true, flowId: 'other flow' }, [4, 2]],
        ['a search within the rejected', { rejectedOnly: true, search: 'RATE' }, [3, 2]],
        ['an unknown flow', { flowId: 'no flow' }, []],
      ])('by %s, and so is their total', async (store, _name, filter, expected) => {
        const { items, total } = await store.listDeliveries({ ...page, ...filter, includeTotal: true });
        expect(items.map((delivery) => delivery.id)).toEqual(expected.map(id));
        expect(total).toBe(expected.length);
      });
    });

    describe('are found', () => {
      const test = seeded((empty) =>
        recordAll(empty, [
          { clientIp: '198.51.100.4' },
          { scheme: 'Stripe' },
          {},
          { reason: 'verifier_error', rejected: true },
          { detail: 'the Clock is 10 min off; k-x' },
          { runId: id(1077) },
          { detail: 'Grüsse, 100%' },
          { detail: 'a\\b' },
        ]),
      );

      test.each<[string, string, number[]]>([
        ['an id', id(3).slice(-6).toUpperCase(), [3]],
        ['a client address', '198.51', [1]],
        ['a scheme, in any case', 'sTRIPE', [2]],
        ['a reason', 'VERIFIER_', [4]],
        ['a detail', 'clock is', [5]],
        ['a detail in any case, beyond ASCII too', 'GRÜSSE', [7]],
        ['a run id', id(1077).slice(-5).toUpperCase(), [6]],
        ['a percent sign, taken literally', '100%', [7]],
        ['an underscore, taken literally', 'k_x', []],
        ['a backslash, taken literally', 'a\\b', [8]],
        ['nothing', '', [8, 7, 6, 5, 4, 3, 2, 1]],
        ['what is nowhere', 'nowhere', []],
      ])('by part of %s', async (store, _name, search, expected) => {
        const { items } = await store.listDeliveries({ ...page, search });
        expect(items.map((delivery) => delivery.id)).toEqual(expected.map(id));
      });
    });

    test('a list has the first 64 KiB of a body, a single record all of it', async (store) => {
      const body = Uint8Array.from({ length: 100_000 }, (_, n) => n % 251);
      await store.recordDelivery(aDelivery({ id: id(1), body, bodyBytes: body.length }));
      const trigger = { key: 'github', body, contentType: null, headers: {} };
      const run = aRun({ deliveryId: id(2), trigger });
      await store.accept({ delivery: aDelivery({ id: id(2), bodyBytes: body.length }), run });
      for (const delivery of (await store.listDeliveries(page)).items) {
        expect(Buffer.from(delivery.body ?? []).equals(body.subarray(0, 65_536))).toBe(true);
        expect(delivery.bodyBytes).toBe(100_000);
      }
      for (const n of [1, 2]) {
        expect(Buffer.from((await store.findDelivery(id(n)))?.body ?? []).equals(body)).toBe(true);
      }
    });

    test.each([
      ['all', { 'x-event': 'push', 'x-token': 'secret' }],
      ['some', { 'x-event': 'push', 'x-token': '[redacted]' }],
    ])(
      'a delivery that shows %s of the headers of its run has them, also once the run is removed',
      async (store, _, headers) => {
        const trigger = { ...aRun().trigger, headers: { 'x-event': 'push', 'x-token': 'secret' } };
        const accept = (n: number) => {
          const { delivery, run } = acceptanceOf(n);
          return store.accept({
            delivery: aDelivery({ ...delivery, headers, usedPreviousKey: true }),
            run: { ...run, trigger },
            idempotencyKey: 'one',
          });
        };
        expect(await accept(1)).toMatchObject({ kind: 'accepted' });
        expect(await accept(2)).toMatchObject({ kind: 'duplicate' });
        const shown = async () => {
          const listed = (await store.listDeliveries(page)).items;
          const found = await Promise.all([1, 2].map((n) => store.findDelivery(id(n))));
          const users = await store
            .of(keysStore)
            .listKeyUsers({ flowId, triggerKey: 'github', upTo: id(9), since: T0, limit: 9 });
          return [...listed, ...found, ...users].map((one) => one?.headers);
        };
        expect(await shown()).toEqual(Array(6).fill(headers));
        await store.cancelRun({ runId: id(1001), reason: null, at: T0 + 1 });
        while (!(await store.purgeRuns({ before: T0 + 2, maxRows: 1 })).isDone);
        expect(await store.findRun(id(1001))).toBeUndefined();
        expect(await shown()).toEqual(Array(6).fill(headers));
      },
    );

    test('a delivery that names a run which it did not start has no body of that run', async (store) => {
      await store.accept({ run: aRun() });
      await store.recordDelivery(aDelivery({ runId: id(100), body: null }));
      expect((await store.findDelivery(id(1)))?.body).toBeNull();
    });

    test('stats count since an instant, by reason and by whether they were rejected', async (store) => {
      const old = { receivedAt: T0 - 1 };
      const rejectedFor = (reason: 'rate_limited' | 'ip_denied') => ({ rejected: true, reason, violations: [reason] });
      await recordAll(store, [
        {},
        { ...old },
        rejectedFor('rate_limited'),
        { ...rejectedFor('rate_limited'), mode: 'Audit' },
        { ...rejectedFor('ip_denied'), ...old },
        rejectedFor('ip_denied'),
      ]);
      expect(await store.of(figuresStore).deliveryStats({ since: T0 })).toEqual({
        counts: { rate_limited: 2, ip_denied: 1 },
        accepted: 1,
        rejected: 3,
        total: 4,
      });
      expect(await store.of(figuresStore).deliveryStats({ since: T0 + 1 })).toEqual({
        counts: {},
        accepted: 0,
        rejected: 0,
        total: 0,
      });
    });

    test('stats count to the millisecond, in whatever order the clock let records arrive', async (store) => {
      const moments = [40_000, 10_000, 59_999, 0, 20_000, 70_000, 30_000, 60_000];
      await recordAll(
        store,
        moments.map((ms) => ({ receivedAt: T0 + ms })),
      );
      for (const since of [0, 1, 15_000, 20_000, 20_001, 59_999, 60_000, 60_001]) {
        const expected = moments.filter((ms) => ms >= since).length;
        expect((await store.of(figuresStore).deliveryStats({ since: T0 + since })).total).toBe(expected);
      }
    });
  });
}

function refused(n: number): DeliveryRecord {
  return aDelivery({
    id: id(n),
    rejected: true,
    enforced: true,
    statusCode: 401,
    reason: 'signature_mismatch',
    violations: ['rate_limited', 'signature_mismatch'],
    body: Uint8Array.of(0, 255, 10),
    bodyBytes: 3,
    processingMs: 1.25,
  });
}

/** Records deliveries numbered from 1. */
async function recordAll(store: Store, changes: readonly Partial<DeliveryRecord>[]): Promise<void> {
  for (const [at, change] of changes.entries()) await store.recordDelivery(aDelivery({ id: id(at + 1), ...change }));
}
