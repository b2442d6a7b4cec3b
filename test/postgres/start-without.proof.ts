import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { resolve } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { createWorkspace, eventually, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { freePort } from '../free-port.ts';
import { newSchema } from './schemas.ts';

const MAIN = resolve(import.meta.dirname, '../../dist/main.js');
const BODY = '{"ref":"refs/heads/main"}';
const TIME_LIMIT_MS = 60_000;

/** A route to the database that tests can cut and mend; it starts cut. */
async function wayTo(url: string): Promise<{ url: string; mend(): Promise<void>; cut(): void }> {
  const target = new URL(url);
  const way = new URL(url);
  way.hostname = '127.0.0.1';
  way.port = String(await freePort());
  const sockets = new Set<Socket>();
  let server: Server | undefined;
  const cut = () => {
    server?.close();
    server = undefined;
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(cut);
  return {
    url: way.href,
    cut,
    async mend() {
      server = createServer((incoming) => {
        const outgoing = connect(Number(target.port || 5432), target.hostname);
        for (const socket of [incoming, outgoing]) {
          sockets.add(socket);
          socket.on('error', () => {});
          socket.on('close', () => {
            sockets.delete(socket);
            incoming.destroy();
            outgoing.destroy();
          });
        }
        incoming.pipe(outgoing).pipe(incoming);
      }).listen(Number(way.port), '127.0.0.1');
      await once(server, 'listening');
    },
  };
}

interface Started {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  output(): string;
  /** 0 if nothing listens. */
  status(path: string): Promise<number>;
  deliver(): Promise<{ status: number; body: string }>;
}

async function start(databaseUrl: string): Promise<Started> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const port = await freePort();
  const child = spawn(process.execPath, [MAIN], {
    cwd: workspace.folder,
    env: {
      PATH: process.env.PATH ?? '',
      SLUICE_PORT: String(port),
      SLUICE_DATABASE_URL: databaseUrl,
      SLUICE_DATABASE_SCHEMA: newSchema(),
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
      SLUICE_DRAIN_SECONDS: '0',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  // Not `exit`: the last output may arrive after it.
  const exited = once(child, 'close').then(([code]) => code as number | null);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    child,
    exited,
    output: () => output,
    status: (path) =>
      fetch(`${url}${path}`).then(
        ({ status }) => status,
        () => 0,
      ),
    async deliver() {
      const response = await fetch(`${url}/flows/api/webhook/push`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(BODY).digest('hex')}`,
          'x-github-delivery': randomUUID(),
        },
        body: BODY,
      });
      return { status: response.status, body: await response.text() };
    },
  };
}

const is = (wanted: number) => (status: number) => status === wanted;

test('a start waits for a database that is away, alive and not ready, and says so in one line', {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const way = await wayTo(inject('postgresUrl'));
  const service = await start(way.url);
  await eventually(() => service.status('/health/live'), is(200));
  expect(await service.status('/health/ready')).toBe(503);
  expect(await service.status('/flows')).toBe(503);
  const refused = await service.deliver();
  expect(refused).toMatchObject({ status: 503, body: expect.stringContaining('"reason":"store_unavailable"') });
  await way.mend();
  await eventually(() => service.status('/health/ready'), is(200));
  expect(await service.deliver()).toMatchObject({ status: 200 });
  const told = service
    .output()
    .split('\n')
    .filter((line) => line.includes('waiting for the database'));
  expect(told).toHaveLength(1);
  expect(told[0]).toMatch(/at 127\.0\.0\.1:\d+\/postgres \(SLUICE_DATABASE_URL\): .*ECONNREFUSED/);
  expect(service.output()).toMatch(
    /made a new, empty database: 127\.0\.0\.1:\d+\/postgres, schema \w+ \(SLUICE_DATABASE_URL\)/,
  );
  expect(service.output()).not.toContain(`:${new URL(inject('postgresUrl')).password}@`);
});

test('a stop ends a start that waits', { timeout: TIME_LIMIT_MS }, async () => {
  const service = await start((await wayTo(inject('postgresUrl'))).url);
  await eventually(() => service.status('/health/live'), is(200));
  service.child.kill('SIGTERM');
  expect(await service.exited).toBe(0);
});

test.each<[string, (url: URL) => void, RegExp]>([
  ['an unknown database', (url) => (url.pathname = '/nowhere'), /database "nowhere" does not exist/],
  ['wrong credentials', (url) => (url.username = 'nobody'), /nobody/],
])('%s ends a start', { timeout: TIME_LIMIT_MS }, async (_what, change, told) => {
  const url = new URL(inject('postgresUrl'));
  change(url);
  const service = await start(url.href);
  expect(await service.exited).toBe(1);
  expect(service.output()).toMatch(told);
  expect(service.output()).not.toContain('waiting for the database');
});

test('a database that goes when the service begins to listen does not end it', {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const way = await wayTo(inject('postgresUrl'));
  await way.mend();
  const service = await start(way.url);
  // At the very first answer, the service has not yet taken over what the previous one left.
  await eventually(() => service.status('/health/live'), is(200));
  way.cut();
  await eventually(() => service.status('/health/ready'), is(503));
  await way.mend();
  await eventually(() => service.status('/health/ready'), is(200));
  expect(await service.deliver()).toMatchObject({ status: 200 });
  await eventually(service.output, (text) => text.includes('Sluice listens'));
});
