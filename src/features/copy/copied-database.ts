import { TABLES, type Table } from '../../store/tables.ts';

export type CopiedValue = string | number | boolean | Uint8Array | null;

/** Values in the order of the columns. */
export type CopiedRow = readonly CopiedValue[];

/** Rows that both databases have; what one of them keeps besides follows from these. The key orders the rows. */
export interface CopiedTable extends Table {
  readonly name: string;
}

/** In the order in which they are copied. */
export const COPIED_TABLES: readonly CopiedTable[] = Object.entries(TABLES).map(([name, table]) => ({
  name,
  ...table,
}));

/** A database that rows are copied from or to, under a lock that keeps services out until it is closed. */
export interface CopiedDatabase {
  /** What a person calls it; without a password. */
  readonly name: string;
  /** Triggers, views and indexes that no migration made. */
  readonly foreign: readonly string[];
  /** The rows of a table from the n-th on, in an order that does not change, in slices of bounded size. */
  read(table: CopiedTable, skip: number): AsyncIterable<readonly CopiedRow[]>;
  /** How far an unfinished copy into this database has come; undefined where there is none. */
  findProgress(): Promise<CopyProgress | undefined>;
  isEmpty(): Promise<boolean>;
  /** Marks the database as an unfinished copy, which no service opens. */
  begin(source: string): Promise<void>;
  /** Adds rows, and keeps how many the table has with them, in one transaction. */
  write(table: CopiedTable, slice: { readonly rows: readonly CopiedRow[]; readonly total: number }): Promise<void>;
  /** Makes what follows from the rows that were copied. */
  derive(): Promise<void>;
  /** Lets services open the database. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

export interface CopyProgress {
  readonly source: string;
  /** Rows that are copied, by table. */
  readonly rows: ReadonlyMap<string, number>;
}

/** What is opened to copy rows from it or to it. */
export interface CopyEnd {
  /** Whether rows are copied from it: then it must exist. */
  readonly isSource: boolean;
}

/** Rows of a slice at most, and bytes of texts after which it ends. */
export const SLICE_ROWS = 1000;
export const SLICE_BYTES = 4 * 1024 * 1024;

/** What a row takes in memory, about. */
export function bytesOfRow(row: CopiedRow): number {
  return row.reduce<number>(
    (sum, value) =>
      sum + (typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.byteLength : 8),
    0,
  );
}
