import type { ChainKey } from './sealed-body.ts';

import type { Examination, ExaminationRequest, Inspection, Store } from './store.ts';

interface PostgresDatabase {
  readonly kind: 'postgres';
  readonly directUrl: string;
  readonly schema: string;
}

/**
 * Reads a database in its current state, whether or not a service is using it; the key is for the hashes of the
 * activity log. Refuses a database written by another release. Throws a descriptive error.
 */
export async function inspectStore(
  database: { readonly kind: 'sqlite'; readonly path: string } | PostgresDatabase,
  chainKey?: ChainKey,
): Promise<Inspection> {
  if (database.kind === 'sqlite') return (await import('./sqlite/inspect.ts')).inspectDatabase(database.path, chainKey);
  return (await import('./postgres/inspect.ts')).inspectDatabase(database, chainKey);
}

/** Examines a database for `sluice doctor`, whether or not a service is using it. Throws a descriptive error. */
export async function examineStore(
  database: { readonly kind: 'sqlite'; readonly path: string } | PostgresDatabase,
  request: ExaminationRequest,
): Promise<Examination> {
  if (database.kind === 'sqlite') return (await import('./sqlite/examine.ts')).examineDatabase(database.path, request);
  return (await import('./postgres/examine.ts')).examineDatabase(database, request);
}

/** Brings the schema of a PostgreSQL database up to date; yields the names of the migrations that it ran. */
export async function migrateStore(
  { directUrl, schema }: Omit<PostgresDatabase, 'kind'>,
  grantTo?: string,
): Promise<string[]> {
  const { migrate } = await import('./postgres/migrate.ts');
  return migrate({ url: directUrl, schema, grantTo });
}

/** An empty store in the memory of this thread, for simulations: see `openMemoryStore` of SQLite. */
export async function openSimulationStore(): Promise<Store> {
  // Loaded only here: a service that rehearses nothing does without a database in its own thread.
  return (await import('./sqlite/memory.ts')).openMemoryStore();
}

/** Copies a SQLite database into a file that does not exist. */
export async function backupStore(path: string, target: string): Promise<number> {
  return (await import('./sqlite/backup.ts')).copyPages(path, target);
}
