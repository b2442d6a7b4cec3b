import { randomUUID } from 'node:crypto';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { migrations } from '../../src/store/postgres/migrations/index.ts';
import { newSchema, runSql, storeOptions } from './schemas.ts';

const one = { version: 1, name: 'one', compatibleFrom: 1, sql: 'CREATE TABLE sluice.one (id integer)' };
const two = { version: 2, name: 'two', compatibleFrom: 1, sql: 'CREATE TABLE sluice.two (id integer)' };

describe('migrations', () => {
  test('an empty database gets the schema, and a second start changes nothing', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    expect(await migrate(options)).toEqual(migrations.map(({ name }) => name));
    expect(await migrate(options)).toEqual([]);
  });

  test('of several processes that start at once, one migrates', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    const ran = await Promise.all(Array.from({ length: 5 }, () => migrate(options)));
    expect(ran.flat()).toEqual(migrations.map(({ name }) => name));
  });

  test('of several processes of a later release that start at once on an older database, one migrates', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    await migrate({ ...options, migrations: [one] });
    const ran = await Promise.all(Array.from({ length: 5 }, () => migrate({ ...options, migrations: [one, two] })));
    expect(ran.flat()).toEqual(['two']);
  });

  test('runs what is missing, in order', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    expect(await migrate({ ...options, migrations: [one] })).toEqual(['one']);
    expect(await migrate({ ...options, migrations: [one, two] })).toEqual(['two']);
  });

  test('a migration that fails leaves nothing of itself and of those before it', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    const failing = { ...two, sql: 'CREATE TABLE sluice.two (id integer); SELECT 1 / 0' };
    await expect(migrate({ ...options, migrations: [one, failing] })).rejects.toThrow('division by zero');
    expect(await runSql('SELECT 1 FROM pg_namespace WHERE nspname = $1', [options.schema])).toEqual([]);
  });

  test('an older release works on a newer schema as long as that says so', async () => {
    const options = { url: inject('postgresUrl'), schema: newSchema() };
    await migrate({ ...options, migrations: [one, two] });
    expect(await migrate({ ...options, migrations: [one] })).toEqual([]);
    const contract = { version: 3, name: 'contract', compatibleFrom: 2, sql: 'DROP TABLE sluice.one' };
    await migrate({ ...options, migrations: [one, two, contract] });
    await expect(migrate({ ...options, migrations: [one] })).rejects.toThrow(
      'schema version 3, which needs a release that knows version 2; this one knows 1',
    );
    expect(await migrate({ ...options, migrations: [one, two] })).toEqual([]);
  });

  test('an existing schema of that name is used', async () => {
    const schema = newSchema();
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
