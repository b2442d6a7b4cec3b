import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const manifest: { name: string; version: string } = createRequire(import.meta.url)('#package.json');

/** What an installed package runs with: its version, Node's, and those of the packages inside of it. */
export function describeVersions(): object {
  const bundled: { name: string; version: string }[] = createRequire(import.meta.url)('#bundled');
  const versions = bundled.map((each) => [each.name, each.version]);
  return { name: manifest.name, version, node: process.versions.node, bundled: Object.fromEntries(versions) };
}

/** The version of Sluice, from its package. */
export const version = manifest.version;

/** What its package is installed and imported by. */
export const packageName = manifest.name;

/**
 * How the command line is started from a folder. `npx sluice` runs what npm installed there or above; elsewhere npx would fetch a
 * package of that name, which is a stranger's.
 */
export function commandName(folder: string): string {
  if (existsSync(join(folder, 'node_modules/.bin/sluice'))) return 'npx sluice';
  return folder === dirname(folder) ? `npx ${packageName}` : commandName(dirname(folder));
}

let here: string | undefined;

/** The same from the working directory, which is looked at once: the page asks for each trigger. */
export function commandHere(): string {
  here ??= commandName(process.cwd());
  return here;
}
