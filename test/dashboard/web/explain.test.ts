import { describe, expect, it } from 'vitest';
import { canRetry, entriesOf, explain, lastPollText, retryAdvice } from '../../../src/features/runs/page/explain.ts';
import type { StepStatus } from '../../../src/model/manifest.ts';

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

describe('a failed step', () => {
  it.each<[run: 'Failed' | 'Cancelled' | 'TimedOut', loop: { failed: number } | undefined, can: boolean]>([
    ['Failed', undefined, true],
    ['Failed', { failed: 2 }, true],
    ['Failed', { failed: 0 }, false],
    ['Cancelled', undefined, false],
    ['TimedOut', undefined, false],
  ])('of a run that is %s, loop %j, can be retried: %s, and the advice agrees', (run, loop, can) => {
    expect(canRetry(run, loop)).toBe(can);
    for (const retryable of [true, false]) {
      expect(retryAdvice({ retryable }, run, loop).includes('cannot be retried')).toBe(!can);
    }
  });

  it('whose error does not pass by itself is told to be mended first', () => {
    expect(retryAdvice({ retryable: false }, 'Failed', undefined)).toContain('unless you fix the cause first');
    expect(retryAdvice({ retryable: true }, 'Failed', undefined)).toContain('may succeed');
  });
});

it.each([
  [{ at: '', status: 200, why: 'the condition was false' }, 'The last answer was 200, and the condition was false.'],
  [{ at: '', status: 503, why: 'GET a.example answered 503' }, 'Last time, GET a.example answered 503.'],
  [{ at: '', status: null, why: 'no route' }, 'The last request got no answer: no route.'],
])('says what a poll was told last: %j', (lastPoll, text) => {
  expect(lastPollText(lastPoll)).toBe(text);
});
