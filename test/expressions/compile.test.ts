import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { Budget } from '../../src/expressions/budget.ts';
import { compileExpression, ExpressionError } from '../../src/expressions/compile.ts';
import { evaluateCondition } from '../../src/expressions/condition.ts';
import type { Reader } from '../../src/expressions/context.ts';
import { compileTemplate } from '../../src/expressions/template.ts';
import { type Json, parseJson } from '../../src/model/json.ts';
import { anyCharacter } from '../any-character.ts';
import { context, loopContext } from './context.ts';

describe('what an expression gives', () => {
  test.each<[string, Json]>([
    ['trigger.body.amount > 100', true],
    ['100 < trigger.body.amount', true],
    ['trigger.body.n == 3', true],
    ['3 == trigger.body.n', true],
    ['trigger.body.n != 3', false],
    ['trigger.body.n == "3"', false],
    ['trigger.body.amount / 100', 19.99],
    ['trigger.body.n + 1', 4],
    ['run.id + " of " + run.flow', 'r-1 of f-1'],
    ['run.revision', 7],
    ['timestamp(run.startedAt).getHours()', 12],
    ['trigger.body.items.map(run, run.sku)', ['a', 'b']],
    ['trigger.body.items.map(item, run.revision)', [7, 7]],
    ['trigger.body.items.exists(run, run.sku == "b") && run.revision == 7', true],
    ['10 - trigger.body.n', 7],
    ['trigger.body.n * 1.5', 4.5],
    ['size(trigger.body.items) * 1.5', 3],
    ['trigger.body.n % 2', 1],
    ['trigger.body.n % trigger.body.numbers[1]', 1],
    ['7 % 4', 3],
    ['-trigger.body.n', -3],
    ['trigger.body.n in [1, 2, 3]', true],
    ['"sku" in trigger.body.items[0]', true],
    ['size(trigger.body.items) > 0', true],
    ['size(trigger.body.items)', 2],
    ['trigger.body.items[trigger.body.n - 2].sku', 'b'],
    ['trigger.body.items.exists(item, item.count == 0)', true],
    ['trigger.body.items.map(item, item.sku)', ['a', 'b']],
    ['trigger.body.numbers.map(n, n * 2)', [2, 4]],
    ['trigger.body.items.filter(item, item.count > 0)', [{ sku: 'a', count: 2 }]],
    ['trigger.body.items.map(item, item.sku).join("+")', 'a+b'],
    ['trigger.body.numbers == [1, 2]', true],
    ['[2, 1] == trigger.body.numbers', false],
    ['trigger.body.mixed == [1, "a", null]', true],
    ['trigger.body.items[0] == {"sku": "a", "count": 2}', true],
    ['trigger.body.nothing == null', true],
    ['null == trigger.body.n', false],
    ['has(trigger.body.missing)', false],
    ['has(trigger.body.amount) ? trigger.body.amount : 0', 1999],
    ['trigger.body.name.startsWith("Ada")', true],
    ['trigger.body.name.matches("^[A-Z]")', true],
    ['string(trigger.body.n) + " items"', '3 items'],
    ['trigger.key', 'orders'],
    ['trigger.headers["x-event"]', 'order.paid'],
    ['steps.fetch.output.status == 200', true],
    ['steps.fetch.output', { status: 200, body: { id: 7 } }],
    ['steps["my-step"].status', 'Failed'],
    ['steps["my-step"].error.code', 'http_status'],
    ['steps["my-step"].output', null],
    ['trigger.body.loop', 'a property'],
    ['trigger.body. loop', 'a property'],
    ['trigger.body["constructor"]', 'own'],
    ['"loop"', 'loop'],
    ['9007199254740991', 9007199254740991],
    ['3u', 3],
    ['timestamp("2026-01-02T03:04:05Z")', '2026-01-02T03:04:05.000Z'],
    ['duration("90s")', '90s'],
    ['b"abc"', 'YWJj'],
    ['{"a": trigger.body.n, "b": [1, "x"]}', { a: 3, b: [1, 'x'] }],
    ['cel.bind(first, trigger.body.items[0], first.count)', 2],
    ['trigger.body.isPaid // a comment with loop and }', true],
  ])('%s', (source, expected) => {
    expect(compileExpression(source).evaluate(context)).toEqual(expected);
  });

  test.each<[string, Json]>([
    ['loop.item.sku', 'c'],
    ['loop.index + 1', 3],
    ['loop["index"]', 2],
    ['[loop.index, loop.index]', [2, 2]],
    ['loop', { item: { sku: 'c' }, index: 2 }],
  ])('%s inside a loop', (source, expected) => {
    expect(compileExpression(source).evaluate(loopContext)).toEqual(expected);
  });
});

