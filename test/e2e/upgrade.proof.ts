import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { nextRelease, PRESENT, twoReleases } from './releases.ts';
import {
  createWorkspace,
  eventually,
  getJson,
  githubManifest,
  type Service,
  sendPush,
  startService,
} from './service.ts';

const { earlier, later } = twoReleases();
const newer = nextRelease('expand');

async function prepare() {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  return workspace;
}

/** Sends a delivery and returns the status. */
const deliver = async (service: Service, id: string) => (await sendPush(service, '{}', { id })).status;

const runsOf = ({ url }: Service) => getJson<{ id: string; status: string }[]>(`${url}/flows/api/runs`);
const ENFORCE = { SLUICE_ENFORCEMENT_MODE: 'Enforce' };

test('a later release goes on with the file of an earlier one that was killed: its runs, and its nonces', async () => {
  const workspace = await prepare();
  const before = await startService(workspace, ENFORCE, earlier);
  const delivery = randomUUID();
  expect(await deliver(before, delivery)).toBe(200);
  const [run] = await runsOf(before);
  await before.stop('SIGKILL');

  const after = await startService(workspace, ENFORCE, later);
  onTestFinished(() => void after.stop('SIGKILL'));
  expect(await deliver(after, delivery)).toBe(409);
  expect(await deliver(after, randomUUID())).toBe(200);
  const runs = await eventually(
    () => runsOf(after),
    (all) => all.length === 2 && all.every(({ status }) => status === 'Succeeded'),
  );
  expect(runs.map(({ id }) => id)).toContain(run?.id);
});

test('a release refuses the file of a later one, says so, and leaves it as it is', async () => {
  const workspace = await prepare();
  const after = await startService(workspace, ENFORCE, newer);
  expect(await deliver(after, randomUUID())).toBe(200);
  await after.stop('SIGTERM');
  await expect(startService(workspace, ENFORCE, PRESENT)).rejects.toThrow(
    /schema version is \d+ and the newest that this release knows is \d+; start a newer release/,
  );
  const again = await startService(workspace, ENFORCE, newer);
  onTestFinished(() => void again.stop('SIGKILL'));
  expect(await runsOf(again)).toHaveLength(1);
});

const again = { ...ENFORCE, SLUICE_LOG_LEVEL: 'info' };

test.each([
  ['an earlier release runs', earlier, later],
  ['a later release runs', later, earlier],
])('while %s on a file, the other one is refused and the file keeps its schema', async (_what, running, other) => {
  const workspace = await prepare();
  const first = await startService(workspace, ENFORCE, running);
  onTestFinished(() => void first.stop('SIGKILL'));
  expect(await deliver(first, randomUUID())).toBe(200);
  await expect(startService(workspace, ENFORCE, other)).rejects.toThrow('it is in use by another process');
  expect(await deliver(first, randomUUID())).toBe(200);
  expect(await runsOf(first)).toHaveLength(2);
});

test('a start that changes the schema of a file says so, and one that need not says nothing', async () => {
  const workspace = await prepare();
  for (const [build, told] of [
    [earlier, false],
    [later, true],
    [later, false],
  ] as const) {
    const service = await startService(workspace, again, build);
    expect(service.output().includes('migrating the database')).toBe(told);
    await service.stop('SIGTERM');
  }
});

/** One release copies the database that another wrote last. */
test.each([
  ['of an upgraded file by the later release', later, later],
  ['of a file that is not upgraded yet, by the later release', earlier, later],
])('a copy %s has its runs and its nonces', async (_what, last, copying) => {
  const workspace = await prepare();
  const delivery = randomUUID();
  for (const build of [earlier, last]) {
    const service = await startService(workspace, ENFORCE, build);
    expect(await deliver(service, build === earlier && build !== last ? randomUUID() : delivery)).toBeLessThan(500);
    await service.stop('SIGTERM');
  }
  const { stdout, stderr } = await copyFile(workspace.folder, copying);
  expect(stderr + stdout).toMatch(/has all \d+ rows/);
  const copy = await startService(workspace, { ...ENFORCE, SLUICE_DATABASE_URL: 'sqlite:./copy.db' }, later);
  onTestFinished(() => void copy.stop('SIGKILL'));
  expect(await deliver(copy, delivery)).toBe(409);
  expect(await deliver(copy, randomUUID())).toBe(200);
});

test('an earlier release copies no upgraded file, and says why', async () => {
  const workspace = await prepare();
  const service = await startService(workspace, ENFORCE, later);
  await service.stop('SIGTERM');
  const { stderr, stdout } = await copyFile(workspace.folder, earlier);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/schema version is \d+ and the newest that this release knows is \d+/);
});

async function copyFile(folder: string, build: string): Promise<{ stdout: string; stderr: string }> {
  const args = [join(build, 'dist/cli.js'), 'copy', '--from', 'sqlite:./data/sluice.db', '--to', 'sqlite:./copy.db'];
  const options = { cwd: folder, env: { PATH: process.env.PATH } };
  return await promisify(execFile)(process.execPath, args, options).catch((error) => error);
}
