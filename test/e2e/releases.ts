import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll } from 'vitest';

/** The folder of this checkout, whose `dist/` is the build under test. */
export const PRESENT = resolve(import.meta.dirname, '../..');

/** The release to upgrade from: a folder with its `dist/` and its packages; else this build stands for it. */
const FROM = process.env.SLUICE_UPGRADE_FROM;

type Change = 'expand' | 'contract';

/** Two releases, one after the other; the later one adds a table and a column that the earlier one works beside. */
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
  for (const [part, schema] of [
    ['migrate', 'sluice.'],
    ['connection', ''],
  ] as const) {
    const bundle = join(folder, 'dist/bundle');
    // Parts of earlier builds are there too.
    const paths = readdirSync(bundle)
      .filter((name) => new RegExp(`^${part}-.*\\.js$`).test(name))
      .map((name) => join(bundle, name))
      .filter((path) => readFileSync(path, 'utf8').includes('const migrations = ['));
    if (paths.length === 0) throw new Error(`${part} has no migrations`);
    for (const path of paths) appendFileSync(path, migrationOf(change, schema));
  }
  return folder;
}

export const NEXT_VERSION = '99.0.0';

function migrationOf(change: Change, schema: string): string {
  return `
{
  const { version, compatibleFrom } = migrations.at(-1);
  migrations.push({
    version: version + 1,
    name: 'of the next release',
    compatibleFrom: ${change === 'expand' ? 'compatibleFrom' : 'version + 1'},
    locks: ['runs'],
    sql: 'CREATE TABLE ${schema}of_the_next_release (id integer); ALTER TABLE ${schema}runs ADD COLUMN of_the_next text',
  });
}
`;
}
