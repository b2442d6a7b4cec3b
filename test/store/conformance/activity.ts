import { describe, expect } from 'vitest';
import type { NewIntervention } from '../../../src/dashboard/activity.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { bulkStore } from '../../../src/features/bulk/store.ts';
import { loginStore } from '../../../src/features/login/store.ts';
import type { Store } from '../../../src/store/store.ts';
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

export function activity({ test }: StoreUnderTest): void {
  describe('interventions', () => {
    test('are kept before they happen, and with their answer once they have one', async (store) => {
      await store.of(activityStore).beginIntervention(cancelled(1));
      expect((await store.of(activityStore).listInterventions(all)).items).toEqual([
        { ...cancelled(1), statusCode: null },
      ]);
      await store.of(activityStore).endIntervention({ id: id(1), statusCode: 409 });
      await store.of(activityStore).endIntervention({ id: id(2), statusCode: 200 });
      expect((await store.of(activityStore).listInterventions(all)).items).toEqual([
        { ...cancelled(1), statusCode: 409 },
      ]);
    });

    test('say how far they have got, each alone', async (store) => {
      for (const n of [1, 2])
        await store.of(activityStore).beginIntervention(cancelled(n, { details: { planned: '7', 'a "b"': 'c' } }));
      await store.of(bulkStore).noteIntervention({ id: id(1), details: { done: '3', failed: '0' } });
      await store.of(bulkStore).noteIntervention({ id: id(1), details: { done: '5' } });
      await store.of(bulkStore).noteIntervention({ id: id(9), details: { done: '1' } });
      expect((await store.of(activityStore).listInterventions({ ...all, id: id(1) })).items).toEqual([
        { ...cancelled(1), details: { planned: '7', 'a "b"': 'c', done: '5', failed: '0' }, statusCode: null },
      ]);
      const [noted] = (await store.of(activityStore).listInterventions({ ...all, id: id(1) })).items;
      // The page shows them in this order.
      expect(Object.keys(noted?.details ?? {})).toEqual(['planned', 'a "b"', 'done', 'failed']);
      expect((await store.of(activityStore).listInterventions({ ...all, id: id(2) })).items).toMatchObject([
        { details: { planned: '7' } },
      ]);
      expect((await store.of(activityStore).listInterventions({ ...all, id: id(9) })).items).toEqual([]);
    });

    test('are listed newest first, by actor, action, target and time', async (store) => {
      const reload = cancelled(2, { actor: 'ci', action: 'reloadFlows', target: null, reason: null, clientIp: null });
      const disabled = cancelled(3, {
        action: 'disableFlow',
        target: { type: 'flow', id: flowId },
        details: { a: 'b' },
      });
      for (const each of [cancelled(1), reload, disabled]) await store.of(activityStore).beginIntervention(each);
      const idsOf = async (query: object) =>
        (await store.of(activityStore).listInterventions({ ...all, ...query })).items.map((each) => each.id);
      expect(await idsOf({})).toEqual([id(3), id(2), id(1)]);
      expect(await idsOf({ actor: 'ci' })).toEqual([id(2)]);
      expect(await idsOf({ action: 'cancelRun' })).toEqual([id(1)]);
      expect(await idsOf({ target: flowId })).toEqual([id(3)]);
      expect(await idsOf({ since: T0 + 2 * minute, until: T0 + 3 * minute })).toEqual([id(2)]);
      expect(await store.of(activityStore).listInterventions({ skip: 1, take: 1, includeTotal: true })).toMatchObject({
        items: [{ ...reload, statusCode: null }],
        total: 3,
      });
    });

    test('of long ago are deleted, the oldest first', async (store) => {
      for (const n of [1, 2, 3]) await store.of(activityStore).beginIntervention(cancelled(n));
      const before = T0 + 3 * minute;
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 1 })).toEqual({
        rows: 1,
        brokenAt: null,
      });
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 5 })).toEqual({
        rows: 1,
        brokenAt: null,
      });
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 5 })).toEqual({
        rows: 0,
        brokenAt: null,
      });
      expect((await store.of(activityStore).listInterventions(all)).items.map((each) => each.id)).toEqual([id(3)]);
    });

    test('are added one after the other, whoever adds at the same time, and verify', async (store) => {
      const ids = Array.from({ length: 20 }, (_, n) => n + 1);
      await Promise.all(
        ids.map((n) => store.of(activityStore).beginIntervention(cancelled(n, { reason: 'half \ud800 a \0 pair' }))),
      );
      await Promise.all(
        ids.map((n) => store.of(bulkStore).noteIntervention({ id: id(n), details: { 'done \udc00': 'n\0' } })),
      );
      await Promise.all(ids.map((n) => store.of(activityStore).endIntervention({ id: id(n), statusCode: 200 })));
      const checked = await store.of(activityStore).checkInterventions({ limit: 100 });
      expect(checked).toMatchObject({ rows: 60, otherKey: 0, faults: [], next: null, ends: { newestSeq: 60 } });
      const page = await store.of(activityStore).checkInterventions({ limit: 40 });
      expect(page).toMatchObject({ rows: 40, next: { last: { seq: 40 } } });
      const rest = await store.of(activityStore).checkInterventions({ from: page.next ?? undefined, limit: 40 });
      expect(rest).toMatchObject({ rows: 20, faults: [], next: null });
    });

    test('verify where the old ones are deleted, and go on where all are', async (store) => {
      for (const n of [1, 2, 3]) await store.of(activityStore).beginIntervention(cancelled(n));
      await store.of(activityStore).endIntervention({ id: id(1), statusCode: 200 });
      const page = await store.of(activityStore).checkInterventions({ limit: 1 });
      expect(await store.of(activityStore).purgeInterventions({ before: T0 + 3 * minute, limit: 5 })).toMatchObject({
        rows: 2,
      });
      expect(await store.of(activityStore).checkInterventions({ limit: 5 })).toMatchObject({
        rows: 2,
        faults: [],
        ends: { removedSeq: 2, newestSeq: 4 },
      });
      // The rows are deleted during the check.
      expect(
        await store.of(activityStore).checkInterventions({ from: page.next ?? undefined, limit: 5 }),
      ).toMatchObject({ faults: [] });
      expect((await store.of(activityStore).listInterventions(all)).items).toMatchObject([
        { id: id(3) },
        { id: id(1), statusCode: 200 },
      ]);
      expect(await store.of(activityStore).purgeInterventions({ before: T0 + 9 * minute, limit: 5 })).toMatchObject({
        rows: 2,
      });
      await store.of(activityStore).beginIntervention(cancelled(4));
      expect(await store.of(activityStore).checkInterventions({ limit: 5 })).toMatchObject({
        rows: 1,
        faults: [],
        ends: { removedSeq: 4, newestSeq: 5 },
      });
    });

    test('say once which key they are written with, where that has changed', async (store) => {
      for (const n of [1, 2]) await store.of(activityStore).changeActivityKey({ id: id(n), at: T0 });
      const { items } = await store.of(activityStore).listInterventions(all);
      const { rows, faults, withoutKey } = await store.of(activityStore).checkInterventions({ limit: 5 });
      expect([rows, faults, withoutKey]).toEqual([items.length, [], 0]);
      for (const item of items) expect(item).toMatchObject({ id: id(1), action: 'changeActivityKey', actor: 'sluice' });
    });
  });

  test('a secret of the service is the one that was stored first, for all who ask', async (store) => {
    const given = [1, 2, 3].map((n) => ({ name: 'plans', secret: new Uint8Array(32).fill(n) }));
    const kept = await Promise.all(given.map((each) => store.keepSecret(each)));
    expect(new Set(kept.map(String)).size).toBe(1);
    const other = new Uint8Array([0, 255, 7]);
    expect(await store.keepSecret({ name: 'of another use', secret: other })).toEqual(other);
    expect(await store.keepSecret({ name: 'plans', secret: other })).toEqual(kept[0]);
  });

  describe('sessions', () => {
    const isEnded = (store: Store, session: string, begunAt = T0) =>
      store.of(loginStore).isSessionEnded({ id: session, credential: 'named ci', begunAt });
    const noon = { id: id(1), lastsUntil: T0 + 2 * minute, now: T0 };

    test('that were ended stay so until they would have ended by themselves', async (store) => {
      await store.of(loginStore).endSession(noon);
      await store.of(loginStore).endSession(noon);
      expect(await isEnded(store, id(1))).toBe(true);
      expect(await isEnded(store, id(2))).toBe(false);
      await store.of(loginStore).endSession({ ...noon, id: id(2), now: T0 + 2 * minute - 1 });
      expect(await isEnded(store, id(1))).toBe(true);
      await store.of(loginStore).endSession({ ...noon, id: id(3), lastsUntil: T0 + 9 * minute, now: T0 + 2 * minute });
      expect(await isEnded(store, id(1))).toBe(false);
      expect(await isEnded(store, id(3))).toBe(true);
    });

    test('end for good where their credential is taken away, or its mark changes, and stay where others do', async (store) => {
      const ci = { id: 'named ci', mark: 'a' };
      const other = { id: 'user', mark: '' };
      const note = (now: number, ...credentials: { id: string; mark: string }[]) =>
        store.noteCredentials({ credentials, now });
      await note(T0, ci, other);
      expect(await isEnded(store, id(1), T0)).toBe(false);
      await note(T0 + 1, ci);
      await note(T0 + 2, other, ci);
      expect(await isEnded(store, id(1), T0)).toBe(false);
      await note(T0 + 3, other);
      await note(T0 + 4, ci, other);
      expect([await isEnded(store, id(1), T0 + 3), await isEnded(store, id(1), T0 + 4)]).toEqual([true, false]);
      await note(T0 + 5, { ...ci, mark: 'b' });
      await note(T0 + 6, ci);
      expect([await isEnded(store, id(1), T0 + 5), await isEnded(store, id(1), T0 + 6)]).toEqual([true, false]);
      await note(T0 + 7);
      await note(T0 + 8, ci);
      expect(await isEnded(store, id(1), T0 + 7)).toBe(true);
    });

    test('whose name is no id are not ended', async (store) => {
      expect(await isEnded(store, 'of nobody')).toBe(false);
    });
  });
}
