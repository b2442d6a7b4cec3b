import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { compileExpression } from '../../src/expressions/compile.ts';
import type { ExpressionContext } from '../../src/expressions/context.ts';
import { compileTemplate } from '../../src/expressions/template.ts';
import { parseBody } from '../../src/expressions/trigger-body.ts';

const text = readFileSync(resolve(import.meta.dirname, '../../docs/expressions.md'), 'utf8');

/** Rows of every table under the heading with these columns, without the backticks around their cells. */
function rowsUnder(heading: string, head: string): [string, string][] {
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? '';
  const tables = [...section.matchAll(/^\| (.+) \|\n\|[-|]+\|\n((?:\| .*\n)+)/gm)];
  return tables
    .filter(([, columns]) => columns === head)
    .flatMap(([, , rows = '']) =>
      [...rows.matchAll(/^\| `(.*)` \| `(.*)` \|$/gm)].map(([, left = '', right = '']): [string, string] => [
        left,
        right,
      ]),
    );
}

function contextOfThePage(): ExpressionContext {
  const [, body = ''] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
  const parsed = parseBody(Buffer.from(body), { contentType: 'application/json' });
  if ('error' in parsed) throw new Error(parsed.error);
  const error = { code: 'unexpected_status', message: 'GET stock.example.com answered 500', retryable: true };
  return {
    trigger: { key: 'shop', headers: { 'x-shopify-topic': 'orders/create' }, body: parsed.value },
    steps: {
      reserve: { status: 'Succeeded', output: { status: 200, headers: {}, body: { reservation: 'R-7' } }, error: null },
      'check-stock': { status: 'Failed', output: null, error },
    },
  };
}

describe('docs/expressions.md', () => {
  const context = contextOfThePage();
  const examples = ['Examples', 'Functions', 'Numbers'].flatMap((heading) => rowsUnder(heading, 'expression | gives'));

  it('has examples', () => {
    expect(examples.length).toBeGreaterThan(25);
  });

  it.each(examples)('%s gives %s', (expression, expected) => {
    expect(JSON.stringify(compileExpression(expression).evaluate(context))).toBe(expected);
  });

  it.each(rowsUnder('Placeholders', 'input | becomes'))('%s becomes %s', (input, expected) => {
    expect(JSON.stringify(compileTemplate(JSON.parse(input)).render(context))).toBe(expected);
  });

  it.each(rowsUnder('When', 'expression | error contains'))('%s fails with %s', (expression, message) => {
    expect(() => compileExpression(expression).evaluate(context)).toThrow(message);
  });

  it('calculates with literals as it says', () => {
    expect(compileExpression('7 / 2').evaluate(context)).toBe(3);
    expect(compileExpression('7.0 / 2').evaluate(context)).toBe(3.5);
  });

  it('shows each function that it names in an example', () => {
    const section = text.split(/^## /m).find((part) => part.startsWith('Functions')) ?? '';
    const names = [...section.matchAll(/`(\w+)\(\)`/g)].map(([, name = '']) => name);
    expect(names.length).toBeGreaterThan(30);
    const all = examples.map(([expression]) => expression).join('\n');
    expect(names.filter((name) => !new RegExp(`\\b${name}\\(`).test(all))).toEqual([]);
  });
});
