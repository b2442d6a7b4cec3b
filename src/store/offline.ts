import type { Inspection } from './store.ts';

interface PostgresDatabase {
  readonly kind: 'postgres';
  readonly directUrl: string;
  readonly schema: string;
}

/**
 * Reads a database in its current state, whether or not a service is using it. Refuses a database written by another
 * release. Throws a descriptive error.
 */
export async function inspectStore(
  database: { readonly kind: 'sqlite'; readonly path: string } | PostgresDatabase,
): Promise<Inspection> {
  if (database.kind === 'sqlite') return (await import('./sqlite/inspect.ts')).inspectDatabase(database.path);
  return (await import('./postgres/inspect.ts')).inspectDatabase(database);
}

/** Brings the schema of a PostgreSQL database up to date; yields the names of the migrations that it ran. */
export async function migrateStore(
  { directUrl, schema }: Omit<PostgresDatabase, 'kind'>,
  grantTo?: string,
): Promise<string[]> {
  const { migrate } = await import('./postgres/migrate.ts');
  return migrate({ url: directUrl, schema, grantTo });
}
