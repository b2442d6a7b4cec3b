import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { freePort } from '../free-port.ts';
import { type Candidate, endProcess } from './candidates.ts';
import type { OnPostgres } from './on-postgres.ts';
import { answering, type Peer, scriptedPeer } from './peers.ts';

const FASTIFY = 'fastify@5.12.8';

/** Users' alternatives: each stores a verified delivery under its id before it answers, and runs one step of it. */
export function durablePeers(postgres: OnPostgres): Peer[] {
  const onPostgres = (name: string, script: string, packages: readonly string[]): Peer => ({
    name,
    packages: [FASTIFY, ...packages],
    make: async (folder) => {
      const env = { PEER_DATABASE: await postgres.createDatabase() };
      return withHelper(await scriptedPeer(folder, script, env), { pid: postgres.pid, stop: async () => {} });
    },
  });
  return [
    {
      name: 'Fastify that only verifies',
      packages: [FASTIFY],
      make: (folder) => scriptedPeer(folder, 'verifies-only.mjs'),
    },
    {
      name: 'Fastify, BullMQ on Redis',
      packages: [FASTIFY, 'bullmq@6.7.0', 'ioredis@5.9.2'],
      make: withServer(startRedis, 'bullmq.mjs'),
    },
    onPostgres('Fastify, pg-boss on PostgreSQL', 'pg-boss.mjs', ['pg-boss@12.38.0']),
    onPostgres('Fastify, graphile-worker on PostgreSQL', 'graphile-worker.mjs', ['graphile-worker@0.18.0']),
    onPostgres('Fastify, DBOS on PostgreSQL', 'dbos.mjs', ['@dbos-inc/dbos-sdk@5.3.0']),
    {
      name: 'Fastify, Restate',
      packages: [FASTIFY, '@restatedev/restate-sdk@1.17.2', '@restatedev/restate-server@1.7.12', 'undici@7.30.2'],
      make: withServer(startRestate, 'restate.mjs'),
    },
  ];
}

/** A server in which a peer stores its deliveries. */
interface Helper {
  readonly pid: number;
  stop(): Promise<void>;
}

type StartServer = (packages: string) => Promise<Helper & { readonly env: Record<string, string> }>;

/** A peer with its own server, both fresh. */
function withServer(startServer: StartServer, script: string): Peer['make'] {
  return async (folder) => {
    const server = await startServer(folder);
    try {
      return withHelper(await scriptedPeer(folder, script, server.env), server);
    } catch (error) {
      await server.stop();
      throw error;
    }
  };
}

function withHelper(candidate: Candidate & { origin: string }, helper: Helper): Candidate {
  return {
    ...candidate,
    helpers: [helper.pid],
    async runs() {
      const executed = await (await fetch(`${candidate.origin}/executed`)).text();
      return { executed: Number(executed), oldestDueMs: 0 };
    },
    async stop() {
      await candidate.stop();
      await helper.stop();
    },
  };
}

/** Debian's redis-server, or any of that name; each write is flushed to the disk before the answer. */
async function startRedis() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-redis-'));
  const port = await freePort();
  const settings = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--save', ''];
  const flushed = ['--appendonly', 'yes', '--appendfsync', 'always'];
  const child = await started(spawn('redis-server', [...settings, ...flushed], { stdio: 'ignore' }));
  await listening(port, child);
  return { pid: child.pid ?? 0, env: { PEER_REDIS_PORT: String(port) }, stop: stopAndRemove(child, folder) };
}

/** The server's binary from the package for this platform. It flushes its log by default. */
async function startRestate(packages: string) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-restate-'));
  const [node, ingress, admin] = [await freePort(), await freePort(), await freePort()];
  const platform = `restate-server-${process.platform}-${process.arch}`;
  const path = join(packages, 'node_modules/@restatedev', platform, 'bin/restate-server');
  const env = {
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_BIND_IP: '127.0.0.1',
    RESTATE_BIND_PORT: String(node),
    RESTATE_INGRESS__BIND_PORT: String(ingress),
    RESTATE_ADMIN__BIND_PORT: String(admin),
    RESTATE_LOG_FILTER: 'warn',
    DO_NOT_TRACK: '1',
  };
  const args = ['--no-logo', '--base-dir', folder, '--node-name', 'bench'];
  const child = await started(spawn(path, args, { env, cwd: folder, stdio: 'ignore' }));
  const urls = { PEER_INGRESS: `http://127.0.0.1:${ingress}`, PEER_ADMIN: `http://127.0.0.1:${admin}` };
  for (const url of [`${urls.PEER_ADMIN}/health`, `${urls.PEER_INGRESS}/restate/health`])
    await answering(url, () => child.exitCode === null);
  return { pid: child.pid ?? 0, env: urls, stop: stopAndRemove(child, folder) };
}

/** Rejects if the program is missing. */
async function started(child: ChildProcess): Promise<ChildProcess> {
  await once(child, 'spawn');
  return child;
}

async function listening(port: number, { exitCode }: ChildProcess): Promise<void> {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const isThere = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isThere) return;
    if (exitCode !== null) throw new Error(`nothing listens on port ${port}`);
    await setTimeout(50);
  }
}

function stopAndRemove(child: ChildProcess, folder: string) {
  return async () => {
    await endProcess(child);
    await rm(folder, { recursive: true, force: true });
  };
}
