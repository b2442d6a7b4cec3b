import type { Store } from '../store.ts';
import { type ConnectionOptions, createConnections, type Lane, toStoreError } from './connections.ts';
import { migrate } from './migrate.ts';
import { operations } from './operations.ts';
import type { Sql } from './sql.ts';

export interface PostgresStoreOptions extends Omit<ConnectionOptions, 'slot'> {
  /** Leads to PostgreSQL itself where `url` leads to a pooler. */
  readonly directUrl?: string | undefined;
}

/**
 * Opens the store on a PostgreSQL database, which several replicas may share. Migrates its schema first. Rejects with
 * an error that says what is wrong where the database cannot be reached or has a schema that this release does not know.
 */
export async function openPostgresStore(
  options: PostgresStoreOptions,
): Promise<Pick<Store, keyof typeof operations | 'close'>> {
  await migrate({ url: options.directUrl ?? options.url, schema: options.schema }).catch((error: unknown) => {
    throw toStoreError(error);
  });
  const connections = createConnections({ ...options, slot: 0 });
  // The table of operations types what is called and what is run: here both are only passed on.
  const table: Readonly<Record<string, { lane: Lane; run: (sql: Sql, ...args: never[]) => Promise<unknown> }>> =
    operations;
  const members = Object.fromEntries(
    Object.entries(table).map(([name, { lane, run }]) => [
      name,
      (...args: never[]) =>
        lane === 'read'
          ? connections.read((sql) => run(sql, ...args))
          : connections.transact(lane, (sql) => run(sql, ...args)),
    ]),
  );
  return {
    ...(members as Pick<Store, keyof typeof operations>),
    close: () => connections.close(),
  };
}
