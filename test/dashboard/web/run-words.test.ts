import { describe, expect, it } from 'vitest';
import { graphStepAt } from '../../../src/dashboard/web/graph/graph.ts';
import { firstKeyAt, inIteration, loopAround } from '../../../src/dashboard/web/graph/step-paths.ts';
import { eventLook } from '../../../src/dashboard/web/looks.ts';
import { jsonProblem, suggestBody } from '../../../src/dashboard/web/runs/suggest-body.ts';

const when = (condition: string) => ({ statuses: ['Succeeded'], when: condition });

describe('the body that is suggested for a signal', () => {
  it('has the members that conditions read, with the values that they compare', () => {
    const graph = {
      decision: { type: 'WaitForSignal', runAfter: {} },
      grant: { type: 'NoOp', runAfter: { decision: when('steps.decision.output.approved == true') } },
      refuse: { type: 'NoOp', runAfter: { decision: when('steps.decision.output.approved != true') } },
      large: {
        type: 'ForEach',
        runAfter: {},
        steps: {
          each: { type: 'NoOp', runAfter: { x: when('steps.decision.output.amount > 3 && steps.other.output.no') } },
        },
      },
    };
    expect(suggestBody(graph, 'decision')).toEqual({ approved: true, amount: null });
    expect(suggestBody(graph, 'grant')).toEqual({});
  });

  it.each([
    ['', true],
    [' ', true],
    ['{ "a": 1 }', true],
    ['null', true],
    ['{ a: 1 }', false],
    ['{', false],
  ])('%j may be sent: %s', (text, isJson) => {
    expect(jsonProblem(text) === null).toBe(isJson);
  });
});

describe('keys of steps in loops', () => {
  it.each([
    ['a.b.c', 'a.0.b.0.c'],
    ['a', 'a'],
  ])('the path %s is first run as %s', (path, key) => {
    expect(firstKeyAt(path)).toBe(key);
  });

  it.each([
    ['lines.2.price', 'lines'],
    ['a.0.b.3.c', 'a.0.b'],
    ['lines.price', 'lines'],
    ['ship', null],
  ])('%s stands in the loop %j', (key, loop) => {
    expect(loopAround(key)).toBe(loop);
  });

  it('are alike but for the iteration', () => {
    expect(inIteration('a.0.b.3.c', 12)).toBe('a.0.b.12.c');
  });

  it('lead to the step of the graph', () => {
    const price = { type: 'NoOp', runAfter: {} };
    const graph = { lines: { type: 'ForEach', runAfter: {}, steps: { price } } };
    expect(graphStepAt(graph, 'lines.price')).toBe(price);
    expect(graphStepAt(graph, 'lines.none')).toBeUndefined();
    expect(graphStepAt(graph, 'toString')).toBeUndefined();
  });
});

describe('an event', () => {
  it.each([
    ['step.started', 'Attempt 1', 'started', null],
    ['step.started', 'Attempt 2', 'started', 'Attempt 2'],
    ['step.failed', 'Attempt 1: no', 'failed', 'no'],
    ['something.new', 'x', 'something.new', 'x'],
  ])('%s, %s, is told as %s', (type, message, text, detail) => {
    expect(eventLook({ type, message })).toMatchObject({ text, detail });
  });
});
