import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Chance, chanceOf } from '../chance.ts';
import { createWorkspace, eventually, getJson, type Service, startService, type Workspace } from '../e2e/service.ts';
import { ENVIRONMENT, play, sevenWorlds } from '../e2e/worlds/seven.ts';
import type { Stage } from '../e2e/worlds/stage.ts';
import { runSql } from './schemas.ts';
import { type OwnPostgres, startPostgres } from './server.ts';

const REPLICAS = ['one', 'two', 'three'];
/** Commands of each world. */
const COMMANDS = Number(process.env.TEST_WORLD_COMMANDS ?? 40);
/** Requests between one hurt and the next, at most. */
const APART = 150;
/** How long a database is away, or silent, at most: longer than a probe waits, shorter than a lease. */
const AWAY_MS = 4000;
const SCHEMA = 'worlds';
const HEALS = { seconds: 120, because: 'replicas find out on their own that the database is back' };

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

type Hurt = 'replica killed' | 'replica stopped' | 'database killed' | 'sessions cut' | 'read-only' | 'silent feed';

const ask = (text: string, values: unknown[] = []) => runSql(text, values, server.url);
const pids = async (condition: string) =>
  (await ask(`SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice%' AND ${condition}`)).map(
    ({ pid }) => Number(pid),
  );
const cutSessions = () =>
  ask(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice%'`);

/** Three replicas, and a database of their own, of which something is hurt by chance while requests are under way. */
class ThreeReplicas implements Stage {
  isHurt = false;
  readonly told: Hurt[] = [];
  readonly #workspace: Workspace;
  readonly #chance: Chance;
  readonly #running = new Map<string, Service>();
  #hurting: Promise<void> = Promise.resolve();
  #left: number;
  #turn = 0;
  #isOver = false;

  constructor(workspace: Workspace, chance: Chance) {
    this.#workspace = workspace;
    this.#chance = chance;
    this.#left = 1 + chance.below(APART);
  }

  async begin(): Promise<void> {
    await Promise.all(REPLICAS.map((name) => this.#start(name)));
  }

  /** Each in its turn, so that one hears of what another was told. */
  async up(): Promise<string> {
    const running = [...this.#running.values()];
    this.#turn += 1;
    const service = running[this.#turn % running.length];
    if (service === undefined) throw new Error('no replica runs');
    return service.url;
  }

  sending(): void {
    this.#left -= 1;
    if (this.#left > 0 || this.isHurt || this.#isOver) return;
    this.isHurt = true;
    this.#hurting = this.#hurt().finally(() => {
      this.isHurt = false;
      this.#left = 1 + this.#chance.below(APART);
    });
    // `rest` tells of it.
    this.#hurting.catch(() => {});
  }

  /** Nothing is hurt from here on. */
  async rest(): Promise<void> {
    this.#isOver = true;
    await this.#hurting;
  }

  async stop(): Promise<void> {
    await this.rest().catch(() => {});
    await Promise.all([...this.#running.values()].map((service) => service.stop('SIGKILL')));
  }

  log(): string {
    return [...this.#running].map(([name, { output }]) => `${name}:\n${output().slice(-2000)}`).join('\n');
  }

  async #hurt(): Promise<void> {
    const { below, pick } = this.#chance;
    const hurt = pick(Object.keys(this.#ways) as Hurt[]);
    this.told.push(hurt);
    await this.#ways[hurt](pick(REPLICAS), below(AWAY_MS));
    await Promise.all(REPLICAS.map((name) => this.#isReady(name)));
  }

  readonly #ways: Readonly<Record<Hurt, (replica: string, ms: number) => Promise<void>>> = {
    'replica killed': (replica) => this.#restart(replica, 'SIGKILL'),
    'replica stopped': (replica) => this.#restart(replica, 'SIGTERM'),
    'database killed': async (_, ms) => {
      await server.kill();
      await wait(ms);
      await server.start();
    },
    'sessions cut': async () => {
      await cutSessions();
    },
    // As during a fail-over: sessions that begin now cannot write.
    'read-only': async (_, ms) => {
      await ask('ALTER DATABASE postgres SET default_transaction_read_only = on');
      await cutSessions();
      await wait(ms);
      await ask('SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only');
    },
    // The sessions that hear of changes say nothing, and are there.
    'silent feed': async (_, ms) => {
      const silent = await pids("query LIKE 'LISTEN%'");
      for (const pid of silent) process.kill(pid, 'SIGSTOP');
      await wait(ms);
      for (const pid of silent) process.kill(pid, 'SIGCONT');
      expect(silent.length).toBeGreaterThan(0);
    },
  };

  async #restart(name: string, signal: NodeJS.Signals): Promise<void> {
    const service = this.#running.get(name);
    this.#running.delete(name);
    await service?.stop(signal);
    await this.#start(name);
  }

  async #start(name: string): Promise<void> {
    const service = await startService(this.#workspace, {
      ...ENVIRONMENT,
      ...{ SLUICE_DATABASE_URL: server.url, SLUICE_DATABASE_SCHEMA: SCHEMA, SLUICE_REPLICA_NAME: name },
      SLUICE_DRAIN_SECONDS: '0',
    });
    this.#running.set(name, service);
  }

  async #isReady(name: string): Promise<void> {
    await eventually(
      async () => {
        const { url } = this.#running.get(name) as Service;
        const response = await fetch(`${url}/health/ready`);
        return `${response.status} ${await response.text()}`;
      },
      (answer) => answer.startsWith('200'),
      HEALS,
    );
  }
}

test('three replicas answer as one, whatever of them and of their database is hurt', async () => {
  const workspace = await createWorkspace();
  const stage = new ThreeReplicas(workspace, chanceOf('hurts of three replicas'));
  onTestFinished(async () => {
    await stage.stop();
    await workspace.remove();
  });
  const worlds = sevenWorlds(stage, 'three replicas');
  for (const manifest of worlds.flatMap(({ manifests }) => manifests)) {
    await workspace.writeManifest(`${randomUUID()}.json`, manifest);
  }
  await stage.begin();
  await play(worlds, COMMANDS).catch((error: unknown) => {
    throw new Error(`after ${stage.told.join(', ')}\n${stage.log()}`, { cause: error });
  });
  await stage.rest();
  for (const world of worlds) await world.finish();
  expect(await getJson(`${await stage.up()}/flows/api/books`)).toMatchObject({ held: 0, unaccounted: 0 });
  console.info(stage.told.join(', '));
  expect(stage.told.length).toBeGreaterThan(1);
});
