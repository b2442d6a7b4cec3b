import { describe, expect } from 'vitest';
import { type ArrivalHour, rhythmStore } from '../../../src/features/rhythm/store.ts';
import { FIRST_ID, LAST_ID } from '../../../src/model/delivery-ids.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, deployOf, flowId, graphOf, id, T0 } from '../samples.ts';

const own = { flowId, triggerKey: 'github' };
const all = { ...own, after: FIRST_ID, upTo: LAST_ID, byEvent: true };
const HOUR = 3_600_000;
/** The start of an hour. */
const H0 = Math.ceil(T0 / HOUR) * HOUR;

/** The n-th delivery, this many milliseconds after the start of an hour. */
function delivered(
  n: number,
  afterMs: number,
  { event = '', ...delivery }: { event?: string; triggerKey?: string } = {},
) {
  const at = H0 + afterMs;
  const given = acceptanceOf(n, { at });
  return {
    ...given,
    delivery: { ...aDelivery({ id: id(n), runId: id(1000 + n), receivedAt: at }), ...delivery },
    run: { ...given.run, ...(event === '' ? {} : { searchKeys: { event } }) },
  };
}

const hour = (change: Partial<ArrivalHour> = {}): ArrivalHour => ({
  event: null,
  hour: 5,
  count: 1,
  firstAt: 5 * HOUR,
  lastAt: 5 * HOUR,
  longestGapMs: 0,
  ...change,
});

