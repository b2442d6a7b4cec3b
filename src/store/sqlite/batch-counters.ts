import type { Database } from 'better-sqlite3';
import { CollectedCounts, type Count } from '../decisions/counts.ts';
import { CountTables } from './count-tables.ts';

interface BatchCounter {
  /** Called when the batch so far, or a part of it, is rolled back. */
  undo(): void;
  write(): void;
}

/**
 * Collects the counts of a batch, and writes them once within the batch's own transaction. The function that runs the
 * batches of a connection decides when.
 */
export class BatchCounters {
  readonly #counters: BatchCounter[] = [];
  readonly #listeners = new Map<string, (() => void)[]>();
  readonly #db: Database;
  readonly tables: CountTables;
  #counted: Parameters<Count>[] = [];
  #isCounting = false;
  /** Whether the last batch was stored. */
  #isCommitted = false;

  constructor(db: Database) {
    this.#db = db;
    this.tables = new CountTables(db);
  }

  get isCounting(): boolean {
    return this.#isCounting;
  }

  /** Counts with the batch; outside of a batch the count is written at once. */
  readonly count: Count = (table, key, amounts) => {
    this.#counted.push([table, key, amounts]);
    if (!this.#isCounting) this.#writeCounted();
  };

  /** Counts at once in the database's own tables, which tables in memory may hide. */
  readonly countStored: Count = (...counted) => this.tables.add(collect([counted]), 'main.');

  add(counter: BatchCounter): void {
    this.#counters.push(counter);
  }

  begin(): void {
    if (!this.#isCommitted) this.undo(0);
    this.#isCommitted = false;
    this.#isCounting = true;
  }

  /** How many counts were collected so far. */
  mark(): number {
    return this.#counted.length;
  }

  /** Forgets counts collected since the mark. */
  undo(mark: number): void {
    this.#counted.length = Math.min(this.#counted.length, mark);
    for (const counter of this.#counters) counter.undo();
  }

  write(): void {
    this.#writeCounted();
    for (const counter of this.#counters) counter.write();
    this.#writeCounted();
  }

  #writeCounted(): void {
    const collected = collect(this.#counted);
    this.#counted = [];
    if (this.#isCounting) this.tables.append(collected);
    else this.tables.add(collected);
  }

  end(isCommitted: boolean): void {
    this.#isCommitted = isCommitted;
    this.#isCounting = false;
  }

  /** Calls back after each statement of this connection that changes a row of the table. */
  onWrite(table: string, listener: () => void): void {
    const known = this.#listeners.get(table);
    if (known !== undefined) {
      known.push(listener);
      return;
    }
    const listeners = [listener];
    this.#listeners.set(table, listeners);
    const name = `wrote_${table}`;
    this.#db.function(name, () => {
      for (const call of listeners) call();
    });
    for (const event of ['INSERT', 'UPDATE', 'DELETE']) {
      this.#db.exec(`CREATE TEMP TRIGGER ${name}_${event} AFTER ${event} ON main.${table} BEGIN SELECT ${name}(); END`);
    }
  }
}

function collect(counted: readonly Parameters<Count>[]): ReturnType<CollectedCounts['take']> {
  const collected = new CollectedCounts();
  for (const one of counted) collected.add(...one);
  return collected.take();
}
