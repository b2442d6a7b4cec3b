import { TABLES, type Table } from '../../store/tables.ts';

export type CopiedValue = string | number | boolean | Uint8Array | null;

/** Values in the order of the columns. */
export type CopiedRow = readonly CopiedValue[];

/** Rows that both databases have; everything else in them is derived from these. The key orders the rows. */
export interface CopiedTable extends Table {
  readonly name: string;
}

/** Sorted in the order of copying. */
export const COPIED_TABLES: readonly CopiedTable[] = Object.entries(TABLES).map(([name, table]) => ({
  name,
  ...table,
}));

/** A database to copy rows from or to, under a lock that keeps services out until it is closed. */
export interface CopiedDatabase {
  /** The name for people; without a password. */
  readonly name: string;
  /** Triggers, views and indexes that no migration created. */
  readonly foreign: readonly string[];
  /** The rows of a table from the n-th on, in a stable order, in slices of bounded size. */
  read(table: CopiedTable, skip: number): AsyncIterable<readonly CopiedRow[]>;
  /** Progress of an unfinished copy into this database; undefined if there is none. */
  findProgress(): Promise<CopyProgress | undefined>;
  isEmpty(): Promise<boolean>;
  /** Marks the database as an unfinished copy; services refuse to open it. */
  begin(source: string): Promise<void>;
  /** Adds rows and stores the table's new number of rows, in one transaction. */
  write(table: CopiedTable, slice: { readonly rows: readonly CopiedRow[]; readonly total: number }): Promise<void>;
  /** Computes everything that is derived from the copied rows. */
  derive(): Promise<void>;
  /** Lets services open the database. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

export interface CopyProgress {
  readonly source: string;
  /** Number of copied rows, by table. */
  readonly rows: ReadonlyMap<string, number>;
}

/** One end of a copy. */
export interface CopyEnd {
  /** Whether rows are copied from it: then it must exist. */
  readonly isSource: boolean;
}

/** Most rows of a slice, and bytes of texts after which it ends. */
export const SLICE_ROWS = 1000;
export const SLICE_BYTES = 4 * 1024 * 1024;

/** Approximate size of a row in memory. */
export function bytesOfRow(row: CopiedRow): number {
  return row.reduce<number>(
    (sum, value) =>
      sum + (typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.byteLength : 8),
    0,
  );
}
