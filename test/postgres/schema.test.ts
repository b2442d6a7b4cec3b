import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { examineStore } from '../../src/store/offline.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { dropSchema, runSql } from './schemas.ts';

const BEFORE = { nonces: 0, runs: 0, deliveries: 0, activity: 0 };

// One schema for all tests, which run in order: making a schema takes longer than all of them.
const schema = `${inject('schemaPrefix')}changed`;
const options = { url: inject('postgresUrl'), schema };
const look = async () => {
  const where = { kind: 'postgres', directUrl: options.url, schema } as const;
  return (await examineStore(where, { before: BEFORE, isQuick: true })).schema;
};
beforeAll(() => migrate(options));
afterAll(() => dropSchema(schema));

test('a schema that the migrations made lacks nothing, and has nothing foreign', async () => {
  const onForeign = vi.fn();
  await migrate({ ...options, onForeign });
  expect(onForeign).not.toHaveBeenCalled();
  expect(await look()).toEqual({ lacks: [], foreign: [] });
});

test('what others made is named: triggers, views and indexes, and no tables', async () => {
  await runSql(`CREATE FUNCTION ${schema}.other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$`);
  await runSql(`CREATE TRIGGER other BEFORE INSERT ON ${schema}.runs FOR EACH ROW EXECUTE FUNCTION ${schema}.other()`);
  await runSql(`CREATE INDEX other_index ON ${schema}.runs (status)`);
  await runSql(`CREATE VIEW ${schema}.other_view AS SELECT 1 AS one`);
  await runSql(`CREATE TABLE ${schema}.other_table (id integer PRIMARY KEY)`);
  const foreign = ['index other_index on runs', 'trigger other on runs', 'view other_view'];
  const onForeign = vi.fn();
  await migrate({ ...options, onForeign });
  expect(onForeign.mock.calls).toEqual([[foreign]]);
  expect(await look()).toEqual({ lacks: [], foreign });
});

/** The lines for all objects that the tests have removed so far. */
const lines: string[] = [];

test.each([
  ['a table', 'DROP TABLE SCHEMA.consumers', 'the table consumers is missing'],
  ['a column', 'ALTER TABLE SCHEMA.flows DROP COLUMN holds_deliveries', 'the column flows.holds_deliveries is missing'],
  ['an index', 'DROP INDEX SCHEMA.steps_due', 'the index steps_due on steps is missing'],
  ['a trigger', 'DROP TRIGGER note_failed_run ON SCHEMA.runs', 'the trigger note_failed_run on runs is missing'],
])('without %s it is refused, by its name', async (_what, sql, line) => {
  await runSql(sql.replace('SCHEMA', schema));
  lines.push(line);
  await expect(migrate(options)).rejects.toThrow(line);
  const { lacks = [] } = (await look()) ?? {};
  for (const each of lines) expect(lacks).toContainEqual(expect.stringContaining(each));
  expect(lacks).toHaveLength(lines.length);
});
