import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createAcceptanceLimits } from '../../src/flows/acceptance-limits.ts';
import type { Acceptance } from '../../src/store/store.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { fakeClock, recordingLogger, standingTimers, until } from './fixture.ts';

standingTimers();

const aRun = { run: { steps: { length: 1 } } };
const aDelivery = { ...aRun, delivery: {} as NonNullable<Acceptance['delivery']> };

function open(maxDueSteps = 10) {
  const clock = fakeClock();
  const { logger, lines } = recordingLogger();
  const metrics = createMetrics();
  const measured = vi.fn(async () => ({ dueSteps: 0, oldestDueAt: null as number | null }));
  const store = { measureBacklog: measured };
  const limits = createAcceptanceLimits({ store, clock, logger, metrics, maxDueSteps });
  return { clock, lines, metrics, measured, limits };
}

describe('by the number of due steps', () => {
  function openCounting(maxDueSteps: number) {
    const opened = open(maxDueSteps);
    const { limits, measured } = opened;
    const count = async () => {
      await until(() => vi.getTimerCount() === 1);
      const counts = measured.mock.settledResults.length;
      vi.advanceTimersByTime(1_000);
      await until(() => measured.mock.settledResults.length > counts && vi.getTimerCount() === 1);
    };
    limits.start();
    return { ...opened, count };
  }

  it('a delivery is refused while more are due than may be, and no longer', async () => {
    const { clock, lines, measured, limits, count } = openCounting(2);
    await count();
    for (const [dueSteps, isRefused] of [
      [2, false],
      [3, true],
      [2, false],
    ] as const) {
      measured.mockResolvedValue({ dueSteps, oldestDueAt: clock.now() });
      await count();
      if (isRefused) expect(() => limits.admit(aDelivery)).toThrow(StoreUnavailableError);
      else expect(limits.admit(aDelivery)).toBeUndefined();
      expect(limits.admit(aRun)).toBeUndefined();
    }
    expect(lines.map(({ msg }) => msg)).toEqual([
      'too many steps are due; deliveries get 503',
      'the backlog of due steps is below the limit again; deliveries are accepted',
    ]);
    await limits.stop();
  });

  it('the metrics show how many are due and how long the oldest has been', async () => {
    const { clock, metrics, measured, limits, count } = openCounting(10);
    measured.mockResolvedValue({ dueSteps: 4, oldestDueAt: clock.now() - 1_500 });
    await count();
    const text = await metrics.registry.metrics();
    expect(text).toContain('sluice_due_steps 4');
    expect(text).toContain('sluice_oldest_due_step_seconds 1.5');
    await limits.stop();
  });

  it('a delivery is refused again when the store is back', async () => {
    const { clock, lines, measured, limits, count } = openCounting(2);
    measured.mockRejectedValueOnce(new StoreUnavailableError('the disk is full'));
    await count();
    measured.mockResolvedValue({ dueSteps: 3, oldestDueAt: clock.now() });
    await count();
    expect(() => limits.admit(aDelivery)).toThrow(StoreUnavailableError);
    expect(lines[0]).toMatchObject({ msg: 'due steps could not be counted; trying again' });
    await limits.stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('by how long the oldest due step has waited', () => {
  /** The last claim was answered 5 ms ago; `passed` says how many of the waiting runs may be stored. */
  function openClaimed() {
    const { clock, limits } = open();
    let passed = 0;
    const claimed = (taken: number, oldestDueAt: number | null) =>
      limits.claimed({ sentAt: clock.monotonic(), taken, oldestDueAt });
    claimed(1, null);
    clock.pass(5);
    return {
      clock,
      limits,
      claimed,
      ask(count: number, steps = 1) {
        const given = { run: { steps: { length: steps } } };
        for (let asked = 0; asked < count; asked += 1)
          void Promise.resolve(limits.admit(given)).then(() => (passed += 1));
      },
      passed: async () => {
        for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
        return passed;
      },
    };
  }

  it('every run is stored while it is not late', async () => {
    const { clock, claimed, ask, passed } = openClaimed();
    claimed(64, clock.now() - 249);
    ask(10);
    expect(await passed()).toBe(10);
  });

  it('half as many steps are stored with runs as are taken while it is late', async () => {
    const { clock, claimed, ask, passed } = openClaimed();
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

  it('a run with many steps counts for as many, and for one where it has none', async () => {
    const { clock, claimed, ask, passed } = openClaimed();
    const claims = async (taken: number) => {
      claimed(taken, clock.now() - 250);
      return passed();
    };
    await claims(8);
    ask(3, 6);
    ask(2, 0);
    // The first run is stored whole, 2 steps more than there was room for; then 4 more and 2 more, and so on.
    expect([await claims(8), await claims(4), await claims(8), await claims(4), await claims(8)]).toEqual([
      1, 1, 2, 2, 3,
    ]);
    expect(await claims(8)).toBe(5);
  });

  it('no run waits for slow steps, between whose claims time passes', async () => {
    const { clock, claimed, ask, passed } = openClaimed();
    clock.pass(100);
    claimed(8, clock.now() - 60_000);
    ask(1);
    expect(await passed()).toBe(1);
  });

  it('no run waits for longer than half a second, whether or not steps are claimed', async () => {
    const { clock, claimed, ask, passed } = openClaimed();
    claimed(8, clock.now() - 250);
    ask(3);
    vi.advanceTimersByTime(499);
    expect(await passed()).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await passed()).toBe(3);
    ask(1);
    expect(await passed()).toBe(4);
  });

  it('no run waits after the end', async () => {
    const { clock, limits, claimed, ask, passed } = openClaimed();
    claimed(8, clock.now() - 250);
    ask(3);
    limits.end();
    expect(await passed()).toBe(3);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('slow steps are told from a slow store: only the time between an answer and the next claim counts', async () => {
    const { clock, limits, ask, passed } = openClaimed();
    const sentAt = clock.monotonic();
    clock.pass(5_000);
    limits.claimed({ sentAt, taken: 8, oldestDueAt: clock.now() - 250 });
    ask(1);
    expect(await passed()).toBe(0);
  });
});
