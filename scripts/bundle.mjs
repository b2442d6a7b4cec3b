// Joins what a start loads, with its packages, into a few files: 700 files cost it 0.3 s more. The page likewise: 55 files
// cost it a second at a round trip of 100 ms.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const root = resolve(import.meta.dirname, '..');
/** The service in `bundle`, in the folder given. */
export async function bundle(work) {
  const folder = join(work, 'bundle');
  const bundled = await rolldown({
    cwd: root,
    input: {
      service: join(root, 'src/serve.ts'),
      commands: join(root, 'src/commands/program.ts'),
      'sqlite-worker': join(root, 'src/store/sqlite/worker.ts'),
    },
    platform: 'node',
    // Native code, and what may exist only once in a process or is seldom loaded.
    external: ['better-sqlite3', 'jiti', 'pg', 'graphile-worker', /^@opentelemetry\//, /^@modelcontextprotocol\//],
    // The CommonJS file of jsonc-parser cannot be bundled.
    resolve: { mainFields: ['module', 'main'] },
  });
  const { output } = await bundled.generate({
    dir: folder,
    format: 'esm',
    sourcemap: true,
    // A service that runs while this is built again loads its own parts: those of another build have other names.
    chunkFileNames: '[name]-[hash].js',
    minifyInternalExports: false,
    comments: { legal: false, annotation: false, jsdoc: false },
  });
  await bundled.close();
  mkdirSync(folder, { recursive: true });
  for (const file of output) {
    writeFileSync(join(folder, file.fileName), file.type === 'chunk' ? inAscii(file.code) : file.source);
  }
  // What `sluice new` tells of publishers; an installed package has no docs/.
  cpSync(join(root, 'docs/publishers'), join(work, 'publishers'), { recursive: true });
}

/** The page in `page`, in the folder given: its script, those that it loads when they are first needed, one style sheet and its icon. */
export async function bundlePage(work) {
  const source = join(root, 'src/dashboard/web');
  const target = join(work, 'page');
  const bundled = await rolldown({
    cwd: root,
    input: { main: join(source, 'main.tsx') },
    platform: 'browser',
  });
  const { output } = await bundled.generate({
    dir: target,
    format: 'esm',
    minify: true,
    // Names without hashes: the address of all files changes with any of them.
    chunkFileNames: '[name].js',
    comments: { legal: true, annotation: false, jsdoc: false },
  });
  await bundled.close();
  mkdirSync(target, { recursive: true });
  for (const file of output)
    writeFileSync(join(target, file.fileName), file.type === 'chunk' ? file.code : file.source);
  const styles = readdirSync(join(source, 'styles')).filter((name) => name.endsWith('.css'));
  const sheets = [
    join(root, 'node_modules/uplot/dist/uPlot.min.css'),
    ...styles.sort().map((name) => join(source, 'styles', name)),
  ];
  writeFileSync(join(target, 'page.css'), sheets.map((path) => readFileSync(path, 'utf8')).join('\n'));
  cpSync(join(source, 'styles/sluice.svg'), join(target, 'sluice.svg'));
}

/** Node keeps a source in one byte a character only if all of it is ASCII, else in two. */
function inAscii(code) {
  // An escape behind a backslash would mean something else.
  if (/\\[^\0-\x7f]/.test(code)) return code;
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
