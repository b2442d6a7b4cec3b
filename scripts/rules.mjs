// Prints every rule in the tests' names, once and sorted, to compare before and after a change: the titles of its
// groups, then its own. Reads the tests without running them. A title filled by a table keeps its placeholder, and is
// also printed for each row that begins with a text.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

const tests = resolve(import.meta.dirname, '../test');
const rules = new Set();

for (const file of readdirSync(tests, { recursive: true }))
  if (file.endsWith('.ts') && !file.includes('node_modules'))
    visit(parseAst(readFileSync(join(tests, file), 'utf8'), { lang: 'ts' }), []);

process.stdout.write(`${[...rules].sort().join('\n')}\n`);

function visit(node, groups) {
  if (node === null || typeof node !== 'object') return;
  const named = node.type === 'CallExpression' ? titledBy(node) : undefined;
  if (named === undefined) {
    for (const child of Object.values(node)) visit(child, groups);
    return;
  }
  const paths = named.titles.map((title) => [...groups, title]);
  if (named.by !== 'describe') for (const path of paths) rules.add(path.join(' > '));
  for (const argument of node.arguments.slice(1)) visit(argument, paths[0]);
}

/** The title of a call of `describe`, `it` or `test`; undefined for any other call. */
function titledBy({ callee, arguments: [title] }) {
  const by = rootOf(callee);
  const text = textOf(title);
  if (!['describe', 'it', 'test'].includes(by) || text === undefined) return undefined;
  return { by, titles: [text, ...firstTextsOfRows(callee).map((row) => text.replace(/%s|\$\d|\$\w+/, () => row))] };
}

/** `it` of `it`, `it.skipIf(…)`, `it.each([…])`. */
function rootOf({ type, name, object, callee }) {
  if (type === 'Identifier') return name;
  return object || callee ? rootOf(object ?? callee) : undefined;
}

function textOf(node) {
  if (node?.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node?.type === 'TemplateLiteral') return node.quasis.map(({ value }) => value.cooked).join('…');
  return undefined;
}

function firstTextsOfRows({ type, arguments: [rows] = [] }) {
  const elements = type === 'CallExpression' && rows?.type === 'ArrayExpression' ? rows.elements : [];
  return elements.flatMap((row) => textOf(row?.type === 'ArrayExpression' ? row.elements[0] : row) ?? []);
}
