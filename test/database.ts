import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pino from 'pino';
import { expect, inject } from 'vitest';
import { type AppOptions, buildApp as build, type SluiceApp } from '../src/app.ts';
import { type Clock, createServiceClock, type ServiceClock } from '../src/model/clock.ts';
import { SOLE_OWNER } from '../src/model/runtime-keys.ts';
import type { StoreBounds } from '../src/store/open-store.ts';
import { openSqliteStore } from '../src/store/sqlite/client.ts';
import { openWriter } from '../src/store/sqlite/connection.ts';
import type { Store } from '../src/store/store.ts';
import { endLater } from './ending.ts';
import { keepRealTimers, openWithOwnTimers } from './postgres/own-timers.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The database under test of a project; SQLite unless the project says otherwise. */
    readonly database?: 'postgres';
  }
}

/** The benches use this file too, outside vitest. */
export const isOnPostgres = (): boolean => process.env.VITEST !== undefined && inject('database') === 'postgres';

if (isOnPostgres()) keepRealTimers();

/** An empty store for one process, on the database under test; the caller closes it. */
export async function openEmptyStore(bounds: Partial<StoreBounds> = {}): Promise<Store> {
  if (!isOnPostgres()) return openSqliteStore({ path: ':memory:', ...bounds });
  // Loaded here, by the caller: a module first loaded as part of a store left its caller with the store's timers.
  const { openEmpty } = await schemas();
  return openWithOwnTimers(() => openEmpty({ replica: SOLE_OWNER, ...bounds }));
}

/** Where a delivery log can be kept; PostgreSQL refuses a log in the memory of one process. */
export const deliveryStores = () => (isOnPostgres() ? (['database'] as const) : (['database', 'memory'] as const));

/** Replicas seal with it, as SQLite does with a file; no key is derived from one of this form. */
const STORE_KEY = `sluice-key-${'5'.repeat(64)}`;

/** These tests look at the whole list of activities, where a start with a key has an entry, or at stored bodies. */
const LOOKS_WITHOUT_KEY =
  /(dashboard|features\/[\w-]+)\/(access-record|activity|deliveries|run-bulk|sealed-plans)\.test/;

const SILENT = pino({ level: 'silent' });

/**
 * Builds the service on the database under test, unless the test names more than SQLite's path. It closes with the test
 * or the file that built it, if still open then. It logs only if a logger is given.
 */
export async function buildApp(options: AppOptions = {}): Promise<SluiceApp> {
  const app = await buildOnDatabase({ logger: SILENT, ...options });
  endLater(() => app.close());
  return app;
}

async function buildOnDatabase(options: AppOptions): Promise<SluiceApp> {
  const { settings = {}, folder = '' } = options;
  if (!isOnPostgres()) {
    if (options.store === undefined && settings.databaseUrl === undefined && folder !== '') {
      if (!existsSync(join(folder, 'data'))) putEmptyDatabase(join(folder, 'data', 'sluice.db'));
    }
    return build(options);
  }
  const own = options.clock && { clock: ownTime(options.clock) };
  if (options.store !== undefined) return build({ ...options, ...own });
  const { databaseUrl = '', ...others } = settings;
  if (databaseUrl.startsWith('postgres:')) return build(options);
  const isKept = databaseUrl !== 'sqlite::memory:';
  const schema = isKept ? await schemaOf(folder, databaseUrl) : await (await schemas()).takeSchema();
  const app = await build({
    ...options,
    ...own,
    settings: {
      drainSeconds: 0,
      storeKey: LOOKS_WITHOUT_KEY.test(expect.getState().testPath ?? '') ? undefined : STORE_KEY,
      ...others,
      databaseUrl: inject('postgresUrl'),
      databaseSchema: schema,
    },
  });
  if (isKept) return app;
  let closing: Promise<void> | undefined;
  const close = async () => {
    await app.close();
    await (await schemas()).returnSchema(schema);
  };
  return {
    ...app,
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** A database with all tables, in a new folder: copying it takes a tenth of the CPU of making the tables. */
export function putEmptyDatabase(file: string): void {
  mkdirSync(dirname(file), { mode: 0o700 });
  emptyDatabase ??= makeEmptyDatabase();
  writeFileSync(file, emptyDatabase);
}

let emptyDatabase: Buffer | undefined;

function makeEmptyDatabase(): Buffer {
  const place = mkdtempSync(join(tmpdir(), 'sluice-empty-'));
  const file = join(place, 'sluice.db');
  openWriter(file).close();
  const bytes = readFileSync(file);
  rmSync(place, { recursive: true });
  return bytes;
}

/** A clock that a test sets: the database's time differs from it and is ignored. */
function ownTime(clock: Clock | ServiceClock): ServiceClock {
  const own = 'follow' in clock ? clock : createServiceClock(clock);
  return { ...own, follow: ({ ledgerAt }, sentAt) => own.follow({ at: undefined, ledgerAt }, sentAt) };
}

/** The environment of a service that runs on the database under test. */
export async function databaseEnvironment(folder: string, url = ''): Promise<Record<string, string>> {
  if (!isOnPostgres() || url.startsWith('postgres:')) return {};
  return {
    SLUICE_DATABASE_URL: inject('postgresUrl'),
    SLUICE_DATABASE_SCHEMA: await schemaOf(folder, url),
    // The next service in this folder is the same replica, and takes over at once.
    SLUICE_REPLICA_NAME: 'sluice',
    SLUICE_DRAIN_SECONDS: '0',
  };
}

/** All stored data of a service in a folder, from SQLite's files or PostgreSQL's rows, one character per byte. */
export async function storedText(folder: string, url = ''): Promise<string> {
  if (isOnPostgres()) return (await schemas()).textOf(await schemaOf(folder, url));
  const [place, prefix] = url === '' ? [join(folder, 'data'), ''] : [folder, url.slice('sqlite:'.length)];
  const files = (await readdir(place)).filter((file) => file.startsWith(prefix));
  return (await Promise.all(files.map((file) => readFile(join(place, file), 'latin1')))).join('\n');
}

/** Drops the databases of the services in a folder. */
export async function dropDatabases(folder: string): Promise<void> {
  const schemasOfFolder = kept.get(folder);
  kept.delete(folder);
  for (const schema of schemasOfFolder?.values() ?? []) await (await schemas()).returnSchema(schema);
}

/** By folder and the path that SQLite would have in it. */
const kept = new Map<string, Map<string, string>>();

async function schemaOf(folder: string, path: string): Promise<string> {
  const ofFolder = kept.get(folder) ?? new Map<string, string>();
  kept.set(folder, ofFolder);
  const known = ofFolder.get(path);
  if (known !== undefined) return known;
  const schema = (await schemas()).takeSchema();
  ofFolder.set(path, schema);
  return schema;
}

// Loaded only here: tests on SQLite need no driver.
const schemas = () => import('./postgres/schemas.ts');
