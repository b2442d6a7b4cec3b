import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../../src/config/steps.ts';
import { mayAwaitSignal, suggestBody } from '../../../src/features/runs/page/explain.ts';

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

  it('of a step whose key is not a name in a condition is found by its index', () => {
    const graph = { next: { type: 'NoOp', runAfter: { 'go-1': when('steps["go-1"].output.ok == true') } } };
    expect(suggestBody(graph, 'go-1')).toEqual({ ok: true });
  });
});

describe('a signal', () => {
  const graphOf = (type: string) => ({ each: { type: 'ForEach', runAfter: {}, steps: { a: { type, runAfter: {} } } } });

  it('may be awaited by WaitForSignal and by step types of the operator’s, and by no other built-in one', () => {
    const types = stepTypes().handlers.map(({ type }) => type);
    expect(types.filter((type) => mayAwaitSignal(graphOf(type)))).toEqual(['WaitForSignal']);
    expect(mayAwaitSignal(graphOf('Approval'))).toBe(true);
    expect(mayAwaitSignal({})).toBe(false);
  });
});