describe('an expression over an item of a list', () => {
  const data = () => ({ roots: { item: { id: 7 }, response: { headers: { date: 'today' } } }, budget: new Budget() });

  test.each<[string, Json]>([
    ['item.id', 7],
    ['{"id": item.id, "at": response.headers.date}', { id: 7, at: 'today' }],
  ])('%s', (source, expected) => {
    expect(compileExpression(source, 'item').evaluateIn(data())).toEqual(expected);
  });

  test.each<[string, Reader, string]>([
    ['trigger.body', 'item', '"trigger" is not known; expressions over an item of a list read item and response'],
    ['item.id', 'response', '"item" is not known; expressions over an answer read response'],
    ['response.text', 'item', 'response has no "text"; it has status, headers, body'],
  ])('%s, which reads what is not there, does not compile', (source, reads, reason) => {
    expect(() => compileExpression(source, reads)).toThrow(reason);
  });
});

describe('what does not compile', () => {
  test.each([
    ['', 'is empty', undefined],
    ['  ', 'is empty', undefined],
    ['trigger.body.n >', 'Unexpected token: EOF', 16],
    ['trigger.body.n ? 3', 'Expected COLON', 18],
    ['foo.bar == 1', '"foo" is not known; expressions read trigger, run, waits, steps and loop', 0],
    ['1 == l0op.item', '"l0op" is not known', 5],
    ['request.body', '"request" is not known', 0],
    ['trigger.boddy', 'trigger has no "boddy"; it has body, headers, key', 0],
    ['trigger["boddy"]', 'trigger has no "boddy"', 0],
    ['steps.fetch.result', 'a step has no "result"; it has status, output, error', 0],
    ['run.name', 'run has no "name"; it has id, startedAt, flow, revision', 0],
    ['[1].exists(run, true) && run.name', 'run has no "name"', 25],
    ['loop.key', 'loop has no "key"; it has item, index', 0],
    ['trigger.headers["X-Event"]', 'header names are lower-case: "x-event"', 0],
    [
      'steps.my-step.status',
      '"step" is not known; expressions read trigger, run, waits, steps and loop; a key with a dash',
      9,
    ],
    ['1 + "a"', 'no such overload: int + string; string(1) converts it', 0],
    ['"n=" + 5', 'string(5) converts it', 0],
    ['"n=" + (1 < 2)', 'string(1 < 2) converts it', 0],
    ['"3" > 2', 'double("3") converts it', 0],
    ['2 - "3"', 'double("3") converts it', 0],
    ['"a" + null', 'no such overload: string + null', 0],
    ['trigger.body.isPaid ? 1 : "a"', 'Ternary branches must have the same type', 0],
    ['trigger.body.items.exists(trigger, true)', 'a variable hides a root', 26],
    ['cel.bind(steps, 1, steps)', 'a variable hides a root', 9],
    ['import', 'Reserved identifier: import', 0],
    ['1 '.repeat(3000), '6000 characters; at most 4096 are accepted', undefined],
    [`${'('.repeat(100)}1${')'.repeat(100)}`, 'Exceeded maxDepth', 64],
    [`[${'1,'.repeat(600)}1]`, 'Exceeded maxListElements', undefined],
  ])('%.40s', (source, reason, position) => {
    const error = compileErrorOf(source);
    expect(error.message).toContain(reason);
    if (position !== undefined) expect(error.problem.position).toBe(position);
  });

  test.each([
    ['timestamp(trigger.body.at) < now()', 'run.startedAt is when the run started', 29],
    ['string(Date.now())', 'run.startedAt is when the run started', 7],
    ['env.REGION + "/orders"', 'write vars.NAME, or for a secret in an input of a step ${', 0],
    ['process.env.REGION', 'write vars.NAME', 0],
    ['trigger.body.n === 3', 'CEL has no ===; write ==', 15],
    ['trigger.body.n !== 3', 'CEL has no !==; write !=', 15],
    ['trigger.body.n = 3', '= is written ==', 15],
    ['trigger.body.name.toUpperCase()', 'write .upperAscii()', 17],
    ['trigger.body.name.toLowerCase() == "x"', 'write .lowerAscii()', 17],
    ['trigger.body.name.includes("=== and")', 'write text.contains("part"), or item in list', 17],
    ['trigger.body.isPaid and true', 'write &&', 20],
    ['not trigger.body.isPaid', 'write !', 0],
    ['trigger.body?.n', 'has(trigger.body.x) says whether', 12],
    ['trigger.body.n ?? 1', 'has(trigger.body.x) ? trigger.body.x : "default"', 15],
    ['trigger.body.n == undefined', 'CEL has null alone', 18],
    ['trigger.body.items.map(x => x.sku)', 'write list.map(item, item.name)', 25],
    ['trigger.body.items.some(x, x.sku == "a")', 'write list.exists(item, condition)', 18],
    ['len(trigger.body.items)', 'write size()', 0],
    ['String(trigger.body.n)', 'write string()', 0],
    ['"===" + 5', 'string(5) converts it', 0],
    ['trigger.body["and or not"].and(1)', 'no matching overload', 0],
  ])('%s is answered with what to write', (source, reason, position) => {
    const error = compileErrorOf(source);
    expect(error.message).toContain(reason);
    expect(error.problem.position).toBe(position);
  });

  it('yields an ExpressionError or an expression for any text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 80 }), expressionLike()), (source) => {
        try {
          compileExpression(source);
        } catch (error) {
          expect(error).toBeInstanceOf(ExpressionError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('what fails when it is evaluated', () => {
  test.each([
    ['trigger.body.missing', 'there is no trigger.body.missing'],
    ['trigger.body.missing.deeper', 'there is no trigger.body.missing'],
    ['steps.later.output', 'there is no steps.later'],
    ['trigger.body[trigger.body.name]', 'there is no trigger.body[trigger.body.name]'],
    ['trigger.body.name.length > 3', 'there is no trigger.body.name.length; size(trigger.body.name) counts'],
    ['trigger.body.numbers[5]', 'index out of bounds'],
    ['loop.item', 'loop exists only inside a loop'],
    ['1 / (1 - 1)', 'division by zero'],
    ['trigger.body.n / 0', 'Infinity, which JSON cannot hold'],
    ['trigger.body.n && true', "got 'double'"],
    ['trigger.body.name + 1', 'no such overload: dyn<string> + int; string(1) converts it'],
    ['"n=" + trigger.body.n', 'string(trigger.body.n) converts it'],
    ['trigger.body.name > 1', 'double(trigger.body.name) converts it'],
    ['type(trigger.body.n)', 'a type or namespace'],
    ['timestamp("2026-01-02T03:04:05Z").getHours(trigger.body.name)', 'no time zone has the name'],
  ])('%s', (source, reason) => {
    expect(() => compileExpression(source).evaluate(context)).toThrow(reason);
  });

  test.each(['bool(trigger.body.name)', 'duration(trigger.body.name)', '"a".matches(trigger.body.name + "(")'])(
    '%s without quoting the data',
    (source) => {
      const error = caught(() => compileExpression(source).evaluate(context));
      expect(error).toBeInstanceOf(ExpressionError);
      expect(String(error)).not.toContain('Ada');
    },
  );

  test.each([
    '__proto__',
    'trigger.__proto__',
    'trigger.body.__proto__',
    'trigger.body["__proto__"]',
    'trigger.body.items[0].constructor',
    'trigger.body.items.constructor',
    'trigger.body.name.constructor',
    'trigger.body.n.constructor.constructor',
    'trigger.body.items.map(i, i.constructor)',
    'steps.constructor',
    'steps.toString.output',
    '{"a": 1}.constructor',
    'trigger.body.items.length',
  ])('%s does not reach a prototype', (source) => {
    expect(() => compileExpression(source).evaluate(context)).toThrow(ExpressionError);
  });

  it('matches a pattern quickly that would backtrack exponentially in other engines', () => {
    const hostile = { ...context, trigger: { ...context.trigger, body: `${'a'.repeat(60)}!` } };
    const expression = compileExpression('trigger.body.matches("^(a+)+$")');
    expect(expression.evaluate(hostile)).toBe(false);
    expect(expression.evaluate({ ...context, trigger: { ...context.trigger, body: 'aaa' } })).toBe(true);
  });

  it('says that a pattern is RE2 where it is not', () => {
    expect(() => compileExpression('trigger.body.name.matches("(?=A)")')).toThrow('the syntax is RE2');
  });

  it('fails if the result is nested beyond the call stack', () => {
    const body: Json = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`);
    const deep = { ...context, trigger: { ...context.trigger, body } };
    expect(() => compileExpression('trigger.body').evaluate(deep)).toThrow('nested deeper than 256 levels');
    expect(compileExpression('size(trigger.body)').evaluate(deep)).toBe(1);
  });
});

describe('an object that an expression makes', () => {
  const body = parseJson(
    '{"key":"constructor","proto":"__proto__","big":12345678901234567890,"price":1.10,"list":[1]}',
  );
  const given = { ...context, trigger: { ...context.trigger, body } };

  test.each([
    ['{"constructor": "Ferrari", "prototype": true, "__proto__": {"a": 1}}', null],
    ['{trigger.body.key: "Ferrari", trigger.body.proto: 1}', '{"constructor":"Ferrari","__proto__":1}'],
    ['["prototype"].map(key, {key: 1})', '[{"prototype":1}]'],
    ['{"constructor": "Ferrari"}.constructor', '"Ferrari"'],
    ['"constructor" in {trigger.body.key: 1}', 'true'],
    ['size({"prototype": 1, "a": 2})', '2'],
    ['{trigger.body.big: 1, 7: 3}', '{"7":3,"12345678901234567890":1}'],
    ['{true: 1}', '{"true":1}'],
  ])('%s keeps its keys', (source, json) => {
    const made = compileExpression(source).evaluate(given);
    expect(JSON.stringify(made)).toBe(json ?? '{"constructor":"Ferrari","prototype":true,"__proto__":{"a":1}}');
    if (json === null) expect(Object.getPrototypeOf(made)).toBe(Object.prototype);
  });

  it.each(['trigger.body.list', 'trigger.body', '{"a": 1}', 'trigger.body.price'])('has no key made of %s', (key) => {
    expect(() => compileExpression(`{${key}: 1}`).evaluate(given)).toThrow(
      'a key of an object is a text, a whole number',
    );
  });
});

describe('numbers that a double would change', () => {
  const BIG = '12345678901234567890';
  const MIDDLE = '9007199254740993';
  const body = parseJson(
    `{"big":${BIG},"id":${MIDDLE},"price":1.10,"huge":1e400,"beyond":${BIG}${BIG},"n":2,"low":-${MIDDLE}}`,
  );
  const exact = { ...context, trigger: { ...context.trigger, body } };

  test.each([
    ['trigger.body.big', BIG],
    ['trigger.body.price', '1.10'],
    ['trigger.body.huge', '1e400'],
    ['[trigger.body.beyond, trigger.body.id]', `[${BIG}${BIG},${MIDDLE}]`],
    ['{"id": trigger.body.id}', `{"id":${MIDDLE}}`],
    ['has(trigger.body.id) ? trigger.body.id : 0', MIDDLE],
    ['cel.bind(id, trigger.body.id, [id, id].filter(i, i == id))', `[${MIDDLE},${MIDDLE}]`],
    ['trigger.body.id + 1', '9007199254740994'],
    ['trigger.body.id + trigger.body.n', '9007199254740995'],
    ['trigger.body.id * trigger.body.n - trigger.body.id', MIDDLE],
    ['trigger.body.id % 1000', '993'],
    ['trigger.body.big - 1', '12345678901234567889'],
    ['trigger.body.big - trigger.body.id', '12336671701979826897'],
    ['trigger.body.big / 10u', '1234567890123456789'],
    ['-trigger.body.id', `-${MIDDLE}`],
    ['trigger.body.price * 2', '2.2'],
    ['trigger.body.id / 2', '4503599627370496'],
    [`trigger.body.id == ${MIDDLE}`, 'true'],
    ['trigger.body.id == 9007199254740992', 'false'],
    ['trigger.body.id == 9007199254740992.0', 'false'],
    [`trigger.body.big == ${BIG}u`, 'true'],
    ['trigger.body.big > trigger.body.id', 'true'],
    ['trigger.body.low < trigger.body.id', 'true'],
    ['trigger.body.price == 1.1', 'true'],
    [`trigger.body.id in [${MIDDLE}]`, 'true'],
    ['9007199254740992 in [trigger.body.id]', 'false'],
    ['[trigger.body.id] == [9007199254740992]', 'false'],
    ['{"a": trigger.body.price} == {"a": 1.1}', 'true'],
    ['string(trigger.body.price) + "," + string(trigger.body.big)', `"1.10,${BIG}"`],
    ['has(trigger.body.price.rawJSON)', 'false'],
    ['size(trigger.body)', '7'],
    ['9223372036854775807', '9223372036854775807'],
    ['18446744073709551615u', '18446744073709551615'],
  ])('%s gives %s', (source, expected) => {
    expect(JSON.stringify(compileExpression(source).evaluate(exact))).toBe(expected);
  });

  test.each([
    ['trigger.body.price.rawJSON', 'there is no trigger.body.price.rawJSON'],
    ['trigger.body.price["rawJSON"]', 'there is no trigger.body.price["rawJSON"]'],
    ['trigger.body.price.map(x, x)', 'double'],
    ['size(trigger.body.price)', 'no matching overload'],
    ['trigger.body.big * trigger.body.id', 'integer overflow'],
    ['trigger.body.big * 2', 'integer overflow'],
    ['trigger.body.id && true', "got 'int'"],
  ])('%s fails: %s', (source, reason) => {
    expect(() => compileExpression(source).evaluate(exact)).toThrow(reason);
  });

  it('keep their spelling in a text and in a condition’s trace', () => {
    const when = compileExpression('trigger.body.price > 1');
    expect(compileTemplate(`id \${trigger.body.id}, \${[trigger.body.price]}`).render(exact)).toBe(
      `id ${MIDDLE}, [1.10]`,
    );
    expect(JSON.stringify(evaluateCondition(when, exact))).toBe('{"result":true,"trace":{"trigger.body.price":1.10}}');
  });
});

it('knows the roots and constant paths that it reads', () => {
  const expression = compileExpression(
    'has(trigger.body.a) && steps["my-step"].output[0] == trigger.body.list[steps.fetch.output.i] || loop.index > 0',
  );
  expect([...expression.roots].sort()).toEqual(['loop', 'steps', 'trigger']);
  expect(expression.references.map((reference) => reference.path)).toEqual([
    ['trigger', 'body', 'a'],
    ['steps', 'my-step', 'output', 0],
    ['trigger', 'body', 'list'],
    ['steps', 'fetch', 'output', 'i'],
    ['loop', 'index'],
  ]);
});

it('gives any JSON back as it was', () => {
  const body = compileExpression('trigger.body');
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, stringUnit: anyCharacter }), (value) => {
      const json: Json = JSON.parse(JSON.stringify(value));
      expect(body.evaluate({ ...context, trigger: { ...context.trigger, body: json } })).toEqual(json);
    }),
  );
});

function compileErrorOf(source: string): ExpressionError {
  const error = caught(() => compileExpression(source));
  if (error instanceof ExpressionError) return error;
  throw new Error(`compiled, or failed otherwise: ${source}: ${String(error)}`);
}

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

function expressionLike() {
  const token = fc.constantFrom(
    ...['trigger', 'steps', 'loop', '.', 'body', '[', ']', '(', ')', '"', "'", '{', '}', '1', '2.5', '+', '==', '&&'],
    ...['!', '?', ':', ',', ' ', 'has', 'size', 'map', 'x', '//', '\n', '\\', 'null', '-', 'b', 'r', '"""'],
  );
  return fc.array(token, { maxLength: 25 }).map((tokens) => tokens.join(''));
}
