// Builds the service and the page into dist/, unless dist/ is newer than every source. A build never breaks a running
// service: it works in a separate folder and renames file by file, and those that a start loads first come last.
// `--link`, after an install, also makes `npx sluice` start this checkout's command line; `--start` comes before a
// start. Both leave dist/ unchanged if the compiler is not installed.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const dist = join(root, 'dist');
const WORK = '.dist-';
/** Its time is when the last build read its first source. */
const STAMP = join(dist, '.built');

/** A running service may load parts of a bundle that was replaced since; after this time it has been restarted. */
const REPLACED_FOR_MS = 14 * 86_400_000;

/** The paths of the build's tools, or undefined if `npm ci --omit=dev` left them out. */
function findCompiler() {
  const { resolve: find } = createRequire(import.meta.url);
  try {
    find('rolldown');
    return join(dirname(find('typescript/package.json')), 'bin/tsc');
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/** Deleting or renaming a file changes its folder, so folders count too. */
function isUpToDate() {
  if (!existsSync(STAMP)) return false;
  const sources = ['src', 'scripts'].flatMap((folder) => [
    folder,
    ...readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)),
  ]);
  // The packages are part of the bundle; npm writes the last of these files when it has installed them.
  const others = ['tsconfig.json', 'package.json', 'package-lock.json', 'node_modules/.package-lock.json'];
  const builtAt = statSync(STAMP).mtimeMs;
  return [...sources, ...others].every((name) => {
    const found = statSync(join(root, name), { throwIfNoEntry: false });
    return found === undefined || found.mtimeMs < builtAt;
  });
}

/** Compiles the modules and their types, starting from a copy of the present ones: the compiler writes only changes. */
function compileInto(work, tsc) {
  const isBundled = new Set(
    ['bundle', 'page', 'types', 'compile-cache', '.built', 'LICENSES.txt', 'bundled.json'].map((name) =>
      join(dist, name),
    ),
  );
  if (existsSync(dist)) cpSync(dist, work, { recursive: true, filter: (path) => !isBundled.has(path) });
  const options = (to) => ({ outDir: '.', tsBuildInfoFile: to });
  const write = (name, project) => writeFileSync(join(work, name), JSON.stringify(project));
  write('tsconfig.json', {
    extends: '../tsconfig.json',
    compilerOptions: { ...options('.tsbuildinfo'), rootDir: '../src' },
    include: ['../src'],
    exclude: ['../src/dashboard/web', '../src/features/page.ts', '../src/features/*/*.tsx', '../src/features/*/page'],
  });
  write('tsconfig.page.json', {
    extends: '../src/dashboard/web/tsconfig.json',
    compilerOptions: { ...options('page.tsbuildinfo'), rootDir: '../src' },
    include: ['../src/dashboard/web', '../src/features/page.ts', '../src/features/*/*.tsx', '../src/features/*/page'],
    references: [{ path: './tsconfig.json' }],
  });
  const projects = ['tsconfig.json', 'tsconfig.page.json'].map((name) => join(work, name));
  for (const project of projects) execFileSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' });
  for (const project of projects) rmSync(project);
  // The compiler does not remove the output of moved or deleted sources.
  for (const file of filesIn(work)) {
    const [, module] = /^(.*?)(?:\.d\.ts|\.js|\.js\.map)$/.exec(file) ?? [];
    if (module !== undefined && !existsSync(join(root, 'src', `${module}.ts`))) rmSync(join(work, file));
  }
}

function filesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** All comments except directives for the compiler. */
const COMMENTS = /^\s*(?:\/\*\*(?:(?!@ts-|\*\/)[\s\S])*\*\/|\/\/(?!\/| *@ts-).*)\n/gm;

/** Only English, as in the bundle, and without comments, which zod has on its site. */
const typesOfZod = (file) =>
  file === 'zod/v4/locales/index.d.ts'
    ? 'export { default as en } from "./en.js";\n'
    : readFileSync(join(root, 'node_modules', file), 'utf8').replace(COMMENTS, '');

