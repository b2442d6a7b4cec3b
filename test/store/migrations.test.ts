import SqliteDatabase, { type Database } from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrate, openWriter } from '../../src/store/sqlite/connection.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { SQLITE_ADDS } from '../../src/store/tables.ts';
import { newPaths } from './files.ts';
import { type ColumnRow, schemaIn, schemaOf } from './schema.ts';

const newPath = newPaths();
const one = { version: 1, name: 'one', sql: 'CREATE TABLE one (id INTEGER)' };
const two = { version: 2, name: 'two', sql: 'ALTER TABLE one ADD COLUMN name TEXT' };

function inMemory(): Database {
  const db = new SqliteDatabase(':memory:');
  onTestFinished(() => void db.close());
  return db;
}

const statementsOf = (db: Database): unknown[] => db.prepare('SELECT type, name, sql FROM sqlite_schema').all();
const versionsOf = (db: Database) =>
  db.prepare<[], number>('SELECT version FROM schema_migrations ORDER BY version').pluck().all();

describe('migrations', () => {
  test('are numbered in their order', () => {
    const versions = migrations.map(({ version }) => version);
    expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
  });

  test('bring a file up to date once: a second start changes nothing', () => {
    const path = newPath();
    const first = openWriter(path);
    const before = statementsOf(first.db);
    first.close();
    const { db, close } = openWriter(path);
    expect(versionsOf(db)).toEqual(migrations.map(({ version }) => version));
    expect(statementsOf(db)).toEqual(before);
    close();
  });

  test('that a database lacks are run in order, and leave its rows', () => {
    const db = inMemory();
    migrate(db, [one]);
    db.exec('INSERT INTO one (id) VALUES (7)');
    migrate(db, [one, two]);
    expect(versionsOf(db)).toEqual([1, 2]);
    expect(db.prepare('SELECT id, name FROM one').get()).toEqual({ id: 7, name: null });
  });

  test('say what is still to come before each of them', () => {
    const db = inMemory();
    migrate(db, [one]);
    const told: (readonly string[])[] = [];
    const three = { ...two, version: 3, name: 'three', sql: 'CREATE TABLE three (id INTEGER)' };
    migrate(db, [one, two, three], (names) => told.push(names));
    expect(told).toEqual([['two', 'three'], ['three']]);
  });

  test('that fail leave nothing of themselves, and those before them', () => {
    const db = inMemory();
    const failing = { ...two, sql: `${two.sql}; SELECT * FROM three` };
    expect(() => migrate(db, [one, failing])).toThrow('no such table: three');
    expect(versionsOf(db)).toEqual([1]);
    migrate(db, [one, two]);
    expect(versionsOf(db)).toEqual([1, 2]);
  });
});

test('deliveries that join a run are numbered after those that consumers have passed', () => {
  const db = inMemory();
  const before = migrations.filter(({ version }) => version < 12);
  migrate(db, before);
  db.exec(`INSERT INTO consumers (name, delivery_id, created_at, used_at, position, joined)
    VALUES ('ada', '019aa000-0000-7000-8000-000000000001', 1, 1, 3, 7)`);
  migrate(db, migrations);
  expect(db.prepare('SELECT run, joined FROM run_numbers').all()).toEqual([{ run: 0, joined: 7 }]);
});

test('the counts of a loop cannot become impossible', () => {
  const db = inMemory();
  migrate(db, migrations);
  db.exec("INSERT INTO loops VALUES ('r', 'each', 3, 1, 3, 3, 1)");
  for (const change of ['failed = -1', 'failed = 4', 'ended = 4', 'started = 4']) {
    expect(() => db.exec(`UPDATE loops SET ${change}`)).toThrow('CHECK');
  }
});

test('the schema has the tables, columns, types and keys that are said of all stores and of SQLite', () => {
  const db = inMemory();
  migrate(db, migrations);
  const rows = db
    .prepare<[], ColumnRow>(`
      SELECT t.name AS "table", c.name, c.type, c.pk AS place FROM sqlite_schema t, pragma_table_info(t.name) c
      WHERE t.type IN ('table', 'view')`)
    .all();
  const types = { text: 'TEXT', id: 'TEXT', integer: 'INTEGER', real: 'REAL', boolean: 'BOOLEAN', bytes: 'BLOB' };
  expect(schemaIn(rows)).toEqual(schemaOf(SQLITE_ADDS, types));
});
