import { setTimeout as wait } from 'node:timers/promises';
import { runMigrations } from 'graphile-worker';
import pg from 'pg';
import { checkHistory } from '../schema-history.ts';
import { refuseIncomplete } from '../schema-objects.ts';
import { directClient } from './direct.ts';
import { type Migration, migrations } from './migrations/index.ts';
import { codeOf } from './outage.ts';
import { schemaDifferenceOf } from './schema.ts';
import { Statements, workerSchemaOf } from './sql.ts';
import { QUIET } from './wake-ups.ts';

export interface MigrateOptions {
  /** A `postgres://` URL that leads to PostgreSQL itself: a pooler may not support what a migration needs. */
  readonly url: string;
  readonly schema: string;
  /** A role to give a service's rights: to the rows, but not to the schema itself. */
  readonly grantTo?: string | undefined;
  readonly migrations?: readonly Migration[];
  /** Whether this can be an unfinished copy of another database, which lacks rows. */
  readonly isCopied?: boolean;
  /** Awaited before each change to the schema of an existing database, with the names of the missing migrations. */
  readonly onMigrating?: ((names: readonly string[]) => Promise<void>) | undefined;
  /** Called when others hold locks that a migration needs, before it is tried again. */
  readonly onBlocked?: ((error: Error) => void) | undefined;
  /** Called when a new schema was made because there was none. */
  readonly onCreated?: (() => void) | undefined;
  /** Called with triggers, views and indexes of the schema that no migration made. */
  readonly onForeign?: ((names: readonly string[]) => void) | undefined;
  /** Whether a missing schema is an error, instead of being made. */
  readonly mustExist?: boolean;
}

/** The table that an unfinished copy of another database has. */
export const COPY_MARK = 'copy_progress';

/** While a migration waits for a lock, others wait behind it for the table, such as deliveries, which have 4 s. */
const LOCK_MS = 1000;
const BACKOFF_MS = { first: 500, most: 10_000 };

/** Others hold a lock for too long, or want it in another order; SQLSTATE in PostgreSQL's manual, appendix A. */
const BLOCKED = new Set(['55P03', '40P01']);

/**
 * Brings the schema up to date, or creates it, and yields the names of the migrations that it ran. Of several processes
 * that start at once one migrates while the others wait and then find it done. Each migration is one transaction: a
 * failed one leaves nothing. If others hold locks that it needs, it lets them go on and tries again. Throws if the
 * database has a schema that this release cannot work with.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  for (let waitMs = BACKOFF_MS.first; ; waitMs = Math.min(waitMs * 2, BACKOFF_MS.most)) {
    try {
      return await tryToMigrate(options);
    } catch (error) {
      if (!(error instanceof Error) || !BLOCKED.has(codeOf(error) ?? '')) throw error;
      options.onBlocked?.(error);
    }
    await wait(waitMs);
  }
}

async function tryToMigrate(options: MigrateOptions): Promise<string[]> {
  const { url, schema, grantTo, migrations: wanted = migrations, isCopied = false, mustExist = false } = options;
  return withConnection({ url, schema }, async (query) => {
    // Held until the connection ends, since each migration is a transaction of its own.
    await query("SELECT pg_advisory_lock(hashtextextended('sluice migrates ' || $1, 0))", [schema]);
    const done = await appliedMigrations(query, schema);
    await checkServer(query);
    if (mustExist && done.length === 0) throw new Error(`it has no schema ${schema} of Sluice`);
    checkFits(done, wanted);
    if (!isCopied && (await hasTable(query, schema, COPY_MARK))) {
      throw new Error(
        'the database is an unfinished copy of another one: finish it with `sluice copy`, or drop its schema',
      );
    }
    const isNew = done.length === 0;
    const missing = wanted.filter(({ version }) => !done.some((applied) => applied.version === version));
    const names = missing.map(({ name }) => name);
    const told = isNew ? undefined : options.onMigrating;
    // Waits without limit for the lock above, until another process has migrated, but not for locks on tables.
    await query(`SET lock_timeout = ${LOCK_MS}`);
    try {
      if (names.length > 0) await told?.(names);
      // Over a separate connection, while this one has the lock. Our migrations use what these make.
      await runMigrations({ connectionString: url, schema: workerSchemaOf(schema), logger: QUIET });
      for (const [at, migration] of missing.entries()) {
        if (at > 0) await told?.(names.slice(at));
        await inTransaction(query, async () => {
          if (isNew && at === 0) await createSchema(query, schema);
          await apply(query, migration);
        });
      }
    } catch (error) {
      throw explained(error, missing);
    }
    // A newer release, compatible with this one, makes other objects.
    if (wanted === migrations && done.every(({ version }) => wanted.some((own) => own.version === version))) {
      const difference = await schemaDifferenceOf(
        async (text, values) => (await query(text, [...values])).rows,
        schema,
      );
      refuseIncomplete(difference);
      if (difference.foreign.length > 0) options.onForeign?.(difference.foreign);
    }
    if (grantTo !== undefined) await inTransaction(query, () => grant(query, { schema, role: grantTo }));
    if (isNew) options.onCreated?.();
    return names;
  });
}

/** Throws unless the database has the schema of exactly this release. Changes nothing. */
export async function requireCurrent({ url, schema }: MigrateOptions): Promise<void> {
  const done = await withConnection({ url, schema }, (query) => appliedMigrations(query, schema));
  checkHistory(done, migrations);
  const [found, own] = [done.at(-1)?.version ?? 0, migrations.at(-1)?.version ?? 0];
  if (found === own) return;
  if (found === 0) throw new Error('no service has written to it yet');
  throw new Error(`its schema version is ${found} and this release reads ${own}`);
}

