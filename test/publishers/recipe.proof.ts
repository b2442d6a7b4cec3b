import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from '../temporary.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const ROWS = 'src/webhooks/schemes/publishers/m-s.ts';

/** The object of the recipe, as the page shows it. */
function rowOfRecipe(): string {
  const page = readFileSync(join(ROOT, 'docs/extending.md'), 'utf8');
  const [, row = ''] = /## Add a publisher[\s\S]*?```ts\n([\s\S]*?)```/.exec(page) ?? [];
  return row;
}

/** Linked, like the packages of the root. */
const ORACLES = join(ROOT, 'test/oracles/node_modules');

let tree: string;
beforeAll(async () => {
  tree = temporaryFolder('recipe');
  for (const name of [
    'src',
    'test',
    'docs',
    'scripts',
    'manifests',
    'README.md',
    'package.json',
    'vitest.config.ts',
    'tsconfig.json',
  ]) {
    await cp(join(ROOT, name), join(tree, name), { recursive: true, filter: (path) => path !== ORACLES });
  }
  for (const name of ['node_modules', 'dist', 'test/oracles/node_modules'])
    await symlink(join(ROOT, name), join(tree, name));
  const rows = await readFile(join(tree, ROWS), 'utf8');
  await writeFile(join(tree, ROWS), rows.replace(/\n\];\n/, `\n${rowOfRecipe()}];\n`));
});

interface Result {
  readonly isGreen: boolean;
  readonly output: string;
}

/** Runs the schemes' own tests in the copy. */
async function testSchemes(...folders: string[]): Promise<Result> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'fast', '--maxWorkers=1', '--reporter=verbose'];
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
  try {
    const { stdout } = await run(process.execPath, [...args, ...folders], { cwd: tree, env, maxBuffer: 1e8 });
    return { isGreen: true, output: stdout };
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return { isGreen: false, output: `${stdout}${stderr}` };
  }
}

it('verifies, signs and describes a publisher after one object in one file', async () => {
  expect(rowOfRecipe().trim().split('\n').length).toBeLessThanOrEqual(15);
  const { isGreen, output } = await testSchemes('test/webhooks/schemes', 'test/webhooks/headers', 'test/publishers');
  expect(isGreen, output.slice(-4000)).toBe(true);
  expect(output).toMatch(/Parcels, signed by another implementation > is verified/);
  expect(output).toMatch(/Parcels > verifies what it signs/);
});

it('makes its page, which loads, and is in the list', async () => {
  await run(process.execPath, ['--import', 'jiti/register', 'scripts/docs.ts'], { cwd: tree });
  const { isGreen, output } = await testSchemes('test/docs/publishers.test.ts');
  expect(isGreen, output.slice(-4000)).toBe(true);
  expect(output).toMatch(/the page of Parcels > says what the signature covers/);
});
