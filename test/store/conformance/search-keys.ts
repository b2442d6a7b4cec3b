import { describe, expect } from 'vitest';
import { holdStore } from '../../../src/features/hold/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { SearchKeys } from '../../../src/model/search-keys.ts';
import type { Acceptance, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, aNonce, deployOf, flowId, graphOf, id, T0 } from '../samples.ts';

const page = { skip: 0, take: 50, includeTotal: true };
const otherFlow = '6f2b1c1e-9999-4222-8333-444455556666';

/** An acceptance as the ingress makes it: delivery and run have the same keys. */
function keyed(n: number, searchKeys: SearchKeys, change: Partial<Acceptance> & { at?: number } = {}): Acceptance {
  const { delivery, run, ...rest } = acceptanceOf(n, change);
  return { delivery: aDelivery({ ...delivery, searchKeys }), run: { ...run, searchKeys }, ...rest };
}

function refused(n: number, searchKeys: SearchKeys) {
  const why = { rejected: true, enforced: true, statusCode: 401, reason: 'signature_mismatch' } as const;
  return aDelivery({ id: id(n), ...why, body: new Uint8Array(9), searchKeys });
}

async function found(store: Store, query: object) {
  const deliveries = await store.listDeliveries({ ...page, ...query });
  const runs = await store.listRuns({ ...page, ...query });
  expect([deliveries.total, runs.total]).toEqual([deliveries.items.length, runs.items.length]);
  return { deliveries: deliveries.items.map((item) => item.id), runs: runs.items.map((item) => item.id) };
}

const NONE = { deliveries: [], runs: [] };

