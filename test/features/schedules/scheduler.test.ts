import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { schedulesStore } from '../../../src/features/schedules/store.ts';
import type { CronTrigger } from '../../../src/manifest/schema.ts';
import type { RunDetail, Store } from '../../../src/store/store.ts';
import { cel, FLOW_ID, openFlowService, openStore, START, standingTimers, stepOf } from '../../flows/fixture.ts';
import { withVerbs } from '../../store/with-verbs.ts';
import { type ScheduledService, withScheduler } from './scheduled.ts';

standingTimers();

const JOB = `flow-${FLOW_ID}-tick`;
const HOUR = 3_600_000;
const cron = (inputs: Partial<CronTrigger['inputs']> = {}): CronTrigger => ({
  type: 'cron',
  inputs: { cronExpression: '0 * * * *', timeZone: 'UTC', ...inputs },
});

/** A service with a flow whose cron trigger is `trigger`, started at the clock's time. */
async function open(trigger = cron(), store?: Store, at = START): Promise<ScheduledService> {
  const service = withScheduler(await openFlowService(store === undefined ? {} : { store }));
  service.clock.pass(at - START);
  await service.deploy({ only: stepOf('NoOp') }, { triggers: { tick: trigger } });
  await service.runtime.start();
  return service;
}

/** Advances the time and fires what is due. */
async function pass(service: ScheduledService, ms: number): Promise<void> {
  service.clock.pass(ms);
  await service.scheduler.sync();
}

async function runs(service: ScheduledService) {
  return (await service.store.listRuns({ skip: 0, take: 500 })).items.toReversed();
}

async function only(service: ScheduledService) {
  return (await service.scheduler.list())[0];
}

