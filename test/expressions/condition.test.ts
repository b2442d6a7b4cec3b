import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { ExpressionError } from '../../src/expressions/compile.ts';
import { compileCondition, evaluateCondition } from '../../src/expressions/condition.ts';
import { type Json, parseJson } from '../../src/model/json.ts';
import { context } from './context.ts';

describe('a condition', () => {
  test.each<[string, boolean, Json]>([
    ['true', true, {}],
    ['false', false, {}],
    ['trigger.body.amount > 100', true, { 'trigger.body.amount': 1999 }],
    ['trigger.body.isPaid && !has(trigger.body.missing)', true, { 'trigger.body.isPaid': true }],
    ['steps["my-step"].status == "Succeeded"', false, { 'steps["my-step"].status': 'Failed' }],
    ['trigger.headers["x-event"] == "order.paid"', true, { 'trigger.headers["x-event"]': 'order.paid' }],
    ['trigger.body.items[0].count == 2', true, { 'trigger.body.items[0].count': 2 }],
    ['size(trigger.body.numbers) == 2', true, { 'trigger.body.numbers': [1, 2] }],
  ])('%s gives its result and the values it read', (source, result, trace) => {
    expect(evaluateCondition(compileCondition(source), context)).toEqual({ result, trace });
  });

  test.each([
    ['trigger.body.missing == 1', 'there is no trigger.body.missing'],
    ['trigger.body.name', 'gives a string; a condition gives true or false'],
    ['trigger.body.nothing', 'gives null'],
    ['trigger.body.n', 'gives a number'],
    ['trigger.body.items', 'gives an array'],
    ['trigger.body', 'gives an object'],
    ['trigger.body.n > "a"', 'no such overload'],
  ])('%s is an error, neither true nor false', (source, error) => {
    expect(evaluateCondition(compileCondition(source), context)).toMatchObject({
      error: expect.stringContaining(error),
    });
  });

  it('says that a condition needs no placeholder around it', () => {
    expect(() => compileCondition(` \${ trigger.body.n > 1 } `)).toThrow(
      `leave out the \${ }, as in trigger.body.n > 1`,
    );
  });

  test.each(['1 + 1', '"true"', '[true]', 'null', 'size(trigger.body)'])(
    '%s can be no boolean and does not compile',
    (source) => {
      expect(() => compileCondition(source)).toThrow(ExpressionError);
    },
  );

  it('shortens long values in its trace', () => {
    const delivery = { ...context, trigger: { ...context.trigger, body: 'x'.repeat(100_000) } };
    const { trace } = evaluateCondition(compileCondition('trigger.body == ""'), delivery);
    expect(JSON.stringify(trace).length).toBeLessThan(700);
    expect(trace['trigger.body']).toMatch(/^"x+…$/);
  });

  it('shows the beginning of data that is nested beyond the call stack', () => {
    const body: Json = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`);
    const outcome = evaluateCondition(compileCondition('trigger.body == []'), {
      ...context,
      trigger: { ...context.trigger, body },
    });
    expect(outcome).toMatchObject({ result: false, trace: { 'trigger.body': `${'['.repeat(512)}…` } });
  });

  it('shows any small value as it is', () => {
    const condition = compileCondition('trigger.body == 1');
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const body = parseJson(JSON.stringify(value));
        fc.pre(JSON.stringify(body).length <= 512);
        const { trace } = evaluateCondition(condition, { ...context, trigger: { ...context.trigger, body } });
        expect(trace['trigger.body']).toEqual(body);
      }),
    );
  });
});
