import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { figuresStore } from '../../../src/features/figures/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aRun,
  claimAll,
  deployOf,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  T0,
} from '../samples.ts';

const OTHER = '6f2b1c1e-9999-4222-8333-444455556666';
const THIRD = '6f2b1c1e-aaaa-4222-8333-444455556666';
const hour = 60 * minute;
const refused = { rejected: true, reason: 'ip_denied', violations: ['ip_denied'], statusCode: 403 } as const;
const page = { skip: 0, take: 100, includeTotal: true } as const;
const span = { since: T0 - hour, until: T0 + 2 * hour };

/** Accepts a delivery with its run for each of three flows; refuses one for two of them, one for none; fails a run. */
async function seed(store: Store): Promise<void> {
  for (const [at, flow] of [flowId, OTHER, THIRD].entries()) {
    const n = 10 * (at + 1);
    await store.deployFlow(deployOf(graphOf({ first: [] }), { id: flow }));
    const accepted = acceptanceOf(n, { at: T0 + at });
    const delivery = aDelivery({ ...accepted.delivery, flowId: flow });
    const run = aRun({ ...accepted.run, flowId: flow, flowName: 'same name' });
    await store.accept({ ...accepted, delivery, run });
    if (flow === THIRD) continue;
    await store.recordDelivery(aDelivery({ id: id(n + 1), receivedAt: T0 + 1, flowId: flow, ...refused }));
  }
  await store.recordDelivery(aDelivery({ id: id(50), receivedAt: T0 + 2, flowId: null, triggerKey: null, ...refused }));
  const [first] = await claimAll(store);
  if (first !== undefined) await finish(store, first, failed());
}

export function flowLimits({ seeded }: StoreUnderTest): void {
  describe('what is asked of some flows', () => {
    const test = seeded(seed);
    const runFilters = [{}, { search: 'same' }, { status: 'Running' }, { status: 'Failed' }, span] as const;
    const deliveryFilters = [{}, { search: '192.0' }, { rejectedOnly: true }, { reason: 'ip_denied' }, span] as const;

    test('is what is asked of one, and of each of two together', async (store) => {
      for (const filter of runFilters) {
        const one = await store.listRuns({ ...page, ...filter, flowId: OTHER });
        expect(await store.listRuns({ ...page, ...filter, flowIds: [OTHER] })).toEqual(one);
        const two = await store.listRuns({ ...page, ...filter, flowIds: [OTHER, flowId] });
        expect(two.total).toBe((one.total ?? 0) + ((await store.listRuns({ ...page, ...filter, flowId })).total ?? 0));
        expect(new Set(two.items.map((run) => run.flowId)).has(THIRD)).toBe(false);
        const range = { ...span, bucketMs: hour };
        for (const bucketMs of [minute, hour]) {
          const asked = { ...filter, ...range, bucketMs };
          expect(await store.of(figuresStore).runTimeseries({ ...asked, flowIds: [OTHER] })).toEqual(
            await store.of(figuresStore).runTimeseries({ ...asked, flowId: OTHER }),
          );
        }
      }
      for (const filter of deliveryFilters) {
        const one = await store.listDeliveries({ ...page, ...filter, flowId: OTHER });
        expect(one.items.length).toBeGreaterThan(0);
        expect(await store.listDeliveries({ ...page, ...filter, flowIds: [OTHER] })).toEqual(one);
        for (const bucketMs of [minute, hour]) {
          const asked = { ...filter, ...span, bucketMs };
          expect(await store.of(figuresStore).deliveryTimeseries({ ...asked, flowIds: [OTHER] })).toEqual(
            await store.of(figuresStore).deliveryTimeseries({ ...asked, flowId: OTHER }),
          );
        }
      }
    });

    test('has nothing of any other, whichever one is asked for', async (store) => {
      expect(await store.listRuns({ ...page, flowId: THIRD, flowIds: [OTHER] })).toMatchObject({ items: [], total: 0 });
      expect(await store.listRuns({ ...page, flowIds: [] })).toMatchObject({ items: [], total: 0 });
      expect(await store.listDeliveries({ ...page, flowId: THIRD, flowIds: [OTHER] })).toMatchObject({ items: [] });
      expect(await store.listDeliveries({ ...page, flowIds: [] })).toMatchObject({ items: [], total: 0 });
      const found = await store.listRuns({ ...page, search: 'same', searchedFlows: [THIRD], flowIds: [OTHER] });
      expect(found.items.map((run) => run.flowId)).toEqual([OTHER]);
    });

    test('counts in the groups of failures, the stats and the books too', async (store) => {
      const trend = { ...span, parts: 1 };
      const groupsOf = async (filter: object) => (await store.of(runsStore).groupFailures({ ...filter, trend })).groups;
      expect(await groupsOf({})).toHaveLength(1);
      const [group] = await groupsOf({});
      expect(await groupsOf({ flowIds: [group?.flowId ?? ''] })).toEqual([group]);
      expect(await groupsOf({ flowIds: [flowId, OTHER, THIRD].filter((each) => each !== group?.flowId) })).toEqual([]);
      for (const since of [T0 - 30 * minute, T0 - hour, T0]) {
        const stats = await store.of(figuresStore).deliveryStats({ since, flowIds: [OTHER] });
        expect(stats).toEqual({ counts: { ip_denied: 1 }, accepted: 1, rejected: 1, total: 2 });
        expect(await store.of(figuresStore).deliveryStats({ since, flowIds: [OTHER, THIRD] })).toMatchObject({
          accepted: 2,
          total: 3,
        });
      }
      expect(await store.of(booksStore).countBooks({ ...span, flowIds: [OTHER] })).toMatchObject({
        accepted: 1,
        runs: 1,
      });
      expect(await store.of(booksStore).countBooks({ ...span, flowIds: [] })).toMatchObject({ accepted: 0, runs: 0 });
    });
  });
}
