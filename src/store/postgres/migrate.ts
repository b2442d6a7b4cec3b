import pg from 'pg';
import { type Migration, migrations } from './migrations/index.ts';
import { Statements } from './sql.ts';

export interface MigrateOptions {
  /** A `postgres://` URL that leads to PostgreSQL itself: a pooler may not carry what a migration needs. */
  readonly url: string;
  readonly schema: string;
  readonly migrations?: readonly Migration[];
  /** Whether it may be an unfinished copy of another database, which lacks rows. */
  readonly isCopied?: boolean;
  /** Whether a schema that does not exist is an error, and not to be made. */
  readonly mustExist?: boolean;
}

/** The table that an unfinished copy of another database has. */
export const COPY_MARK = 'copy_progress';

/**
 * Brings the schema up to date, or creates it, and yields the names of the migrations that it ran. Of several processes
 * that start at once one migrates while the others wait and then find it done. Throws where the database has a schema
 * that this release cannot work with, and leaves everything as it was when it throws.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const { url, schema, migrations: wanted = migrations, isCopied = false, mustExist = false } = options;
  const client = new pg.Client({ connectionString: url, application_name: 'sluice/migrate' });
  client.on('error', () => {});
  await client.connect();
  const statements = new Statements({ schema, isPrepared: false });
  const query = (text: string, values: unknown[] = []) => client.query({ text: statements.rename(text), values });
  try {
    await query('BEGIN');
    await query("SELECT pg_advisory_xact_lock(hashtextextended('sluice migrates ' || $1, 0))", [schema]);
    const done = await appliedMigrations(query, schema);
    if (mustExist && done.length === 0) throw new Error(`it has no schema ${schema} of Sluice`);
    checkFits(done, wanted);
    if (!isCopied && (await hasTable(query, schema, COPY_MARK))) {
      throw new Error(
        'the database is an unfinished copy of another one: finish it with `sluice copy`, or drop its schema',
      );
    }
    const missing = wanted.filter(({ version }) => !done.some((applied) => applied.version === version));
    if (missing.length > 0 && done.length === 0) await createSchema(query, schema);
    for (const { version, name, compatibleFrom, sql } of missing) {
      await query(sql);
      await query('INSERT INTO sluice.schema_migrations (version, name, compatible_from) VALUES ($1, $2, $3)', [
        version,
        name,
        compatibleFrom,
      ]);
    }
    await query('COMMIT');
    return missing.map(({ name }) => name);
  } catch (error) {
    await query('ROLLBACK').catch(() => {});
    throw error;
  } finally {
    await client.end();
  }
}

type Query = (text: string, values?: unknown[]) => Promise<pg.QueryResult>;

interface Applied {
  readonly version: number;
  readonly compatibleFrom: number;
}

async function appliedMigrations(query: Query, schema: string): Promise<Applied[]> {
  if (!(await hasTable(query, schema, 'schema_migrations'))) return [];
  const applied = await query(
    'SELECT version, compatible_from AS "compatibleFrom" FROM sluice.schema_migrations ORDER BY version',
  );
  return applied.rows as Applied[];
}

async function hasTable(query: Query, schema: string, table: string): Promise<boolean> {
  const { rows } = await query("SELECT to_regclass(format('%I.%I', $1::text, $2::text)) IS NOT NULL AS found", [
    schema,
    table,
  ]);
  return rows[0]?.found === true;
}

async function createSchema(query: Query, schema: string): Promise<void> {
  // Creating one that exists asks for a right that an owner of the schema alone may not have.
  const { rows } = await query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (rows.length === 0) await query(`CREATE SCHEMA ${pg.escapeIdentifier(schema)}`);
  await query(`CREATE TABLE sluice.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    compatible_from integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
  )`);
}

function checkFits(done: readonly Applied[], wanted: readonly Migration[]): void {
  const newest = done.at(-1);
  const own = wanted.at(-1)?.version ?? 0;
  if (newest === undefined || newest.version <= own || newest.compatibleFrom <= own) return;
  throw new Error(
    `the database has schema version ${newest.version}, which needs a release that knows version ${newest.compatibleFrom}; this one knows ${own}`,
  );
}
