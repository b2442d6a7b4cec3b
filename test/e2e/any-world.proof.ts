import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, inject, onTestFinished, test } from 'vitest';
import { type Chance, chanceOf, SEED } from '../chance.ts';
import { dropSchema, newSchema } from '../postgres/schemas.ts';
import { runCli } from './cli.ts';
import { createWorkspace, getJson, type Service, startService, type Workspace } from './service.ts';
import { expectRemoval, type Left } from './worlds/removal.ts';
import { ENVIRONMENT, play, sevenWorlds } from './worlds/seven.ts';
import type { Stage } from './worlds/stage.ts';

const HOUR = 3_600_000;
/** Commands of each world. */
const COMMANDS = Number(process.env.TEST_WORLD_COMMANDS ?? 40);
/** Less than the longest wait of a coalesced run. */
const MOST_HOURS = 12;
/** Most requests between two hurts. */
const APART = 160;

/** Shifts the clock of a process and its threads. */
const SHIFT = `
  const { now } = Date;
  Date.now = () => now() + Number(process.env.CLOCK_SHIFT_MS);
`;

/** Each ends a process; the next process continues from what it left. */
type Hurt = 'kill' | 'stop' | 'files' | 'move';

/** Settings that point a service to a database. */
interface Database {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  /** The path of its file; undefined on PostgreSQL. */
  readonly file: string | undefined;
}

interface Life {
  readonly workspace: Workspace;
  readonly chance: Chance;
  readonly hurts: readonly Hurt[];
  /** A new database: of the kind that the proof tests, or of the other kind. */
  database(isOther: boolean): Database;
}

/** One process at a time; chance ends it while requests are under way. */
class OneProcess implements Stage {
  isHurt = false;
  readonly told: string[] = [];
  readonly #life: Life;
  #service: Promise<Service> = Promise.reject(new Error('it has not begun'));
  #database: Database;
  #isOther = false;
  #left: number;
  #over = false;
  #hoursAhead = 0;

  constructor(life: Life) {
    this.#life = life;
    this.#database = life.database(false);
    this.#left = this.#draw();
    this.#service.catch(() => {});
  }

  /** Call it after writing the manifests. */
  begin(): void {
    this.#service = this.#start();
  }

  async up(): Promise<string> {
    return (await this.#service).url;
  }

  sending(): void {
    this.#left -= 1;
    if (this.#left > 0 || this.isHurt || this.#over) return;
    this.isHurt = true;
    const before = this.#service;
    this.#service = this.#hurt(before).finally(() => {
      this.isHurt = false;
      this.#left = this.#draw();
    });
    // The next caller gets the error.
    this.#service.catch(() => {});
  }

  /** From here on nothing is hurt. */
  async rest(): Promise<Service> {
    this.#over = true;
    return this.#service;
  }

  /** Ends the last process and returns its database. */
  async end(): Promise<Left> {
    expect(await (await this.rest()).stop('SIGTERM')).toEqual({ code: 0, signal: null });
    const { file, env } = this.#database;
    return file === undefined ? { schema: env.SLUICE_DATABASE_SCHEMA ?? '' } : { file };
  }

  async #hurt(before: Promise<Service>): Promise<Service> {
    const { chance, hurts } = this.#life;
    const drawn = chance.pick(hurts);
    // PostgreSQL has the right time: moving there would set a shifted clock back.
    const hurt = drawn === 'move' && this.#hoursAhead > 0 ? 'files' : drawn;
    const service = await before;
    for (let turns = chance.below(50); turns > 0; turns -= 1) await setImmediate();
    // Stopped, not killed: `copy` waits 15 s for the lease of a killed replica.
    if (hurt === 'stop' || (hurt === 'move' && this.#database.file === undefined)) {
      expect(await service.stop('SIGTERM'), service.output()).toEqual({ code: 0, signal: null });
    } else if (hurt === 'files') {
      service.child.kill('SIGSTOP');
      this.#database = this.#copyFiles();
      await service.stop('SIGKILL');
    } else await service.stop('SIGKILL');
    if (hurt === 'move') await this.#move();
    this.told.push(hurt);
    return this.#start();
  }

