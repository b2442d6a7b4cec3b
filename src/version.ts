import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const manifest: { name: string; version: string } = createRequire(import.meta.url)('#package.json');

/** The versions of an installed package: its own, Node's, and those of the bundled packages. */
export function describeVersions(): object {
  const bundled: { name: string; version: string }[] = createRequire(import.meta.url)('#bundled');
  const versions = bundled.map((each) => [each.name, each.version]);
  return { name: manifest.name, version, node: process.versions.node, bundled: Object.fromEntries(versions) };
}

/** The version of Sluice, from its package. */
export const version = manifest.version;

/** The package name, for installing and importing. */
export const packageName = manifest.name;

/**
 * The command that starts the command line from a folder. `npx sluice` runs the package that npm installed there or
 * above; elsewhere npx would fetch a package of that name from the registry, which is a stranger's.
 */
export function commandName(folder: string): string {
  if (existsSync(join(folder, 'node_modules/.bin/sluice'))) return 'npx sluice';
  return folder === dirname(folder) ? `npx ${packageName}` : commandName(dirname(folder));
}

let here: string | undefined;

/** `commandName` of the working directory, looked up once: the page asks for each trigger. */
export function commandHere(): string {
  here ??= commandName(process.cwd());
  return here;
}
