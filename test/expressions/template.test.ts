// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these tests are about placeholders in plain strings.

import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { ExpressionError } from '../../src/expressions/compile.ts';
import { compileTemplate, hasPlaceholder, TemplateError } from '../../src/expressions/template.ts';
import type { Json } from '../../src/model/json.ts';
import { context, loopContext } from './context.ts';

describe('rendering', () => {
  test.each<[string, Json, Json]>([
    ['a string that is one placeholder keeps a number', '${trigger.body.n}', 3],
    ['… an object', '${steps.fetch.output.body}', { id: 7 }],
    ['… null', '${trigger.body.nothing}', null],
    ['… a boolean', '${ trigger.body.isPaid }', true],
    ['text around a placeholder makes a string', 'n=${trigger.body.n}', 'n=3'],
    ['a space is text', '${trigger.body.n} ', '3 '],
    ['strings stand as they are', 'Hi ${trigger.body.name}!', 'Hi Ada "L"!'],
    ['null is nothing in text', 'a${trigger.body.nothing}b', 'ab'],
    ['the rest is JSON in text', 'got ${trigger.body.mixed}', 'got [1,"a",null]'],
    ['two placeholders make a string', '${trigger.body.n}${trigger.body.n}', '33'],
    ['an escaped placeholder stays text', 'cost $${x}', 'cost ${x}'],
    ['an escape next to a placeholder', '$${a} ${trigger.body.n}', '${a} 3'],
    ['a dollar alone is a dollar', 'US$ 5 {a} $', 'US$ 5 {a} $'],
    ['a dollar sign before a placeholder', '${"$"}${trigger.body.amount / 100}', '$19.99'],
    ['a brace inside a string', '${"}" + "{"}', '}{'],
    ['an escaped quote inside a string', '${"\\"}"}', '"}'],
    ['a triple-quoted string', '${"""a " } b"""}', 'a " } b'],
    ['single quotes', "${'}'}", '}'],
    ['a map literal', '${{"a": {"b": 1}}.a.b}', 1],
    ['a comment', '${1 // }\n}', 1],
    ['lists and objects', { a: ['${trigger.key}', 1], b: { c: true } }, { a: ['orders', 1], b: { c: true } }],
    ['keys are left alone', { '${trigger.key}': 1 }, { '${trigger.key}': 1 }],
    ['an empty string', '', ''],
    ['a loop’s item', 'item ${loop.index}: ${loop.item.sku}', 'item 2: c'],
  ])('%s', (_rule, value, expected) => {
    expect(compileTemplate(value).render(loopContext)).toEqual(expected);
  });

  it('keeps a key named __proto__ an own property', () => {
    const value: Json = JSON.parse('{"__proto__":{"polluted":"${trigger.key}"}}');
    const rendered = compileTemplate(value).render(context);
    expect(JSON.stringify(rendered)).toBe('{"__proto__":{"polluted":"orders"}}');
    expect(Object.getPrototypeOf(rendered)).toBe(Object.prototype);
  });

  it('does not render what a placeholder gave a second time', () => {
    const hostile = { ...context, trigger: { ...context.trigger, body: '${trigger.headers}' } };
    expect(compileTemplate('${trigger.body}').render(hostile)).toBe('${trigger.headers}');
  });

  it('renders a value without placeholders to itself', () => {
    const withoutDollar = fc
      .jsonValue({ maxDepth: 4 })
      .map((value): Json => JSON.parse(JSON.stringify(value).replaceAll('$', 'S')));
    fc.assert(
      fc.property(withoutDollar, (value) => {
        const template = compileTemplate(value);
        expect(template.isConstant).toBe(true);
        expect(template.render(context)).toEqual(value);
      }),
    );
  });

  it('renders any text that is escaped to that text', () => {
    const text = fc.array(fc.constantFrom('$', '{', '}', '"', 'a', ' '), { maxLength: 12 }).map((c) => c.join(''));
    fc.assert(
      fc.property(text, (plain) => {
        fc.pre(!plain.includes('$${'));
        expect(compileTemplate(plain.replaceAll('${', () => '$${')).render(context)).toBe(plain);
      }),
    );
  });

  it('keeps every string of the data when it is put into text', () => {
    fc.assert(
      fc.property(fc.string(), (body) => {
        const delivery = { ...context, trigger: { ...context.trigger, body } };
        expect(compileTemplate('<${trigger.body}>').render(delivery)).toBe(`<${body}>`);
      }),
    );
  });
});

describe('errors', () => {
  it('names every expression that does not compile, with its path', () => {
    const error = caught(() =>
      compileTemplate({ a: '${nope}', b: ['x', '${1 +}'], c: 'ok ${trigger.key}', 'd e': '${' }),
    );
    expect(error).toBeInstanceOf(TemplateError);
    expect((error as TemplateError).errors.map((each) => each.message)).toEqual([
      'a: expression "nope": "nope" is not known; expressions read trigger, run, waits, steps and loop (at character 1)',
      'b[1]: expression "1 +": Unexpected token: EOF (at character 4)',
      '["d e"]: expression "": the placeholder is not closed with }',
    ]);
  });

  test.each(['${}', '${ }', 'a ${trigger.key', '${"}', '${{"a": 1}'])('refuses %s', (text) => {
    expect(() => compileTemplate(text)).toThrow(TemplateError);
  });

  it('names the path of an expression that fails, and no data', () => {
    const error = caught(() => compileTemplate({ headers: { 'x-id': '${trigger.body.missing}' } }).render(context));
    expect(error).toBeInstanceOf(ExpressionError);
    expect(String(error)).toContain(
      'headers.x-id: expression "trigger.body.missing": there is no trigger.body.missing',
    );
  });
});

it('says what it reads, and where', () => {
  const template = compileTemplate({ a: '${trigger.body.x} ${steps.one.output}', b: 'plain' });
  expect(template.isConstant).toBe(false);
  expect([...template.roots].sort()).toEqual(['steps', 'trigger']);
  expect(template.references.map(({ at, path }) => [at, path])).toEqual([
    [['a'], ['trigger', 'body', 'x']],
    [['a'], ['steps', 'one', 'output']],
  ]);
});

test.each([
  ['${a}', true],
  ['x ${', true],
  ['$${a}', false],
  ['$$${{', false],
  ['$${a} ${b}', true],
  ['plain $ {', false],
])('whether %s holds a placeholder', (text, expected) => {
  expect(hasPlaceholder(text)).toBe(expected);
});

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}
