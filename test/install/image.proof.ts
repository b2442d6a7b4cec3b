import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { buildImage, type Image, rootOf } from './image.ts';
import { readText } from './kube-tools.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const USER = '1000';
const AS_USER = ['setpriv', '--reuid', USER, '--regid', USER, '--clear-groups', '--'];
const TOKEN = 'a token of the dashboard';

/** Why the image cannot be built and started here: that needs root, and a container user who may make namespaces. */
function obstacle(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux, as a builder of images';
  const [command = '', ...args] = [...AS_USER, 'bwrap', '--unshare-all', '--ro-bind', '/', '/', 'true'];
  return spawnSync(command, args).status === 0 ? undefined : 'bubblewrap is not installed, or may make no namespaces';
}
const reason = obstacle();

interface Container {
  readonly child: ChildProcess;
  /** Id of its first process on this machine. */
  readonly pid: number;
  readonly output: Promise<string>;
  readonly ended: Promise<[code: number | null]>;
  /** Runs a program in it, as `docker exec` does. */
  exec(...command: string[]): { readonly status: number | null; readonly stdout: string };
}

/** Reads bubblewrap's info. The pipe never ends: the child holds it open too. Closing it would end bubblewrap. */
async function firstProcess(info: Readable): Promise<number> {
  let told = '';
  for await (const part of info.iterator({ destroyOnReturn: false })) {
    told += part;
    if (told.trimEnd().endsWith('}')) return JSON.parse(told)['child-pid'];
  }
  throw new Error(`bubblewrap ended: ${told}`);
}

describe.skipIf(reason !== undefined)(`the image${reason === undefined ? '' : ` (${reason})`}`, () => {
  let images: Image[];
  let image: Image;
  let outside: string;
  const containers: Container[] = [];

  beforeAll(async () => {
    images = await buildImage(readText('docker/Dockerfile'));
    image = images.at(-1) as Image;
    outside = mkdtempSync(join(tmpdir(), 'sluice-volumes-'));
    chmodSync(outside, 0o755);
    // A new volume gets the owner and mode of the image's folder.
    for (const volume of image.volumes) execFileSync('cp', ['-a', join(image.root, volume), join(outside, volume)]);
    cpSync(join(ROOT, 'manifests'), join(outside, 'manifests'), { recursive: true });
  }, 900_000);
  afterAll(async () => {
    for (const { child } of containers) child.kill('SIGKILL');
    for (const folder of [...(images ?? []).map(({ root }) => root), outside])
      await rm(folder, { recursive: true, force: true });
  }, 900_000);

  /** Starts the image as `docker run --read-only --tmpfs /tmp --cap-drop ALL` does, with an isolated network. */
  async function start(variables: Record<string, string>, command = image.command): Promise<Container> {
    const [setpriv = '', ...user] = AS_USER;
    const volumes = image.volumes.flatMap((volume) => ['--bind', join(outside, volume), volume]);
    const flags = [
      '--unshare-all',
      '--as-pid-1',
      '--die-with-parent',
      '--uid',
      USER,
      '--gid',
      USER,
      '--cap-drop',
      'ALL',
    ];
    const child = spawn(
      setpriv,
      [
        ...user,
        ...['bwrap', ...flags, '--info-fd', '3', ...rootOf(image, '--ro-bind'), ...volumes],
        ...['--ro-bind', join(outside, 'manifests'), '/manifests', '--chdir', image.workdir, '--remount-ro', '/'],
        ...['--', ...image.entrypoint, ...command],
      ],
      { env: { ...image.env, ...variables }, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] },
    );
    const ended = once(child, 'exit') as Promise<[number | null]>;
    const said = [child.stdout, child.stderr].map((stream) => text(stream as Readable));
    const pid = await firstProcess(child.stdio[3] as Readable);
    const container: Container = {
      child,
      pid,
      ended,
      output: Promise.all(said).then((parts) => parts.join('')),
      exec: (...words) => {
        const enter = [
          '--target',
          String(pid),
          '--user',
          '--mount',
          '--net',
          '--pid',
          '--setuid',
          USER,
          '--setgid',
          USER,
        ];
        const { status, stdout, stderr } = spawnSync('nsenter', [...enter, `--wdns=${image.workdir}`, '--', ...words], {
          env: { ...image.env, ...variables },
          encoding: 'utf8',
        });
        return { status, stdout: stdout + stderr };
      },
    };
    containers.push(container);
    return container;
  }

  it('holds what runs and no more: no compiler, no source, no test', () => {
    expect(readdirSync(join(image.root, 'app')).sort()).toEqual([
      'LICENSE',
      'dist',
      'health.mjs',
      'node_modules',
      'package.json',
    ]);
    expect(readdirSync(join(image.root, 'app/node_modules'))).not.toContain('typescript');
    expect(image.user).toBe('node');
  });

  it('serves, is healthy, takes a signed delivery, writes nowhere else and stops, all without a right', async () => {
    const container = await start({ SLUICE_DASHBOARD_TOKEN: TOKEN });
    const healthy = () => container.exec(...image.health);
    await eventually(
      async () => healthy().status ?? (await container.ended.then(() => container.output)),
      (status) => {
        if (typeof status === 'string') throw new Error(status);
        return status === 0;
      },
      { seconds: 60, because: 'each question starts a process in the image, on a machine that starts the service too' },
    );
    await eventually(
      async () => container.exec('node', '/app/health.mjs', 'ready').status,
      (status) => status === 0,
      { seconds: 60, because: 'each question starts a process in the image' },
    );
    const sent = container.exec('node', '/app/dist/cli.js', 'send', 'github-push', '--to', 'http://127.0.0.1:3000');
    expect(sent, sent.stdout).toMatchObject({ status: 0, stdout: expect.stringContaining('200') });

    const tried = container.exec(
      'sh',
      '-c',
      'for place in / /app /app/dist /manifests /etc /usr /data /tmp; do touch "$place/x" 2>/dev/null && echo "$place"; done; true',
    );
    expect(tried.stdout.trim().split('\n')).toEqual(['/data', '/tmp']);
    const status = container.exec('cat', '/proc/1/status').stdout;
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);

    process.kill(container.pid, 'SIGTERM');
    const [code] = await container.ended;
    expect(code, await container.output).toBe(0);
    expect(readdirSync(join(outside, 'data')).sort()).toEqual(expect.arrayContaining(['sluice.db', 'sluice.db.key']));
  });

  it('does not open itself to a network without credentials', async () => {
    const container = await start({});
    const [code] = await container.ended;
    expect(code).not.toBe(0);
    expect(await container.output).toContain('SLUICE_DASHBOARD_TOKEN');
  });

  it('runs other commands', async () => {
    const container = await start({ SLUICE_DASHBOARD_TOKEN: TOKEN }, ['check']);
    const [code] = await container.ended;
    expect([code, await container.output]).toEqual([0, expect.stringContaining('6 flows can be deployed, 0 errors')]);
  });
});