  #start(): Promise<Service> {
    const { chance, workspace } = this.#life;
    // Only forwards: after a step back, whatever became due before is due hours later, as documented. Only on SQLite: a
    // service whose clock differs from PostgreSQL's does no work.
    const more = this.#database.file === undefined ? 0 : chance.pick([0, 0, 0, 1, 3]);
    this.#hoursAhead = Math.min(this.#hoursAhead + more, MOST_HOURS);
    return startService(workspace, {
      ...ENVIRONMENT,
      ...this.#database.env,
      CLOCK_SHIFT_MS: String(this.#hoursAhead * HOUR),
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(SHIFT)}`,
    });
  }

  /** Copies the file and its log at an arbitrary moment of the process. */
  #copyFiles(): Database {
    const { file } = this.#database;
    if (file === undefined) return this.#database;
    const next = this.#life.database(this.#isOther);
    for (const end of ['', '-wal']) {
      if (next.file !== undefined && existsSync(file + end)) copyFileSync(file + end, next.file + end);
    }
    return next;
  }

  /** Copies all stored data to the other kind of database, whatever is in flight. */
  async #move(): Promise<void> {
    this.#isOther = !this.#isOther;
    const next = this.#life.database(this.#isOther);
    const schema = this.#database.env.SLUICE_DATABASE_SCHEMA ?? next.env.SLUICE_DATABASE_SCHEMA ?? '';
    const args = ['copy', '--from', this.#database.url, '--to', next.url, '--schema', schema];
    const { code, stderr } = await runCli(this.#life.workspace, args);
    expect(code, stderr).toBe(0);
    this.#database = next;
  }

  #draw(): number {
    return 1 + this.#life.chance.below(APART);
  }
}

const DATABASES: readonly ('SQLite' | 'PostgreSQL')[] = ['SQLite', 'PostgreSQL'];

/** Makes a new database on each call, on either store. */
function databasesIn(folder: string, own: (typeof DATABASES)[number]): Life['database'] {
  let count = 0;
  mkdirSync(join(folder, 'data'), { recursive: true, mode: 0o700 });
  const onSqlite = (): Database => {
    count += 1;
    const file = join(folder, 'data', `sluice-${count}.db`);
    const url = `sqlite:${file}`;
    return { url, file, env: { SLUICE_DATABASE_URL: url } };
  };
  const onPostgres = (): Database => {
    const [url, schema] = [inject('postgresUrl'), newSchema()];
    onTestFinished(() => dropSchema(schema, url));
    const env = {
      ...{ SLUICE_DATABASE_URL: url, SLUICE_DATABASE_SCHEMA: schema, SLUICE_REPLICA_NAME: 'only' },
      SLUICE_DRAIN_SECONDS: '0',
    };
    return { url, file: undefined, env };
  };
  return (isOther) => ((own === 'SQLite') === isOther ? onPostgres() : onSqlite());
}

const HURTS: Readonly<Record<(typeof DATABASES)[number], readonly Hurt[]>> = {
  SQLite: ['kill', 'kill', 'kill', 'stop', 'files', 'files', 'move'],
  PostgreSQL: ['kill', 'kill', 'kill', 'stop', 'move'],
};

test.each(DATABASES)(
  'seven worlds on %s answer exactly as predicted, however the process ends, wherever its database is copied',
  async (own) => {
    const workspace = await createWorkspace();
    const chance = chanceOf(`ends of the process of seven worlds on ${own}`);
    const database = databasesIn(workspace.folder, own);
    const stage = new OneProcess({ workspace, chance, hurts: HURTS[own], database });
    const worlds = sevenWorlds(stage, own);
    for (const [at, manifest] of worlds.flatMap(({ manifests }) => manifests).entries()) {
      await workspace.writeManifest(`${at}.json`, manifest);
    }
    stage.begin();
    onTestFinished(async () => {
      await stage.rest().then(
        (service) => service.stop('SIGKILL'),
        () => {},
      );
    });
    await play(worlds, COMMANDS).catch(async (error: unknown) => {
      const { output } = await stage.rest();
      throw new Error(`after ${stage.told.join(', ')}\n${output().slice(-4000)}`, { cause: error });
    });
    const { url } = await stage.rest();
    for (const world of worlds) await world.finish();
    const books = await getJson(
      `${url}/flows/api/books?since=${Date.now() - 20 * HOUR}&until=${Date.now() + 20 * HOUR}`,
    );
    expect(books, `TEST_SEED=${SEED}`).toMatchObject({ held: 0, unaccounted: 0 });
    await expectRemoval(await stage.end(), `TEST_SEED=${SEED}`);
    console.info(`${stage.told.length} ends: ${stage.told.join(', ')}`);
    expect(stage.told.length).toBeGreaterThan(0);
  },
);
