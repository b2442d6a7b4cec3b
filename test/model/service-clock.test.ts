import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createServiceClock } from '../../src/model/clock.ts';

const T0 = Date.UTC(2026, 10, 21, 12);
const HOUR = 3_600_000;

describe('the clock of a service whose database has one', () => {
  test('is as far from that as an answer took, whatever the clocks of the machines say', () => {
    const machine = fc.record({ aheadMs: fc.integer({ min: -HOUR * 30, max: HOUR * 30 }), bootedAt: fc.nat() });
    const answer = fc.record({ of: fc.nat({ max: 2 }), there: fc.nat({ max: 400 }), back: fc.nat({ max: 400 }) });
    const machines = fc.array(machine, { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(machines, fc.array(answer, { minLength: 1, maxLength: 20 }), (given, answers) => {
        let passed = 0;
        const clocks = given.map(({ aheadMs, bootedAt }) =>
          createServiceClock({ now: () => T0 + passed + aheadMs, monotonic: () => bootedAt + passed }),
        );
        for (const { of, there, back } of answers) {
          const clock = clocks[of];
          const sentAt = clock?.monotonic() ?? 0;
          passed += there;
          const at = T0 + passed;
          passed += back;
          clock?.follow({ at, ledgerAt: 0 }, sentAt);
          expect(Math.abs((clock?.now() ?? 0) - (T0 + passed))).toBeLessThanOrEqual(there + back + 1);
          const { aheadMs = 0 } = given[of] ?? {};
          if (Math.abs(aheadMs) > 6000) expect(clock?.isFit()).toBe(false);
          if (Math.abs(aheadMs) < 4000) expect(clock?.isFit()).toBe(true);
        }
      }),
    );
  });

  test('stays where it is as long as an answer allows it', () => {
    let passed = 0;
    const clock = createServiceClock({ now: () => T0 + passed, monotonic: () => passed });
    clock.follow({ at: T0 - 3000, ledgerAt: 0 }, 0);
    for (let beats = 0; beats < 20; beats += 1) {
      const sentAt = passed;
      passed += beats;
      clock.follow({ at: T0 - 3000 + sentAt, ledgerAt: 0 }, sentAt);
      expect(clock.now()).toBe(T0 - 3000 + passed);
    }
  });
});

describe('the clock of a service whose database has none', () => {
  function onMachine() {
    const machine = { aheadMs: 0, passed: 0 };
    const followed: number[] = [];
    const clock = createServiceClock(
      { now: () => T0 + machine.passed + machine.aheadMs, monotonic: () => machine.passed },
      (ms) => followed.push(ms),
    );
    return { machine, clock, followed };
  }

  test('follows a clock that was set once it has stayed for 10 s, and says by how much', () => {
    const { machine, clock, followed } = onMachine();
    machine.aheadMs = -HOUR;
    expect([clock.isFit(), clock.clockOffsetMs(), clock.now()]).toEqual([false, -HOUR, T0]);
    machine.passed = 9999;
    expect(clock.isFit()).toBe(false);
    machine.passed = 10_000;
    expect([clock.isFit(), clock.clockOffsetMs(), clock.now()]).toEqual([true, 0, T0 - HOUR + 10_000]);
    expect(followed).toEqual([-HOUR]);
  });

  test('is fit again at once, and followed nothing, when the clock is set right', () => {
    const { machine, clock, followed } = onMachine();
    machine.aheadMs = HOUR;
    expect(clock.isFit()).toBe(false);
    machine.aheadMs = 0;
    expect([clock.isFit(), followed.length]).toEqual([true, 0]);
  });

  test('the time of the ledger goes on from what was kept, at the rate of the monotonic clock alone', () => {
    const { machine, clock } = onMachine();
    clock.follow({ at: undefined, ledgerAt: T0 - 5 * HOUR }, 0);
    machine.aheadMs = 400 * 24 * HOUR;
    machine.passed = 1000;
    expect(clock.ledger()).toBe(T0 - 5 * HOUR + 1000);
    // A process that is ahead moves the time forward; one that is behind takes nothing back.
    clock.follow({ at: undefined, ledgerAt: T0 - 4 * HOUR }, 1000);
    expect(clock.ledger()).toBe(T0 - 4 * HOUR);
    clock.follow({ at: undefined, ledgerAt: T0 - 9 * HOUR }, 1000);
    expect(clock.ledger()).toBe(T0 - 4 * HOUR);
  });
});
