import type { Database } from 'better-sqlite3';
import { prepareCounter } from './counter.ts';
import type { SqlValue } from './sql-value.ts';

interface Sum {
  readonly key: readonly SqlValue[];
  by: number;
}

/** Adds to the `count` of a key's row; `columns` names the table and, after the key's columns, that one. */
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