export function rhythms({ test }: StoreUnderTest): void {
  describe('arrivals', () => {
    test('are counted by the hour and the event, with the longest gap within each hour', async (store) => {
      await store.deployFlow(deployOf(graphOf({ a: [] })));
      await store.accept(delivered(1, 10, { event: 'push' }));
      await store.accept(delivered(2, 500));
      await store.accept(delivered(3, 700, { event: 'push' }));
      await store.accept(delivered(4, HOUR + 5));
      await store.accept(delivered(5, 900, { triggerKey: 'other' }));
      const [first, second] = [H0 / HOUR, H0 / HOUR + 1];
      expect(await store.of(rhythmStore).countArrivals(all)).toEqual({
        hours: [
          { event: null, hour: first, count: 3, firstAt: H0 + 10, lastAt: H0 + 700, longestGapMs: 490 },
          { event: null, hour: second, count: 1, firstAt: H0 + HOUR + 5, lastAt: H0 + HOUR + 5, longestGapMs: 0 },
          { event: 'push', hour: first, count: 2, firstAt: H0 + 10, lastAt: H0 + 700, longestGapMs: 690 },
        ],
        isWhole: true,
        lastId: id(5),
      });
      expect((await store.of(rhythmStore).countArrivals({ ...all, after: id(3), byEvent: false })).hours).toHaveLength(
        1,
      );
    });

    test('are neither what was refused, nor what repeats, nor what a person sent again', async (store) => {
      await store.deployFlow(deployOf(graphOf({ a: [] })));
      const refused = { rejected: true, enforced: true, statusCode: 401, reason: 'signature_mismatch' } as const;
      await store.recordDelivery(aDelivery({ id: id(1), runId: null, ...refused, violations: ['signature_mismatch'] }));
      // Let through by a lenient mode.
      const passed = delivered(2, 20);
      const violation = { rejected: true, reason: refused.reason, violations: [refused.reason] };
      await store.accept({ ...passed, delivery: { ...passed.delivery, ...violation } });
      await store.recordDelivery(aDelivery({ id: id(3), runId: id(1002), outcome: 'duplicate' }));
      await store.recordDelivery(aDelivery({ id: id(4), runId: null, detail: 'handshake answered' }));
      expect(await store.of(rhythmStore).countArrivals(all)).toEqual({ hours: [], isWhole: true, lastId: id(4) });
    });
  });

  describe('a rhythm', () => {
    test('is committed by one of two', async (store) => {
      expect(await store.of(rhythmStore).readRhythm(own)).toEqual({ version: 0, lastId: FIRST_ID, state: null });
      const commit = { ...own, version: 0, lastId: id(3), state: { since: 1 }, lastAt: 7, found: [], hours: [hour()] };
      expect(await store.of(rhythmStore).commitRhythm(commit)).toBe('committed');
      expect(await store.of(rhythmStore).commitRhythm(commit)).toBe('outdated');
      const later = hour({ count: 2, firstAt: 5 * HOUR + 10, lastAt: 5 * HOUR + 90, longestGapMs: 80 });
      const found = [{ kind: 'trigger_silent' }];
      const next = { ...commit, version: 1, lastAt: null, found, hours: [later, hour({ event: 'ä"' })] };
      expect(await store.of(rhythmStore).commitRhythm(next)).toBe('committed');
      expect(await store.of(rhythmStore).commitRhythm({ ...next, version: 1 })).toBe('outdated');
      expect(await store.of(rhythmStore).readRhythm(own)).toEqual({ version: 2, lastId: id(3), state: { since: 1 } });
      expect(await store.of(rhythmStore).listArrivalHours(own)).toEqual([
        { event: null, hour: 5, count: 3, firstAt: 5 * HOUR, lastAt: 5 * HOUR + 90, longestGapMs: 80 },
        hour({ event: 'ä"' }),
      ]);
      expect(await store.of(rhythmStore).listRhythms()).toEqual([{ ...own, lastAt: null, found }]);
    });

    test('forgets old hours, and the oldest where there are too many', async (store) => {
      const hours = [1, 2, 3, 4].map((n) => hour({ hour: n }));
      await store
        .of(rhythmStore)
        .commitRhythm({ ...own, version: 0, lastId: id(1), state: null, lastAt: null, found: [], hours });
      const purge = (change: object) =>
        store.of(rhythmStore).purgeArrivalHours({ beforeHour: 3, maxRows: 9, limit: 1, ...change });
      expect(await purge({})).toBe(1);
      expect(await purge({})).toBe(1);
      expect(await purge({})).toBe(0);
      expect(await purge({ maxRows: 1 })).toBe(1);
      expect((await store.of(rhythmStore).listArrivalHours(own)).map((each) => each.hour)).toEqual([4]);
    });
  });

  test('times without the store are kept for as long as they matter, and from when on they are known', async (store) => {
    await store.of(rhythmStore).noteDowntime({ startedAt: 5, endedAt: 5, offsetMs: 1, keptSince: 0 });
    await store.of(rhythmStore).noteDowntime({ startedAt: 10, endedAt: 20, offsetMs: 11, keptSince: 0 });
    await store.of(rhythmStore).noteDowntime({ startedAt: 10, endedAt: 20, offsetMs: 11, keptSince: 0 });
    await store.of(rhythmStore).noteDowntime({ startedAt: 30, endedAt: 40, offsetMs: 21, keptSince: 25 });
    expect(await store.of(rhythmStore).listDowntimes()).toEqual([
      { startedAt: 5, endedAt: 5, offsetMs: 1 },
      { startedAt: 30, endedAt: 40, offsetMs: 21 },
    ]);
  });

  test('refusals of a trigger are counted by the hour', async (store) => {
    await store.deployFlow(deployOf(graphOf({ a: [] })));
    await store.accept(delivered(1, 10));
    await store.accept(delivered(2, 20));
    const refused = { runId: null, rejected: true, statusCode: 401, reason: 'signature_mismatch' } as const;
    const violations = ['signature_mismatch'] as const;
    await store.recordDelivery(aDelivery({ id: id(3), receivedAt: H0 + HOUR, ...refused, violations }));
    await store.recordDelivery(
      aDelivery({ id: id(4), receivedAt: H0 + HOUR, ...refused, violations, triggerKey: 'other' }),
    );
    const [first, second] = [H0 / HOUR, H0 / HOUR + 1];
    expect(await store.of(rhythmStore).listRefusalHours({ ...own, fromHour: first, toHour: second })).toEqual([
      { hour: first, reason: null, count: 2 },
      { hour: second, reason: 'signature_mismatch', count: 1 },
    ]);
    expect(await store.of(rhythmStore).listRefusalHours({ ...own, fromHour: second, toHour: second })).toHaveLength(1);
  });
}
