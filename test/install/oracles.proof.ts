import { spawnSync } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The scripts of test/oracles in a new folder, with a lock file without packages. */
function copyOfOracles() {
  const folder = temporaryFolder('oracles');
  for (const name of ['install.ts', 'installed.ts', 'lock.ts'])
    cpSync(join(ROOT, 'test/oracles', name), join(folder, name));
  const write = (name: string, content: object) => writeFileSync(join(folder, name), JSON.stringify(content));
  const lock = (version: string, devDependencies = {}) => {
    const itself = { name: 'oracles', version, devDependencies };
    write('package.json', { ...itself, type: 'module' });
    write('package-lock.json', { ...itself, lockfileVersion: 3, requires: true, packages: { '': itself } });
  };
  lock('1.0.0');
  const run = (script: string) => {
    // npm uses the Node that runs the test, and no registry.
    const env = {
      ...process.env,
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      npm_config_registry: 'http://127.0.0.1:9',
      npm_config_fetch_retries: '0',
    };
    const jiti = join(ROOT, 'node_modules/jiti/lib/jiti-cli.mjs');
    return spawnSync(process.execPath, [jiti, join(folder, script)], { encoding: 'utf8', env });
  };
  return { lock, run };
}

it('installs the packages of tests once for each lock file, says so in one line, and is silent after that', () => {
  const { lock, run } = copyOfOracles();
  const line = /^Installing the packages .* into test\/oracles\/node_modules\n$/;
  expect(run('install.ts')).toMatchObject({ status: 0, stdout: expect.stringMatching(line), stderr: '' });
  expect(run('install.ts')).toMatchObject({ status: 0, stdout: '', stderr: '' });
  expect(run('installed.ts')).toMatchObject({ status: 0, stderr: '' });
  lock('2.0.0');
  expect(run('installed.ts')).toMatchObject({ status: 1, stderr: expect.stringContaining('missing or outdated') });
  expect(run('install.ts')).toMatchObject({ status: 0, stdout: expect.stringMatching(line) });
  expect(run('install.ts')).toMatchObject({ status: 0, stdout: '' });
});

it('goes on where npm fails, and the modules that need a package say what to do', () => {
  const { lock, run } = copyOfOracles();
  // npm ci refuses a lock file that lacks a package.
  lock('1.0.0', { 'no-such-package': '1.0.0' });
  expect(run('install.ts')).toMatchObject({ status: 0, stderr: expect.stringContaining('could not install') });
  expect(run('installed.ts')).toMatchObject({ status: 1, stderr: expect.stringContaining('`npm run oracles`') });
});