/** Collects the package's types in `types` of the given folder: those reachable from its entry points. */
function collectTypes(work) {
  const found = new Map();
  const collect = (file) => {
    if (found.has(file)) return;
    // zod is part of the bundle, so its types are included.
    const text = file.startsWith('zod/') ? typesOfZod(file) : readFileSync(join(work, file), 'utf8');
    const pathOf = (entry) =>
      `./${relative(dirname(file), join('zod', entry, 'index.js'))
        .split(sep)
        .join('/')}`;
    found.set(
      file,
      text
        // Older compilers accept no other ending in types.
        .replace(/(["']\.{1,2}\/[^"']+)\.ts(["'])/g, '$1.js$2')
        .replace(/(["'])zod(?:\/(v4\/core))?["']/g, (_, quote, entry = '') => `${quote}${pathOf(entry)}${quote}`),
    );
    for (const [, name] of found.get(file).matchAll(/["'](\.{1,2}\/[^"']+)\.js["']/g))
      collect(join(dirname(file), `${name}.d.ts`));
  };
  collect('index.d.ts');
  // Part of a feature, which may be left out.
  const testing = 'features/rehearsal/testing.d.ts';
  if (existsSync(join(work, testing))) collect(testing);
  for (const [file, text] of found) {
    mkdirSync(dirname(join(work, 'types', file)), { recursive: true });
    writeFileSync(join(work, 'types', file), text);
  }
}

/** Replaces each file atomically; a file's imports are in place before it. */
function publish(work) {
  const isEntry = (file) => /^(?:bundle[\\/](?:service|commands|sqlite-worker|order-keys)|main|cli)\.js$/.test(file);
  const files = filesIn(work).sort((a, b) => Number(isEntry(a)) - Number(isEntry(b)));
  for (const file of files) {
    mkdirSync(dirname(join(dist, file)), { recursive: true });
    renameSync(join(work, file), join(dist, file));
  }
  removeReplaced(new Set(files));
}

/** Removes files that this build did not make; in the bundle, only those replaced long ago. */
function removeReplaced(made) {
  const replaced = filesIn(dist).filter(
    (file) => !made.has(file) && file !== '.built' && file !== join('bundle', '.npmignore'),
  );
  const kept = [];
  for (const file of replaced) {
    const [folder] = file.split(sep);
    const isCode = folder === 'compile-cache' || (folder === 'bundle' && file.endsWith('.js'));
    if (isCode && Date.now() - statSync(join(dist, file)).mtimeMs < REPLACED_FOR_MS) {
      if (folder === 'bundle') kept.push(file.slice(folder.length + 1));
    } else rmSync(join(dist, file));
  }
  // The package contains no part of an earlier bundle.
  writeFileSync(join(dist, 'bundle/.npmignore'), kept.map((file) => `/${file}\n`).join(''));
}

async function build(tsc) {
  const startedAt = new Date();
  for (const name of readdirSync(root)) {
    if (name.startsWith(WORK) && !isAlive(Number(name.slice(WORK.length))))
      rmSync(join(root, name), { recursive: true });
  }
  const work = join(root, `${WORK}${process.pid}`);
  mkdirSync(work);
  try {
    compileInto(work, tsc);
    collectTypes(work);
    const { bundle, bundlePage } = await import('./bundle.mjs');
    const { writePackages } = await import('./bundled-packages.mjs');
    writePackages(work, [...(await bundle(work)), ...(await bundlePage(work))]);
    chmodSync(join(work, 'cli.js'), 0o755);
    publish(work);
    writeFileSync(STAMP, '');
    utimesSync(STAMP, startedAt, startedAt);
  } finally {
    rmSync(work, { recursive: true });
  }
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

const mayKeep = process.argv.includes('--link') || process.argv.includes('--start');
const isBuilt = existsSync(join(dist, 'bundle/service.js'));
const tsc = findCompiler();
if (tsc !== undefined) {
  try {
    if (!isBuilt || !isUpToDate()) await build(tsc);
  } catch (error) {
    // The compiler has printed the error; a stack of this script would only hide it.
    if (error.status === undefined) throw error;
    process.exit(error.status ?? 1);
  }
} else if (!mayKeep || !isBuilt) {
  process.stderr.write(
    'Sluice is not built, and the compiler is not installed. Run `npm ci` here, or copy dist/ from a folder where it ran.\n',
  );
  // An install may come before dist/ is copied in, as in an image; a start may not.
  process.exit(process.argv.includes('--link') ? 0 : 1);
}

// npm links a package's command line into the projects that install it, never into the package itself.
const commands = join(root, 'node_modules/.bin');
if (process.argv.includes('--link') && process.platform !== 'win32' && existsSync(commands)) {
  rmSync(join(commands, 'sluice'), { force: true });
  symlinkSync('../../dist/cli.js', join(commands, 'sluice'));
}
