import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ListenError } from '../../src/listening.ts';
import { createWorkspace, githubManifest } from '../e2e/service.ts';

const MAIN = resolve(import.meta.dirname, '../../dist/main.js');
const TOKEN = 'a-token-that-is-long-enough-to-be-one';

/** The tests start processes, on machines that are busy with other work. */
const TIME_LIMIT_MS = 60_000;

async function start(
  environment: Record<string, string>,
  prepare?: (folder: string) => Promise<void>,
  account: { readonly uid?: number; readonly gid?: number } = {},
) {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  await prepare?.(workspace.folder);
  const child = spawn(process.execPath, [MAIN], {
    cwd: workspace.folder,
    env: { PATH: process.env.PATH ?? '', SLUICE_PORT: '0', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...account,
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code, stdout, stderr, folder: workspace.folder };
}

/** A folder that this account cannot write to: even root cannot make a file in the kernel's. */
async function closedFolder(folder: string): Promise<string> {
  if (process.getuid?.() === 0) return '/sys';
  const closed = join(folder, 'closed');
  await mkdir(closed);
  await chmod(closed, 0o500);
  return closed;
}

describe('a start that cannot have what its settings name says in one line what to do, and ends with 1', {
  timeout: TIME_LIMIT_MS,
}, () => {
  it('where the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const { code, stderr, stdout } = await start({ SLUICE_PORT: String(port) });
    expect(stderr).toBe(
      `Sluice cannot listen on 127.0.0.1, port ${port}: another program listens on port ${port}; ` +
        'stop it, or set SLUICE_PORT to a free port\n',
    );
    expect(stdout).not.toContain('Sluice listens');
    expect(code).toBe(1);
  });

  it('where the address is another machine’s', async () => {
    const { code, stderr } = await start({ SLUICE_HOST: '203.0.113.7', SLUICE_DASHBOARD_TOKEN: TOKEN });
    expect(stderr).toMatch(/^Sluice cannot listen on 203\.0\.113\.7, port 0: .* set SLUICE_HOST to .*\n$/);
    expect(code).toBe(1);
  });

  it('where the folder of the database cannot be written', async () => {
    const workspace = await createWorkspace();
    const path = join(await closedFolder(workspace.folder), 'sluice.db');
    const { code, stderr } = await start({ SLUICE_DATABASE_URL: `sqlite:${path}` });
    expect(stderr).toMatch(/^the database \S+\/sluice\.db cannot be opened: EACCES.*\n$/);
    expect(stderr).toContain('the account that runs Sluice must be able to write this file and its folder');
    expect(code).toBe(1);
  });

  it('where the database belongs to another account, or is closed to its own', async () => {
    const isRoot = process.getuid?.() === 0;
    const prepare = async (folder: string) => {
      if (isRoot) await chmod(folder, 0o755);
      await mkdir(join(folder, 'data'));
      await writeFile(join(folder, 'data/sluice.db'), '');
      await chmod(join(folder, 'data'), isRoot ? 0o755 : 0o500);
    };
    const { code, stderr } = await start({}, prepare, isRoot ? { uid: 65_534, gid: 65_534 } : {});
    expect(stderr).toMatch(
      /^the database \S+ cannot be opened: .*; (\S+) belongs to (root|the account \d+) and Sluice runs as the account \d+, which may not read and write it: (chown \d+:\d+|chmod u\+rwX) \1 \(SLUICE_DATABASE_URL\)\n$/,
    );
    expect(code).toBe(1);
  });

  it.each([
    ['a folder', '/', 'it is a folder; name a file'],
    ['a device', '/dev/null', 'it is a device, a pipe or a socket; name a file'],
    ['a place that takes no folder', '/proc/sluice/sluice.db', 'ENOENT'],
  ])('where the database is %s', async (_, path, reason) => {
    const { code, stderr } = await start({ SLUICE_DATABASE_URL: `sqlite:${path}` });
    expect(stderr).toContain(`the database ${path} cannot be opened: ${reason}`);
    expect(stderr).toMatch(/^.* \(SLUICE_DATABASE_URL\)\n$/);
    expect(code).toBe(1);
  });

  it('where a file is in the place of the folder', async () => {
    const { code, stderr } = await start({}, (folder) => writeFile(join(folder, 'data'), ''));
    expect(stderr).toMatch(
      /^the database \S+ cannot be opened: .*; a file is where its folder should be \(SLUICE_DATABASE_URL\)\n$/,
    );
    expect(code).toBe(1);
  });
});

it.each([
  ['EACCES', 'set SLUICE_PORT to 1024 or more'],
  ['ENOTFOUND', 'set SLUICE_HOST to an address of this machine'],
  ['EAFNOSUPPORT', 'set SLUICE_HOST to another kind of address'],
])('an error %s of listen is told as what to do', (code, cure) => {
  const error = Object.assign(new Error('as Node says it'), { code });
  const told = ListenError.from(error, { host: 'example', port: 80 });
  expect(told).toBeInstanceOf(ListenError);
  expect(String(told)).toContain(cure);
});

it('an error of listen that nothing is known about keeps its own words and stack', () => {
  const error = Object.assign(new Error('odd'), { code: 'EODD' });
  expect(ListenError.from(error, { host: 'example', port: 80 })).toBe(error);
});
