import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../temporary.ts';

/** The folder of this checkout; tests use its `dist/`. */
export const PRESENT = resolve(import.meta.dirname, '../..');

/** The folder of the release to upgrade from, with `dist/` and packages; without it, tests use this build. */
const FROM = process.env.TEST_UPGRADE_FROM;

type Change = 'expand' | 'contract';

/** Two successive releases. The later one adds a table and a column; the earlier one keeps working with them. */
export function twoReleases(): { earlier: string; later: string } {
  if (FROM === undefined || FROM === '') return { earlier: PRESENT, later: nextRelease('expand') };
  return { earlier: resolve(FROM), later: PRESENT };
}

/**
 * Builds this checkout as a later version with one more migration. After a `contract` migration, this build no longer
 * works. The folder is removed after the test file.
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
