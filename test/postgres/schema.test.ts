import { expect, inject, test, vi } from 'vitest';
import { examineStore } from '../../src/store/offline.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { newSchema, runSql } from './schemas.ts';

const BEFORE = { nonces: 0, runs: 0, deliveries: 0, activity: 0 };

async function made() {
  const options = { url: inject('postgresUrl'), schema: newSchema() };
  await migrate(options);
  const look = () =>
    examineStore(
      { kind: 'postgres', directUrl: options.url, schema: options.schema },
      { before: BEFORE, isQuick: true },
    );
  return { options, look };
}

test('a schema that the migrations made lacks nothing, and has nothing foreign', async () => {
  const { options, look } = await made();
  const onForeign = vi.fn();
  await migrate({ ...options, onForeign });
  expect(onForeign).not.toHaveBeenCalled();
  expect((await look()).schema).toEqual({ lacks: [], foreign: [] });
});

test.each([
  ['a table', 'DROP TABLE SCHEMA.consumers', 'the table consumers is missing'],
  ['a column', 'ALTER TABLE SCHEMA.flows DROP COLUMN holds_deliveries', 'the column flows.holds_deliveries is missing'],
  ['an index', 'DROP INDEX SCHEMA.steps_due', 'the index steps_due on steps is missing'],
  ['a trigger', 'DROP TRIGGER note_failed_run ON SCHEMA.runs', 'the trigger note_failed_run on runs is missing'],
])('without %s it is refused, by its name', async (_what, sql, line) => {
  const { options, look } = await made();
  await runSql(sql.replace('SCHEMA', options.schema));
  await expect(migrate(options)).rejects.toThrow(line);
  expect((await look()).schema?.lacks).toEqual([expect.stringContaining(line)]);
});

test('what others made is named: triggers, views and indexes, and no tables', async () => {
  const { options, look } = await made();
  const { schema } = options;
  await runSql(`CREATE FUNCTION ${schema}.other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$`);
  await runSql(`CREATE TRIGGER other BEFORE INSERT ON ${schema}.runs FOR EACH ROW EXECUTE FUNCTION ${schema}.other()`);
  await runSql(`CREATE INDEX other_index ON ${schema}.runs (status)`);
  await runSql(`CREATE VIEW ${schema}.other_view AS SELECT 1 AS one`);
  await runSql(`CREATE TABLE ${schema}.other_table (id integer PRIMARY KEY)`);
  const foreign = ['index other_index on runs', 'trigger other on runs', 'view other_view'];
  const onForeign = vi.fn();
  await migrate({ ...options, onForeign });
  expect(onForeign.mock.calls).toEqual([[foreign]]);
  expect((await look()).schema).toEqual({ lacks: [], foreign });
});
