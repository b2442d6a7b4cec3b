import { describe, expect } from 'vitest';
import { figuresStore } from '../../../src/features/figures/store.ts';
import { flowsStore } from '../../../src/features/flows/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aRun,
  claimAll,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  startRun,
  succeeded,
  T0,
} from '../samples.ts';

const hour = 3_600_000;
const other = '6f2b1c1e-9999-4222-8333-444455556666';
const refused = { rejected: true, reason: 'ip_denied', violations: ['ip_denied'] } as const;

export function figures({ test }: StoreUnderTest): void {
  describe('figures', () => {
    test('count deliveries by where they went and what was wrong, the recent ones apart', async (store) => {
      await store.recordDelivery(aDelivery({ id: id(1), receivedAt: T0 - 1 }));
      await store.recordDelivery(aDelivery({ id: id(2), receivedAt: T0, usedPreviousKey: true }));
      await store.recordDelivery(aDelivery({ id: id(3), receivedAt: T0 + hour }));
      await store.recordDelivery(aDelivery({ id: id(4), receivedAt: T0, flowId: null, triggerKey: null, ...refused }));
      const counts = await store.countDeliveries({ since: T0 + 5, recentSince: T0 + hour });
      expect(counts).toHaveLength(2);
      expect(counts).toContainEqual({
        flowId,
        triggerKey: 'github',
        reason: null,
        rejected: false,
        count: 2,
        recent: 1,
        usedPreviousKey: 1,
      });
      expect(counts).toContainEqual({
        flowId: null,
        triggerKey: null,
        reason: 'ip_denied',
        rejected: true,
        count: 1,
        recent: 0,
        usedPreviousKey: 0,
      });
    });

    test('count deliveries in the order of flow, trigger and reason', async (store) => {
      const reasons = ['timestamp_skew', 'ip_denied', 'rate_limited'] as const;
      const keys = ['b', 'B', 'a-b', 'ab'];
      const all = keys.flatMap((triggerKey) => reasons.map((reason) => ({ triggerKey, reason })));
      for (const [n, named] of all.entries()) {
        await store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0, rejected: true, ...named }));
      }
      const counts = await store.countDeliveries({ since: T0, recentSince: T0 });
      const order = ['B', 'a-b', 'ab', 'b'].flatMap((key) => [...reasons].sort().map((reason) => [key, reason]));
      expect(counts.map(({ triggerKey, reason }) => [triggerKey, reason])).toEqual(order);
    });

    test('yield deliveries by the hour or day, of all flows or of one', async (store) => {
      const midnight = T0 - 12 * hour;
      await store.recordDelivery(aDelivery({ id: id(1), receivedAt: midnight - 1 }));
      await store.recordDelivery(aDelivery({ id: id(2), receivedAt: midnight }));
      await store.recordDelivery(aDelivery({ id: id(3), receivedAt: midnight + 1, ...refused }));
      await store.recordDelivery(aDelivery({ id: id(4), receivedAt: T0, flowId: other }));
      await store.accept(acceptanceOf(5, { at: T0 + hour }));
      const range = { since: midnight, until: midnight + 24 * hour, flowId: undefined };
      expect(await store.of(figuresStore).deliveryTimeseries({ ...range, bucketMs: hour })).toEqual([
        { at: midnight, accepted: 1, rejected: 1 },
        { at: T0, accepted: 1, rejected: 0 },
        { at: T0 + hour, accepted: 1, rejected: 0 },
      ]);
      expect(await store.of(figuresStore).deliveryTimeseries({ ...range, bucketMs: 24 * hour })).toEqual([
        { at: midnight, accepted: 3, rejected: 1 },
      ]);
      expect(await store.of(figuresStore).deliveryTimeseries({ ...range, bucketMs: hour, flowId: other })).toEqual([
        { at: T0, accepted: 1, rejected: 0 },
      ]);
    });

    test('yield deliveries by the minute, of all flows or of one', async (store) => {
      await store.recordDelivery(aDelivery({ id: id(1), receivedAt: T0 - 1 }));
      await store.recordDelivery(aDelivery({ id: id(2), receivedAt: T0 }));
      await store.recordDelivery(aDelivery({ id: id(3), receivedAt: T0 + minute - 1, ...refused }));
      await store.recordDelivery(aDelivery({ id: id(4), receivedAt: T0 + 2 * minute, flowId: other }));
      await store.recordDelivery(aDelivery({ id: id(5), receivedAt: T0 + 3 * minute }));
      const range = { since: T0, until: T0 + 3 * minute, flowId: undefined, bucketMs: minute };
      const first = { at: T0, accepted: 1, rejected: 1 };
      const third = { at: T0 + 2 * minute, accepted: 1, rejected: 0 };
      expect(await store.of(figuresStore).deliveryTimeseries(range)).toEqual([first, third]);
      expect(await store.of(figuresStore).deliveryTimeseries({ ...range, flowId })).toEqual([first]);
      expect(await store.of(figuresStore).deliveryTimeseries({ ...range, flowId: other })).toEqual([third]);
    });

    test('yield runs by the minute in which they started, in flight or ended', async (store) => {
      const ended = (n: number, startedAt: number, took: number) =>
        aRun({ id: id(n), startedAt, status: 'Succeeded', completedAt: startedAt + took });
      await store.accept({ run: aRun({ id: id(1), startedAt: T0 - 1 }) });
      for (const [n, took] of [10, 20, 1249].entries()) await store.accept({ run: ended(10 + n, T0 + n, took) });
      await store.accept({ run: aRun({ id: id(20), startedAt: T0 + minute - 1 }) });
      await store.accept({ run: { ...ended(21, T0 + minute, 5), flowId: other } });
      await store.accept({ run: aRun({ id: id(22), startedAt: T0 + 2 * minute }) });
      const range = { since: T0, until: T0 + 2 * minute, flowId: undefined, bucketMs: minute };
      const first = { at: T0, counts: { Succeeded: 3, Running: 1 }, p50DurationMs: 20, p95DurationMs: 1200 };
      const second = { at: T0 + minute, counts: { Succeeded: 1 }, p50DurationMs: 5, p95DurationMs: 5 };
      expect(await store.of(figuresStore).runTimeseries(range)).toEqual([first, second]);
      expect(await store.of(figuresStore).runTimeseries({ ...range, flowId: other })).toEqual([second]);
      const alone = { at: T0 + 2 * minute, counts: { Running: 1 }, p50DurationMs: null, p95DurationMs: null };
      expect(
        await store.of(figuresStore).runTimeseries({ ...range, since: T0 + 2 * minute, until: T0 + 3 * minute }),
      ).toEqual([alone]);
    });

    test('yield deliveries and the duration of runs by flow, since the hour of a time', async (store) => {
      const ended = (n: number, took: number, more: object = {}) =>
        aRun({ id: id(n), startedAt: T0 + minute, status: 'Succeeded', completedAt: T0 + minute + took, ...more });
      for (const [n, took] of [10, 20, 1249].entries()) await store.accept({ run: ended(10 + n, took) });
      await store.accept({ run: ended(20, 5, { flowId: other }) });
      await store.accept({ run: ended(21, 9000, { startedAt: T0 - hour }) });
      const deliver = (n: number, more: Parameters<typeof aDelivery>[0]) =>
        store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0, runId: null, ...more }));
      await deliver(1, { receivedAt: T0 - 1 });
      await deliver(2, {});
      await deliver(3, { receivedAt: T0 + hour, rejected: true });
      await deliver(4, { flowId: other });
      await deliver(5, { flowId: null, triggerKey: null });
      const own = store.of(figuresStore);
      const ofBoth = [
        { flowId, accepted: 1, rejected: 1 },
        { flowId: other, accepted: 1, rejected: 0 },
      ];
      const counted = await own.deliveriesByFlow({ since: T0 + minute, flowIds: undefined });
      expect(counted.toSorted((a, b) => b.rejected - a.rejected)).toEqual(ofBoth);
      expect(await own.deliveriesByFlow({ since: T0, flowIds: [other] })).toEqual(ofBoth.slice(1));
      expect([...(await own.slowestByFlow(T0 + minute))].sort()).toEqual(
        [
          [flowId, 1200],
          [other, 5],
        ].sort(),
      );
    });

    test('count runs by status as they start, end, are tried again and are deleted', async (store) => {
      const runId = await startRun(store, graphOf({ only: [] }));
      await store.accept({ run: aRun({ id: id(101), flowId: other, status: 'Succeeded', completedAt: T0 }) });
      const running = { flowId, status: 'Running', count: 1 };
      const succeededOther = { flowId: other, status: 'Succeeded', count: 1 };
      expect(await store.of(flowsStore).countRuns()).toEqual([running, succeededOther]);
      expect(await store.countEndedRuns(T0)).toEqual([succeededOther]);

      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing was due');
      await finish(store, claim, failed(), T0 + hour);
      const failedRun = { flowId, status: 'Failed', count: 1 };
      expect(await store.of(flowsStore).countRuns()).toEqual([failedRun, succeededOther]);
      expect(await store.countEndedRuns(T0 + hour)).toEqual([failedRun]);

      await store.retryStep({ runId, stepKey: 'only', at: T0 + hour });
      expect(await store.of(flowsStore).countRuns()).toEqual([running, succeededOther]);
      expect(await store.countEndedRuns(T0 + hour)).toEqual([]);
      const range = { since: T0, until: T0 + hour, bucketMs: hour, flowId };
      expect(await store.of(figuresStore).runTimeseries(range)).toEqual([
        { at: T0, counts: { Running: 1 }, p50DurationMs: null, p95DurationMs: null },
      ]);

      expect(await store.purgeRuns({ before: T0 + 1, maxRows: 100 })).toMatchObject({ runs: 1 });
      expect(await store.of(flowsStore).countRuns()).toEqual([running]);
    });

    test('yield runs by the hour of their start with how long they took, within five per cent', async (store) => {
      const durations = [7, 19, 43, 104, 105, 1249, 98_765, 1_234_567];
      for (const [n, duration] of durations.entries()) {
        const run = aRun({ id: id(100 + n), status: 'Succeeded', startedAt: T0, completedAt: T0 + duration });
        await store.accept({ run });
        const range = { since: T0, until: T0 + hour, bucketMs: hour, flowId: undefined };
        const [bucket] = await store.of(figuresStore).runTimeseries(range);
        expect(bucket?.counts).toEqual({ Succeeded: n + 1 });
        expect(bucket?.p95DurationMs).toBe([7, 19, 44, 100, 110, 1200, 100_000, 1_200_000][n]);
      }
      const day = { since: T0 - 12 * hour, until: T0 + 12 * hour, bucketMs: 24 * hour, flowId };
      expect(
        (await store.of(figuresStore).runTimeseries(day)).map(({ at, p50DurationMs }) => ({ at, p50DurationMs })),
      ).toEqual([{ at: T0 - 12 * hour, p50DurationMs: 100 }]);
      expect(await store.of(figuresStore).runTimeseries({ ...day, flowId: other })).toEqual([]);
    });

    test('a run that ends is counted in the hour in which it started, and in the one in which it ended', async (store) => {
      await startRun(store, graphOf({ only: [] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing was due');
      await finish(store, claim, succeeded(), T0 + 3 * hour);
      const range = { since: T0, until: T0 + 24 * hour, bucketMs: hour, flowId: undefined };
      expect(await store.of(figuresStore).runTimeseries(range)).toEqual([
        { at: T0, counts: { Succeeded: 1 }, p50DurationMs: 11_000_000, p95DurationMs: 11_000_000 },
      ]);
      expect(await store.countEndedRuns(T0 + 3 * hour)).toEqual([{ flowId, status: 'Succeeded', count: 1 }]);
    });
  });
}
