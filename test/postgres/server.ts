import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { freePort } from '../free-port.ts';
import { isInstalled } from '../oracles/lock.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of a database in which tests may make schemas; empty if there is none. */
    readonly postgresUrl: string;
    /** Prefix of all schema names of this run. */
    readonly schemaPrefix: string;
  }
}

/** Gives the tests a PostgreSQL: the one in `TEST_POSTGRES`, or a new one until they end. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const prefix = `test_${randomUUID().slice(0, 8)}_`;
  project.provide('schemaPrefix', prefix);
  const given = process.env.TEST_POSTGRES;
  if (given !== undefined && given !== '') {
    project.provide('postgresUrl', given);
    return () => dropSchemas(given, prefix);
  }
  if (!isInstalled()) {
    // The run continues: `server-setup.ts` fails each test file.
    project.provide('postgresUrl', '');
    return async () => {};
  }
  const server = await startPostgres();
  project.provide('postgresUrl', server.url);
  return () => server.stop();
}

async function dropSchemas(url: string, prefix: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query('SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)', [
    prefix,
  ]);
  for (const { name } of rows) await client.query(`DROP SCHEMA ${pg.escapeIdentifier(name)} CASCADE`);
  await client.end();
}

/** A separate server, which a test may hurt. */
export interface OwnPostgres {
  readonly url: string;
  /** Ends it as a crash does; resolves when all its processes are gone. */
  kill(): Promise<void>;
  /** Starts it again after a kill, on the same port with its data. */
  start(): Promise<void>;
  /** From now on it accepts connections and answers nothing. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** Starts a server in a new folder. It loses data if the machine stops, which is fine for tests. */
export async function startPostgres(flags: readonly string[] = []): Promise<OwnPostgres> {
  const { loadPostgres } = await import('../oracles/postgres.ts');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'));
  // The server may run as another user, who must be able to reach its data folder inside.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const output: string[] = [];
  const EmbeddedPostgres = await loadPostgres(folder);
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'sluice',
    password: 'sluice',
    persistent: false,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    // It sorts text as people do; most servers do so by default, SQLite does not.
    initdbFlags: [
      ...['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=en-US', '--no-sync'],
      // The password is not secret, and hashing it thousands of times took a seventh of each connection's CPU.
      '--set=scram_iterations=1',
    ],
    postgresFlags: [
      ...['fsync=off', 'max_connections=300', 'shared_buffers=64MB', 'unix_socket_directories='].flatMap((flag) => [
        '-c',
        flag,
      ]),
      ...flags,
    ],
    onLog: (message) => output.push(String(message)),
    onError: (message) => output.push(String(message)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${output.join('')}`, { cause: error });
  }
  const postmaster = () => Number(readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n', 1)[0]);
  let isKilled = false;
  let paused: number[] = [];
  const resume = () => {
    for (const pid of paused) signal(pid, 'SIGCONT');
    paused = [];
  };
  return {
    url: `postgres://sluice:sluice@127.0.0.1:${port}/postgres`,
    async kill() {
      const processes = family(postmaster());
      isKilled = true;
      signal(postmaster(), 'SIGKILL');
      // The other processes end when they notice; the next server starts only after that.
      while (processes.some((pid) => signal(pid, 0))) await wait(10);
    },
    async start() {
      if (isKilled) await server.start();
      isKilled = false;
    },
    pause() {
      paused = family(postmaster());
      for (const pid of paused) signal(pid, 'SIGSTOP');
    },
    resume,
    async stop() {
      resume();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A process and its children. */
function family(parent: number): number[] {
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  const pairs = all.map((line) => line.trim().split(/\s+/).map(Number));
  return [parent, ...pairs.flatMap(([pid = 0, by]) => (by === parent ? [pid] : []))];
}

/** Whether the process existed. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
