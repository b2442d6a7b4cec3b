import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import pg from 'pg';
import { migrate } from '../../../src/store/postgres/migrate.ts';
import { migrations as ofPostgres } from '../../../src/store/postgres/migrations/index.ts';
import { migrations as ofSqlite } from '../../../src/store/sqlite/migrations/index.ts';

/** The databases of a release: one of each kind, with rows in every table, and its store's answers. */
export interface Frozen {
  /** Bytes of the file. */
  readonly sqlite: Buffer;
  readonly postgres: PostgresRows;
  readonly answers: Record<string, unknown>;
  /** The digest of the SQL of each migration up to then. */
  readonly migrations: Readonly<Record<'sqlite' | 'postgres', Readonly<Record<string, string>>>>;
}

/** Rows by table, as JSON, and the positions of the sequences. */
interface PostgresRows {
  readonly tables: Readonly<Record<string, readonly unknown[]>>;
  readonly sequences: Readonly<Record<string, string>>;
}

const folderOf = (release: string) => join(import.meta.dirname, release);

export function frozenReleases(): string[] {
  return readdirSync(import.meta.dirname).filter((name) => existsSync(join(folderOf(name), 'sqlite.db.gz')));
}

export function readFrozen(release: string): Frozen {
  const unzip = (name: string) => gunzipSync(readFileSync(join(folderOf(release), name)));
  const { postgres, answers, migrations } = JSON.parse(unzip('rest.json.gz').toString()) as Omit<Frozen, 'sqlite'>;
  return { sqlite: unzip('sqlite.db.gz'), postgres, answers, migrations };
}

export function writeFrozen(release: string, { sqlite, ...rest }: Frozen): void {
  mkdirSync(folderOf(release), { recursive: true });
  writeFileSync(join(folderOf(release), 'sqlite.db.gz'), gzipSync(sqlite, { level: 9 }));
  writeFileSync(join(folderOf(release), 'rest.json.gz'), gzipSync(asJson(rest), { level: 9 }));
}

/** Bytes of either kind become the same text. */
export function asJson(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, key, each) {
    const own = this[key];
    return own instanceof Uint8Array ? `bytes:${Buffer.from(own).toString('base64')}` : each;
  });
}

export function digestsNow(): Frozen['migrations'] {
  const digests = (all: readonly { name: string; sql: string }[]) =>
    Object.fromEntries(all.map(({ name, sql }) => [name, hash('sha256', sql)]));
  return { sqlite: digests(ofSqlite), postgres: digests(ofPostgres) };
}

const quoted = (schema: string, table: string) => `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`;

async function tablesIn(client: pg.Client, schema: string): Promise<string[]> {
  const { rows } = await client.query<{ tablename: string }>(
    `SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'schema_migrations' ORDER BY tablename`,
    [schema],
  );
  return rows.map(({ tablename }) => tablename);
}

export async function dumpPostgres(url: string, schema: string): Promise<PostgresRows> {
  return withClient(url, async (client) => {
    const tables: Record<string, unknown[]> = {};
    for (const table of await tablesIn(client, schema)) {
      const { rows } = await client.query(`SELECT to_jsonb(t)::text AS row FROM ${quoted(schema, table)} t`);
      tables[table] = rows.map(({ row }) => row);
    }
    const { rows } = await client.query(
      'SELECT sequencename AS name, last_value::text AS last FROM pg_sequences WHERE schemaname = $1 AND last_value IS NOT NULL',
      [schema],
    );
    return { tables, sequences: Object.fromEntries(rows.map(({ name, last }) => [name, last])) };
  });
}

/** Makes the schema with the release's own migrations, and inserts its rows. */
export async function restorePostgres(url: string, schema: string, { postgres, migrations }: Frozen): Promise<void> {
  await migrate({ url, schema, migrations: ofPostgres.filter(({ name }) => name in migrations.postgres) });
  await withClient(url, async (client) => {
    // The rows are not in an order that triggers and references allow.
    await client.query('SET session_replication_role = replica');
    for (const [table, rows] of Object.entries(postgres.tables)) {
      const into = quoted(schema, table);
      await client.query(`DELETE FROM ${into}`);
      const { rows: columns } = await client.query(
        `SELECT quote_ident(attname) AS name FROM pg_attribute
         WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
        [into],
      );
      const names = columns.map(({ name }) => name).join(', ');
      for (const row of rows) {
        const insert = `INSERT INTO ${into} (${names}) OVERRIDING SYSTEM VALUE SELECT ${names} FROM jsonb_populate_record(NULL::${into}, $1)`;
        await client.query(insert, [row]);
      }
    }
    for (const [name, last] of Object.entries(postgres.sequences))
      await client.query('SELECT setval($1::regclass, $2)', [quoted(schema, name), last]);
  });
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Puts the file where a store opens it. */
export function restoreSqlite(path: string, { sqlite }: Frozen): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, sqlite);
}
