// Builds the service and the page into dist/. `--link` also makes `npx sluice` start this checkout's own command line.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { bundle } from './bundle.mjs';

const root = resolve(import.meta.dirname, '..');
const typescript = createRequire(import.meta.url).resolve('typescript/package.json');
const tsc = join(dirname(typescript), 'bin/tsc');

function compile(project) {
  try {
    execFileSync(process.execPath, [tsc, '-p', join(root, project)], { stdio: 'inherit' });
  } catch (error) {
    // The compiler has said what is wrong; a stack of this script would only hide it.
    process.exit(error.status ?? 1);
  }
}

/** The compiler leaves the output of a source that was moved or deleted, and the page's folder is served as it is. */
function removeStaleOutput() {
  if (!existsSync(join(root, 'dist'))) return;
  for (const file of readdirSync(join(root, 'dist'), { recursive: true })) {
    const [, module] = /^(.*?)(?:\.d\.ts|\.js|\.js\.map)$/.exec(file) ?? [];
    if (module === undefined) continue;
    const hasSource = ['.ts', '.tsx'].some((extension) => existsSync(join(root, 'src', module + extension)));
    if (!hasSource) rmSync(join(root, 'dist', file));
  }
}

removeStaleOutput();
compile('.');
compile('src/dashboard/web');
await bundle();
cpSync(join(root, 'src/dashboard/web/styles'), join(root, 'dist/dashboard/web/styles'), { recursive: true });
chmodSync(join(root, 'dist/cli.js'), 0o755);

// npm links a package's command line into the projects that install it, never into the package itself.
const commands = join(root, 'node_modules/.bin');
if (process.argv.includes('--link') && process.platform !== 'win32' && existsSync(commands)) {
  rmSync(join(commands, 'sluice'), { force: true });
  symlinkSync('../../dist/cli.js', join(commands, 'sluice'));
}
