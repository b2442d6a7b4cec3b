import type { Database } from 'better-sqlite3';
import { gatheringsOf } from './counter.ts';

/** One call inside a batch. It may run twice, or for nothing, so outside the database it changes nothing that counts. */
export type Job = () => unknown;

export type Settled =
  | { readonly isFulfilled: true; readonly value: unknown }
  | { readonly isFulfilled: false; readonly error: unknown };

/**
 * Makes the function that runs jobs in one transaction and says, after its commit, how each of them ended.
 *
 * The jobs run bare at first. Where one throws, all is rolled back and they run again, each under its own savepoint, so
 * that it fails alone: savepoints copy every page that a job touches, and next to no batch needs them. Where the
 * transaction itself fails, all of them fail, for none of them is stored. What the jobs counted is written at its end.
 */
export function prepareBatch(db: Database, beginSql: 'BEGIN' | 'BEGIN IMMEDIATE'): (jobs: readonly Job[]) => Settled[] {
  const begin = db.prepare(beginSql);
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const save = db.prepare('SAVEPOINT job');
  const release = db.prepare('RELEASE job');
  const undo = db.prepare('ROLLBACK TO job');
  const counts = gatheringsOf(db);

  function inTransaction(jobs: readonly Job[], runOne: (job: Job) => Settled): Settled[] {
    try {
      begin.run();
      counts.begin();
      const settled = jobs.map(runOne);
      counts.write();
      commit.run();
      return settled;
    } catch (error) {
      // SQLite has rolled back by itself where the disk is full or failed.
      if (db.inTransaction) rollback.run();
      if (error instanceof JobError) throw error;
      return jobs.map(() => ({ isFulfilled: false, error }));
    } finally {
      counts.end();
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
      // Without its transaction nothing of the other jobs is left either.
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

/** Tells a job that failed from a transaction that did. */
class JobError extends Error {
  constructor(cause: unknown) {
    super('A job of the batch failed.', { cause });
  }
}
