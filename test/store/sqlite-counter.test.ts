import SqliteDatabase from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sql } from '../../src/store/decisions/port.ts';
import { prepareBatch } from '../../src/store/sqlite/batch.ts';
import { defineCountedViews } from '../../src/store/sqlite/count-tables.ts';
import { portOf } from '../../src/store/sqlite/port.ts';

function aTable() {
  const db = new SqliteDatabase(':memory:');
  onTestFinished(() => {
    db.close();
  });
  db.exec(`
    CREATE TABLE run_totals (flow_id TEXT, status TEXT, count INTEGER NOT NULL, PRIMARY KEY (flow_id, status));
    CREATE TABLE count_changes (seq INTEGER PRIMARY KEY, changes TEXT NOT NULL)`);
  defineCountedViews(db);
  const sumsIn = (table: string) => {
    const rows = db.prepare<[], [string, number]>(`SELECT flow_id, sum(count) FROM ${table} GROUP BY 1 ORDER BY 1`);
    return Object.fromEntries(rows.raw().all());
  };
  const port = portOf(db);
  const add = (flowId: string, by: number) => port.count('run_totals', [flowId, 'Running'], { count: by });
  const appended = db.prepare<[], string>('SELECT changes FROM count_changes').pluck();
  return { db, port, add, sums: () => sumsIn('counted_run_totals'), stored: () => sumsIn('run_totals'), appended };
}

describe('what is counted', () => {
  test('in a batch is appended as one row, with the batch, and read from then on', () => {
    const { db, add, sums, stored, appended } = aTable();
    const run = prepareBatch(db, 'BEGIN IMMEDIATE');
    const seen: unknown[] = [];
    const count = (key: string, by: number) => () => add(key, by);
    run([count('a', 1), count('b', 1), count('a', 2), () => seen.push(sums())]);
    expect(seen).toEqual([{}]);
    expect(sums()).toEqual({ a: 3, b: 1 });
    run([count('a', 1), count('a', 1), count('b', 1), count('b', -1)]);
    expect(sums()).toEqual({ a: 5, b: 1 });
    expect(stored()).toEqual({});
    expect(appended.all()).toEqual([
      '{"run_totals":[["a","Running",3],["b","Running",1]]}',
      '{"run_totals":[["a","Running",2]]}',
    ]);
    run([() => undefined]);
    expect(appended.all()).toHaveLength(2);
  });

  test('in many batches is added to its table, and nothing twice', () => {
    const { db, add, sums, stored, appended } = aTable();
    const run = prepareBatch(db, 'BEGIN IMMEDIATE');
    for (let n = 1; n <= 63; n += 1) run([() => add('a', n)]);
    expect(stored()).toEqual({});
    run([() => add('b', 1)]);
    expect(stored()).toEqual({ a: 2016, b: 1 });
    expect(appended.all()).toEqual([]);
    run([() => add('b', 1)]);
    expect(stored()).toEqual({ a: 2016, b: 1 });
    expect(sums()).toEqual({ a: 2016, b: 2 });
  });

  test('in a batch of very many keys is added to its table at once', () => {
    const { db, add, stored, appended } = aTable();
    const keys = Array.from({ length: 1000 }, (_, n) => `flow ${n}`);
    prepareBatch(db, 'BEGIN IMMEDIATE')(keys.map((key) => () => add(key, 1)));
    expect(Object.keys(stored())).toHaveLength(1000);
    expect(appended.all()).toEqual([]);
  });

  test('is added to its table before counts are deleted, and by a transaction that fails not at all', () => {
    const { db, port, add, sums, stored, appended } = aTable();
    const run = prepareBatch(db, 'BEGIN IMMEDIATE');
    run([() => add('a', 3), () => add('b', 4)]);
    const forget = () => port.later(sql`DELETE FROM sluice.run_totals WHERE flow_id = ${'a'}`);
    const failed = run([
      () => {
        forget();
        throw new Error('no');
      },
    ]);
    expect(failed).toMatchObject([{ isFulfilled: false }]);
    expect([sums(), appended.all().length]).toEqual([{ a: 3, b: 4 }, 1]);
    run([forget]);
    expect([sums(), stored(), appended.all()]).toEqual([{ b: 4 }, { b: 4 }, []]);
  });

  test('outside of a batch is written at once', () => {
    const { add, sums } = aTable();
    add('a', 2);
    expect(sums()).toEqual({ a: 2 });
  });

  test('by a batch whose transaction fails is forgotten', () => {
    const { db, add, sums } = aTable();
    const run = prepareBatch(db, 'BEGIN IMMEDIATE');
    db.pragma('query_only = ON');
    expect(run([() => add('a', 1)])).toMatchObject([{ isFulfilled: false }]);
    db.pragma('query_only = OFF');
    run([() => add('b', 1)]);
    expect(sums()).toEqual({ b: 1 });
  });

  test('does not count jobs that failed, whatever ran before, with or after them', () => {
    const job = fc.record({
      key: fc.constantFrom('a', 'b', 'c'),
      by: fc.integer({ min: -3, max: 3 }),
      fails: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(fc.array(job, { maxLength: 6 }), { maxLength: 5 }), (batches) => {
        const { db, add, sums } = aTable();
        const run = prepareBatch(db, 'BEGIN IMMEDIATE');
        const expected: Record<string, number> = {};
        for (const jobs of batches) {
          run(
            jobs.map(({ key, by, fails }) => () => {
              add(key, by);
              if (fails) throw new Error('no');
            }),
          );
          for (const { key, by, fails } of jobs) if (!fails) expected[key] = (expected[key] ?? 0) + by;
        }
        const stored = sums();
        for (const key of ['a', 'b', 'c']) expect(stored[key] ?? 0).toBe(expected[key] ?? 0);
      }),
      { numRuns: 60 },
    );
  });
});
