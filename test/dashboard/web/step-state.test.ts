import { describe, expect, it } from 'vitest';
import { lookOf, marksOf, stepState, tellingStepOf } from '../../../src/features/runs/page/step-state.ts';
import { at, attempt } from './attempts.ts';

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

describe('the step that a run opens with', () => {
  type Outline = Parameters<typeof tellingStepOf>[0];
  const steps = [
    { stepKey: 'early', startedAt: at(0), completedAt: at(9) },
    { stepKey: 'last', startedAt: at(1), completedAt: at(9) },
    { stepKey: 'open', startedAt: at(2), completedAt: null },
    { stepKey: 'brief', startedAt: at(2), completedAt: at(3) },
    { stepKey: 'ahead', startedAt: null, completedAt: null },
  ];
  const failure = { stepKey: 'early', handled: false } as Outline['run']['failure'];

  it.each<[string, string | undefined, Outline]>([
    ['made it fail', 'early', { run: { status: 'Failed', failure }, steps }],
    ['is open', 'open', { run: { status: 'Running', failure: null }, steps }],
    ['ended last', 'last', { run: { status: 'Succeeded', failure: null }, steps }],
    ['is none where none began', undefined, { run: { status: 'Running', failure: null }, steps: steps.slice(-1) }],
  ])('%s', (_, telling, outline) => {
    expect(tellingStepOf(outline)).toBe(telling);
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
