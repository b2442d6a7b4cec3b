import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CronTrigger } from '../../src/manifest/schema.ts';
import type { Store } from '../../src/store/store.ts';
import { FLOW_ID, type House, openHouse, openStore, START, stepOf } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const JOB = `flow-${FLOW_ID}-tick`;
const HOUR = 3_600_000;
const cron = (inputs: Partial<CronTrigger['inputs']> = {}): CronTrigger => ({
  type: 'cron',
  inputs: { cronExpression: '0 * * * *', timeZone: 'UTC', ...inputs },
});

/** A house with a flow whose cron trigger is `trigger`, started at the clock's time. */
async function open(trigger = cron(), store?: Store, at = START): Promise<House> {
  const house = await openHouse(store === undefined ? {} : { store });
  house.clock.pass(at - START);
  await house.deploy({ only: stepOf('NoOp') }, { triggers: { tick: trigger } });
  await house.runtime.start();
  return house;
}

/** Lets the time pass and what is due fire. */
async function pass(house: House, ms: number): Promise<void> {
  house.clock.pass(ms);
  await house.runtime.scheduler.sync();
}

async function runs(house: House) {
  return (await house.store.listRuns({ skip: 0, take: 500 })).items.toReversed();
}

async function only(house: House) {
  return (await house.runtime.scheduler.list())[0];
}

