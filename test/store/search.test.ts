import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SEARCHED_ROWS } from '../../src/store/decisions/lists.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { acceptanceOf, aDelivery, aRun, flowId, id, T0 } from './samples.ts';

const otherFlow = '6f2b1c1e-9999-4222-8333-444455556666';
const page = { skip: 0, take: 10, includeTotal: true };
const oldId = '01000000-0000-7000-8000-000000000001';
const oldRunId = '01000000-0000-7000-8000-000000000002';

let store: Store;
const deliveries = async (query: object) =>
  (await store.listDeliveries({ ...page, ...query })).items.map((item) => item.id);
const runs = async (query: object) => (await store.listRuns({ ...page, ...query })).items.map((item) => item.id);

beforeAll(async () => {
  store = await openSqliteStore({ path: ':memory:' });
  const old = acceptanceOf(0, { at: T0 - 1 });
  const delivery = aDelivery({ id: oldId, detail: 'needle', clientIp: '203.0.113.9', receivedAt: T0 - 1 });
  await store.accept({ delivery, run: { ...old.run, id: oldRunId, deliveryId: oldId, flowName: 'needle' } });
  // As many newer rows as a search reads.
  const flood = Array.from({ length: SEARCHED_ROWS }, (_, n) => [
    store.recordDelivery(aDelivery({ id: id(n + 1) })),
    store.accept({ run: aRun({ id: id(n + 20_000), startedAt: T0, steps: [] }) }),
  ]);
  await Promise.all(flood.flat());
}, 60_000);
afterAll(() => store.close());

describe('a search', () => {
  it('looks through the newest rows, and no further', async () => {
    expect(await deliveries({ search: 'needle' })).toEqual([]);
    expect(await runs({ search: 'needle' })).toEqual([]);
    expect(await deliveries({ search: '192.0.2.7' })).toHaveLength(10);
  });

  it('looks through the newest that the other filters leave', async () => {
    await store.recordDelivery(aDelivery({ id: id(30_000), flowId: otherFlow, detail: 'needle' }));
    expect(await deliveries({ search: 'NEEDLE', flowId: otherFlow })).toEqual([id(30_000)]);
    expect(await deliveries({ search: 'needle', flowId })).toEqual([]);
  });

  it.each([
    ['a delivery by its id', oldId],
    ['a delivery by its id in any case', oldId.toUpperCase()],
    ['a delivery by the beginning of its id', oldId.slice(0, 8)],
    ['a delivery by the run that it started', oldRunId],
  ])('finds %s, however old', async (_rule, search) => {
    expect(await deliveries({ search, flowId })).toEqual([oldId]);
    expect((await store.listDeliveries({ ...page, search })).total).toBe(1);
    expect(await deliveries({ search, flowId: otherFlow })).toEqual([]);
  });

  it.each([oldRunId, oldRunId.slice(0, 10), oldId])(
    'finds a run by its id or its delivery’s, however old: %s',
    async (search) => {
      expect(await runs({ search, status: 'Running' })).toEqual([oldRunId]);
      expect(await runs({ search, status: 'Failed' })).toEqual([]);
    },
  );

  it.each(['0100000', '01000000x', "01000000' OR 1=1 --"])('takes no other text for an id: %s', async (search) => {
    expect(await deliveries({ search })).toEqual([]);
  });
});

describe('a page from the nearer end', () => {
  it.each([0, 1, 4_000, 6_000, SEARCHED_ROWS - 3, SEARCHED_ROWS, SEARCHED_ROWS + 5])(
    'is the same after %i',
    async (skip) => {
      const all = [];
      for (let from = 0; from <= SEARCHED_ROWS; from += 500) all.push(...(await runs({ skip: from, take: 500 })));
      expect(new Set(all).size).toBe(SEARCHED_ROWS + 1);
      expect(await runs({ skip, take: 7 })).toEqual(all.slice(skip, skip + 7));
    },
  );
});
