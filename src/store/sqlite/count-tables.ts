import type { Database, Statement } from 'better-sqlite3';
import { COUNTED, CollectedCounts, type CountedRow, type CountTable } from '../decisions/counts.ts';
import { COUNTS } from '../tables.ts';

type Collected = ReturnType<CollectedCounts['take']>;
type Values = readonly (string | number)[];

/** How many batches pass before their counts are added to the tables. */
const ADDED_BATCHES = 64;
/** A batch with more counts, of hundreds of flows, is added at once: each reader of counts reads all appended rows. */
const APPENDED_BYTES = 16 * 1024;

const columnsOf = (table: CountTable) => [...COUNTED[table].key, ...COUNTED[table].amounts.map(({ name }) => name)];

/**
 * Gives a connection the views for reading counts: rows of the tables together with rows appended since. Readers add up
 * rows with the same key, as they do in PostgreSQL, where each writer has rows of its own.
 */
export function defineCountedViews(db: Database): void {
  for (const name of COUNTS) {
    const columns = columnsOf(name as CountTable);
    db.exec(`
      CREATE TEMP VIEW IF NOT EXISTS counted_${name} AS SELECT ${columns.join(', ')} FROM ${name}
      UNION ALL SELECT ${columns.map((_, at) => `c.value ->> ${at}`).join(', ')}
      FROM count_changes, json_each(changes, '$.${name}') AS c`);
  }
}

/**
 * Writes the tables of counts. Each table would be another page of every commit, so a batch appends all its counts as
 * one row, and from time to time the appended rows are added to the tables.
 */
export class CountTables {
  readonly #db: Database;
  readonly #adds = new Map<string, (values: Values) => void>();
  #appends: { readonly tables: ReadonlySet<string>; readonly insert: Statement<[string]> } | undefined;

  constructor(db: Database) {
    this.#db = db;
  }

  append(collected: Collected): void {
    if (collected.length === 0) return;
    this.#appends ??= prepareAppend(this.#db);
    const { tables, insert } = this.#appends;
    this.add(collected.filter(({ table }) => !tables.has(table)));
    const appended = collected.filter(({ table }) => tables.has(table));
    if (appended.length === 0) return;
    const changes = appended.map(({ table, rows }) => [table, rows.map((row) => valuesOf(table, row))]);
    const text = JSON.stringify(Object.fromEntries(changes));
    if (text.length > APPENDED_BYTES) {
      this.add(appended);
      return;
    }
    const { lastInsertRowid } = insert.run(text);
    if (Number(lastInsertRowid) >= ADDED_BATCHES) this.addAppended();
  }

  addAppended(): void {
    const collected = new CollectedCounts();
    for (const changes of this.#db.prepare<[], string>('SELECT changes FROM count_changes').pluck().all()) {
      for (const [name, rows] of Object.entries<Values[]>(JSON.parse(changes))) {
        const table = name as CountTable;
        const { key } = COUNTED[table];
        const columns = columnsOf(table);
        for (const row of rows) {
          const amounts = row.slice(key.length).map((amount, at) => [columns[key.length + at], amount]);
          collected.add(table, row.slice(0, key.length), Object.fromEntries(amounts));
        }
      }
    }
    this.add(collected.take());
    this.#db.prepare('DELETE FROM count_changes').run();
  }

  /** A schema selects its own tables, where tables in memory hide them. */
  add(collected: Collected, schema: 'main.' | '' = ''): void {
    for (const { table, rows } of collected) {
      const name = `${schema}${table}`;
      const add = this.#adds.get(name) ?? prepareAdd(this.#db, table, schema);
      this.#adds.set(name, add);
      for (const row of rows) add(valuesOf(table, row));
    }
  }
}

/** Counts kept only in memory are not appended to the file. */
function prepareAppend(db: Database) {
  const hidden = db.prepare<[], string>("SELECT name FROM temp.sqlite_schema WHERE type = 'table'").pluck().all();
  return {
    tables: new Set([...COUNTS].filter((name) => !hidden.includes(name))),
    insert: db.prepare<[string]>('INSERT INTO count_changes (changes) VALUES (?)'),
  };
}

function valuesOf(table: CountTable, { key, amounts }: CountedRow): Values {
  const keys = key.map((value) => (typeof value === 'boolean' ? Number(value) : value));
  return [...keys, ...COUNTED[table].amounts.map(({ name }) => amounts[name] ?? 0)];
}

/** Makes the function that adds to stored counts: takes the values of a key, then the growth of each other column. */
function prepareAdd(db: Database, table: CountTable, schema: 'main.' | ''): (values: Values) => void {
  if (table === 'kept_sizes') {
    const add = db.prepare<[number, number]>(`UPDATE ${schema}refused_state SET rows = rows + ?, bytes = bytes + ?`);
    return ([kind, rows, bytes]) => {
      // A trigger of the database counts held deliveries.
      if (kind === 'refused') add.run(Number(rows), Number(bytes));
    };
  }
  const added = COUNTED[table].amounts.map(({ name, merge }) => {
    if (merge === 'sum') return `${name} = ${name} + excluded.${name}`;
    return `${name} = ${merge === 'least' ? 'min' : 'max'}(${name}, excluded.${name})`;
  });
  const columns = columnsOf(table);
  const statement = db.prepare<unknown[]>(`
    INSERT INTO ${schema}${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
    ON CONFLICT DO UPDATE SET ${added.join(', ')}`);
  return (values) => statement.run(values);
}
