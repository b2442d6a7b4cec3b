import type { Database } from 'better-sqlite3';
import { portOf } from './port.ts';

/**
 * One call inside a batch. It may run twice or be rolled back, so outside the database it leaves nothing but hints.
 */
export type Job = () => unknown;

export type Settled =
  | { readonly isFulfilled: true; readonly value: unknown }
  | { readonly isFulfilled: false; readonly error: unknown };

/**
 * Makes the function that runs jobs in one transaction and, after its commit, yields how each of them ended.
 *
 * At first the jobs run without savepoints. If one throws, everything is rolled back and they run again, each under its
 * own savepoint, so that it fails alone: savepoints copy every page that a job touches, and hardly any batch needs
 * them. If the transaction itself fails, all jobs fail, since none is stored. At its end it writes the counts of the
 * jobs. `onCommitted` receives the duration of a commit, its flush included.
 */
export function prepareBatch(
  db: Database,
  beginSql: 'BEGIN' | 'BEGIN IMMEDIATE',
  onCommitted: (seconds: number) => void = () => {},
): (jobs: readonly Job[]) => Settled[] {
  const begin = db.prepare(beginSql);
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const save = db.prepare('SAVEPOINT job');
  const release = db.prepare('RELEASE job');
  const undo = db.prepare('ROLLBACK TO job');
  const { counters: counts } = portOf(db);

  function inTransaction(jobs: readonly Job[], runOne: (job: Job) => Settled): Settled[] {
    let isCommitted = false;
    try {
      begin.run();
      counts.begin();
      const settled = jobs.map(runOne);
      counts.write();
      const from = performance.now();
      commit.run();
      isCommitted = true;
      onCommitted((performance.now() - from) / 1000);
      return settled;
    } catch (error) {
      // SQLite has already rolled back if the disk is full or failed.
      if (db.inTransaction) rollback.run();
      if (error instanceof JobError) throw error;
      return jobs.map(() => ({ isFulfilled: false, error }));
    } finally {
      counts.end(isCommitted);
    }
  }

  function runBare(job: Job): Settled {
    try {
      return { isFulfilled: true, value: job() };
    } catch (error) {
      throw new JobError(error);
    }
  }

  function runGuarded(job: Job): Settled {
    save.run();
    const counted = counts.mark();
    try {
      const value = job();
      release.run();
      return { isFulfilled: true, value };
    } catch (error) {
      // Without the transaction the other jobs are lost too.
      if (!db.inTransaction) throw error;
      undo.run();
      counts.undo(counted);
      release.run();
      return { isFulfilled: false, error };
    }
  }

  return (jobs) => {
    try {
      return inTransaction(jobs, runBare);
    } catch (error) {
      if (!(error instanceof JobError)) throw error;
      if (jobs.length === 1) return [{ isFulfilled: false, error: error.cause }];
      return inTransaction(jobs, runGuarded);
    }
  };
}

/** Distinguishes a failed job from a failed transaction. */
class JobError extends Error {
  constructor(cause: unknown) {
    super('A job of the batch failed.', { cause });
  }
}

interface LookUp<Value> {
  /** The tables that the answers are read from. */
  readonly tables: readonly string[];
  readonly find: (...key: string[]) => Value;
}

/**
 * Makes a look-up that reads each value once a batch, for tables that rarely change, because all acceptances read the
 * same rows. Only this connection writes, and a trigger clears the cache when it writes to the table.
 */
export function rememberInBatches<Value>(db: Database, { tables, find }: LookUp<Value>): (...key: string[]) => Value {
  const { counters } = portOf(db);
  const known = new Map<string, Value>();
  const forget = () => known.clear();
  for (const table of tables) counters.onWrite(table, forget);
  // Values read in a batch that was rolled back are no longer true.
  counters.add({ undo: forget, write() {} });
  return (...key) => {
    if (!counters.isCounting) return find(...key);
    const name = key.join('\n');
    const value = known.get(name);
    if (value !== undefined) return value;
    const found = find(...key);
    known.set(name, found);
    return found;
  };
}
