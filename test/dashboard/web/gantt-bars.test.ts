import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { barsOf, barText, placeOf, ticksOf } from '../../../src/features/runs/page/gantt-bars.ts';
import { at, attempt, T0 } from './attempts.ts';

type StepTimes = Parameters<typeof barsOf>[0];

const step = (change: Partial<StepTimes>): StepTimes => ({
  stepType: 'HttpRequest',
  status: 'Pending',
  dueAt: null,
  attempts: [],
  ...change,
});

describe('the bars of a step', () => {
  const seconds = (given: StepTimes, now: number) =>
    barsOf(given, T0 + now * 1000).map(({ kind, from, to, isOpen }) => [
      kind,
      (from - T0) / 1000,
      (to - T0) / 1000,
      isOpen,
    ]);

  it('are its attempts and the waits between them', () => {
    const attempts = [attempt(1, 'Failed', 0, 1), attempt(2, 'Succeeded', 3, 4)];
    expect(seconds(step({ status: 'Succeeded', attempts }), 60)).toEqual([
      ['attempt', 0, 1, false],
      ['wait', 1, 3, false],
      ['attempt', 3, 4, false],
    ]);
  });

  it('grow until now while it runs', () => {
    const attempts = [attempt(1, 'Running', 2, null)];
    expect(seconds(step({ status: 'Running', attempts }), 5)).toEqual([['attempt', 2, 5, true]]);
  });

  it('end in an open wait until the next try', () => {
    expect(seconds(step({ dueAt: at(9), attempts: [attempt(1, 'Failed', 0, 1)] }), 5)).toEqual([
      ['attempt', 0, 1, false],
      ['wait', 1, 5, true],
    ]);
  });

  it('begin with the time for which the step was due and had no slot', () => {
    const attempts = [attempt(1, 'Failed', 3, 4, 3000), attempt(2, 'Succeeded', 9, 10, 2000)];
    expect(seconds(step({ status: 'Succeeded', attempts }), 60)).toEqual([
      ['slot', 0, 3, false],
      ['attempt', 3, 4, false],
      ['wait', 4, 7, false],
      ['slot', 7, 9, false],
      ['attempt', 9, 10, false],
    ]);
  });

  it('leave out a wait for a slot that is too short to matter', () => {
    const attempts = [attempt(1, 'Failed', 1, 2, 99), attempt(2, 'Succeeded', 3, 4, 0)];
    expect(seconds(step({ status: 'Succeeded', attempts }), 60)).toEqual([
      ['attempt', 1, 2, false],
      ['wait', 2, 3, false],
      ['attempt', 3, 4, false],
    ]);
  });

  it('never lay a wait for a slot over the attempt before it', () => {
    const attempts = [attempt(1, 'Failed', 0, 5), attempt(2, 'Succeeded', 6, 7, 4000)];
    expect(seconds(step({ status: 'Succeeded', attempts }), 60)).toEqual([
      ['attempt', 0, 5, false],
      ['slot', 5, 6, false],
      ['attempt', 6, 7, false],
    ]);
  });

  it('grow until now while the step is due and has no slot', () => {
    expect(seconds(step({ dueAt: at(2) }), 5)).toEqual([['slot', 2, 5, true]]);
    expect(seconds(step({ dueAt: at(9) }), 5)).toEqual([]);
    expect(seconds(step({ dueAt: at(3), attempts: [attempt(1, 'Failed', 0, 1)] }), 5)).toEqual([
      ['attempt', 0, 1, false],
      ['wait', 1, 3, false],
      ['slot', 3, 5, true],
    ]);
  });

  it('never end before they begin, however the clocks of service and browser differ', () => {
    const backwards = step({ status: 'Succeeded', attempts: [attempt(1, 'Succeeded', 5, 3)] });
    expect(seconds(backwards, 60)).toEqual([['attempt', 5, 5, false]]);
    const early = step({ status: 'Running', attempts: [attempt(1, 'Running', 5, null)] });
    expect(seconds(early, 2)).toEqual([['attempt', 5, 5, true]]);
    const overlapping = [attempt(1, 'Failed', 0, 4), attempt(2, 'Succeeded', 3, 5)];
    expect(seconds(step({ status: 'Succeeded', attempts: overlapping }), 60)).toEqual([
      ['attempt', 0, 4, false],
      ['attempt', 3, 5, false],
    ]);
  });

  it('are none before the first attempt', () => {
    expect(seconds(step({}), 5)).toEqual([]);
  });

  it('are a wait where the step waits, also once it has ended', () => {
    expect(seconds(step({ attempts: [attempt(1, 'Running', 0, null)] }), 5)).toEqual([['wait', 0, 5, true]]);
    const delayed = step({ stepType: 'Delay', status: 'Succeeded', attempts: [attempt(1, 'Succeeded', 0, 5)] });
    expect(seconds(delayed, 60)).toEqual([['wait', 0, 5, false]]);
  });

  it('stay inside of the span that is shown', () => {
    const span = fc.tuple(fc.nat(1e9), fc.nat(1e9)).map(([from, length]) => ({ from, to: from + length }));
    fc.assert(
      fc.property(span, fc.nat(100), fc.nat(100), (whole, first, second) => {
        const part = (percent: number) => whole.from + ((whole.to - whole.from) * percent) / 100;
        const bar = { from: part(Math.min(first, second)), to: part(Math.max(first, second)) };
        const { left, width } = placeOf(bar, whole);
        expect(left).toBeGreaterThanOrEqual(0);
        expect(width).toBeGreaterThan(0);
        expect(left + width).toBeLessThanOrEqual(100.000001);
      }),
    );
  });
});