export function searchKeys({ seeded, test }: StoreUnderTest): void {
  describe('flows that a search names', () => {
    test('lead to their runs, within the other filters and once', async (store) => {
      for (const n of [1, 2]) await store.accept(acceptanceOf(n, { at: T0 + n }));
      const other = acceptanceOf(3, { at: T0 + 3 });
      await store.accept({ ...other, run: { ...other.run, flowId: otherFlow, flowName: 'Returns' } });
      const ids = async (query: object) => {
        const { items, total } = await store.listRuns({ ...page, ...query });
        expect(total).toBe(items.length);
        return items.map((run) => run.id);
      };
      expect(await ids({ search: 'nothing', searchedFlows: [] })).toEqual([]);
      expect(await ids({ search: 'nothing', searchedFlows: [flowId] })).toEqual([id(1002), id(1001)]);
      expect(await ids({ search: 'returns', searchedFlows: [flowId] })).toEqual([id(1003), id(1002), id(1001)]);
      expect(await ids({ search: 'orders', searchedFlows: [flowId] })).toEqual([id(1002), id(1001)]);
      expect(await ids({ search: 'x', searchedFlows: [flowId], until: T0 + 2 })).toEqual([id(1001)]);
      expect(await ids({ search: 'x', searchedFlows: [flowId], flowId: otherFlow })).toEqual([]);
      const second = await store.listRuns({ search: 'x', searchedFlows: [flowId], skip: 1, take: 1 });
      expect(second.items.map((run) => run.id)).toEqual([id(1001)]);
    });
  });

  describe('triggers that a search names', () => {
    test('lead to their runs, within the other filters and once', async (store) => {
      for (const n of [1, 2]) await store.accept(acceptanceOf(n, { at: T0 + n }));
      const other = acceptanceOf(3, { at: T0 + 3 });
      await store.accept({ ...other, run: { ...other.run, triggerKey: 'refunds' } });
      const ids = async (query: object) => (await store.listRuns({ ...page, ...query })).items.map((run) => run.id);
      expect(await ids({ search: 'nothing', searchedTriggers: ['refunds'] })).toEqual([id(1003)]);
      expect(await ids({ search: 'refunds', searchedTriggers: ['refunds'] })).toEqual([id(1003)]);
      expect(await ids({ search: 'x', searchedTriggers: ['refunds'], until: T0 + 3 })).toEqual([]);
      expect(await ids({ search: 'x', searchedTriggers: ['refunds', other.run.triggerKey] })).toHaveLength(3);
    });
  });

  describe('what has the text of a search as its whole id or search key', () => {
    const test = seeded(async (empty) => {
      await empty.accept(keyed(1, { order: 'SO-1010' }));
      for (const n of [2, 3, 4]) await empty.accept(keyed(n, { order: `SO-10100${n}` }));
      await empty.accept(keyed(5, { order: 'so-1010' }));
    });

    test('comes first, the newest before others, however many newer ones only begin with it', async (store) => {
      expect(await found(store, { search: 'SO-1010' })).toEqual({
        deliveries: [5, 1, 4, 3, 2].map((n) => id(n)),
        runs: [1005, 1001, 1004, 1003, 1002].map((n) => id(n)),
      });
      for (const [skip, ids] of [
        [0, [id(1005), id(1001)]],
        [2, [id(1004), id(1003)]],
      ] as const) {
        const { items } = await store.listRuns({ search: 'so-1010', skip, take: 2 });
        expect(items.map((run) => run.id)).toEqual(ids);
      }
    });

    test('comes before what only names its id', async (store) => {
      const named = keyed(9, { order: id(1001) });
      await store.accept(named);
      const { items } = await store.listRuns({ search: id(1001).toUpperCase(), skip: 0, take: 9 });
      expect(items.map((run) => run.id)).toEqual([id(1009), id(1001)]);
      const ofDelivery = await store.listRuns({ search: id(1), skip: 0, take: 9 });
      expect(ofDelivery.items.map((run) => run.id)).toEqual([id(1001)]);
    });
  });

  describe('a search for a text with a colon', () => {
    const test = seeded(async (empty) => {
      await empty.accept(keyed(1, { event: 'order:created' }));
      await empty.accept(keyed(2, { order: 'Created' }));
      await empty.accept(keyed(3, { event: 'order:created:twice' }));
      await empty.accept(keyed(4, { order: 'created again' }));
      await empty.accept(keyed(5, { path: '/created' }));
    });

    test.each([
      ['order:created', [2, 1, 3]],
      ['order:cre', [3, 1]],
      ['ORDER:CREATED', [1, 3]],
      ['event:order:created', [1]],
      ['path:/created', [5]],
      ['order:', [3, 1]],
      ['order:created again', [4]],
      ['other:created', []],
    ])('%s finds that whole value of that key, and values that begin with the text', async (store, search, ns) => {
      const ids = { deliveries: ns.map((n) => id(n)), runs: ns.map((n) => id(1000 + n)) };
      expect(await found(store, { search })).toEqual(ids);
    });
  });

  describe('search keys', () => {
    const keys = { order: 'SO-1010', event: 'orders/create' };

    describe('of deliveries that were accepted and refused', () => {
      const test = seeded(async (empty) => {
        await empty.accept(keyed(1, keys));
        await empty.accept(keyed(2, { order: 'so-10101', note: '100 % so-1010' }));
        await empty.accept(keyed(3, { order: 'GRÜSSE 7', event: 'orders/create' }));
        await empty.recordDelivery(refused(4, keys));
        await empty.accept(acceptanceOf(5));
        await empty.accept({ run: { ...acceptanceOf(6).run, deliveryId: null, searchKeys: { order: 'by hand' } } });
      });

      test('are shown by name, in whichever order they came', async (store) => {
        const { searchKeys: ofDelivery } = (await store.findDelivery(id(2))) ?? {};
        const { searchKeys: ofRun } = (await store.findRun(id(1001))) ?? {};
        expect([ofDelivery, ofRun].map((shown) => Object.keys(shown ?? {}))).toEqual([
          ['note', 'order'],
          ['event', 'order'],
        ]);
        const { items } = await store.listRuns({ ...page, search: 'SO-10101' });
        expect(items.map((item) => Object.keys(item.searchKeys ?? {}))).toEqual([['note', 'order']]);
      });

      test('are shown with each of them and with their runs', async (store) => {
        for (const n of [1, 4]) expect((await store.findDelivery(id(n)))?.searchKeys).toEqual(keys);
        expect((await store.findRun(id(1001)))?.searchKeys).toEqual(keys);
        expect((await store.of(runsStore).findLineage(id(1001)))?.source).toBeUndefined();
        const { items: deliveries } = await store.listDeliveries(page);
        expect(deliveries.map((item) => item.searchKeys?.order)).toEqual([
          undefined,
          'SO-1010',
          'GRÜSSE 7',
          'so-10101',
          'SO-1010',
        ]);
        const { items: runs } = await store.listRuns(page);
        expect(runs.map((item) => item.searchKeys?.order)).toEqual([
          'by hand',
          undefined,
          'GRÜSSE 7',
          'so-10101',
          'SO-1010',
        ]);
        expect(runs.map((item) => 'searchKeys' in item)).toEqual([true, false, true, true, true]);
      });

      test.each<[string, object, { deliveries: number[]; runs: number[] }]>([
        ['whole', { search: 'SO-1010' }, { deliveries: [4, 1, 2], runs: [1001, 1002] }],
        ['in any case', { search: 'so-1010' }, { deliveries: [4, 1, 2], runs: [1001, 1002] }],
        ['by their beginning', { search: 'SO-10' }, { deliveries: [4, 2, 1], runs: [1002, 1001] }],
        ['not by a part', { search: '10101' }, NONE],
        ['in any case of any letter', { search: 'grüsse' }, { deliveries: [3], runs: [1003] }],
        ['by a beginning with a wildcard in it', { search: '100 %' }, { deliveries: [2], runs: [1002] }],
        ['without wildcards', { search: 'SO%1010' }, NONE],
        ['and never by their names', { search: 'event' }, NONE],
        ['of a run without a delivery', { search: 'by hand' }, { deliveries: [], runs: [1006] }],
        ['in one flow', { search: 'SO-1010', flowId }, { deliveries: [4, 1, 2], runs: [1001, 1002] }],
        ['not in another flow', { search: 'SO-1010', flowId: otherFlow }, NONE],
        ['by name', { searchKeys: { order: 'SO-1010' } }, { deliveries: [4, 1], runs: [1001] }],
        ['by name in any case', { searchKeys: { order: 'so-1010' } }, { deliveries: [4, 1], runs: [1001] }],
        ['by name only whole', { searchKeys: { order: 'SO-101' } }, NONE],
        ['not under another name', { searchKeys: { event: 'SO-1010' } }, NONE],
        [
          'by two names',
          { searchKeys: { event: 'orders/create', order: 'GRÜSSE 7' } },
          { deliveries: [3], runs: [1003] },
        ],
        ['by name in one flow', { searchKeys: { order: 'SO-1010' }, flowId: otherFlow }, NONE],
        ['by name and text', { searchKeys: keys, search: 'orders/c' }, { deliveries: [4, 1], runs: [1001] }],
      ])('are found %s', async (store, _rule, query, expected) => {
        const ids = { deliveries: expected.deliveries.map(id), runs: expected.runs.map(id) };
        expect(await found(store, query)).toEqual(ids);
      });

      test('are found among those that other filters leave', async (store) => {
        const { items } = await store.listDeliveries({
          ...page,
          searchKeys: { order: 'SO-1010' },
          rejectedOnly: true,
        });
        expect(items.map((item) => item.id)).toEqual([id(4)]);
        expect((await store.listRuns({ ...page, search: 'SO-10', status: 'Failed' })).items).toEqual([]);
      });
    });

    test('that are longer than what is kept are found by their beginning and by the whole', async (store) => {
      const long = 'Ab'.repeat(150);
      await store.recordDelivery(refused(1, { order: `${long.slice(0, 200)}…` }));
      for (const search of [long, long.slice(0, 150), long.toUpperCase()]) {
        expect((await found(store, { search })).deliveries).toEqual([id(1)]);
      }
      expect((await found(store, { searchKeys: { order: long } })).deliveries).toEqual([id(1)]);
    });

    test('of a repeated idempotency key stay those of the delivery that repeats it', async (store) => {
      await store.accept(keyed(1, { order: 'first' }, { idempotencyKey: 'key' }));
      await store.accept(keyed(2, { order: 'second' }, { idempotencyKey: 'key' }));
      expect((await store.findDelivery(id(2)))?.searchKeys).toEqual({ order: 'second' });
      expect((await found(store, { searchKeys: { order: 'second' } })).deliveries).toEqual([id(2)]);
    });

    test('of a delivery that is held belong to its run once that starts', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      expect((await store.holdDelivery(keyed(1, keys))).kind).toBe('held');
      expect((await store.findDelivery(id(1)))?.searchKeys).toEqual(keys);
      expect(await found(store, { search: 'SO-10' })).toEqual({ deliveries: [id(1)], runs: [] });
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      await store.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 });
      expect((await store.findRun(id(1001)))?.searchKeys).toEqual(keys);
      expect(await found(store, { search: 'SO-10' })).toEqual({ deliveries: [id(1)], runs: [id(1001)] });
    });

    test('stay with the record of a delivery whose run is removed, and go with the record', async (store) => {
      await store.accept(keyed(1, keys));
      await store.cancelRun({ runId: id(1001), reason: null, at: T0 + 1 });
      const purge = async () => {
        while (!(await store.purgeRuns({ before: T0 + 2, maxRows: 1 })).isDone);
      };
      await purge();
      expect(await store.findRun(id(1001))).toBeUndefined();
      expect((await store.findDelivery(id(1)))?.searchKeys).toEqual(keys);
      expect(await found(store, { search: 'SO-10' })).toEqual({ deliveries: [id(1)], runs: [] });
      expect(await store.purgeDeliveries({ before: T0 + 1, limit: 9 })).toBe(1);
      // Reusing the ids, as no service does, would show leftovers.
      await store.accept(acceptanceOf(1));
      expect((await store.findDelivery(id(1)))?.searchKeys).toBeUndefined();
      expect((await store.findRun(id(1001)))?.searchKeys).toBeUndefined();
    });

    test('of an acceptance that stored nothing are not stored either', async (store) => {
      const nonce = aNonce();
      await store.accept(keyed(1, { order: 'first' }, { nonce }));
      expect((await store.accept(keyed(2, keys, { nonce }))).kind).toBe('replayed');
      expect(await found(store, { search: 'SO-1010' })).toEqual(NONE);
    });
  });
}
