import SqliteDatabase from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { decideNow } from '../../src/store/decisions/decision.ts';
import { where } from '../../src/store/decisions/lists.ts';
import { fixed, joined, type Query, Rows, sql } from '../../src/store/decisions/port.ts';
import { booleansOf, toSqlite } from '../../src/store/sqlite/dialect.ts';
import { portOf } from '../../src/store/sqlite/port.ts';

const textOf = ({ strings }: Query) => strings.reduce((before, after, at) => `${before}$${at}${after}`);

describe('a statement of the port', () => {
  it('has a value for each place, never as text', () => {
    const hostile = "'; DROP TABLE runs; --";
    const query = sql`SELECT 1 FROM runs WHERE id = ${hostile} AND started_at > ${5}`;
    expect(textOf(query)).toBe('SELECT 1 FROM runs WHERE id = $1 AND started_at > $2');
    expect(query.values).toEqual([hostile, 5]);
  });

  it('has the same text each time it is made, so that it is prepared once', () => {
    const host = fixed("split_part(wait, ':', 2)");
    const make = (id: string) => sql`SELECT ${host} FROM steps WHERE run_id = ${id}`;
    expect(make('a').strings).toBe(make('b').strings);
    expect(make('a')).toMatchObject({ isFixed: true, values: ['a'] });
  });

  it('has the text that was given, even where the same template got another one before', () => {
    const make = (column: string) => sql`SELECT ${fixed(column)} FROM runs WHERE id = ${'r'}`;
    expect([make('id'), make('flow_id'), make('id')].map(textOf)).toEqual([
      'SELECT id FROM runs WHERE id = $1',
      'SELECT flow_id FROM runs WHERE id = $1',
      'SELECT id FROM runs WHERE id = $1',
    ]);
  });

  it('is as fixed as the statements in it', () => {
    const make = (keys?: string[]) => {
      const named = keys === undefined ? sql`` : sql` AND step_key = ANY (${keys})`;
      return sql`SELECT 1 FROM steps WHERE run_id = ${'r'}${named} LIMIT ${1}`;
    };
    expect(make(['a'])).toMatchObject({ isFixed: true, values: ['r', ['a'], 1] });
    expect(make(['a']).strings).toBe(make(['b', 'c']).strings);
    expect(make().strings).not.toBe(make(['a']).strings);
    expect(make()).toMatchObject({ isFixed: true, values: ['r', 1] });
    expect(textOf(make())).toBe('SELECT 1 FROM steps WHERE run_id = $1 LIMIT $2');
  });

  it('takes conditions that other statements made, with their values in order', () => {
    const conditions = where([sql`a = ${1} OR b = ${2}`, undefined, sql`c = ${3}`]);
    const query = sql`SELECT 1 FROM t ${conditions} LIMIT ${4}`;
    expect(textOf(query)).toBe('SELECT 1 FROM t WHERE (a = $1 OR b = $2) AND (c = $3) LIMIT $4');
    expect(query).toMatchObject({ values: [1, 2, 3, 4], isFixed: false });
    expect(textOf(sql`SELECT 1 FROM t ${where([undefined])} LIMIT ${4}`)).toBe('SELECT 1 FROM t  LIMIT $1');
    expect(textOf(joined([], ', ', 'true'))).toBe('true');
  });
});

