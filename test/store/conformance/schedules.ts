import { describe, expect } from 'vitest';
import { type ScheduleRecord, schedulesStore } from '../../../src/features/schedules/store.ts';
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
  revision: 0,
};
const tick = { flowId, triggerKey: 'nightly', dueAt: T0, nextAt: T0 + minute, at: T0 + 3 };
const nightlyRun = (n: number) => aRun({ id: id(n), triggerKey: 'nightly', triggerType: 'cron' });

export function schedules({ test }: StoreUnderTest): void {
  describe('schedules', () => {
    test('are kept as a whole, and the last one kept counts', async (store) => {
      expect(await store.of(schedulesStore).listSchedules()).toEqual([]);
      const made = await store.of(schedulesStore).changeSchedule(schedule);
      expect(made).toEqual({ ...schedule, revision: 1 });
      const paused = {
        ...schedule,
        cronOverride: '*/5 * * * *',
        isPaused: true,
        nextAt: null,
        lastAt: T0,
        revision: 1,
      };
      expect(await store.of(schedulesStore).changeSchedule(paused)).toEqual({ ...paused, revision: 2 });
      expect(await store.of(schedulesStore).listSchedules()).toEqual([{ ...paused, revision: 2 }]);
    });

    test('are not written back as they were before somebody else changed them', async (store) => {
      const made = { ...schedule, revision: 1 };
      expect(await store.of(schedulesStore).changeSchedule(schedule)).toEqual(made);
      expect(await store.of(schedulesStore).changeSchedule(schedule)).toBeUndefined();
      const paused = await store.of(schedulesStore).changeSchedule({ ...made, isPaused: true, nextAt: null });
      expect(await store.of(schedulesStore).changeSchedule({ ...made, lastAt: T0 })).toBeUndefined();
      expect(await store.of(schedulesStore).listSchedules()).toEqual([paused]);
    });

    test('are not written back as they were before a tick fired', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      const made = await store.of(schedulesStore).changeSchedule(schedule);
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(1) })).toBe('fired');
      expect(made && (await store.of(schedulesStore).changeSchedule({ ...made, lastAt: T0 }))).toBeUndefined();
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(2) })).toBe('passed');
    });

    test('a tick moves the schedule on and starts its run; a second process that sees it starts none', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(schedulesStore).changeSchedule(schedule);
      const fired = await Promise.all([
        store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(1) }),
        store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(2) }),
      ]);
      expect(fired.toSorted()).toEqual(['fired', 'passed']);
      expect(await runIds(store)).toEqual([id(1 + fired.indexOf('fired'))]);
      expect(await store.of(schedulesStore).listSchedules()).toMatchObject([{ nextAt: T0 + minute, lastAt: T0 + 3 }]);
    });

    test('a tick that is passed over starts nothing and leaves the last time as it was', async (store) => {
      await store.of(schedulesStore).changeSchedule({ ...schedule, lastAt: 17 });
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: null })).toBe('fired');
      expect(await store.of(schedulesStore).listSchedules()).toMatchObject([{ nextAt: T0 + minute, lastAt: 17 }]);
      expect(await runIds(store)).toEqual([]);
    });

    test('a tick whose run was planned before a deploy stays due', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(schedulesStore).changeSchedule(schedule);
      await store.deployFlow(deployOf(graphOf({ other: [] })));
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(1) })).toBe('outdated');
      expect(await runIds(store)).toEqual([]);
      expect(await store.of(schedulesStore).listSchedules()).toEqual([{ ...schedule, revision: 1 }]);
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: { ...nightlyRun(1), revision: 2 } })).toBe(
        'fired',
      );
    });

    test('a paused schedule does not fire the tick that it was paused before', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(schedulesStore).changeSchedule({ ...schedule, isPaused: true, nextAt: null });
      expect(await store.of(schedulesStore).fireSchedule({ ...tick, run: nightlyRun(1) })).toBe('passed');
      expect(await runIds(store)).toEqual([]);
    });
  });
}
