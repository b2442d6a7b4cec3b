import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandName, packageName } from '../../src/version.ts';
import { runCli } from '../e2e/cli.ts';
import { createWorkspace, getJson } from '../e2e/service.ts';
import { serveWith } from './serve.ts';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

/** A folder without manifests. */
async function emptyFolder() {
  const workspace = await createWorkspace();
  const folder = join(workspace.folder, 'empty');
  mkdirSync(folder);
  const at = { ...workspace, folder };
  const env = { PATH: process.env.PATH ?? '', SLUICE_PORT: '0' };
  return {
    folder,
    serve: (...args: string[]) => serveWith([process.execPath, CLI, 'serve', ...args], { cwd: folder, env }),
    run: (args: string[], more: Record<string, string> = {}) => runCli(at, args, { env: { ...env, ...more } }),
  };
}

it('serve in an empty folder writes a first flow with a key made up, which send finds', async () => {
  const { folder, serve, run } = await emptyFolder();
  const { url, lines, stop } = await serve();
  expect(lines[0]).toBe('There were no manifests: wrote manifests/github.json, a first flow, and its key to .env');
  expect(lines).toContain(`  npx ${packageName} send github --to ${url}`);
  const [flow] = await getJson<{ triggers: { sendCommand: string; mode: string }[] }[]>(`${url}/flows/api/flows`);
  expect(flow?.triggers).toMatchObject([
    { sendCommand: `npx ${packageName} send github --to ${url}`, mode: 'Enforce' },
  ]);
  expect((await run(['send', 'github', '--to', url])).stdout).toMatch(/^200 /);
  expect((await run(['send', 'github', '--wrong-key', '--to', url])).stdout).toMatch(/^401 /);
  expect(await stop()).toEqual([0, null]);
  expect(readFileSync(join(folder, '.env'), 'utf8')).toMatch(/^GITHUB_WEBHOOK_SECRET=[0-9a-f]{64}\n$/);
  expect(statSync(join(folder, '.env')).mode & 0o77).toBe(0);
  expect(readFileSync(join(folder, 'manifests/github.json'), 'utf8')).not.toMatch(/[0-9a-f]{64}/);

  const again = await serve();
  expect(again.lines.join('\n')).not.toContain('first flow');
  await again.stop();
});

it('takes the key of the first flow from the environment, if it is there', async () => {
  const { folder } = await emptyFolder();
  const env = { PATH: process.env.PATH ?? '', SLUICE_PORT: '0', GITHUB_WEBHOOK_SECRET: 'a key that was there before' };
  const { lines, stop } = await serveWith([process.execPath, CLI, 'serve'], { cwd: folder, env });
  expect(lines[0]).toBe('There were no manifests: wrote manifests/github.json, a first flow');
  await stop();
  expect(readdirSync(folder)).not.toContain('.env');
});

const MISSING = /cannot be read: ENOENT/;

it.each<[string, string[], Record<string, string>, (folder: string) => void]>([
  ['an option names the folder', ['--manifests', 'flows'], {}, () => {}],
  ['a variable names the folder', [], { SLUICE_MANIFESTS: 'manifests' }, () => {}],
  [
    'a config module names the folder',
    [],
    {},
    (at) => writeFileSync(join(at, 'sluice.config.js'), 'export default { manifests: "flows" };'),
  ],
  ['an option names the database', ['--database', 'sqlite:other.db'], {}, () => {}],
  [
    'there is a database',
    [],
    {},
    (at) => {
      mkdirSync(join(at, 'data'));
      writeFileSync(join(at, 'data/sluice.db'), '');
    },
  ],
])('a missing folder stays missing where %s', async (_, args, env, prepare) => {
  const { folder, run } = await emptyFolder();
  prepare(folder);
  const before = readdirSync(folder);
  const { code, stdout, stderr } = await run(['serve', ...args], env);
  expect(stderr).toMatch(MISSING);
  expect(stdout).not.toContain('first flow');
  expect(code).toBe(1);
  expect(readdirSync(folder)).toEqual(before);
});

it('npx finds the command by its short name where npm installed it here or above, else by the package', async () => {
  const { folder } = await emptyFolder();
  expect(commandName(folder)).toBe(`npx ${packageName}`);
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/.bin/sluice'), '');
  mkdirSync(join(folder, 'below/it'), { recursive: true });
  for (const each of [folder, join(folder, 'below/it')]) expect(commandName(each)).toBe('npx sluice');
});
