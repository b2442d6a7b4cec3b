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
/** Most requests between two hurts. */
const APART = 80;
/** The longest time for which a database is away or silent: longer than a probe waits, shorter than a lease. */
const AWAY_MS = 4000;
/** Longer than leases and heartbeats last. */
const MINUTES_MS = { from: 65_000, to: 110_000 };
const HEALS = { seconds: 120, because: 'replicas find out on their own that the database is back' };

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

type Hurt =
  | 'gone for minutes'
  | 'silent for minutes'
  | 'replica killed'
  | 'replica stopped'
  | 'database killed'
  | 'sessions cut'
  | 'read-only'
  | 'silent feed';

const ask = (text: string, values: unknown[] = []) => runSql(text, values, server.url);
const pids = async (condition: string) =>
  (await ask(`SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice%' AND ${condition}`)).map(
    ({ pid }) => Number(pid),
  );
const cutSessions = () =>
  ask(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice%'`);

/** Three replicas and their database; chance hurts one of them while requests are under way. */
class ThreeReplicas implements Stage {
  isHurt = false;
  readonly told: Hurt[] = [];
  readonly #workspace: Workspace;
  readonly #chance: Chance;
  readonly #running = new Map<string, Service>();
  #hurting: Promise<void> = Promise.resolve();
  #left: number;
  readonly #first: number;
  readonly #hurts: readonly Hurt[];
  readonly #schema = `worlds_${randomUUID().replaceAll('-', '')}`;
  #turn = 0;
  #isAwayForMinutes = false;
  #isOver = false;

  constructor(workspace: Workspace, chance: Chance, hurts: readonly Hurt[]) {
    this.#workspace = workspace;
    this.#chance = chance;
    this.#left = 1 + chance.below(APART);
    this.#first = chance.below(1000);
    this.#hurts = hurts;
  }

  async begin(): Promise<void> {
    await Promise.all(REPLICAS.map((name) => this.#start(name)));
  }

  /** Takes turns, so that one replica hears of requests to another. */
  async up(): Promise<string> {
    const running = [...this.#running.values()];
    this.#turn += 1;
    // During an outage of minutes, ask less often.
    if (this.#isAwayForMinutes) await wait(1000);
    const service = running[this.#turn % running.length];
    if (service === undefined) throw new Error('no replica runs');
    return service.url;
  }

  sending(): void {
    this.#left -= 1;
    if (this.#left > 0 || this.isHurt || this.#isOver) return;
    // An outage of minutes happens once per test.
    this.#isOver = this.#hurts.length === 1;
    this.isHurt = true;
    this.#hurting = this.#hurt().finally(() => {
      this.isHurt = false;
      this.#left = 1 + this.#chance.below(APART);
    });
    // `rest` reports the error.
    this.#hurting.catch(() => {});
  }

  /** From here on nothing is hurt. */
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
    // All kinds, one after the other.
    const hurt = this.#hurts[(this.#first + this.told.length) % this.#hurts.length] as Hurt;
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
    'gone for minutes': async () => {
      await server.kill();
      await this.#forMinutes();
      await server.start();
    },
    'silent for minutes': async () => {
      server.pause();
      await this.#forMinutes();
      server.resume();
    },
    // As during a fail-over: new sessions cannot write.
    'read-only': async (_, ms) => {
      await ask('ALTER DATABASE postgres SET default_transaction_read_only = on');
      await cutSessions();
      await wait(ms);
      await ask('SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only');
    },
    // The sessions that listen for changes stay open, but stay silent.
    'silent feed': async (_, ms) => {
      // A replica is ready before it listens again, as after an outage.
      const listening = () => pids("query LIKE 'LISTEN%'");
      const silent = await eventually(listening, ({ length }) => length === REPLICAS.length, HEALS);
      for (const pid of silent) process.kill(pid, 'SIGSTOP');
      await wait(ms);
      for (const pid of silent) process.kill(pid, 'SIGCONT');
    },
  };

  async #forMinutes(): Promise<void> {
    this.#isAwayForMinutes = true;
    await wait(MINUTES_MS.from + this.#chance.below(MINUTES_MS.to - MINUTES_MS.from));
    this.#isAwayForMinutes = false;
  }

  async #restart(name: string, signal: NodeJS.Signals): Promise<void> {
    const service = this.#running.get(name);
    this.#running.delete(name);
    await service?.stop(signal);
    await this.#start(name);
  }

  async #start(name: string): Promise<void> {
    const service = await startService(this.#workspace, {
      ...ENVIRONMENT,
      ...{ SLUICE_DATABASE_URL: server.url, SLUICE_DATABASE_SCHEMA: this.#schema, SLUICE_REPLICA_NAME: name },
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

const SHORT: readonly Hurt[] = [
  ...(['database killed', 'replica killed', 'sessions cut', 'read-only', 'silent feed', 'replica stopped'] as const),
];
/** One of them per test: each takes minutes. */
const LONG: readonly Hurt[] = ['gone for minutes', 'silent for minutes'];

test.each([
  ['whatever of them and of their database is hurt', SHORT, COMMANDS],
  ['through minutes without a database', LONG, Math.ceil(COMMANDS / 4)],
])('three replicas answer as one %s', async (what, hurts, commands) => {
  const workspace = await createWorkspace();
  const chance = chanceOf(`hurts of three replicas ${what}`);
  const stage = new ThreeReplicas(workspace, chance, hurts === LONG ? [chance.pick(LONG)] : hurts);
  onTestFinished(async () => {
    await stage.stop();
    await workspace.remove();
  });
  const worlds = sevenWorlds(stage, `three replicas ${what}`);
  for (const manifest of worlds.flatMap(({ manifests }) => manifests)) {
    await workspace.writeManifest(`${randomUUID()}.json`, manifest);
  }
  await stage.begin();
  await play(worlds, commands).catch((error: unknown) => {
    throw new Error(`after ${stage.told.join(', ')}\n${stage.log()}`, { cause: error });
  });
  await stage.rest();
  for (const world of worlds) await world.finish();
  expect(await getJson(`${await stage.up()}/flows/api/books`)).toMatchObject({ held: 0, unaccounted: 0 });
  console.info(stage.told.join(', '));
  expect(stage.told.length).toBeGreaterThan(0);
});
