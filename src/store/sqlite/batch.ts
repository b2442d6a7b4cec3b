import type { Database } from 'better-sqlite3';
import type { SqlValue } from './columns.ts';

/**
 * One call inside a batch. It may run twice or be rolled back, so it must have no side effects outside the database.
 */
export type Job = () => unknown;

export type Settled =
  | { readonly isFulfilled: true; readonly value: unknown }
  | { readonly isFulfilled: false; readonly error: unknown };

/**
 * Makes the function that runs jobs in one transaction and says, after its commit, how each of them ended.
 *
 * At first the jobs run without savepoints. If one throws, everything is rolled back and they run again, each under its
 * own savepoint, so that it fails alone: savepoints copy every page that a job touches, and hardly any batch needs
 * them. If the transaction itself fails, all jobs fail, since none is stored. At its end it writes what the jobs
 * counted.
 */
export function prepareBatch(db: Database, beginSql: 'BEGIN' | 'BEGIN IMMEDIATE'): (jobs: readonly Job[]) => Settled[] {
  const begin = db.prepare(beginSql);
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const save = db.prepare('SAVEPOINT job');
  const release = db.prepare('RELEASE job');
  const undo = db.prepare('ROLLBACK TO job');
  const counts = batchCountersOf(db);

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

/** Tells a job that failed from a transaction that did. */
class JobError extends Error {
  constructor(cause: unknown) {
    super('A job of the batch failed.', { cause });
  }
}

interface BatchCounter {
  /** How much was counted so far. */
  mark(): number;
  /** Forgets what was counted since. */
  undo(mark: number): void;
  write(): void;
}

/** Collects what a batch counts, and writes it once for each key within the batch's own transaction. */
class BatchCounters {
  readonly #counters: BatchCounter[] = [];
  readonly #listeners = new Map<string, (() => void)[]>();
  #isCounting = false;

  get isCounting(): boolean {
    return this.#isCounting;
  }

  add(counter: BatchCounter): void {
    this.#counters.push(counter);
  }

  begin(): void {
    this.undo(this.#counters.map(() => 0));
    this.#isCounting = true;
  }

  mark(): readonly number[] {
    return this.#counters.map((counter) => counter.mark());
  }

  undo(marks: readonly number[]): void {
    for (const [at, counter] of this.#counters.entries()) counter.undo(marks[at] ?? 0);
  }

  write(): void {
    for (const counter of this.#counters) counter.write();
  }

  end(): void {
    this.#isCounting = false;
  }

  /** Calls back after each statement of this connection that changes a row of the table. */
  onWrite(db: Database, table: string, listener: () => void): void {
    const known = this.#listeners.get(table);
    if (known !== undefined) {
      known.push(listener);
      return;
    }
    const listeners = [listener];
    this.#listeners.set(table, listeners);
    const name = `wrote_${table}`;
    db.function(name, () => {
      for (const call of listeners) call();
    });
    for (const event of ['INSERT', 'UPDATE', 'DELETE']) {
      db.exec(`CREATE TEMP TRIGGER ${name}_${event} AFTER ${event} ON main.${table} BEGIN SELECT ${name}(); END`);
    }
  }
}

const ofDatabases = new WeakMap<Database, BatchCounters>();

/** The counters of a connection. The function that runs its batches decides when they are written. */
export function batchCountersOf(db: Database): BatchCounters {
  const known = ofDatabases.get(db);
  if (known !== undefined) return known;
  const counters = new BatchCounters();
  ofDatabases.set(db, counters);
  return counters;
}

interface CounterOptions<Row> {
  /** Rows of one key are written as one. */
  readonly keyOf: (row: Row) => string;
  /** Adds the second to the first, which it may change. */
  readonly merge: (into: Row, row: Row) => void;
  /** Adds to what is stored, in no particular order: code that lowers a count must not expect the row to exist. */
  readonly write: (row: Row) => void;
}

/**
 * Makes the function that counts. Dozens of deliveries share a batch and nearly all of them share their keys: counting
 * them one by one took a fifth of the writer's time.
 */
export function prepareCounter<Row>(db: Database, { keyOf, merge, write }: CounterOptions<Row>): (row: Row) => void {
  const counters = batchCountersOf(db);
  let rows: Row[] = [];
  counters.add({
    mark: () => rows.length,
    undo(mark) {
      rows.length = Math.min(rows.length, mark);
    },
    write() {
      const merged = new Map<string, Row>();
      for (const row of rows) {
        const key = keyOf(row);
        const into = merged.get(key);
        if (into === undefined) merged.set(key, row);
        else merge(into, row);
      }
      rows = [];
      for (const row of merged.values()) write(row);
    },
  });
  return (row) => {
    if (counters.isCounting) rows.push(row);
    else write(row);
  };
}

interface LookUp<Value> {
  /** What the answers are read from. */
  readonly table: string;
  readonly find: (...key: string[]) => Value;
}

/**
 * Makes a look-up that reads each value once per batch, for tables that rarely change, because consecutive acceptances
 * read the same rows. Only this connection writes, and a trigger clears the cache when it writes to the table.
 */
export function rememberInBatch<Value>(db: Database, { table, find }: LookUp<Value>): (...key: string[]) => Value {
  const counters = batchCountersOf(db);
  const known = new Map<string, Value>();
  const forget = () => known.clear();
  counters.onWrite(db, table, forget);
  // A batch that was rolled back read what is true no more.
  counters.add({ mark: () => 0, undo: forget, write() {} });
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

interface Sum {
  readonly key: readonly SqlValue[];
  by: number;
}

/** Adds to the `count` of a key's row; `columns` names the table, the columns of the key and `count`. */
export function prepareSums(db: Database, columns: string): (key: readonly SqlValue[], by: number) => void {
  const places = columns.split(',').map(() => '?');
  const add = db.prepare<unknown[]>(`
    INSERT INTO ${columns} VALUES (${places.join(', ')}) ON CONFLICT DO UPDATE SET count = count + excluded.count`);
  const count = prepareCounter<Sum>(db, {
    keyOf: ({ key }) => JSON.stringify(key),
    merge(into, { by }) {
      into.by += by;
    },
    write: ({ key, by }) => {
      if (by !== 0) add.run(key, by);
    },
  });
  return (key, by) => count({ key, by });
}
