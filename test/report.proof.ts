import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from './temporary.ts';

const SCRIPTS = resolve(import.meta.dirname, '../scripts');
type Budgets = Record<string, { most: number; goal: number }>;
let folder: string;
let budgets: Budgets;

beforeAll(async () => {
  folder = temporaryFolder('report');
  budgets = JSON.parse(await readFile(join(SCRIPTS, 'budgets.json'), 'utf8'));
});

/** The errors of a report with these budgets, and its exit code. */
async function reportUnder(chosen: Budgets): Promise<{ code: number; stderr: string }> {
  const file = join(folder, 'budgets.json');
  await writeFile(file, JSON.stringify(chosen));
  return new Promise((done) => {
    execFile(process.execPath, [join(SCRIPTS, 'report.mjs'), file], (error, _, stderr) =>
      done({ code: typeof error?.code === 'number' ? error.code : 0, stderr }),
    );
  });
}

it('fails the check where a figure exceeds its budget, and names each that does', async () => {
  const halved = Object.entries(budgets).map(([name, { goal }]) => [name, { most: Math.floor(goal / 2), goal }]);
  const { code, stderr } = await reportUnder(Object.fromEntries(halved));
  expect(code).toBe(1);
  for (const name of Object.keys(budgets)) expect(stderr).toContain(`${name}: `);
});

it('fails the check where a budget has no figure', async () => {
  const { code, stderr } = await reportUnder({ ...budgets, 'what nothing counts': { most: 1, goal: 1 } });
  expect(code).toBe(1);
  expect(stderr).toContain('what nothing counts: ');
});
