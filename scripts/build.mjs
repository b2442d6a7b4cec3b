// Builds the service and the page into dist/. `--link`, after an install, also makes `npx sluice` start this checkout's own
// command line; `--start` comes before a start. Both leave dist/ as it is where the compiler is not installed.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

/** The paths of what a build needs, or undefined where `npm ci --omit=dev` left them out. */
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

function compile(tsc, project) {
  try {
    execFileSync(process.execPath, [tsc, '-p', join(root, project)], { stdio: 'inherit' });
  } catch (error) {
    // The compiler has said what is wrong; a stack of this script would only hide it.
    process.exit(error.status ?? 1);
  }
}

/** The compiler leaves the output of a source that was moved or deleted. */
function removeStaleOutput() {
  if (!existsSync(join(root, 'dist'))) return;
  // Builds before the page was bundled left its modules here.
  rmSync(join(root, 'dist/dashboard/web'), { recursive: true, force: true });
  for (const file of readdirSync(join(root, 'dist'), { recursive: true })) {
    const [, module] = /^(.*?)(?:\.d\.ts|\.js|\.js\.map)$/.exec(file) ?? [];
    if (module === undefined) continue;
    const hasSource = ['.ts', '.tsx'].some((extension) => existsSync(join(root, 'src', module + extension)));
    if (!hasSource) rmSync(join(root, 'dist', file));
  }
}

async function build(tsc) {
  removeStaleOutput();
  compile(tsc, '.');
  compile(tsc, 'src/dashboard/web');
  const { bundle, bundlePage } = await import('./bundle.mjs');
  await bundle();
  await bundlePage();
  chmodSync(join(root, 'dist/cli.js'), 0o755);
}

const mayKeep = process.argv.includes('--link') || process.argv.includes('--start');
const isBuilt = existsSync(join(root, 'dist/bundle/service.js'));
const tsc = findCompiler();
if (tsc !== undefined) await build(tsc);
else if (!mayKeep || !isBuilt) {
  process.stderr.write(
    'Sluice is not built, and the compiler is not installed. Run `npm ci` here, or copy dist/ from a folder where it ran.\n',
  );
  // An install may come before the copy, as in an image; a start may not.
  process.exit(process.argv.includes('--link') ? 0 : 1);
}

// npm links a package's command line into the projects that install it, never into the package itself.
const commands = join(root, 'node_modules/.bin');
if (process.argv.includes('--link') && process.platform !== 'win32' && existsSync(commands)) {
  rmSync(join(commands, 'sluice'), { force: true });
  symlinkSync('../../dist/cli.js', join(commands, 'sluice'));
}
