import SqliteDatabase from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { prepareBatch } from '../../src/store/sqlite/batch.ts';
import { portOf } from '../../src/store/sqlite/port.ts';

function aTable() {
  const db = new SqliteDatabase(':memory:');
  onTestFinished(() => {
    db.close();
  });
  db.exec(`
    CREATE TABLE run_totals (flow_id TEXT, status TEXT, count INTEGER NOT NULL, PRIMARY KEY (flow_id, status));
    CREATE TABLE writes (key TEXT);
    CREATE TRIGGER written AFTER UPDATE ON run_totals BEGIN INSERT INTO writes VALUES (new.flow_id); END`);
  const sums = db.prepare<[], [string, number]>('SELECT flow_id, count FROM run_totals ORDER BY flow_id').raw();
  const { count } = portOf(db);
  const add = (flowId: string, by: number) => count('run_totals', [flowId, 'Running'], { count: by });
  return { db, add, sums: () => Object.fromEntries(sums.all()) };
}

describe('what is counted', () => {
  test('in a batch is written once for each key, with the batch', () => {
    const { db, add, sums } = aTable();
    const run = prepareBatch(db, 'BEGIN IMMEDIATE');
    const seen: unknown[] = [];
    const count = (key: string, by: number) => () => add(key, by);
    run([count('a', 1), count('b', 1), count('a', 2), () => seen.push(sums())]);
    expect(seen).toEqual([{}]);
    expect(sums()).toEqual({ a: 3, b: 1 });
    run([count('a', 1), count('a', 1), count('b', 1), count('b', -1)]);
    expect(sums()).toEqual({ a: 5, b: 1 });
    expect(db.prepare('SELECT key FROM writes').raw().all()).toEqual([['a']]);
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