async function withConnection<Value>(
  { url, schema }: Pick<MigrateOptions, 'url' | 'schema'>,
  work: (query: Query) => Promise<Value>,
): Promise<Value> {
  // No limit for answers: it waits for as long as another process migrates.
  const direct = directClient({ url, applicationName: 'sluice/migrate' });
  const { client } = direct;
  const statements = new Statements({ schema, isPrepared: false });
  try {
    await direct.connect();
    return await work((text, values = []) => client.query({ text: statements.rename(text), values }));
  } finally {
    await direct.end();
  }
}

async function inTransaction(query: Query, work: () => Promise<void>): Promise<void> {
  await query('BEGIN');
  try {
    await work();
    await query('COMMIT');
  } catch (error) {
    await query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/**
 * Locks all tables that it changes first, with the strongest lock and in a fixed order: a migration that first took a
 * weaker lock, or another table, would wait for callers that wait for it.
 */
async function apply(query: Query, { version, name, compatibleFrom, locks = [], sql }: Migration): Promise<void> {
  const tables = [...locks].sort().map((table) => `sluice.${table}`);
  if (tables.length > 0) await query(`LOCK TABLE ${tables.join(', ')} IN ACCESS EXCLUSIVE MODE`);
  await query(sql);
  const row = [version, name, compatibleFrom];
  await query('INSERT INTO sluice.schema_migrations (version, name, compatible_from) VALUES ($1, $2, $3)', row);
}

const INSUFFICIENT_PRIVILEGE = '42501';

function explained(error: unknown, missing: readonly Migration[]): unknown {
  if ((error as { code?: string } | null)?.code !== INSUFFICIENT_PRIVILEGE) return error;
  const names = missing.map(({ name }) => name).join(', ') || 'tables of graphile-worker';
  const message = `the schema lacks ${names}, which this role may not add; run \`sluice migrate\` as its owner first`;
  return new Error(message, { cause: error });
}

async function grant(query: Query, { schema, role }: { schema: string; role: string }): Promise<void> {
  await grantRows(query, { schema, role });
  await grantRows(query, { schema: workerSchemaOf(schema), role });
  // Tables of graphile-worker hide their rows from every role but the owner, whatever rights were granted.
  const hidden = await query(
    `SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relrowsecurity`,
    [workerSchemaOf(schema)],
  );
  for (const { name } of hidden.rows) await query(`ALTER TABLE ${name} DISABLE ROW LEVEL SECURITY`);
}

async function grantRows(query: Query, { schema, role }: { schema: string; role: string }): Promise<void> {
  const [where, who] = [pg.escapeIdentifier(schema), pg.escapeIdentifier(role)];
  await query(`
    GRANT USAGE ON SCHEMA ${where} TO ${who};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${where} TO ${who};
    GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ${where} TO ${who};
    ALTER DEFAULT PRIVILEGES IN SCHEMA ${where} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ${who};
    ALTER DEFAULT PRIVILEGES IN SCHEMA ${where} GRANT USAGE, SELECT ON SEQUENCES TO ${who}`);
}

type Query = (text: string, values?: unknown[]) => Promise<pg.QueryResult>;

interface Applied {
  readonly version: number;
  readonly name: string;
  readonly compatibleFrom: number;
}

async function appliedMigrations(query: Query, schema: string): Promise<Applied[]> {
  if (!(await hasTable(query, schema, 'schema_migrations'))) return [];
  const applied = await query(
    'SELECT version, name, compatible_from AS "compatibleFrom" FROM sluice.schema_migrations ORDER BY version',
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

/** PostgreSQL 14; older servers lack features that the schema and its statements use. */
const OLDEST_SERVER = 140_000;

/** Throws if the database cannot store every delivery, or cannot sort and find texts as SQLite does. */
async function checkServer(query: Query): Promise<void> {
  const { rows } = await query(
    `SELECT current_setting('server_version_num')::integer AS version, current_setting('server_version') AS release,
      current_setting('server_encoding') AS encoding,
      EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu') AS "hasIcu"`,
  );
  const { version, release, encoding, hasIcu } = rows[0] ?? {};
  if (version < OLDEST_SERVER) throw new Error(`the server is PostgreSQL ${release}; 14 or newer is needed`);
  if (encoding !== 'UTF8') {
    throw new Error(`the database stores text as ${encoding}; make one with ENCODING 'UTF8'`);
  }
  if (hasIcu !== true) throw new Error('the server was built without ICU, by which text is sorted and searched');
}

async function createSchema(query: Query, schema: string): Promise<void> {
  // Even for an existing schema, creating it requires a right that the owner of only that schema may lack.
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
  checkHistory(done, wanted);
  const misfit = misfitOf(done.at(-1), wanted);
  if (misfit !== undefined) throw new Error(misfit);
}

/** Why this release cannot work with the schema whose newest migration is given; undefined if it can. */
export function misfitOf(
  newest: Pick<Applied, 'version' | 'compatibleFrom'> | undefined,
  wanted: readonly Migration[] = migrations,
): string | undefined {
  const own = wanted.at(-1)?.version ?? 0;
  if (newest === undefined || newest.version <= own || newest.compatibleFrom <= own) return undefined;
  return `the database has schema version ${newest.version}, which needs a release that knows version ${newest.compatibleFrom}; this one knows ${own}`;
}
