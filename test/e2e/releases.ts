import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll } from 'vitest';

/** The folder of this checkout, whose `dist/` is the build under test. */
export const PRESENT = resolve(import.meta.dirname, '../..');

/** The release to upgrade from: a folder with its `dist/` and its packages; else this build stands for it. */
const FROM = process.env.SLUICE_UPGRADE_FROM;

type Change = 'expand' | 'contract';

/** Two releases, one after the other; the later one adds a migration that the earlier one works beside. */
export function twoReleases(): { earlier: string; later: string } {
  if (FROM === undefined || FROM === '') return { earlier: PRESENT, later: nextRelease('expand') };
  return { earlier: resolve(FROM), later: PRESENT };
}

/**
 * A copy of this build that calls itself a later version and has one more migration; after one of the kind `contract` this
 * build no longer works. It is gone when the test file has run.
 */
export function nextRelease(change: Change): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-next-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(PRESENT, 'dist'), join(folder, 'dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.map') && !path.endsWith('compile-cache'),
  });
  symlinkSync(join(PRESENT, 'node_modules'), join(folder, 'node_modules'));
  const described = JSON.parse(readFileSync(join(PRESENT, 'package.json'), 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...described, version: NEXT_VERSION }));
  // Where the bundle has the list of migrations of either database.
  for (const [file, table] of [
    ['migrate.js', 'sluice.of_the_next_release'],
    ['connection.js', 'of_the_next_release'],
  ] as const) {
    const path = join(folder, 'dist/bundle', file);
    if (!readFileSync(path, 'utf8').includes('const migrations = [')) throw new Error(`${file} has no migrations`);
    appendFileSync(path, migrationOf(change, table));
  }
  return folder;
}

export const NEXT_VERSION = '99.0.0';

function migrationOf(change: Change, table: string): string {
  return `
{
  const { version, compatibleFrom } = migrations.at(-1);
  migrations.push({
    version: version + 1,
    name: 'of the next release',
    compatibleFrom: ${change === 'expand' ? 'compatibleFrom' : 'version + 1'},
    sql: 'CREATE TABLE ${table} (id integer)',
  });
}
`;
}
