import { describe, expect, test, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createHeartbeat } from '../../src/flows/heartbeat.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import type { Beat, BeatAnswer } from '../../src/store/store.ts';
import { fakeClock, recordingLogger, START, standingTimers } from './fixture.ts';

standingTimers();

/** A heartbeat on a store whose beats take 10 ms and get these answers in order; the last one repeats. */
function heartbeat(...answers: ((Partial<BeatAnswer> & { takesMs?: number }) | Error)[]) {
  const clock = fakeClock();
  const { logger, lines } = recordingLogger();
  const beats: Beat[] = [];
  let looks = 0;
  const store = {
    async beat(beat: Beat): Promise<BeatAnswer> {
      const answer = answers[Math.min(beats.length, answers.length - 1)];
      beats.push(beat);
      if (answer instanceof Error) throw answer;
      const { takesMs = 10, ...own } = answer ?? {};
      clock.pass(takesMs);
      return { at: clock.now(), ledgerAt: beat.ledgerAt, replicas: 1, died: [], ...own };
    },
  };
  const own = createHeartbeat({
    store,
    clock: createServiceClock(clock),
    logger,
    version: '1.2.3',
    fingerprint: () => ({ keys: [] }),
    onDue: () => {
      looks += 1;
    },
  });
  return { own, beats, lines, clock, looks: () => looks };
}