describe('a cron trigger', () => {
  it('starts one run at each tick, by its one timer', async () => {
    const house = await open();
    expect(await only(house)).toMatchObject({ jobId: JOB, nextAt: START + HOUR, lastAt: null, isPaused: false });
    await pass(house, HOUR - 1);
    expect(await runs(house)).toEqual([]);
    house.clock.pass(1);
    await vi.advanceTimersByTimeAsync(60_000);
    await house.runtime.scheduler.list();
    await pass(house, 0);
    expect(await runs(house)).toMatchObject([{ triggerKey: 'tick', triggerType: 'cron', startedAt: START + HOUR }]);
    expect(await only(house)).toMatchObject({ nextAt: START + 2 * HOUR, lastAt: START + HOUR });
    expect(await house.metrics.registry.metrics()).toContain('sluice_schedule_lag_ms_count 1');
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

  // Berlin leaves out 2026-03-29 02:00 to 03:00 and has 2026-10-25 02:00 to 03:00 twice, New York 2026-03-08 02:00 to 03:00
  // and 2026-11-01 01:00 to 02:00. A tick of one time of the day falls to the end of the gap and fires the first time of
  // two; of many times those that are left out do not fire, and those that come twice fire twice.
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
    const house = await open(cron({ cronExpression, timeZone }), undefined, Date.parse(`${before}T18:00:00Z`));
    const ticks: string[] = [];
    for (const _tick of expected.split(' ')) {
      const next = (await only(house))?.nextAt ?? 0;
      ticks.push(new Date(next).toISOString().slice(8, 16));
      await pass(house, next - house.clock.now());
    }
    expect(ticks.join(' ')).toBe(expected);
    expect(await runs(house)).toHaveLength(ticks.length);
  });

  it.each([
    ['the same process', false],
    ['the next process', true],
  ])('fires by the right time again after the clock was ahead, in %s', async (_where, isRestarted) => {
    const store = await openStore();
    let house = await open(cron(), store);
    house.clock.set(400 * 24 * HOUR);
    await house.runtime.scheduler.sync();
    expect(await runs(house)).toHaveLength(1);
    if (isRestarted) {
      await house.runtime.stop(0);
      house = await open(cron(), store);
    } else {
      house.clock.set(-400 * 24 * HOUR);
    }
    expect(await only(house)).toMatchObject({ nextAt: START + HOUR });
    await pass(house, HOUR);
    expect(await runs(house)).toHaveLength(2);
    expect(await only(house)).toMatchObject({ nextAt: START + 2 * HOUR, lastAt: START + HOUR });
  });

  it('does not fire a tick again when the clock is set back by no more than a minute', async () => {
    const house = await open();
    await pass(house, HOUR + 1000);
    house.clock.set(-60_000);
    expect(await only(house)).toMatchObject({ nextAt: START + 2 * HOUR });
    await pass(house, 60_000);
    expect(await runs(house)).toHaveLength(1);
  });

  it('that was removed and comes back does not fire for a tick of its absence', async () => {
    const house = await open();
    await house.deploy({ only: stepOf('NoOp') });
    await house.runtime.scheduler.sync();
    await pass(house, 5.5 * HOUR);
    await house.deploy({ only: stepOf('NoOp') }, { triggers: { tick: cron() } });
    await house.runtime.scheduler.sync();
    expect(await runs(house)).toEqual([]);
    expect(await only(house)).toMatchObject({ nextAt: START + 6 * HOUR });
    await pass(house, HOUR / 2);
    expect(await runs(house)).toHaveLength(1);
  });

  it('fires in time while another one is changed', async () => {
    const house = await openHouse();
    const triggers = { tick: cron({ cronExpression: '* * * * *' }), other: cron() };
    await house.deploy({ only: stepOf('NoOp') }, { triggers });
    await house.runtime.start();
    house.clock.pass(40_000);
    await vi.advanceTimersByTimeAsync(40_000);
    await house.runtime.scheduler.setPaused(`flow-${FLOW_ID}-other`, true);
    house.clock.pass(20_000);
    await vi.advanceTimersByTimeAsync(20_000);
    await house.runtime.scheduler.list();
    expect(await runs(house)).toHaveLength(1);
  });

  it('does not fire while it is paused, and afterwards not for what passed meanwhile', async () => {
    const store = await openStore();
    const house = await open(cron(), store);
    expect(await house.runtime.scheduler.setPaused(JOB, true)).toMatchObject({ isPaused: true, nextAt: null });
    await house.runtime.stop(0);
    const again = await open(cron(), store, START + 3.5 * HOUR);
    expect(await only(again)).toMatchObject({ isPaused: true });
    expect(await again.runtime.scheduler.setPaused(JOB, false)).toMatchObject({ nextAt: START + 4 * HOUR });
    expect(await runs(again)).toEqual([]);
  });

  it('keeps a changed expression over a restart, takes it up at once, and gives it back', async () => {
    const store = await openStore();
    const house = await open(cron(), store);
    expect(await house.runtime.scheduler.setCron(JOB, '*/10 * * * *')).toMatchObject({ nextAt: START + HOUR / 6 });
    await house.runtime.stop(0);
    const again = await open(cron(), store);
    expect(await only(again)).toMatchObject({ cron: '*/10 * * * *', nextAt: START + HOUR / 6 });
    expect(await again.runtime.scheduler.setCron(JOB, '0 * * * *')).toMatchObject({ cronOverride: null });
    expect(await only(again)).toMatchObject({ nextAt: START + HOUR });
  });

  it('follows the manifest when that changes', async () => {
    const house = await open();
    await house.deploy({ only: stepOf('NoOp') }, { triggers: { tick: cron({ cronExpression: '15 * * * *' }) } });
    await house.runtime.scheduler.sync();
    expect(await only(house)).toMatchObject({ cron: '15 * * * *', nextAt: START + HOUR / 4 });
  });

  it('of a disabled flow lets its ticks pass', async () => {
    const house = await open();
    await house.catalog.setEnabled(FLOW_ID, false);
    await pass(house, HOUR);
    expect(await runs(house)).toEqual([]);
    expect(house.log.events('TriggerRejectedDisabledFlow')).toHaveLength(1);
    await house.catalog.setEnabled(FLOW_ID, true);
    await pass(house, HOUR);
    expect(await runs(house)).toHaveLength(1);
  });

  it('starts one run for a tick that two processes see, or that is stored and not answered', async () => {
    const store = await openStore();
    let isLost = true;
    const flaky: Store = {
      ...store,
      fireSchedule: async (tick) => {
        const isFired = await store.fireSchedule(tick);
        if (isLost) throw new Error('the answer was lost');
        return isFired;
      },
    };
    const house = await openHouse({ store: flaky });
    await house.deploy({ only: stepOf('NoOp') }, { triggers: { tick: cron() } });
    await house.runtime.start();
    house.clock.pass(HOUR);
    await expect(house.runtime.scheduler.sync()).rejects.toThrow('lost');
    isLost = false;
    await house.runtime.scheduler.sync();
    const other = await open(cron(), store, START + HOUR);
    expect(await runs(other)).toHaveLength(1);
  });

  it.each([
    ['of the revision that is deployed when it fires', { tick: cron() }, [{ revision: 2 }]],
    ['of no revision that has the trigger no more', {}, []],
  ])('starts a run %s', async (_, triggers, expected) => {
    const store = await openStore();
    let change = async () => {};
    const fireSchedule: Store['fireSchedule'] = async (tick) => {
      await change();
      change = async () => {};
      return store.fireSchedule(tick);
    };
    const house = await open(cron(), { ...store, fireSchedule });
    change = () => house.deploy({ next: stepOf('NoOp') }, { triggers });
    await pass(house, HOUR);
    expect(await runs(house)).toMatchObject(expected);
    expect(await runs(house)).toHaveLength(expected.length);
  });

  it('can be fired by hand, and its next time stays', async () => {
    const house = await open();
    expect(await house.runtime.scheduler.trigger(JOB)).toMatchObject({ kind: 'started' });
    expect(await only(house)).toMatchObject({ nextAt: START + HOUR, lastAt: START });
    expect(await house.runtime.scheduler.trigger('nope')).toBeUndefined();
  });
});
