import { describe, expect, test } from 'vitest';
import type { ScheduleRecord } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { aRun, deployOf, flowId, graphOf, id, minute, runIds, T0 } from '../samples.ts';

const schedule: ScheduleRecord = {
  flowId,
  triggerKey: 'nightly',
  cron: '0 3 * * *',
  timeZone: 'Europe/Berlin',
  cronOverride: null,
  isPaused: false,
  nextAt: T0,
  lastAt: null,
};
const tick = { flowId, triggerKey: 'nightly', dueAt: T0, nextAt: T0 + minute, at: T0 + 3 };
const nightlyRun = (n: number) => aRun({ id: id(n), triggerKey: 'nightly', triggerType: 'cron' });

export function schedules({ open }: StoreUnderTest): void {
  describe('schedules', () => {
    test('are kept as a whole, and the last one kept counts', async () => {
      const store = await open();
      expect(await store.listSchedules()).toEqual([]);
      await store.saveSchedule(schedule);
      const paused = { ...schedule, cronOverride: '*/5 * * * *', isPaused: true, nextAt: null, lastAt: T0 };
      await store.saveSchedule(paused);
      expect(await store.listSchedules()).toEqual([paused]);
    });

    test('a tick moves the schedule on and starts its run; a second process that sees it starts none', async () => {
      const store = await open();
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.saveSchedule(schedule);
      const fired = await Promise.all([
        store.fireSchedule({ ...tick, run: nightlyRun(1) }),
        store.fireSchedule({ ...tick, run: nightlyRun(2) }),
      ]);
      expect(fired).toEqual(['fired', 'passed']);
      expect(await runIds(store)).toEqual([id(1)]);
      expect(await store.listSchedules()).toMatchObject([{ nextAt: T0 + minute, lastAt: T0 + 3 }]);
    });

    test('a tick that is passed over starts nothing and leaves the last time as it was', async () => {
      const store = await open();
      await store.saveSchedule({ ...schedule, lastAt: 17 });
      expect(await store.fireSchedule({ ...tick, run: null })).toBe('fired');
      expect(await store.listSchedules()).toMatchObject([{ nextAt: T0 + minute, lastAt: 17 }]);
      expect(await runIds(store)).toEqual([]);
    });

    test('a tick whose run was planned before a deploy stays due', async () => {
      const store = await open();
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.saveSchedule(schedule);
      await store.deployFlow(deployOf(graphOf({ other: [] })));
      expect(await store.fireSchedule({ ...tick, run: nightlyRun(1) })).toBe('outdated');
      expect(await runIds(store)).toEqual([]);
      expect(await store.listSchedules()).toEqual([schedule]);
      expect(await store.fireSchedule({ ...tick, run: { ...nightlyRun(1), revision: 2 } })).toBe('fired');
    });

    test('a paused schedule does not fire the tick that it was paused before', async () => {
      const store = await open();
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.saveSchedule({ ...schedule, isPaused: true, nextAt: null });
      expect(await store.fireSchedule({ ...tick, run: nightlyRun(1) })).toBe('passed');
      expect(await runIds(store)).toEqual([]);
    });
  });
}