describe('a cron trigger', () => {
  it('starts one run at each tick, by its one timer', async () => {
    const service = await open();
    expect(await only(service)).toMatchObject({ jobId: JOB, nextAt: START + HOUR, lastAt: null, isPaused: false });
    await pass(service, HOUR - 1);
    expect(await runs(service)).toEqual([]);
    service.clock.pass(1);
    await vi.advanceTimersByTimeAsync(60_000);
    await service.scheduler.list();
    await pass(service, 0);
    expect(await runs(service)).toMatchObject([{ triggerKey: 'tick', triggerType: 'cron', startedAt: START + HOUR }]);
    expect(await only(service)).toMatchObject({ nextAt: START + 2 * HOUR, lastAt: START + HOUR });
    expect(await service.metrics.registry.metrics()).toContain('sluice_schedule_lag_ms_count 1');
  });

  it('tells steps the time of the tick that started the run, however late that was', async () => {
    const store = await openStore();
    const first = await open(cron({ onMissed: 'fireOnce' }), store);
    await first.runtime.stop(0);
    const service = withScheduler(await openFlowService({ store }));
    service.clock.pass(1.5 * HOUR);
    const due = stepOf('Transform', { inputs: { value: cel('trigger.scheduledFor') } });
    await service.deploy({ due }, { triggers: { tick: cron() } });
    await service.runtime.start();
    const [caughtUp] = await runs(service);
    await pass(service, HOUR / 2);
    await service.scheduler.trigger(JOB);
    const byHand = await service.trigger();
    const outputs = [];
    for (const { id } of await runs(service)) {
      await service.ended(id);
      outputs.push((await service.steps(id)).due?.output);
    }
    expect(caughtUp?.startedAt).toBe(START + 1.5 * HOUR);
    const at = (hours: number) => new Date(START + hours * HOUR).toISOString();
    expect(outputs.toSorted()).toEqual([at(1), at(2), at(2), null]);
    // A rerun belongs to the same tick.
    const source = (await store.findRun(caughtUp?.id ?? '')) as RunDetail;
    const again = await service.runtime.engine.rerun(source);
    const runId = again.kind === 'started' ? again.runId : '';
    await service.ended(runId);
    expect((await service.steps(runId)).due?.output).toBe(at(1));
    expect((await service.steps(byHand)).due?.output).toBeNull();
  });

  it.each([
    ['fireOnce', 1],
    [undefined, 1],
    ['skip', 0],
  ] as const)(
    'whose ticks were missed while the service was down, with onMissed %s, fires %i times',
    async (onMissed, count) => {
      const store = await openStore();
      const first = await open(cron({ onMissed }), store);
      await first.runtime.stop(0);
      const later = await open(cron({ onMissed }), store, START + 5.5 * HOUR);
      expect(await runs(later)).toHaveLength(count);
      expect(await only(later)).toMatchObject({ nextAt: START + 6 * HOUR });
      await pass(later, HOUR / 2);
      expect(await runs(later)).toHaveLength(count + 1);
    },
  );

  // Berlin skips 2026-03-29 02:00 to 03:00 and repeats 2026-10-25 02:00 to 03:00; New York skips 2026-03-08 02:00 to
  // 03:00 and repeats 2026-11-01 01:00 to 02:00. A tick at one time of the day moves to the end of a gap, and fires
  // only the first of two repeated times. At many times, skipped ticks do not fire, and repeated ones fire twice.
  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28', '29T01:00 30T00:30 31T00:30'],
    ['Europe/Berlin', '30 2 * * *', '2026-10-24', '25T00:30 26T01:30 27T01:30'],
    ['Europe/Berlin', '*/20 2 * * *', '2026-03-28', '30T00:00 30T00:20 30T00:40 31T00:00'],
    ['Europe/Berlin', '*/20 2 * * *', '2026-10-24', '25T00:00 25T00:20 25T00:40 25T01:00 25T01:20 25T01:40 26T01:00'],
    ['America/New_York', '30 2 * * *', '2026-03-07', '08T07:00 09T06:30'],
    ['America/New_York', '30 2 * * *', '2026-10-31', '01T07:30 02T07:30'],
    ['America/New_York', '30 1 * * *', '2026-10-31', '01T05:30 02T06:30'],
    ['America/New_York', '*/20 2 * * *', '2026-03-07', '09T06:00 09T06:20 09T06:40 10T06:00'],
    ['America/New_York', '*/20 2 * * *', '2026-10-31', '01T07:00 01T07:20 01T07:40 02T07:00'],
    [
      'America/New_York',
      '*/20 1 * * *',
      '2026-10-31',
      '01T05:00 01T05:20 01T05:40 01T06:00 01T06:20 01T06:40 02T06:00',
    ],
  ])('in %s with %s fires after %s at %s', async (timeZone, cronExpression, before, expected) => {
    const service = await open(cron({ cronExpression, timeZone }), undefined, Date.parse(`${before}T18:00:00Z`));
    const ticks: string[] = [];
    for (const _tick of expected.split(' ')) {
      const next = (await only(service))?.nextAt ?? 0;
      ticks.push(new Date(next).toISOString().slice(8, 16));
      await pass(service, next - service.clock.now());
    }
    expect(ticks.join(' ')).toBe(expected);
    expect(await runs(service)).toHaveLength(ticks.length);
  });

  it.each([
    ['the same process', false],
    ['the next process', true],
  ])('fires by the right time again after the clock was ahead, in %s', async (_where, isRestarted) => {
    const store = await openStore();
    let service = await open(cron(), store);
    service.clock.set(400 * 24 * HOUR);
    await service.scheduler.sync();
    expect(await runs(service)).toHaveLength(1);
    if (isRestarted) {
      await service.runtime.stop(0);
      service = await open(cron(), store);
    } else {
      service.clock.set(-400 * 24 * HOUR);
    }
    expect(await only(service)).toMatchObject({ nextAt: START + HOUR });
    await pass(service, HOUR);
    expect(await runs(service)).toHaveLength(2);
    expect(await only(service)).toMatchObject({ nextAt: START + 2 * HOUR, lastAt: START + HOUR });
  });

  it('does not fire a tick again when the clock is set back by no more than a minute', async () => {
    const service = await open();
    await pass(service, HOUR + 1000);
    service.clock.set(-60_000);
    expect(await only(service)).toMatchObject({ nextAt: START + 2 * HOUR });
    await pass(service, 60_000);
    expect(await runs(service)).toHaveLength(1);
  });

  it('that was removed and comes back does not fire for a tick of its absence', async () => {
    const service = await open();
    await service.deploy({ only: stepOf('NoOp') });
    await service.scheduler.sync();
    await pass(service, 5.5 * HOUR);
    await service.deploy({ only: stepOf('NoOp') }, { triggers: { tick: cron() } });
    await service.scheduler.sync();
    expect(await runs(service)).toEqual([]);
    expect(await only(service)).toMatchObject({ nextAt: START + 6 * HOUR });
    await pass(service, HOUR / 2);
    expect(await runs(service)).toHaveLength(1);
  });

  it('fires in time while another one is changed', async () => {
    const service = withScheduler(await openFlowService());
    const triggers = { tick: cron({ cronExpression: '* * * * *' }), other: cron() };
    await service.deploy({ only: stepOf('NoOp') }, { triggers });
    await service.runtime.start();
    service.clock.pass(40_000);
    await vi.advanceTimersByTimeAsync(40_000);
    await service.scheduler.setPaused(`flow-${FLOW_ID}-other`, true);
    service.clock.pass(20_000);
    await vi.advanceTimersByTimeAsync(20_000);
    await service.scheduler.list();
    expect(await runs(service)).toHaveLength(1);
  });

  it('does not fire while it is paused, and afterwards not for what passed meanwhile', async () => {
    const store = await openStore();
    const service = await open(cron(), store);
    expect(await service.scheduler.setPaused(JOB, true)).toMatchObject({ isPaused: true, nextAt: null });
    await service.runtime.stop(0);
    const again = await open(cron(), store, START + 3.5 * HOUR);
    expect(await only(again)).toMatchObject({ isPaused: true });
    expect(await again.scheduler.setPaused(JOB, false)).toMatchObject({ nextAt: START + 4 * HOUR });
    expect(await runs(again)).toEqual([]);
  });

  it('keeps a changed expression over a restart, takes it up at once, and gives it back', async () => {
    const store = await openStore();
    const service = await open(cron(), store);
    expect(await service.scheduler.setCron(JOB, '*/10 * * * *')).toMatchObject({ nextAt: START + HOUR / 6 });
    await service.runtime.stop(0);
    const again = await open(cron(), store);
    expect(await only(again)).toMatchObject({ cron: '*/10 * * * *', nextAt: START + HOUR / 6 });
    expect(await again.scheduler.setCron(JOB, '0 * * * *')).toMatchObject({ cronOverride: null });
    expect(await only(again)).toMatchObject({ nextAt: START + HOUR });
  });

  it('follows the manifest when that changes', async () => {
    const service = await open();
    await service.deploy({ only: stepOf('NoOp') }, { triggers: { tick: cron({ cronExpression: '15 * * * *' }) } });
    await service.scheduler.sync();
    expect(await only(service)).toMatchObject({ cron: '15 * * * *', nextAt: START + HOUR / 4 });
  });

  it('of a disabled flow lets its ticks pass', async () => {
    const service = await open();
    await service.catalog.setEnabled(FLOW_ID, false);
    await pass(service, HOUR);
    expect(await runs(service)).toEqual([]);
    expect(service.log.events('TriggerRejectedDisabledFlow')).toHaveLength(1);
    await service.catalog.setEnabled(FLOW_ID, true);
    await pass(service, HOUR);
    expect(await runs(service)).toHaveLength(1);
  });

  it('starts one run for a tick that two processes see, or that is stored and not answered', async () => {
    const store = await openStore();
    let isLost = true;
    const flaky = withVerbs(store, schedulesStore, {
      fireSchedule: async (tick) => {
        const isFired = await store.of(schedulesStore).fireSchedule(tick);
        if (isLost) throw new Error('the answer was lost');
        return isFired;
      },
    });
    const service = await open(cron(), flaky);
    service.clock.pass(HOUR);
    await expect(service.scheduler.sync()).rejects.toThrow('lost');
    isLost = false;
    await service.scheduler.sync();
    const other = await open(cron(), store, START + HOUR);
    expect(await runs(other)).toHaveLength(1);
  });

  it('that another replica fired is not announced here, and its next tick fires', async () => {
    const store = await openStore();
    const elsewhere = '0b7c9d10-0000-4000-8000-0000000000e1';
    const { fireSchedule } = store.of(schedulesStore);
    let isFirst = true;
    const flaky = withVerbs(store, schedulesStore, {
      fireSchedule: async (tick) => {
        const { run } = tick;
        if (isFirst && run !== null) await fireSchedule({ ...tick, run: { ...run, id: elsewhere } });
        return fireSchedule(tick);
      },
    });
    const service = await open(cron(), flaky);
    await pass(service, HOUR);
    expect(await runs(service)).toMatchObject([{ id: elsewhere }]);
    expect(service.log.events('RunStarted')).toEqual([]);
    isFirst = false;
    await pass(service, HOUR);
    expect(await runs(service)).toHaveLength(2);
    expect(service.log.events('RunStarted')).toHaveLength(1);
  });

  it.each([
    ['of the revision that is deployed when it fires', { tick: cron() }, [{ revision: 2 }]],
    ['of no revision that has the trigger no more', {}, []],
  ])('starts a run %s', async (_, triggers, expected) => {
    const store = await openStore();
    let change = async () => {};
    const changed = withVerbs(store, schedulesStore, {
      fireSchedule: async (tick) => {
        await change();
        change = async () => {};
        return store.of(schedulesStore).fireSchedule(tick);
      },
    });
    const service = await open(cron(), changed);
    change = () => service.deploy({ next: stepOf('NoOp') }, { triggers });
    await pass(service, HOUR);
    expect(await runs(service)).toMatchObject(expected);
    expect(await runs(service)).toHaveLength(expected.length);
  });

  describe('that another process changes between reading and writing', () => {
    /** A service next to another one; functions in `before` run before its next write of a schedule. */
    async function openBeside(store: Store) {
      const before: (() => Promise<unknown>)[] = [];
      const beside = withVerbs(store, schedulesStore, {
        changeSchedule: async (schedule) => {
          await before.pop()?.();
          return store.of(schedulesStore).changeSchedule(schedule);
        },
      });
      const service = await open(cron(), beside);
      return { service, before };
    }

    it('does not fire a tick twice', async () => {
      const store = await openStore();
      const { service, before } = await openBeside(store);
      const other = await open(cron(), store, START);
      for (const { clock } of [service, other]) clock.pass(HOUR);
      before.push(() => other.scheduler.sync());
      expect(await service.scheduler.trigger(JOB)).toMatchObject({ kind: 'started' });
      await pass(service, 0);
      expect(await runs(service)).toHaveLength(2);
    });

    it('stays paused', async () => {
      const store = await openStore();
      const { service, before } = await openBeside(store);
      const other = await open(cron(), store, START);
      before.push(() => other.scheduler.setPaused(JOB, true));
      await service.scheduler.trigger(JOB);
      expect(await only(service)).toMatchObject({ isPaused: true, nextAt: null, lastAt: START });
    });

    it('is changed however often the other one was first', async () => {
      const store = await openStore();
      const { service, before } = await openBeside(store);
      const other = await open(cron(), store, START);
      for (let left = 9; left > 0; left -= 1) {
        before.push(() => other.scheduler.setCron(JOB, `${left} * * * *`));
      }
      expect(await service.scheduler.setPaused(JOB, true)).toMatchObject({ isPaused: true, nextAt: null });
      expect(await only(service)).toMatchObject({ isPaused: true, nextAt: null, cronOverride: '9 * * * *' });
    });

    it('is not changed if the other one is always first, which the sender may try again', async () => {
      const store = await openStore();
      const always = withVerbs(store, schedulesStore, { changeSchedule: async () => undefined });
      await open(cron(), store);
      const service = await open(cron(), always, START);
      await expect(service.scheduler.setPaused(JOB, true)).rejects.toThrow(StoreUnavailableError);
    });
  });

  it('can be fired by hand, and its next time stays', async () => {
    const service = await open();
    expect(await service.scheduler.trigger(JOB)).toMatchObject({ kind: 'started' });
    expect(await only(service)).toMatchObject({ nextAt: START + HOUR, lastAt: START });
    expect(await service.scheduler.trigger('nope')).toBeUndefined();
  });
});
