import { type POSTGRES_ADDS, type SQLITE_ADDS, TABLES, type Table } from '../../src/store/tables.ts';

/** For each table, the columns with their types, and the primary key's columns in order. */
export type Schema = Record<string, { columns: Record<string, string>; key: readonly string[] }>;

/** The schema by `TABLES` and a store's additions, with that store's types. */
export function schemaOf(
  adds: typeof SQLITE_ADDS | typeof POSTGRES_ADDS,
  types: Readonly<Record<string, string>>,
): Schema {
  const more: Readonly<Record<string, Readonly<Record<string, string>>>> = adds.columns;
  const keys: Readonly<Record<string, readonly string[]>> = adds.keys;
  const shared = Object.entries(TABLES).map(([name, { columns, key }]) => {
    const counted = more[name]?.slot === undefined ? key : [...key, 'slot'];
    return [name, { columns: { ...columns, ...more[name] }, key: keys[name] ?? counted }] as const;
  });
  return Object.fromEntries(
    [...shared, ...Object.entries<Table<string>>(adds.tables)].map(([name, { columns, key }]) => [
      name,
      {
        columns: Object.fromEntries(Object.entries(columns).map(([column, type]) => [column, types[type] ?? type])),
        key: [...key],
      },
    ]),
  );
}

export interface ColumnRow {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  /** From 1; 0 if the column is not part of the primary key. */
  readonly place: number;
}

export function schemaIn(rows: readonly ColumnRow[]): Schema {
  const schema: Schema = {};
  for (const { table, name, type } of rows) {
    schema[table] ??= { columns: {}, key: [] };
    schema[table].columns[name] = type;
  }
  for (const [table, found] of Object.entries(schema)) {
    const key = rows.filter((row) => row.table === table && row.place > 0).sort((a, b) => a.place - b.place);
    schema[table] = { ...found, key: key.map(({ name }) => name) };
  }
  return schema;
}
