import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { entriesOf, explain } from '../../../src/dashboard/web/runs/explain.ts';
import { barsOf, placeOf, ticksOf } from '../../../src/dashboard/web/runs/gantt-bars.ts';
import { lookOf, marksOf, stepState } from '../../../src/dashboard/web/runs/step-state.ts';
import type { StepStatus } from '../../../src/model/manifest.ts';

const T0 = Date.UTC(2026, 10, 21, 12);
const at = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();
const attempt = (number: number, status: StepStatus, from: number, to: number | null, slotWaitMs = 0) => ({
  attempt: number,
  status,
  slotWaitMs,
  startedAt: at(from),
  completedAt: to === null ? null : at(to),
});
type StepTimes = Parameters<typeof stepState>[0];
type StepState = ReturnType<typeof stepState>;

const step = (change: Partial<StepTimes>): StepTimes => ({
  stepType: 'HttpRequest',
  status: 'Pending',
  dueAt: null,
  attempts: [],
  ...change,
});

describe('the state of a step', () => {
  it.each([
    ['is not reached', step({}), 'ahead', 'Not reached'],
    ['is due', step({ dueAt: at(1) }), 'due', 'Due'],
    ['runs', step({ status: 'Running', attempts: [attempt(1, 'Running', 0, null)] }), 'status', 'Running'],
    ['will be tried again', step({ dueAt: at(9), attempts: [attempt(1, 'Failed', 0, 1)] }), 'retry', 'Will retry'],
    ['waits for a time', step({ dueAt: at(9), attempts: [attempt(1, 'Running', 0, null)] }), 'wait', 'Waiting'],
    ['waits for a signal', step({ signalName: 'go', attempts: [attempt(1, 'Running', 0, null)] }), 'signal', 'Waiting'],
  ])('a step that %s says so', (_, given, kind, text) => {
    const state = stepState(given);
    expect(state.kind).toBe(kind);
    expect(lookOf(state).text).toBe(text);
  });
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

  it('leave out a wait for a slot that is too short to matter, or that nothing measured', () => {
    const attempts = [attempt(1, 'Failed', 1, 2, 99), { ...attempt(2, 'Succeeded', 3, 4), slotWaitMs: null }];
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

describe('why a step', () => {
  const skipped = { status: 'Skipped', skipReason: 'something', evaluationTrace: null } as const;
  const edge = (statuses: StepStatus[], when?: string) => ({ statuses, ...(when === undefined ? {} : { when }) });
  const texts = (...given: Parameters<typeof explain>) => explain(...given).map(({ text }) => text);

  it('was skipped: a step before it ended otherwise', () => {
    const runAfter = { pay: edge(['Succeeded', 'Skipped']), log: edge(['Succeeded']) };
    const statusOf = (key: string): StepStatus => (key === 'pay' ? 'Failed' : 'Succeeded');
    expect(explain(skipped, { runAfter }, statusOf)).toEqual([
      { text: '“pay” ended as Failed; this step runs only after it ends as Succeeded or Skipped.', upstream: 'pay' },
    ]);
  });

  it('was skipped: the step before it was, too', () => {
    expect(texts(skipped, { runAfter: { pay: edge(['Succeeded']) } }, () => 'Skipped')).toEqual([
      '“pay” was skipped itself; this step runs only after it ends as Succeeded.',
    ]);
  });

  it('was skipped: its condition is false, with what that read', () => {
    const evaluationTrace = [
      {
        after: 'lines',
        expression: 'size(steps.lines.output) > 2',
        values: { 'steps.lines.output': [1] },
        result: false,
      },
    ];
    const runAfter = { lines: edge(['Succeeded'], 'size(steps.lines.output) > 2') };
    expect(explain({ ...skipped, evaluationTrace }, { runAfter }, () => 'Succeeded')).toEqual([
      {
        text: 'Its condition after “lines” is false.',
        upstream: 'lines',
        condition: { expression: 'size(steps.lines.output) > 2', values: { 'steps.lines.output': [1] } },
      },
    ]);
  });

  it('was skipped: the record’s own words where no edge explains it', () => {
    const why = (skipReason: string) => texts({ ...skipped, skipReason }, { runAfter: {} }, () => undefined);
    expect(why('The run was cancelled.')).toEqual(['The run was cancelled.']);
    expect(why('the run was cancelled')).toEqual(['The run was cancelled.']);
  });

  it('has not started: what has to end first', () => {
    const pending = { status: 'Pending', skipReason: null, evaluationTrace: null } as const;
    const runAfter = { a: edge(['Succeeded']), b: edge(['Failed'], 'x == 1') };
    expect(texts(pending, { runAfter }, (key) => (key === 'a' ? 'Succeeded' : 'Running'))).toEqual([
      'It starts after “b” ends as Failed, and only if its condition is true then.',
    ]);
  });

  it('was skipped: every edge that decides is named, and every condition that is false', () => {
    const evaluationTrace = [
      { after: 'c', expression: 'x', values: {}, result: false },
      { after: 'd', expression: 'y', values: {}, result: true },
      { after: 'e', expression: 'z', result: null, error: 'no such key' },
    ];
    const runAfter = { a: edge(['Succeeded']), b: edge(['Failed']), c: edge(['Succeeded'], 'x') };
    expect(texts({ ...skipped, evaluationTrace }, { runAfter }, () => 'Skipped')).toEqual([
      '“a” was skipped itself; this step runs only after it ends as Succeeded.',
      '“b” was skipped itself; this step runs only after it ends as Failed.',
      '“c” was skipped itself; this step runs only after it ends as Succeeded.',
      'Its condition after “c” is false.',
    ]);
  });

  it('was skipped: nothing is said where the record says nothing', () => {
    expect(texts({ ...skipped, skipReason: null }, { runAfter: {} }, () => undefined)).toEqual([]);
    expect(texts({ ...skipped, skipReason: '' }, { runAfter: {} }, () => undefined)).toEqual([]);
  });

  it('has not started: a step that is not known yet has to end first', () => {
    const pending = { status: 'Pending', skipReason: null, evaluationTrace: null } as const;
    expect(texts(pending, { runAfter: { a: edge(['Succeeded', 'Failed', 'Skipped']) } }, () => undefined)).toEqual([
      'It starts after “a” ends as Succeeded, Failed or Skipped.',
    ]);
  });

  it('ran needs no reason', () => {
    expect(explain({ ...skipped, status: 'Succeeded' }, { runAfter: {} }, () => undefined)).toEqual([]);
  });
});

describe('a trace of conditions', () => {
  it.each([[null], ['text'], [{}], [[1, null, {}]]])('that is none is empty: %j', (trace) => {
    expect(entriesOf(trace)).toEqual([]);
  });

  it('keeps errors', () => {
    const [entry] = entriesOf([{ after: 'a', expression: 'x', error: 'no such key' }]);
    expect(entry).toEqual({ after: 'a', expression: 'x', values: {}, result: null, error: 'no such key' });
  });
});

describe('children of a loop', () => {
  type Children = Parameters<typeof marksOf>[0]['children'];
  const shown = (children: Children) => marksOf({ steps: [], loops: [], children });

  it('show the gravest status of all iterations, and in how many of them', () => {
    const counts = shown([
      { path: 'lines.price', status: 'Succeeded', count: 120 },
      { path: 'lines.price', status: 'Failed', count: 3 },
      { path: 'lines.pack', status: 'Skipped', count: 3 },
    ]);
    expect(counts.get('lines.price')).toMatchObject({ status: 'Failed', note: '3 of 123 failed' });
    expect(counts.get('lines.pack')).toMatchObject({ status: 'Skipped', note: '3 skipped' });
  });

  it('do not show a status that no iteration has', () => {
    const counts = shown([
      { path: 'a', status: 'Failed', count: 0 },
      { path: 'a', status: 'Succeeded', count: 2 },
      { path: 'b', status: 'Failed', count: 0 },
    ]);
    expect(counts.get('a')).toMatchObject({ status: 'Succeeded', note: '2 succeeded' });
    expect(counts.has('b')).toBe(false);
  });
});

describe('the look of a step', () => {
  it.each([
    ['waits for a person', { kind: 'signal', name: 'go', until: null }, 'warn', 'pause', 'Waiting'],
    ['waits for a time', { kind: 'wait', until: null }, 'busy', 'clock', 'Waiting'],
    ['is due', { kind: 'due' }, 'busy', 'clock', 'Due'],
    ['will be tried again', { kind: 'retry', attempt: 2, at: null }, 'warn', 'replay', 'Will retry'],
    ['is not reached', { kind: 'ahead' }, 'quiet', 'pending', 'Not reached'],
    ['failed', { kind: 'status', status: 'Failed' }, 'bad', 'cross', 'Failed'],
  ] as [string, StepState, string, string, string][])('that %s is its own', (_, state, tone, icon, text) => {
    expect(lookOf(state)).toEqual({ tone, icon, text });
  });

  it('in the picture says how far a loop has come, and what its iterations came to', () => {
    const outline = {
      steps: [{ stepKey: 'lines', ...step({ status: 'Running' }) }],
      loops: [{ stepKey: 'lines', total: 9, ended: 4, failed: 1 }],
      children: [{ path: 'lines.price', status: 'Failed', count: 1 }],
    } as unknown as Parameters<typeof marksOf>[0];
    expect([...marksOf(outline)]).toEqual([
      ['lines', { status: 'Running', tone: 'busy', icon: 'spinner', text: 'Running', note: '4 of 9, 1 failed' }],
      ['lines.price', { status: 'Failed', tone: 'bad', icon: 'cross', text: 'Failed', note: '1 failed' }],
    ]);
  });
});
