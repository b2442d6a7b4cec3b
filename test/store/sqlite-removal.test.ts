import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { newPaths } from './files.ts';
import { endAndPurgeBoth } from './sub-run-samples.ts';

const newPath = newPaths();

test('retention leaves no row of a run, nor of the run that it started', async () => {
  const path = newPath();
  const store = await openSqliteStore({ path });
  await endAndPurgeBoth(store);
  await store.close();
  const database = new Database(path);
  const tables = database
    .prepare<[], { name: string }>(
      `SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'run_id'`,
    )
    .all()
    .map(({ name }) => name);
  const rows = tables.flatMap((name) => database.prepare(`SELECT '${name}' AS name FROM ${name}`).all());
  database.close();
  expect(rows).toEqual([]);
  expect(tables).toContain('sub_runs');
});
