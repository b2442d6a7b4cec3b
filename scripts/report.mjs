// Prints the size of the code, in numbers that tend to grow unnoticed, and fails if one exceeds its budget.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

const root = resolve(import.meta.dirname, '..');

/**
 * The maximum of each figure, and its goal: budgets.json, or the file named as the first argument. If a change exceeds
 * a budget, adapt the change: only the project's owner raises a budget. If a change lowers a figure, lower its budget
 * too.
 */
const budgets = JSON.parse(readFileSync(process.argv[2] ?? join(import.meta.dirname, 'budgets.json'), 'utf8'));
const modules = new Map(
  readdirSync(join(root, 'src'), { recursive: true })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => [`src/${file}`, readModule(`src/${file}`)]),
);

function readModule(file) {
  const text = readFileSync(join(root, file), 'utf8');
  const program = parseAst(text, { lang: file.endsWith('x') ? 'tsx' : 'ts' });
  const imports = [...sourcesOf(program)].filter((source) => source.startsWith('.'));
  return {
    program,
    lines: text.split('\n').length - 1,
    imports: new Set(imports.map((source) => join(dirname(file), source))),
  };
}

/** The sources in a module's imports, re-exports, and `import('…')` of a value or a type. */
function* sourcesOf(node) {
  if (node === null || typeof node !== 'object') return;
  if (typeof node.source?.value === 'string') yield node.source.value;
  for (const child of Object.values(node)) yield* sourcesOf(child);
}

const linesOf = (files) => files.reduce((sum, file) => sum + modules.get(file).lines, 0);
const within = (folder) => [...modules.keys()].filter((file) => file.startsWith(`${folder}/`));

/** Lines of both files where a verb of the store has one in either backend. */
function twins() {
  const [sqlite, postgres] = ['src/store/sqlite/', 'src/store/postgres/'];
  return [...modules.keys()]
    .filter((file) => file.startsWith(sqlite))
    .map((file) => [file, file.replace(sqlite, postgres)])
    .filter(([, twin]) => modules.has(twin))
    .flat();
}

/** A declaration may name several variables, a list several names; `export * from` counts as one. */
function exportsOf({ program }) {
  return program.body.reduce((sum, { type, declaration, specifiers }) => {
    if (type === 'ExportAllDeclaration' || type === 'ExportDefaultDeclaration') return sum + 1;
    if (type !== 'ExportNamedDeclaration') return sum;
    return sum + (declaration?.declarations?.length ?? (declaration ? 1 : specifiers.length));
  }, 0);
}

/** Members of the store's interface, including those of all extended interfaces. */
function verbs() {
  const interfaces = new Map();
  for (const file of ['src/store/store.ts', ...within('src/store/contract')])
    for (const { declaration, ...statement } of modules.get(file).program.body) {
      const declared = declaration ?? statement;
      if (declared.type === 'TSInterfaceDeclaration') interfaces.set(declared.id.name, declared);
    }
  const count = (name) => {
    const { body, extends: parents } = interfaces.get(name);
    return parents.reduce((sum, { expression }) => sum + count(expression.name), body.body.length);
  };
  return count('Store');
}

/** The rows of settings, each with its variable, and `SLUICE_CONFIG`, which is read before them. */
function settings() {
  const files = [...modules.keys()].filter((file) =>
    /^src\/(config\/settings-schema|features\/[\w-]+\/settings)\.ts$/.test(file),
  );
  const rows = files.flatMap((file) => readFileSync(file, 'utf8').match(/^ +variable: 'SLUICE_/gm) ?? []);
  return rows.length + 1;
}

/** Files that could be part of their only reader. Publishers are not counted, because each scheme has its own file. */
function smallFiles() {
  const importers = new Map();
  for (const [file, { imports }] of modules)
    for (const imported of imports) importers.set(imported, [...(importers.get(imported) ?? []), file]);
  return [...modules.keys()].filter((file) => {
    const [importer, another] = importers.get(file) ?? [];
    if (importer === undefined || another !== undefined || modules.get(file).lines >= 60) return false;
    return dirname(importer) === dirname(file) && !file.startsWith('src/webhooks/schemes/publishers/');
  });
}

/** The files in the recipe for a column; a proof follows the recipe. */
function columnFiles() {
  const text = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
  const recipe = text.slice(text.indexOf('## Recipe: add a column'));
  return new Set([...recipe.matchAll(/`(src\/[^`]+)`/g)].map(([, file]) => file)).size;
}

/** Not part of the kernel: features, and the mission itself (schemes, gates and addresses of publishers). */
const NO_KERNEL = ['src/features', 'src/webhooks/schemes', 'src/webhooks/gates', 'src/webhooks/networks'];

/** Modules that put rooms and features together. */
const COMPOSITION = [
  'app',
  'assembly',
  'server',
  'serve',
  'dashboard/dashboard',
  'commands/program',
  'store/decisions/verbs',
]
  .map((name) => `src/${name}.ts`)
  .concat('src/dashboard/web/main.tsx');

/** The modules that take part in something, as printed by a bench of the built service. */
function walked(bench) {
  return JSON.parse(execFileSync(process.execPath, [join(root, 'test/bench', bench)], { encoding: 'utf8' }));
}

const lines = linesOf([...modules.keys()]);
const exported = [...modules.values()].reduce((sum, module) => sum + exportsOf(module), 0);
const small = smallFiles();
const rows = [
  ['lines of src, with the page', lines],
  ['lines of the kernel', lines - linesOf(NO_KERNEL.flatMap(within))],
  ['lines of src/store', linesOf(within('src/store'))],
  ['lines of files of one name in both stores', linesOf(twins())],
  ['modules', modules.size],
  ['modules from a request to its 200', walked('accept-path.mjs').length],
  ['lines from a request to the end of its steps', linesOf(walked('spine.mjs'))],
  ['lines of the largest composition file', Math.max(...COMPOSITION.map((file) => linesOf([file])))],
  ['exports per 1 000 lines', ((exported * 1000) / lines).toFixed(1)],
  ['members of the store', verbs()],
  ['files touched by the column recipe', columnFiles()],
  ['settings', settings()],
  ['files under 60 lines, one importer next to them', small.length],
];
const figures = new Map(rows);
for (const [name, value] of figures) {
  const budget = budgets[name];
  const said = budget === undefined ? '' : `  at most ${budget.most}, goal ${budget.goal}`;
  process.stdout.write(`${name.padEnd(48)}${String(value).padStart(7)}${said}\n`);
}
for (const file of small) process.stdout.write(`  ${file}\n`);
for (const [name, { most }] of Object.entries(budgets)) {
  // A budget without a figure, or whose figure is not a number, also counts as exceeded.
  if (figures.get(name) <= most) continue;
  process.stderr.write(`${name}: ${figures.get(name)} exceeds its budget of ${most}\n`);
  process.exitCode = 1;
}
