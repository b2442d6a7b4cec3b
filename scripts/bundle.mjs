// Joins the modules that a start loads, with their packages, into a few files: 700 files made it 0.3 s slower, and
// users would install 270 packages of 260 MB. The page too: 55 files cost it a second at a round trip of 100 ms.
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress } from 'node:zlib';
import { rolldown } from 'rolldown';
import { packagesOf } from './bundled-packages.mjs';
import { OMITTED, PARTS_OF_PACKAGES } from './package-parts.mjs';

const root = resolve(import.meta.dirname, '..');

/** Stack traces show these names. */
const KEPT = { function: true, class: true };

/** The resolved path, as in module ids: a worktree may share another's folder. */
const modules = realpathSync(join(root, 'node_modules'));
const sources = realpathSync(join(root, 'src')) + sep;
const partOf = (name) => join(modules, /\.[cm]js$/.test(name) ? name : `${name}.js`);
const parts = new Map(Object.entries(PARTS_OF_PACKAGES).map(([name, code]) => [partOf(name), code]));
const loaded = new Set();
/** Part of a feature, which may be left out. */
const testing = join(root, 'src/features/rehearsal/testing.ts');
const leaveOut = {
  name: 'leave-out',
  // A file of a package may have the name of another package.
  resolveId(id, importer) {
    if (id.startsWith('.') || !parts.has(partOf(id))) return undefined;
    if (importer?.startsWith(sources) && OMITTED.has(parts.get(partOf(id))))
      throw new Error(`${relative(root, importer)} imports ${id}, which package-parts.mjs leaves out of the bundle`);
    return partOf(id);
  },
  load(id) {
    loaded.add(id);
    return parts.get(id);
  },
  // If a later release renames such a file, all of the new file would be in the bundle.
  buildEnd(error) {
    const folderIn = (path) => /^(?:@[^/]+\/)?[^/]+\//.exec(relative(modules, path).split(sep).join('/'))?.[0];
    const folders = new Set([...loaded].map(folderIn));
    const missed = [...parts.keys()].filter((path) => !loaded.has(path) && folders.has(folderIn(path) ?? path));
    if (!error && missed.length > 0) throw new Error(`no module asks for ${missed.join(', ')}; see package-parts.mjs`);
  },
};

/** Bundles the service into `bundle` in the given folder. Returns the packages in it. */
export async function bundle(work) {
  const folder = join(work, 'bundle');
  const bundled = await rolldown({
    cwd: root,
    input: {
      service: join(root, 'src/serve.ts'),
      commands: join(root, 'src/commands/program.ts'),
      index: join(root, 'src/index.ts'),
      ...(existsSync(testing) && { testing }),
      'sqlite-worker': join(root, 'src/store/sqlite/worker.ts'),
      // Loaded by the store when it first needs an expression.
      'order-keys': join(root, 'src/expressions/order-key.ts'),
    },
    platform: 'node',
    plugins: [leaveOut],
    // Native code, and a package that loads its own files.
    external: ['better-sqlite3', 'jiti'],
    // The CommonJS file of jsonc-parser cannot be bundled.
    resolve: { mainFields: ['module', 'main'] },
  });
  const { output } = await bundled.generate({
    dir: folder,
    format: 'esm',
    sourcemap: true,
    // A service that runs during a build loads its own parts, because other builds use other names.
    chunkFileNames: '[name]-[hash].js',
    minifyInternalExports: true,
    minify: { mangle: { toplevel: true, keepNames: KEPT }, compress: { keepNames: KEPT } },
    comments: { legal: false, annotation: false, jsdoc: false },
  });
  await bundled.close();
  mkdirSync(folder, { recursive: true });
  for (const file of output) {
    writeFileSync(join(folder, file.fileName), file.type === 'chunk' ? inAscii(file.code) : file.source);
  }
  return packagesOf(output);
}

/** Bundles the page into `page`, as browsers take it: scripts (and later ones), style sheet, icon. Returns packages. */
export async function bundlePage(work) {
  const source = join(root, 'src/dashboard/web');
  const target = join(work, 'page');
  const bundled = await rolldown({
    cwd: root,
    input: { main: join(source, 'main.tsx') },
    platform: 'browser',
    // Features have parts of the page outside its folder.
    tsconfig: join(source, 'tsconfig.json'),
  });
  const { output } = await bundled.generate({
    dir: target,
    format: 'esm',
    minify: true,
    // Names without hashes: if any file changes, the address of all changes.
    chunkFileNames: '[name].js',
    comments: { legal: true, annotation: false, jsdoc: false },
  });
  await bundled.close();
  const files = new Map(output.map((file) => [file.fileName, file.type === 'chunk' ? file.code : file.source]));
  // Shared styles come first, so that a feature's sheet can override them.
  const sheets = [
    join(root, 'node_modules/uplot/dist/uPlot.min.css'),
    ...sheetsIn(join(source, 'styles')),
    ...sheetsIn(join(root, 'src/features')),
  ];
  files.set('page.css', sheets.map((path) => readFileSync(path, 'utf8')).join('\n'));
  files.set('sluice.svg', readFileSync(join(source, 'styles/sluice.svg')));
  mkdirSync(target, { recursive: true });
  const written = [...files].map(async ([name, content]) =>
    writeFileSync(join(target, `${name}.br`), await promisify(brotliCompress)(content)),
  );
  await Promise.all(written);
  writeFileSync(join(target, 'scripts.json'), JSON.stringify(loadedAtOnce(output)));
  return packagesOf(output);
}

/** The first script and all its direct and indirect imports, so that browsers learn of all at once. */
function loadedAtOnce(output) {
  const chunks = output.filter(({ type }) => type === 'chunk');
  const found = new Set(chunks.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName));
  for (const name of found) {
    for (const each of chunks.find(({ fileName }) => fileName === name).imports) found.add(each);
  }
  return [...found];
}

function sheetsIn(folder) {
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.css'));
  return names.sort().map((name) => join(folder, name));
}

/** Node stores a source with one byte per character only if all of it is ASCII, otherwise with two. */
function inAscii(code) {
  // After a backslash, an escape would mean something else.
  if (/\\[^\0-\x7f]/.test(code)) return code;
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
