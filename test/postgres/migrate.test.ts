import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { migrations } from '../../src/store/postgres/migrations/index.ts';
import { POSTGRES_ADDS } from '../../src/store/tables.ts';
import { eventually } from '../e2e/service.ts';
import { type ColumnRow, schemaIn, schemaOf } from '../store/schema.ts';
import { borrowSchema, dropSchema, newSchema, runSql, storeOptions } from './schemas.ts';

const one = { version: 1, name: 'one', compatibleFrom: 1, sql: 'CREATE TABLE sluice.one (id integer)' };
const two = { version: 2, name: 'two', compatibleFrom: 1, sql: 'CREATE TABLE sluice.two (id integer)' };

/** The name of a schema without tables. The schema of its jobs, which takes longest to make, stays for the next. */
function withoutTables(): string {
  onTestFinished(async () => void (await runSql(`DROP SCHEMA IF EXISTS "${besideJobs}" CASCADE`)));
  return besideJobs;
}
const besideJobs = `${inject('schemaPrefix')}migrated`;
afterAll(() => dropSchema(besideJobs));

describe('migrations', () => {
  test('an empty database gets the schema, and a second start changes nothing', async () => {
    const onCreated = vi.fn();
    const options = { url: inject('postgresUrl'), schema: newSchema(), onCreated };
    expect(await migrate(options)).toEqual(migrations.map(({ name }) => name));
    expect(await migrate(options)).toEqual([]);
    expect(onCreated).toHaveBeenCalledTimes(1);
  });

  test('the schema has the tables, columns, types and keys that are said of all stores and of PostgreSQL', async () => {
    const options = { url: inject('postgresUrl'), schema: borrowSchema() };
    await migrate(options);
    const rows = await runSql(
      `SELECT c.relname AS "table", a.attname AS name, format_type(a.atttypid, NULL) AS type,
        coalesce(array_position(k.conkey, a.attnum), 0) AS place
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
      LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
      WHERE c.relkind IN ('r', 'v') AND c.relnamespace = to_regnamespace($1)`,
      [options.schema],
    );
    const types = {
      ...{ id: 'uuid', integer: 'bigint', real: 'double precision', bytes: 'bytea' },
      ...{ instant: 'timestamp with time zone', transaction: 'xid8' },
    };
    const found = (rows as unknown as ColumnRow[]).map((row) => ({
      ...row,
      type: row.type.replace(/^integer$/, 'bigint'),
    }));
    expect(schemaIn(found)).toEqual(schemaOf(POSTGRES_ADDS, types));
  });

  test('of several processes that start at once, one migrates', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    const ran = await Promise.all(Array.from({ length: 5 }, () => migrate(options)));
    expect(ran.flat()).toEqual(migrations.map(({ name }) => name));
  });

  test('of several processes of a later release that start at once on an older database, one migrates', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [one] });
    const ran = await Promise.all(Array.from({ length: 5 }, () => migrate({ ...options, migrations: [one, two] })));
    expect(ran.flat()).toEqual(['two']);
  });

  test('runs what is missing, in order', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    expect(await migrate({ ...options, migrations: [one] })).toEqual(['one']);
    expect(await migrate({ ...options, migrations: [one, two] })).toEqual(['two']);
  });

  test('a migration that fails leaves nothing of itself, and those before it', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    const failing = { ...two, sql: 'CREATE TABLE sluice.two (id integer); SELECT 1 / 0' };
    await expect(migrate({ ...options, migrations: [one, failing] })).rejects.toThrow('division by zero');
    const tables = await runSql('SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1', [options.schema]);
    expect(tables.map(({ tablename }) => tablename)).toEqual(['one', 'schema_migrations']);
    expect(await migrate({ ...options, migrations: [one, two] })).toEqual(['two']);
  });

  test('of an empty database leaves nothing where the first migration fails', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await expect(migrate({ ...options, migrations: [{ ...one, sql: 'SELECT 1 / 0' }] })).rejects.toThrow('by zero');
    expect(await runSql('SELECT 1 FROM pg_namespace WHERE nspname = $1', [options.schema])).toEqual([]);
  });

  test('says what is still to come before each migration of an existing database', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    const three = { ...two, version: 3, name: 'three', sql: 'CREATE TABLE sluice.three (id integer)' };
    const told: (readonly string[])[] = [];
    const onMigrating = async (names: readonly string[]) => void told.push(names);
    await migrate({ ...options, migrations: [one], onMigrating });
    expect(told).toEqual([]);
    await migrate({ ...options, migrations: [one, two, three], onMigrating });
    expect(told).toEqual([['two', 'three'], ['three']]);
  });

  test('a migration has the strongest lock of all that it changes before it does anything, in one order', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [one, two] });
    const held = `SELECT string_agg(c.relname || ' ' || l.mode, ', ' ORDER BY c.relname) FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() AND c.relname IN ('one', 'two')`;
    const changing = {
      ...two,
      version: 3,
      name: 'three',
      locks: ['two', 'one'],
      sql: `CREATE TABLE sluice.seen AS ${held}; ALTER TABLE sluice.two ADD COLUMN more integer`,
    };
    await migrate({ ...options, migrations: [one, two, changing] });
    expect(await runSql(`SELECT * FROM "${options.schema}".seen`)).toEqual([
      { string_agg: 'one AccessExclusiveLock, two AccessExclusiveLock' },
    ]);
  });

  test('a migration that PostgreSQL ended because of a deadlock is tried again', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [one] });
    const deadlocked = `DO $$ BEGIN IF NOT EXISTS (SELECT FROM sluice.one) THEN
      RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END IF; END $$; ${two.sql}`;
    const onBlocked = vi.fn(() => void runSql(`INSERT INTO "${options.schema}".one VALUES (1)`));
    expect(await migrate({ ...options, migrations: [one, { ...two, sql: deadlocked }], onBlocked })).toEqual(['two']);
    expect(onBlocked).toHaveBeenCalled();
  });

  test('a migration lets those go on who hold what it has to lock, and tries again', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [one] });
    const holder = new pg.Client({ connectionString: options.url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query(`BEGIN; SELECT * FROM "${options.schema}".one`);
    const changing = { ...two, sql: 'ALTER TABLE sluice.one ADD COLUMN more integer' };
    const onMigrating = vi.fn(async () => {});
    const isBlocked = new Promise<Error>((onBlocked) => {
      void migrate({ ...options, migrations: [one, changing], onMigrating, onBlocked });
    });
    expect(await isBlocked).toMatchObject({ code: '55P03' });
    // Meanwhile others can read: no query waits behind the migration.
    expect(await runSql(`SELECT * FROM "${options.schema}".one`)).toEqual([]);
    await holder.query('COMMIT');
    const versions = `SELECT max(version) AS newest FROM "${options.schema}".schema_migrations`;
    await eventually(
      () => runSql(versions),
      ([row]) => row?.newest === 2,
    );
    expect(onMigrating).toHaveBeenCalledWith(['two']);
  });

  test('an older release works on a newer schema as long as that says so', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [one, two] });
    expect(await migrate({ ...options, migrations: [one] })).toEqual([]);
    const contract = { version: 3, name: 'contract', compatibleFrom: 2, sql: 'DROP TABLE sluice.one' };
    await migrate({ ...options, migrations: [one, two, contract] });
    await expect(migrate({ ...options, migrations: [one] })).rejects.toThrow(
      'schema version 3, which needs a release that knows version 2; this one knows 1',
    );
    expect(await migrate({ ...options, migrations: [one, two] })).toEqual([]);
  });

  test('a schema of a build between two releases is refused', async () => {
    const options = { url: inject('postgresUrl'), schema: withoutTables() };
    await migrate({ ...options, migrations: [{ ...one, name: 'another' }] });
    await expect(migrate({ ...options, migrations: [one, two] })).rejects.toThrow(
      'its schema is that of a build between two releases (version 1 is "another" there, "one" here)',
    );
  });

  test('an existing schema of that name is used', async () => {
    const schema = withoutTables();
    await runSql(`CREATE SCHEMA "${schema}"`);
    expect(await migrate({ url: inject('postgresUrl'), schema, migrations: [one] })).toEqual(['one']);
  });

  test('any name of a schema is only a name', async () => {
    const schema = `${newSchema()} "; DROP TABLE x; --`.slice(0, 63);
    expect(await migrate({ url: inject('postgresUrl'), schema })).toEqual(migrations.map(({ name }) => name));
    await runSql(`DROP SCHEMA "${schema.replaceAll('"', '""')}" CASCADE`);
  });
});

