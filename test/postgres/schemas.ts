import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject, onTestFinished } from 'vitest';
import { openPostgresStore, type PostgresStoreOptions } from '../../src/store/postgres/client.ts';
import type { Store } from '../../src/store/store.ts';

/** The name of a schema that no other test uses, dropped when the test ends. */
export function newSchema(): string {
  const schema = `test_${randomUUID().replaceAll('-', '')}`;
  onTestFinished(() => dropSchema(schema));
  return schema;
}

/** Runs SQL as its owner. */
export async function runSql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

export async function dropSchema(schema: string): Promise<void> {
  await runSql(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`);
}

/** What a store is opened with where a test has no reason for another value. */
export function storeOptions(schema: string): PostgresStoreOptions {
  return { url: inject('postgresUrl'), schema, isPrepared: true, applicationName: 'sluice/test' };
}

type OpenedStore = Awaited<ReturnType<typeof openPostgresStore>>;

/** Opens a store in the schema of another, as another process does. */
export function openStore(change: Partial<PostgresStoreOptions> & { schema: string }): Promise<OpenedStore> {
  return openPostgresStore({ ...storeOptions(change.schema), ...change });
}

/** Opens a store in a schema of its own. Closing it drops the schema. */
export async function openEmpty(change: Partial<PostgresStoreOptions> = {}): Promise<OpenedStore> {
  const options = { ...storeOptions(`test_${randomUUID().replaceAll('-', '')}`), ...change };
  const store = await openPostgresStore(options);
  return {
    ...store,
    async close() {
      await store.close();
      await dropSchema(options.schema);
    },
  };
}

/** Opens a store for each name on one schema, as replicas do; they close when the test ends. */
export async function openReplicas(names: readonly string[]): Promise<{ schema: string; stores: Store[] }> {
  const schema = newSchema();
  const stores: Store[] = [];
  for (const replica of names) {
    stores.push((await openPostgresStore({ ...storeOptions(schema), replica })) as unknown as Store);
  }
  onTestFinished(async () => {
    await Promise.all(stores.map((store) => store.close()));
  });
  return { schema, stores };
}
