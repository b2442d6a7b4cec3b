import { describe, expect, inject, test } from 'vitest';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { migrations } from '../../src/store/postgres/migrations/index.ts';
import { newSchema, runSql } from './schemas.ts';

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
