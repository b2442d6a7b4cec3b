import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject, onTestFinished } from 'vitest';
import { openPostgresStore, type PostgresStoreOptions } from '../../src/store/postgres/client.ts';
import { workerSchemaOf } from '../../src/store/postgres/sql.ts';
import type { Store } from '../../src/store/store.ts';

const nameOfSchema = () => `${inject('schemaPrefix')}${randomUUID().replaceAll('-', '')}`;

/** The name of a schema that no other test uses; it is dropped when the test ends. */
export function newSchema(): string {
  const schema = nameOfSchema();
  onTestFinished(() => dropSchema(schema));
  return schema;
}

// Shared, because each connection is a process of PostgreSQL: opening one takes longer than a test's queries.
const pools = new Map<string, pg.Pool>();

function poolOf(url: string): pg.Pool {
  const known = pools.get(url);
  if (known !== undefined) return known;
  const pool = new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true });
  // Stopping a server ends its connections too.
  pool.on('error', () => {});
  pools.set(url, pool);
  return pool;
}

/** Runs SQL as the owner of the schemas. */
export async function runSql(
  text: string,
  values: unknown[] = [],
  url = inject('postgresUrl'),
): Promise<Record<string, unknown>[]> {
  return (await poolOf(url).query(text, values)).rows;
}

export async function dropSchema(schema: string, url = inject('postgresUrl')): Promise<void> {
  const names = [schema, workerSchemaOf(schema)].map((name) => pg.escapeIdentifier(name));
  await runSql(`DROP SCHEMA IF EXISTS ${names.join(', ')} CASCADE`, [], url);
}

/** Default options of a store in tests. */
export function storeOptions(schema: string): PostgresStoreOptions {
  return { url: inject('postgresUrl'), schema, isPrepared: true, applicationName: 'sluice/test' };
}

type OpenedStore = Awaited<ReturnType<typeof openPostgresStore>>;

/** Opens a store in another one's schema, as another process does. */
export function openStore(change: Partial<PostgresStoreOptions> & { schema: string }): Promise<OpenedStore> {
  return openPostgresStore({ ...storeOptions(change.schema), ...change });
}

/** Empty schemas whose stores are closed. Making a schema takes ten times as long as emptying it. */
const emptied: string[] = [];

/** The name of an empty or new schema, until it is returned. */
export function takeSchema(): string {
  return emptied.pop() ?? nameOfSchema();
}

/** Takes back a schema that no process has open. */
export async function returnSchema(schema: string): Promise<void> {
  const found = await runSql("SELECT to_regclass(format('%I.replicas', $1::text)) IS NOT NULL AS found", [schema]);
  if (found[0]?.found !== true) return;
  await emptySchema(schema);
  emptied.push(schema);
}

/** The name of an empty schema that a test has until it ends; the test must leave its tables as they are. */
export function borrowSchema(): string {
  const schema = takeSchema();
  onTestFinished(() => returnSchema(schema));
  return schema;
}

/** Every value in a schema and in its jobs; bytes as characters, as SQLite's file has them. */
export async function textOf(schema: string): Promise<string> {
  const tables = await runSql('SELECT schemaname, tablename FROM pg_tables WHERE schemaname = ANY($1)', [
    [schema, workerSchemaOf(schema)],
  ]);
  const texts: string[] = [];
  for (const names of tables) {
    const [where, table] = Object.values(names).map((name) => pg.escapeIdentifier(String(name)));
    for (const row of await runSql(`SELECT * FROM ${where}.${table}`)) {
      for (const value of Object.values(row)) {
        if (value instanceof Buffer) texts.push(value.toString('latin1'));
        else texts.push(typeof value === 'string' ? value : JSON.stringify(value));
      }
    }
  }
  return texts.join('\n');
}

/** Opens a store in a separate schema. */
export async function openEmpty(change: Partial<PostgresStoreOptions> = {}): Promise<OpenedStore> {
  const schema = takeSchema();
  const store = await openPostgresStore({ ...storeOptions(schema), ...change });
  let closing: Promise<void> | undefined;
  return {
    ...store,
    close() {
      closing ??= store.close().then(() => returnSchema(schema));
      return closing;
    },
  };
}

async function emptySchema(schema: string): Promise<void> {
  const tables = await runSql(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND tablename <> 'schema_migrations'",
    [schema],
  );
  const names = tables.map(({ name }) => `${pg.escapeIdentifier(schema)}.${name}`);
  // A killed process's last statements may still run and would show up in the next test: the lock waits for them.
  await runSql(
    [`LOCK TABLE ${names.join(', ')} IN SHARE ROW EXCLUSIVE MODE`, ...names.map((name) => `DELETE FROM ${name}`)].join(
      ';',
    ),
  );
}

/** Opens a store for each name on one schema, as replicas do; they close when the test ends. */
export async function openReplicas(
  names: readonly string[],
  schema = newSchema(),
): Promise<{ schema: string; stores: Store[] }> {
  const stores: Store[] = [];
  for (const replica of names) {
    stores.push((await openPostgresStore({ ...storeOptions(schema), replica })) as unknown as Store);
  }
  onTestFinished(async () => {
    await Promise.all(stores.map((store) => store.close()));
  });
  return { schema, stores };
}
