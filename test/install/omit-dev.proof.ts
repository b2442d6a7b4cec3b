import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../temporary.ts';
import { npmStart } from './npm-start.ts';

const ROOT = resolve(import.meta.dirname, '../..');

it('a built checkout installs without devDependencies, and starts', async () => {
  const checkout = temporaryFolder('omit-dev');
  for (const name of ['package.json', 'package-lock.json', 'scripts', 'dist']) {
    await cp(join(ROOT, name), join(checkout, name), { recursive: true });
  }
  execFileSync('npm', ['ci', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund'], {
    cwd: checkout,
    // npm's scripts use the Node that runs the test, because the one of the devDependencies is missing.
    env: { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) },
    stdio: 'pipe',
  });
  expect(existsSync(join(checkout, 'node_modules/rolldown'))).toBe(false);
  const { child, hasEnded } = await npmStart(checkout);
  child.kill('SIGTERM');
  expect(await hasEnded).toEqual([0, null]);
});
