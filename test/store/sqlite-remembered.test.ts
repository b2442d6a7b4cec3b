import SqliteDatabase from 'better-sqlite3';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { prepareBatch, rememberInBatches } from '../../src/store/sqlite/batch.ts';

function aTable() {
  const db = new SqliteDatabase(':memory:');
  onTestFinished(() => {
    db.close();
  });
  db.exec('CREATE TABLE words (key TEXT PRIMARY KEY, word TEXT NOT NULL)');
  const find = db.prepare<[string], string>('SELECT word FROM words WHERE key = ?').pluck();
  let reads = 0;
  const read = (key: string) => {
    reads += 1;
    return find.get(key) ?? null;
  };
  return {
    db,
    run: prepareBatch(db, 'BEGIN IMMEDIATE'),
    remembered: rememberInBatches(db, { tables: ['words'], find: read }),
    read,
    reads: () => reads,
  };
}

test('what batches ask again is read once', () => {
  const { db, run, remembered, reads } = aTable();
  db.exec("INSERT INTO words VALUES ('a', 'one')");
  const ask = (key: string) => () => remembered(key);
  expect(run([ask('a'), ask('b'), ask('a'), ask('b')]).map((each) => each.isFulfilled && each.value)).toEqual([
    'one',
    null,
    'one',
    null,
  ]);
  run([ask('a'), ask('b')]);
  expect(reads()).toBe(2);
  run([() => db.exec("UPDATE words SET word = 'two'"), ask('a')]);
  expect(run([ask('a')])).toEqual([{ isFulfilled: true, value: 'two' }]);
  expect(reads()).toBe(3);
});

test('outside of a batch everything is read', () => {
  const { remembered, reads } = aTable();
  remembered('a');
  remembered('a');
  expect(reads()).toBe(2);
});

test('an answer is what the table says, whatever was written, failed or rolled back before', () => {
  const sql = fc.constantFrom(
    "INSERT OR REPLACE INTO words VALUES ('a', 'one')",
    "INSERT INTO words VALUES ('a', 'two') ON CONFLICT DO UPDATE SET word = 'three'",
    "UPDATE words SET word = word || 'x'",
    'DELETE FROM words',
    'SELECT 1',
  );
  const job = fc.record({ sql, fails: fc.boolean(), asksBefore: fc.boolean() });
  const batch = fc.record({ jobs: fc.array(job, { maxLength: 6 }), commits: fc.boolean() });
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 5 }), (batches) => {
      const { db, run, remembered, read } = aTable();
      db.exec('CREATE TABLE child (n REFERENCES numbers (n) DEFERRABLE INITIALLY DEFERRED)');
      db.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)');
      const answers: unknown[] = [];
      const check = () => answers.push(remembered('a') === read('a'));
      for (const { jobs, commits } of batches) {
        const tasks = jobs.map(({ sql: statement, fails, asksBefore }) => () => {
          if (asksBefore) check();
          db.exec(statement);
          check();
          if (fails) throw new Error('no');
        });
        const settled = run([...tasks, check, ...(commits ? [] : [() => db.exec('INSERT INTO child VALUES (9)')])]);
        expect(settled.at(jobs.length)?.isFulfilled).toBe(commits);
        check();
      }
      expect(answers).not.toContain(false);
      db.close();
    }),
    { numRuns: 200 },
  );
});
