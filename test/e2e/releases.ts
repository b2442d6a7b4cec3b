import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../temporary.ts';

/** The folder of this checkout, whose `dist/` is the build under test. */
export const PRESENT = resolve(import.meta.dirname, '../..');

/** The release to upgrade from: a folder with its `dist/` and its packages; else this build stands for it. */
const FROM = process.env.TEST_UPGRADE_FROM;

type Change = 'expand' | 'contract';

/** Two releases, one after the other; the later one adds a table and a column that the earlier one works beside. */
export function twoReleases(): { earlier: string; later: string } {
  if (FROM === undefined || FROM === '') return { earlier: PRESENT, later: nextRelease('expand') };
  return { earlier: resolve(FROM), later: PRESENT };
}

/**
 * This checkout as a later version with one more migration, built; after a migration of the kind `contract` this build no
 * longer works. It is gone when the test file has run.
 */
export function nextRelease(change: Change): string {
  const folder = temporaryFolder('next');
  for (const name of ['src', 'scripts', 'package-lock.json', 'tsconfig.json']) {
    cpSync(join(PRESENT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(PRESENT, 'node_modules'), join(folder, 'node_modules'));
  const described = JSON.parse(readFileSync(join(PRESENT, 'package.json'), 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...described, version: NEXT_VERSION }));
  addMigration(join(folder, 'src/store/migrations/index.ts'), change);
  execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: folder });
  return folder;
}

export const NEXT_VERSION = '99.0.0';

function addMigration(index: string, change: Change): void {
  const history = readFileSync(index, 'utf8');
  const [end, last] = /(\w+),\s*\];\s*$/.exec(history) ?? [];
  if (end === undefined) throw new Error(`${index} does not end with the list of migrations`);
  const compatibleFrom = change === 'expand' ? `${last}.compatibleFrom` : `${last}.version + 1`;
  const next = `{
    version: ${last}.version + 1,
    name: 'of the next release',
    compatibleFrom: ${compatibleFrom},
    locks: ['runs'],
    sql: 'CREATE TABLE sluice.of_the_next_release (id integer); ALTER TABLE sluice.runs ADD COLUMN of_the_next text',
  }`;
  writeFileSync(
    index,
    history.replace(end, () => `${last}, ${next}];`),
  );
}