describe('the dialect of SQLite', () => {
  const rows: readonly (readonly [postgres: string, sqlite: string])[] = [
    ['SELECT id FROM sluice.runs WHERE id = ?::uuid FOR UPDATE SKIP LOCKED', 'SELECT id FROM runs WHERE id = ?'],
    ['SELECT 1 FROM sluice.flows f WHERE id = ?\n  FOR NO KEY UPDATE OF f', 'SELECT 1 FROM flows f WHERE id = ?'],
    [
      'id = ANY (?::text[]) OR id <> ALL(?)',
      'id IN (SELECT value FROM json_each(?)) OR id NOT IN (SELECT value FROM json_each(?))',
    ],
    ['SELECT d FROM unnest(?::text[]) AS given (d)', 'SELECT d FROM (SELECT value AS d FROM json_each(?)) AS given'],
    [
      'SELECT n FROM jsonb_to_recordset(?) AS given (n integer, flow_id text)',
      "SELECT n FROM (SELECT value ->> 'n' AS n, value ->> 'flow_id' AS flow_id FROM json_each(?)) AS given",
    ],
    ['least(due_at, ?::bigint), greatest(a, b), strpos(a, b)', 'min(due_at, ?), max(a, b), instr(a, b)'],
    ['ORDER BY key COLLATE "C"', 'ORDER BY key'],
    ['started_at, id /*sqlite instead: rowid */ DESC', 'started_at, rowid DESC'],
    ['FROM sluice.runs /*sqlite: INDEXED BY runs_by_time */ AS r', 'FROM runs INDEXED BY runs_by_time AS r'],
    ['id = ANY (ARRAY(SELECT id FROM sluice.runs LIMIT 1))', 'id IN (SELECT * FROM (SELECT id FROM runs LIMIT 1))'],
    ['lower(reason COLLATE "C") LIKE lower(?::text COLLATE "C")', 'reason LIKE ?'],
    ['lower(reason COLLATE "und-x-icu") LIKE lower(?::text COLLATE "und-x-icu")', 'fold(reason) LIKE fold(?)'],
    ["substr(convert_to(input, 'UTF8'), 1)", 'substr(CAST(input AS BLOB), 1)'],
    ["SELECT ':: text', count(*)::integer", "SELECT ':: text', count(*)"],
  ];
  it.each(rows)('turns %s into %s', (postgres, sqlite) => {
    expect(toSqlite(postgres)).toBe(sqlite);
  });

  it('finds what a statement casts to boolean', () => {
    expect(booleansOf('SELECT (a > 1)::boolean AS "isLate", b::boolean AS done, c AS "isNot"')).toEqual([
      'isLate',
      'done',
    ]);
  });
});

describe('the port of SQLite', () => {
  const open = () => {
    const db = new SqliteDatabase(':memory:');
    db.exec('CREATE TABLE things (id TEXT, is_open BOOLEAN, size INTEGER, body BLOB)');
    return portOf(db);
  };

  it('gives booleans back as such: of columns and of casts, null apart', () => {
    const port = open();
    const ask = function* () {
      yield* port.run(sql`INSERT INTO sluice.things (id, is_open, size) VALUES (${'a'}, ${true}, ${3})`);
      port.later(sql`INSERT INTO sluice.things (id, is_open) VALUES (${'b'}, ${null})`);
      return yield* port.all(sql`
        SELECT id, is_open AS "isOpen", (size > 2)::boolean AS "isLarge", size FROM sluice.things ORDER BY id`);
    };
    expect(decideNow(ask())).toEqual([
      { id: 'a', isOpen: true, isLarge: true, size: 3 },
      { id: 'b', isOpen: null, isLarge: null, size: null },
    ]);
  });

  it('takes lists, rows of lists and bytes', () => {
    const port = open();
    const ask = function* () {
      const given = new Rows([
        { id: 'a', size: 1 },
        { id: 'b', size: 2 },
        { id: 'c', size: null },
      ]);
      const written = yield* port.run(sql`
        INSERT INTO sluice.things (id, size)
        SELECT id, size FROM jsonb_to_recordset(${given}) AS given (id text, size integer) WHERE true`);
      yield* port.run(
        sql`UPDATE sluice.things SET body = ${new Uint8Array([1, 0, 255])} WHERE id = ANY (${['a', 'x']})`,
      );
      const row = yield* port.get<{ body: Uint8Array }>(sql`SELECT body FROM sluice.things WHERE size = ${1}`);
      const none = yield* port.get(sql`SELECT 1 FROM sluice.things WHERE id = ${null}`);
      return { written, bytes: [...(row?.body ?? [])], none };
    };
    expect(decideNow(ask())).toEqual({ written: 3, bytes: [1, 0, 255], none: undefined });
  });
});
