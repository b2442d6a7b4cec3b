import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { packageName, version } from '../../src/version.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(md|ts|mjs|json|service)$|run$/.test(file) && file !== 'package-lock.json');

/** Scoped names that end like ours, and files that npm packs. */
const NAMES = /@[\w-]+\/sluice\b/g;
const TARBALLS = /\b[\w-]+-sluice-\d[\w.-]*\.tgz/g;

it('every file names the package as package.json does', () => {
  const expected = new Set([packageName, `${packageName.slice(1).replace('/', '-')}-${version}.tgz`]);
  const wrong: string[] = [];
  let found = 0;
  for (const file of files) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    for (const [name] of [...text.matchAll(NAMES), ...text.matchAll(TARBALLS)]) {
      found += 1;
      if (!expected.has(name)) wrong.push(`${file}: ${name}`);
    }
  }
  expect(found).toBeGreaterThan(20);
  expect(wrong).toEqual([]);
});
