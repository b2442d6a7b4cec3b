import type { Database } from 'better-sqlite3';
import { COUNTED, CollectedCounts, type Count, type CountTable } from '../decisions/counts.ts';

interface BatchCounter {
  /** What the batch did so far, or a part of it, is undone. */
  undo(): void;
  write(): void;
}

/**
 * Collects what a batch counts, and writes it once for each key within the batch's own transaction. The function that runs
 * the batches of a connection decides when.
 */
export class BatchCounters {
  readonly #counters: BatchCounter[] = [];
  readonly #listeners = new Map<string, (() => void)[]>();
  readonly #adds = new Map<string, (values: readonly unknown[]) => void>();
  readonly #db: Database;
  #counted: Parameters<Count>[] = [];
  #isCounting = false;

  constructor(db: Database) {
    this.#db = db;
  }

  get isCounting(): boolean {
    return this.#isCounting;
  }

  /** Outside of a batch it is written at once. */
  readonly count: Count = (table, key, amounts) => {
    this.#counted.push([table, key, amounts]);
    if (!this.#isCounting) this.#writeCounted();
  };

  /** Counts at once in the database, where tables in memory may hide its own. */
  readonly countStored: Count = (...counted) => this.#write('main.', [counted]);

  add(counter: BatchCounter): void {
    this.#counters.push(counter);
  }

  begin(): void {
    this.undo(0);
    this.#isCounting = true;
  }

  /** How much was counted so far. */
  mark(): number {
    return this.#counted.length;
  }

  /** Forgets what was counted since. */
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
    const counted = this.#counted;
    this.#counted = [];
    this.#write('', counted);
  }

  #write(schema: 'main.' | '', given: readonly Parameters<Count>[]): void {
    const collected = new CollectedCounts();
    for (const counted of given) collected.add(...counted);
    for (const { table, rows } of collected.take()) {
      const name = `${schema}${table}`;
      const add = this.#adds.get(name) ?? prepareAdd(this.#db, table, schema);
      this.#adds.set(name, add);
      for (const { key, amounts } of rows) {
        const values = COUNTED[table].amounts.map(({ name }) => amounts[name]);
        add([...key.map((value) => (typeof value === 'boolean' ? Number(value) : value)), ...values]);
      }
    }
  }

  end(): void {
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

/** Makes the function that adds to what is stored: the values of a key, then what each other column grows by. */
function prepareAdd(db: Database, table: CountTable, schema: 'main.' | ''): (values: readonly unknown[]) => void {
  if (table === 'kept_sizes') {
    const add = db.prepare<[number, number]>(`UPDATE ${schema}refused_state SET rows = rows + ?, bytes = bytes + ?`);
    return ([kind, rows, bytes]) => {
      // Of held deliveries a trigger keeps count.
      if (kind === 'refused') add.run(Number(rows), Number(bytes));
    };
  }
  const { key, amounts } = COUNTED[table];
  const columns = [...key, ...amounts.map(({ name }) => name)];
  const added = amounts.map(({ name, merge }) => {
    if (merge === 'sum') return `${name} = ${name} + excluded.${name}`;
    return `${name} = ${merge === 'least' ? 'min' : 'max'}(${name}, excluded.${name})`;
  });
  const statement = db.prepare<unknown[]>(`
    INSERT INTO ${schema}${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
    ON CONFLICT DO UPDATE SET ${added.join(', ')}`);
  return (values) => statement.run(values);
}