describe('the heartbeat', () => {
  test('beats at the start and every 5 s until it stops', async () => {
    const { own, beats } = heartbeat({});
    await own.start();
    expect(beats).toMatchObject([{ version: '1.2.3', startedAt: START, fingerprint: { keys: [] }, now: START }]);
    await vi.advanceTimersByTimeAsync(4999);
    expect(beats).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(10_001);
    expect(beats).toHaveLength(4);
    await own.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(beats).toHaveLength(4);
  });

  test('knows how many live, and how far its clock is ahead of the store’s', async () => {
    const { own, beats } = heartbeat({ replicas: 3, at: START - 2000 });
    expect(own.state()).toEqual({ beatAt: undefined, replicas: 1, clockOffsetMs: 0 });
    await own.start();
    expect(own.state()).toEqual({ beatAt: 10, replicas: 3, clockOffsetMs: 2005 });
    await vi.advanceTimersByTimeAsync(5000);
    expect(beats[1]).toMatchObject({ clockOffsetMs: 2005 });
    await own.stop();
  });

  test('judges the clock by a slow answer only as far as that says', async () => {
    const { own } = heartbeat(
      { at: START - 2000 },
      { at: START + 4000, takesMs: 9000 },
      { at: START - 60_000, takesMs: 9000 },
    );
    await own.start();
    await vi.advanceTimersByTimeAsync(5000);
    // The answer allows any offset from 9 s ahead to 4 s behind.
    expect(own.state()).toMatchObject({ clockOffsetMs: 2005 });
    await vi.advanceTimersByTimeAsync(5000);
    expect(own.state()).toMatchObject({ clockOffsetMs: 69_010 });
    await own.stop();
  });

  test('finds a clock unfit that is more than 5 s off, at once when it is set, and says so once', async () => {
    const { own, clock, lines } = heartbeat({});
    const beatAgain = () => vi.advanceTimersByTimeAsync(5000);
    await own.start();
    clock.set(5000 - own.state().clockOffsetMs);
    expect(own.isFit()).toBe(true);
    clock.set(1);
    expect(own.isFit()).toBe(false);
    clock.set(-20_000);
    expect(own.isFit()).toBe(false);
    expect(lines).toEqual([]);
    await own.stop();
    const far = heartbeat({ at: START - 7000 }, { at: START - 7000 }, {});
    await far.own.start();
    await beatAgain();
    expect(far.lines).toMatchObject([{ level: 50, clockOffsetMs: 7005 }]);
    await beatAgain();
    expect(far.lines.slice(1)).toMatchObject([{ level: 30 }]);
    await far.own.stop();
  });

  test('finds a process unfit that others may take for dead, until it has beaten again', async () => {
    const { own, clock } = heartbeat({});
    expect(own.isFit()).toBe(false);
    await own.start();
    clock.pass(14_999);
    expect(own.isFit()).toBe(true);
    clock.pass(1);
    expect(own.isFit()).toBe(false);
    await vi.advanceTimersByTimeAsync(5000);
    expect(own.isFit()).toBe(true);
    await own.stop();
  });

  test('has the process look at what others left or made due, and only where there are others', async () => {
    const { own, looks, lines } = heartbeat({}, { replicas: 2 }, {}, { died: [{ name: 'two', at: 0, steps: 4 }] }, {});
    await own.start();
    expect(looks()).toBe(0);
    await vi.advanceTimersByTimeAsync(5000);
    expect(looks()).toBe(1);
    await vi.advanceTimersByTimeAsync(5000);
    expect(looks()).toBe(1);
    await vi.advanceTimersByTimeAsync(5000);
    expect(looks()).toBe(2);
    await vi.advanceTimersByTimeAsync(5000);
    expect(looks()).toBe(2);
    expect(lines).toMatchObject([{ replica: 'two', steps: 4 }]);
    await own.stop();
  });

  test('has the process look for due steps when it is fit again, and not before', async () => {
    const silent = heartbeat({});
    await silent.own.start();
    silent.clock.pass(15_000);
    await vi.advanceTimersByTimeAsync(5000);
    expect(silent.looks()).toBe(1);
    await vi.advanceTimersByTimeAsync(5000);
    expect(silent.looks()).toBe(1);
    await silent.own.stop();
    const resumed = heartbeat({});
    await resumed.own.start();
    // The machine slept: the wall clock advanced, the monotonic one did not.
    resumed.clock.set(3_600_000);
    expect(resumed.own.isFit()).toBe(false);
    await vi.advanceTimersByTimeAsync(5000);
    expect(resumed.looks()).toBe(1);
    await resumed.own.stop();
    const far = heartbeat({}, { at: START - 7000 }, {});
    await far.own.start();
    await vi.advanceTimersByTimeAsync(5000);
    expect(far.looks()).toBe(0);
    await vi.advanceTimersByTimeAsync(5000);
    expect(far.looks()).toBe(1);
    await far.own.stop();
  });

  test('goes on within a second when the store comes back, and keeps what it knew', async () => {
    const { own, beats } = heartbeat({ replicas: 2 }, new StoreUnavailableError('away'), { replicas: 4 });
    await own.start();
    await vi.advanceTimersByTimeAsync(5000);
    expect(own.state()).toMatchObject({ replicas: 2, beatAt: 10 });
    await vi.advanceTimersByTimeAsync(1000);
    expect(beats).toHaveLength(3);
    expect(own.state()).toMatchObject({ replicas: 4 });
    await own.stop();
  });

  test('takes nobody for dead until all had 15 s to beat, after the store was away or the process paused', async () => {
    const { own, beats, clock } = heartbeat({}, new StoreUnavailableError('away'), {});
    let seen = 0;
    const judged = () => {
      const from = seen;
      seen = beats.length;
      return beats.slice(from).map(({ judgesOthers }) => judgesOthers);
    };
    const pass = async (ms: number) => {
      clock.pass(ms);
      await vi.advanceTimersByTimeAsync(ms);
    };
    await own.start();
    await pass(5000);
    expect(judged()).toEqual([true, true]);
    for (const ms of [1000, 5000, 5000]) await pass(ms);
    expect(judged()).toEqual([false, false, false]);
    await pass(5000);
    expect(judged()).toEqual([true]);
    clock.pass(15_000);
    for (const ms of [5000, 5000, 5000]) await pass(ms);
    expect(judged()).toEqual([false, false, false]);
    await pass(5000);
    expect(judged()).toEqual([true]);
    await own.stop();
  });

  test('is unfit while its release no longer fits the store, knows why, and says so once', async () => {
    const misfit = 'it has schema version 9';
    const { own, lines, looks } = heartbeat({}, { misfit }, { misfit }, {});
    await own.start();
    expect(own.state().misfit).toBeUndefined();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(own.state()).toMatchObject({ misfit });
    expect(own.isFit()).toBe(false);
    expect(lines).toMatchObject([{ level: 50, reason: misfit }]);
    expect(looks()).toBe(0);
    await vi.advanceTimersByTimeAsync(5000);
    expect(own.state().misfit).toBeUndefined();
    expect(own.isFit()).toBe(true);
    expect(lines.slice(1)).toMatchObject([{ level: 30 }]);
    expect(looks()).toBe(1);
    await own.stop();
  });

  test('a store that is away stops the start', async () => {
    const { own } = heartbeat(new StoreUnavailableError('away'));
    await expect(own.start()).rejects.toThrow('away');
  });
});
