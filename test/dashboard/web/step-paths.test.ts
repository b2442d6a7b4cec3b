import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { graphStepAt } from '../../../src/dashboard/web/graph/graph.ts';
import { stepKeys } from '../../../src/dashboard/web/graph/step-paths.ts';
import { jsonProblem } from '../../../src/dashboard/web/json.ts';
import { suggestBody } from '../../../src/dashboard/web/runs/signal-body.ts';

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
    ['steps.wait.output.ok == true', { ok: true }],
    ['steps.wait.output.amount == -1.5', { amount: -1.5 }],
    ['steps.wait.output.limit >= 1e3', { limit: null }],
    ['steps.wait.output.limit == 1e3', { limit: 1000 }],
    ['steps.wait.output.name != "Ann"', { name: 'Ann' }],
    [`steps.wait.output.name == 'Ann "the" boss'`, { name: 'Ann "the" boss' }],
    ['steps["wait"].output.ok == false', { ok: false }],
    [`steps['wait'].output.ok == false`, { ok: false }],
    ['steps.wait.output.deep.er == 1', { deep: null }],
    ['steps.wait.output.constructor == 1', { constructor: 1 }],
    ['size(steps.wait.output) > 2', {}],
    ['steps.waiting.output.ok == true', {}],
    ['presteps.wait.output.ok == true', {}],
    ['', {}],
  ])('reads %s as %j', (condition, body) => {
    const graph = { next: { type: 'NoOp', runAfter: { wait: when(condition) } } };
    expect(suggestBody(graph, 'wait')).toEqual(body);
  });

  it('of a step whose key is no name in a condition is found by its index', () => {
    const graph = { next: { type: 'NoOp', runAfter: { 'go-1': when('steps["go-1"].output.ok == true') } } };
    expect(suggestBody(graph, 'go-1')).toEqual({ ok: true });
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
    expect(stepKeys.firstKeyAt(path)).toBe(key);
  });

  it.each([
    ['lines.2.price', 'lines'],
    ['a.0.b.3.c', 'a.0.b'],
    ['lines.price', 'lines'],
    ['ship', null],
  ])('%s stands in the loop %j', (key, loop) => {
    expect(stepKeys.loopAround(key)).toBe(loop);
  });

  it('are alike but for the iteration', () => {
    expect(stepKeys.inIteration('a.0.b.3.c', 12)).toBe('a.0.b.12.c');
    expect(stepKeys.inIteration('ship', 12)).toBe('ship');
  });

  it('of any depth lead back to their path, their loop and their iteration', () => {
    const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}$/);
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.nat(1e6)), { maxLength: 4 }), name, fc.nat(1e6), (loops, own, other) => {
        const scope = loops.map(([loop, index]) => `${loop}.${index}.`).join('');
        const path = [...loops.map(([loop]) => loop), own].join('.');
        expect(stepKeys.pathOf(scope + own)).toBe(path);
        expect(stepKeys.scopeOf(scope + own)).toBe(scope);
        expect(stepKeys.pathOf(stepKeys.firstKeyAt(path))).toBe(path);
        const last = loops.at(-1);
        const loopKey = scope.slice(0, -1).replace(/\.\d+$/, '');
        expect(stepKeys.iterationOf(scope + own)).toEqual(last === undefined ? null : { loopKey, index: last[1] });
        if (last !== undefined)
          expect(stepKeys.iterationOf(stepKeys.inIteration(scope + own, other))).toEqual({ loopKey, index: other });
      }),
    );
  });

  it('lead to the step of the graph', () => {
    const price = { type: 'NoOp', runAfter: {} };
    const graph = { lines: { type: 'ForEach', runAfter: {}, steps: { price } } };
    expect(graphStepAt(graph, 'lines.price')).toBe(price);
    expect(graphStepAt(graph, 'lines.none')).toBeUndefined();
    expect(graphStepAt(graph, 'toString')).toBeUndefined();
    expect(graphStepAt(graph, 'lines.price.deeper')).toBeUndefined();
    expect(graphStepAt(graph, '')).toBeUndefined();
  });
});
