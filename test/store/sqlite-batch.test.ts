import type { Database } from 'better-sqlite3';
import SqliteDatabase from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { prepareBatch } from '../../src/store/sqlite/batch.ts';

const isFulfilled = (settled: readonly { isFulfilled: boolean }[]) => settled.map((each) => each.isFulfilled);

describe('a batch', () => {
  test('answers each job with its own value', () => {
    const { run, insert, stored } = aBatch();
    expect(run([() => insert(1), () => 'two', () => insert(3)])).toEqual([
      { isFulfilled: true, value: 1 },
      { isFulfilled: true, value: 'two' },
      { isFulfilled: true, value: 3 },
    ]);
    expect(stored()).toEqual([1, 3]);
  });

  test('a job that fails alone fails, with all that it wrote', () => {
    const { run, insert, stored } = aBatch();
    const broken = () => {
      insert(2);
      insert(1);
    };
    const settled = run([() => insert(1), broken, () => insert(3)]);
    expect(isFulfilled(settled)).toEqual([true, false, true]);
    expect(settled[1]).toMatchObject({ error: { code: 'SQLITE_CONSTRAINT_PRIMARYKEY' } });
    expect(stored()).toEqual([1, 3]);
  });

  test('a single job that fails leaves nothing', () => {
    const { run, insert, stored, db } = aBatch();
    const error = new Error('no');
    const broken = () => {
      insert(1);
      throw error;
    };
    expect(run([broken])).toEqual([{ isFulfilled: false, error }]);
    expect(stored()).toEqual([]);
    expect(db.inTransaction).toBe(false);
  });

  test('where the transaction itself is lost, every job fails and nothing is stored', () => {
    const { run, insert, stored, db } = aBatch();
    db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true })) + 4}`);
    const settled = run([() => insert(1), () => insert(2, 500_000), () => insert(3)]);
    expect(isFulfilled(settled)).toEqual([false, false, false]);
    expect(settled[1]).toMatchObject({ error: { code: 'SQLITE_FULL' } });
    expect(stored()).toEqual([]);
    expect(isFulfilled(run([() => insert(4)]))).toEqual([true]);
  });

  test('where the commit fails, every job fails and nothing is stored', () => {
    const { run, insert, stored, db } = aBatch();
    db.exec('CREATE TABLE child (n REFERENCES numbers (n) DEFERRABLE INITIALLY DEFERRED)');
    const orphan = () => db.exec('INSERT INTO child VALUES (99)');
    const settled = run([() => insert(1), orphan]);
    expect(isFulfilled(settled)).toEqual([false, false]);
    expect(settled[0]).toMatchObject({ error: { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' } });
    expect(stored()).toEqual([]);
    expect(db.inTransaction).toBe(false);
  });

  test('where the transaction cannot begin, every job fails and none has run', () => {
    const { run, insert, db } = aBatch();
    db.exec('BEGIN');
    let count = 0;
    const job = () => {
      count += 1;
      insert(count);
    };
    expect(isFulfilled(run([job, job]))).toEqual([false, false]);
    expect(count).toBe(0);
  });

  test('whatever fails, what is stored is what was answered as stored', () => {
    const job = fc.record({ writes: fc.array(fc.nat(9), { maxLength: 3 }), throws: fc.boolean() });
    fc.assert(
      fc.property(fc.array(fc.array(job, { minLength: 1, maxLength: 5 }), { maxLength: 5 }), (batches) => {
        const { run, insert, stored, db } = aBatch();
        const expected = new Set<number>();
        for (const jobs of batches) {
          const settled = run(
            jobs.map(({ writes, throws }) => () => {
              for (const n of writes) insert(n);
              if (throws) throw new Error('no');
            }),
          );
          for (const [at, { writes, throws }] of jobs.entries()) {
            const fits = !throws && new Set(writes).size === writes.length && writes.every((n) => !expected.has(n));
            expect(settled[at]?.isFulfilled).toBe(fits);
            if (fits) for (const n of writes) expected.add(n);
          }
        }
        expect(stored()).toEqual([...expected].sort());
        db.close();
      }),
      { numRuns: 50 },
    );
  });
});

function aBatch() {
  const db: Database = new SqliteDatabase(':memory:');
  onTestFinished(() => {
    db.close();
  });
  db.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY, filling BLOB)');
  const statement = db.prepare('INSERT INTO numbers VALUES (?, zeroblob(?))');
  return {
    db,
    run: prepareBatch(db, 'BEGIN IMMEDIATE'),
    insert(n: number, bytes = 0) {
      statement.run(n, bytes);
      return n;
    },
    stored: () => db.prepare('SELECT n FROM numbers ORDER BY n').pluck().all(),
  };
}