describe('the marks of a time axis', () => {
  it.each([
    [1, 8, [0, 1]],
    [0, 8, [0, 1]],
    [-5, 8, [0, 1]],
    [9, 5, [0, 2, 4, 6, 8]],
    [60_000, 5, [0, 15_000, 30_000, 45_000, 60_000]],
    [3 * 3_600_000, 4, [0, 3_600_000, 7_200_000, 10_800_000]],
  ])('of %i ms, at most %i of them, are %j', (length, most, marks) => {
    expect(ticksOf({ from: 5, to: 5 + length }, most)).toEqual(marks);
  });

  it('are never more than asked for', () => {
    fc.assert(
      fc.property(fc.nat(1e13), fc.integer({ min: 2, max: 12 }), (length, most) => {
        const marks = ticksOf({ from: 0, to: length }, most);
        expect(marks.length).toBeLessThanOrEqual(most);
        expect(marks[0]).toBe(0);
      }),
    );
  });
});

describe('a bar says what the step did in it', () => {
  const texts = (given: Partial<StepTimes>) =>
    barsOf(step(given), T0 + 10_000).map((bar) => barText(bar).replaceAll('\u00a0', ' '));

  it.each<[string, Partial<StepTimes>, string[]]>([
    [
      'a retry that had to wait for a slot',
      { status: 'Succeeded', attempts: [attempt(1, 'Failed', 0, 1), attempt(2, 'Succeeded', 6, 8, 2000)] },
      [
        'Attempt 1 failed: 1.0 s',
        'Waited before attempt 2: 3.0 s',
        'Waited for a slot: 2.0 s',
        'Attempt 2 ended: 2.0 s',
      ],
    ],
    [
      'a process that died',
      {
        status: 'Running',
        attempts: [{ ...attempt(1, 'Failed', 0, 6), errorCode: 'interrupted' }, attempt(2, 'Running', 6, null)],
      },
      [
        'Attempt 1 was interrupted when the process stopped; the step was resumed when its lease expired: 6.0 s',
        'Attempt 2 is running: 4.0 s',
      ],
    ],
    ['a delay', { stepType: 'Delay', attempts: [attempt(1, 'Pending', 0, null)] }, ['Waits for its due time: 10 s']],
    [
      'a signal that came',
      { stepType: 'WaitForSignal', status: 'Succeeded', attempts: [attempt(1, 'Succeeded', 0, 4)] },
      ['Waited for its signal: 4.0 s'],
    ],
    ['a poll', { attempts: [attempt(1, 'Pending', 0, null)] }, ['Waits to poll again: 10 s']],
    ['a step that is due', { dueAt: at(5) }, ['Waits for a slot: 5.0 s']],
  ])('%s', (_, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });
});
