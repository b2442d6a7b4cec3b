import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createIntake } from '../../src/flows/engine.ts';
import { fakeClock } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** An intake whose last claim was a moment ago, and how many of those that asked may store their runs. */
function open() {
  const clock = fakeClock();
  const intake = createIntake(clock);
  let passed = 0;
  const claimed = (taken: number, oldestDueAt: number | null) =>
    intake.claimed({ sentAt: clock.monotonic(), taken, oldestDueAt });
  claimed(1, null);
  clock.pass(5);
  return {
    clock,
    intake,
    claimed,
    ask(count: number) {
      for (let asked = 0; asked < count; asked += 1) void Promise.resolve(intake.turn()).then(() => (passed += 1));
    },
    passed: async () => {
      for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
      return passed;
    },
  };
}

it('lets every run be stored while the oldest due step is not late', async () => {
  const { clock, claimed, ask, passed } = open();
  claimed(64, clock.now() - 249);
  ask(10);
  expect(await passed()).toBe(10);
});

it('lets half as many runs be stored as steps are taken while the oldest due step is late', async () => {
  const { clock, claimed, ask, passed } = open();
  claimed(8, clock.now() - 250);
  ask(10);
  expect(await passed()).toBe(0);
  claimed(8, clock.now() - 250);
  expect(await passed()).toBe(4);
  claimed(1, clock.now() - 250);
  expect(await passed()).toBe(5);
  claimed(8, null);
  expect(await passed()).toBe(10);
});

it('lets no run wait for slow steps, between whose claims time passes', async () => {
  const { clock, claimed, ask, passed } = open();
  clock.pass(100);
  claimed(8, clock.now() - 60_000);
  ask(1);
  expect(await passed()).toBe(1);
});

it('lets no run wait for longer than a moment, whether or not steps are claimed', async () => {
  const { clock, claimed, ask, passed } = open();
  claimed(8, clock.now() - 250);
  ask(3);
  vi.advanceTimersByTime(499);
  expect(await passed()).toBe(0);
  vi.advanceTimersByTime(1);
  expect(await passed()).toBe(3);
  ask(1);
  expect(await passed()).toBe(4);
});

it('lets all of them go when it stops', async () => {
  const { clock, intake, claimed, ask, passed } = open();
  claimed(8, clock.now() - 250);
  ask(3);
  intake.stop();
  expect(await passed()).toBe(3);
  expect(vi.getTimerCount()).toBe(0);
});

it('refuses deliveries while too many steps are due', () => {
  const { intake } = open();
  expect(() => intake.refuseDelivery()).not.toThrow();
  intake.setFull(true);
  expect(() => intake.refuseDelivery()).toThrow(StoreUnavailableError);
  intake.setFull(false);
  expect(() => intake.refuseDelivery()).not.toThrow();
});

it('tells slow steps from a slow store: only the time between an answer and the next claim counts', async () => {
  const { clock, intake, ask, passed } = open();
  const sentAt = clock.monotonic();
  clock.pass(5_000);
  intake.claimed({ sentAt, taken: 8, oldestDueAt: clock.now() - 250 });
  ask(1);
  expect(await passed()).toBe(0);
});
