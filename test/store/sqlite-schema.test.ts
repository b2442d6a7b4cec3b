import SqliteDatabase from 'better-sqlite3';
import { expect, test, vi } from 'vitest';
import { openCopiedSqlite } from '../../src/features/copy/sqlite-rows.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { openWriter } from '../../src/store/sqlite/connection.ts';
import { examineDatabase } from '../../src/store/sqlite/examine.ts';
import { digestOfSchema, SCHEMA_DIGEST } from '../../src/store/sqlite/schema.ts';
import { newDatabases } from './files.ts';

const newPath = newDatabases();
const BEFORE = { nonces: 0, runs: 0, deliveries: 0, activity: 0 };

/** A database that a service left, then changed from outside. */
function changedBy(sql: string): string {
  const path = newPath();
  const db = new SqliteDatabase(path);
  db.exec(sql);
  db.close();
  return path;
}
const schemaOf = (path: string) => examineDatabase(path, { before: BEFORE, isQuick: true }).schema;

test('the digest that a start compares is that of the migrations', () => {
  const { db, close } = openWriter(newPath());
  expect(digestOfSchema(db)).toBe(SCHEMA_DIGEST);
  close();
});

test('a database that a service used lacks nothing, and has nothing foreign', async () => {
  const path = changedBy('ANALYZE');
  const onForeign = vi.fn();
  await (await openSqliteStore({ path, onForeign })).close();
  expect(onForeign).not.toHaveBeenCalled();
  expect(schemaOf(path)).toEqual({ lacks: [], foreign: [] });
});

test.each([
  ['a table', 'DROP TABLE consumers', 'the table consumers is missing'],
  ['a column', 'ALTER TABLE flows DROP COLUMN holds_deliveries', 'the column flows.holds_deliveries is missing'],
  ['a trigger', 'DROP TRIGGER note_failed_run', 'the trigger note_failed_run on runs is missing'],
  [
    'the trigger that it makes',
    'DROP TRIGGER held_added; CREATE TRIGGER held_added AFTER INSERT ON held_deliveries BEGIN SELECT 1; END',
    'the trigger held_added on held_deliveries was changed',
  ],
])('without %s a start and a copy refuse it, by its name', async (_what, sql, line) => {
  const path = changedBy(sql);
  await expect(openSqliteStore({ path })).rejects.toThrow(`its schema was changed: ${line}. Undo the change`);
  expect(() => openCopiedSqlite(path, { isSource: true })).toThrow(line);
  expect(schemaOf(path)?.lacks).toEqual([line]);
});

test('without any one of its indexes it is refused, by its name', async () => {
  const { db, close } = openWriter(newPath());
  const indexes = db
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    .pluck()
    .all();
  close();
  expect(indexes.length).toBeGreaterThan(10);
  for (const index of indexes) {
    const path = changedBy(`DROP INDEX ${index}`);
    expect(() => openWriter(path)).toThrow(new RegExp(`the index ${index} on \\w+ is missing`));
  }
});

test('what others made is named: triggers, views and indexes, and no tables', async () => {
  const path = changedBy(`
    CREATE TRIGGER other AFTER INSERT ON runs BEGIN SELECT 1; END;
    CREATE VIEW other_view AS SELECT 1 AS one;
    CREATE INDEX other_index ON runs (status);
    CREATE TABLE other_table (id INTEGER PRIMARY KEY); CREATE INDEX own_index ON other_table (id);`);
  const foreign = ['index other_index on runs', 'trigger other on runs', 'view other_view'];
  const onForeign = vi.fn();
  await (await openSqliteStore({ path, onForeign })).close();
  expect(onForeign.mock.calls).toEqual([[foreign]]);
  expect(schemaOf(path)).toEqual({ lacks: [], foreign });
  const copied = openCopiedSqlite(path, { isSource: true });
  expect(copied.foreign).toEqual(foreign);
  await copied.close();
});
