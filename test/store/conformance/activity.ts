import { describe, expect, test } from 'vitest';
import type { NewIntervention } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { flowId, id, minute, T0 } from '../samples.ts';

const cancelled = (n: number, given: Partial<NewIntervention> = {}): NewIntervention => ({
  id: id(n),
  at: T0 + n * minute,
  actor: 'oncall',
  clientIp: '203.0.113.9',
  action: 'cancelRun',
  target: { type: 'run', id: id(900 + n) },
  details: {},
  reason: 'ordered twice',
  ...given,
});
const all = { skip: 0, take: 50 };

export function activity({ open }: StoreUnderTest): void {
  describe('interventions', () => {
    test('are kept before they happen, and with their answer once they have one', async () => {
      const store = await open();
      await store.beginIntervention(cancelled(1));
      expect((await store.listInterventions(all)).items).toEqual([{ ...cancelled(1), statusCode: null }]);
      await store.endIntervention({ id: id(1), statusCode: 409 });
      await store.endIntervention({ id: id(2), statusCode: 200 });
      expect((await store.listInterventions(all)).items).toEqual([{ ...cancelled(1), statusCode: 409 }]);
    });

    test('say how far they have got, each alone', async () => {
      const store = await open();
      for (const n of [1, 2]) await store.beginIntervention(cancelled(n, { details: { planned: '7', 'a "b"': 'c' } }));
      await store.noteIntervention({ id: id(1), details: { done: '3', failed: '0' } });
      await store.noteIntervention({ id: id(1), details: { done: '5' } });
      await store.noteIntervention({ id: id(9), details: { done: '1' } });
      expect((await store.listInterventions({ ...all, id: id(1) })).items).toEqual([
        { ...cancelled(1), details: { planned: '7', 'a "b"': 'c', done: '5', failed: '0' }, statusCode: null },
      ]);
      const [noted] = (await store.listInterventions({ ...all, id: id(1) })).items;
      // The page shows them in this order.
      expect(Object.keys(noted?.details ?? {})).toEqual(['planned', 'a "b"', 'done', 'failed']);
      expect((await store.listInterventions({ ...all, id: id(2) })).items).toMatchObject([
        { details: { planned: '7' } },
      ]);
      expect((await store.listInterventions({ ...all, id: id(9) })).items).toEqual([]);
    });

    test('are listed newest first, by actor, action, target and time', async () => {
      const store = await open();
      const reload = cancelled(2, { actor: 'ci', action: 'reloadFlows', target: null, reason: null, clientIp: null });
      const disabled = cancelled(3, {
        action: 'disableFlow',
        target: { type: 'flow', id: flowId },
        details: { a: 'b' },
      });
      for (const each of [cancelled(1), reload, disabled]) await store.beginIntervention(each);
      const idsOf = async (query: object) =>
        (await store.listInterventions({ ...all, ...query })).items.map((each) => each.id);
      expect(await idsOf({})).toEqual([id(3), id(2), id(1)]);
      expect(await idsOf({ actor: 'ci' })).toEqual([id(2)]);
      expect(await idsOf({ action: 'cancelRun' })).toEqual([id(1)]);
      expect(await idsOf({ target: flowId })).toEqual([id(3)]);
      expect(await idsOf({ since: T0 + 2 * minute, until: T0 + 3 * minute })).toEqual([id(2)]);
      expect(await store.listInterventions({ skip: 1, take: 1, includeTotal: true })).toMatchObject({
        items: [{ ...reload, statusCode: null }],
        total: 3,
      });
    });

    test('of long ago are deleted, the oldest first', async () => {
      const store = await open();
      for (const n of [1, 2, 3]) await store.beginIntervention(cancelled(n));
      const before = T0 + 3 * minute;
      expect(await store.purgeInterventions({ before, limit: 1 })).toBe(1);
      expect(await store.purgeInterventions({ before, limit: 5 })).toBe(1);
      expect((await store.listInterventions(all)).items.map((each) => each.id)).toEqual([id(3)]);
    });
  });
}