describe('a role that may not change the schema', () => {
  async function roleWithoutRights(): Promise<string> {
    const role = `role_${randomUUID().slice(0, 8)}`;
    await runSql(`CREATE ROLE "${role}" LOGIN PASSWORD 'service'`);
    onTestFinished(async () => {
      await runSql(`DROP OWNED BY "${role}"; DROP ROLE "${role}"`);
    });
    return role;
  }
  function urlOf(role: string): string {
    const url = new URL(inject('postgresUrl'));
    [url.username, url.password] = [role, 'service'];
    return url.href;
  }

  test('runs the service where the owner migrated and granted it the rows', async () => {
    const schema = newSchema();
    const role = await roleWithoutRights();
    await migrate({ url: inject('postgresUrl'), schema, grantTo: role });
    const store = await openPostgresStore({ ...storeOptions(schema), url: urlOf(role) });
    await store.ping();
    await store.close();
  });

  test('is told to let the owner migrate first', async () => {
    const schema = newSchema();
    const role = await roleWithoutRights();
    await migrate({ url: inject('postgresUrl'), schema, grantTo: role, migrations: [one] });
    const start = migrate({ url: urlOf(role), schema, migrations: [one, two] });
    await expect(start).rejects.toThrow('the schema lacks two, which this role may not add; run `sluice migrate`');
  });

  test('reads and writes the tables of later migrations too', async () => {
    const schema = newSchema();
    const role = await roleWithoutRights();
    await migrate({ url: inject('postgresUrl'), schema, grantTo: role, migrations: [one] });
    await migrate({ url: inject('postgresUrl'), schema, migrations: [one, two] });
    const rights = await runSql("SELECT has_table_privilege($1, format('%I.two', $2::text), 'INSERT') AS may", [
      role,
      schema,
    ]);
    expect(rights).toEqual([{ may: true }]);
  });
});
