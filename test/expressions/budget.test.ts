import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { BUDGET_STEPS } from '../../src/expressions/budget.ts';
import { compileExpression, prepareContext } from '../../src/expressions/compile.ts';
import { compileTemplate } from '../../src/expressions/template.ts';
import type { Json } from '../../src/model/json.ts';
import { context } from './context.ts';

const TOO_MUCH = 'takes more work than is allowed';
const over = (body: Json) => ({ ...context, trigger: { ...context.trigger, body } });
const text = (length: number) => 'a'.repeat(length);
const list = (length: number) => new Array<number>(length).fill(1);
const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));

/** Steps of an expression over a body, until it ends or is stopped. */
function stepsOf(source: string, body: Json): number {
  const data = prepareContext(over(body));
  try {
    compileExpression(source).evaluateIn(data);
  } catch (error) {
    if (!String(error).includes(TOO_MUCH)) throw error;
  }
  return data.budget.spent;
}

/** Each kind of work with data of size n. The library's own nodes are metered by name: an upgrade must keep them. */
const LINEAR: readonly (readonly [string, (size: number) => Json])[] = [
  ['trigger.body', list],
  ['trigger.body', keys],
  ['trigger.body', (size) => Array.from({ length: size }, () => ({}))],
  ['trigger.body + trigger.body', text],
  ['trigger.body + trigger.body', list],
  ['trigger.body == trigger.body + ""', text],
  ['trigger.body == trigger.body.map(x, x)', list],
  ['trigger.body.a == trigger.body.b', (size) => ({ a: keys(size), b: keys(size) })],
  ['trigger.body < trigger.body + "a"', text],
  ['2 in trigger.body', list],
  ['size(trigger.body)', text],
  ['size(trigger.body)', keys],
  ['trigger.body.all(x, x == 1)', list],
  ['trigger.body.exists(x, x == 2)', list],
  ['trigger.body.exists_one(x, x == 1)', list],
  ['trigger.body.filter(x, x > 0)', list],
  ['trigger.body.map(k, 1)', keys],
  ['trigger.body.exists(x, x.missing == 1) || true', list],
  ['trigger.body.contains("b")', text],
  ['trigger.body.indexOf("b")', text],
  ['trigger.body.startsWith(trigger.body)', text],
  ['trigger.body.split("")', text],
  ['trigger.body.split("").join("-")', text],
  ['trigger.body.upperAscii()', text],
  ['trigger.body.substring(1)', text],
  ['trigger.body.trim()', (size) => ' '.repeat(size)],
  ['bytes(trigger.body).base64()', text],
  ["json('[' + trigger.body + ']')", (size) => list(size).join()],
  ['base64Decode(trigger.body)', (size) => 'YWFh'.repeat(size)],
  ['formDecode(trigger.body)', text],
  ['trigger.body.matches("^(a+)+$")', text],
  ['trigger.body.matches("a*" + "b")', text],
];

describe('what an expression costs', () => {
  test.each(LINEAR)('grows no faster than its data: %s', (source, make) => {
    fc.assert(
      fc.property(fc.integer({ min: 2_000, max: 8_000 }), (size) => {
        const once = stepsOf(source, make(size));
        expect(once).toBeGreaterThan(size / 64);
        expect(stepsOf(source, make(size * 2))).toBeLessThanOrEqual(once * 2 + 10);
      }),
      { numRuns: 2 },
    );
  });

  test.each<[string, Json]>([
    ['trigger.body.all(a, trigger.body.all(b, a == b))', list(200_000)],
    ['trigger.body.exists(a, trigger.body.exists(b, a.x == b.x))', list(200_000)],
    ['trigger.body.exists(a, trigger.body.all(b, true) && false) || true', list(200_000)],
    ['trigger.body.map(a, trigger.body.filter(b, b in trigger.body))', list(2_000)],
    ['trigger.body.map(k, size(trigger.body))', keys(80_000)],
    ['trigger.body.a.contains(trigger.body.b)', { a: text(500_000), b: `${text(100_000)}b${text(100_000)}` }],
    ['trigger.body.a.lastIndexOf(trigger.body.b)', { a: text(500_000), b: `${text(100_000)}b` }],
    ['trigger.body.a.split(trigger.body.b)', { a: text(500_000), b: `${text(100_000)}b${text(100_000)}` }],
    ['trigger.body.b.join(trigger.body.a)', { a: text(500_000), b: new Array<string>(100_000).fill('x') }],
    ['duration(trigger.body) > duration("1s")', '1'.repeat(100_000)],
    ['trigger.body.b.exists(x, x > trigger.body.a)', { a: text(500_000), b: new Array<string>(1_000).fill('A') }],
    ['trigger.body.b.exists(x, trigger.body.a.trim() == "a")', { a: ' '.repeat(500_000), b: list(1_000) }],
    ['trigger.body.map(x, timestamp("2026-01-02T03:04:05Z").getHours("Europe/Berlin"))', list(1_000)],
    ['trigger.body.a.map(x, "a".matches(trigger.body.b))', { a: list(1_000), b: '(x+x+)+y' }],
    ['trigger.body.matches("[ab]*b[ab]{100}c")', text(100_000)],
    [nestedBinds('a + a', '"aaaaaaaa"', 25), null],
    [nestedBinds('[a, a, a, a, a, a, a, a]', '[1]', 12), null],
  ])('stops %.70s', (source, body) => {
    const data = prepareContext(over(body));
    expect(() => compileExpression(source).evaluateIn(data)).toThrow(TOO_MUCH);
    expect(data.budget.spent).toBeGreaterThan(BUDGET_STEPS);
  });

  it('is counted for all placeholders of a template together', () => {
    const whole = '$' + '{trigger.body}';
    const body = over(keys(80_000));
    expect(compileTemplate([whole, whole]).render(body)).toHaveLength(2);
    expect(() => compileTemplate(new Array<string>(4).fill(whole)).render(body)).toThrow(TOO_MUCH);
  });

  it('leaves room for an honest filter over a body of a mebibyte', () => {
    const items = Array.from({ length: 12_000 }, (_, id) => ({
      id,
      sku: `sku-${id}`,
      tags: ['new', 'sale'],
      price: 19.99,
    }));
    const source = 'trigger.body.items.filter(i, i.price > 10 && "sale" in i.tags && i.sku.startsWith("sku-1"))';
    expect(compileExpression(source).evaluate(over({ items }))).toHaveLength(3_111);
  });

  it('does not depend on what was evaluated before', () => {
    const source = 'trigger.body.all(x, x == 1)';
    expect(stepsOf(source, list(500))).toBe(stepsOf(source, list(500)));
  });
});

it.each(['a'.repeat(101), 'a{2}', '(unclosed'])(
  'refuses the pattern %.20s where the data holds it, and does not quote it',
  (pattern) => {
    const expression = compileExpression('"x".matches(trigger.body)');
    expect(() => expression.evaluate(over(pattern))).toThrow(/pattern/);
    expect(() => expression.evaluate(over(pattern))).not.toThrow(pattern);
  },
);

/** An expression whose result at least doubles with each level. */
function nestedBinds(step: string, start: string, levels: number): string {
  let source = 'a';
  for (let level = 0; level < levels; level += 1) source = `cel.bind(a, ${step}, ${source})`;
  return `cel.bind(a, ${start}, ${source})`;
}
