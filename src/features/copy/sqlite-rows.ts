import { existsSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { digestOfEventRow, digestOfNonceRow } from '../../store/decisions/nonce-names.ts';
import { COPY_MARK, openWriter } from '../../store/sqlite/connection.ts';
import { CountTables } from '../../store/sqlite/count-tables.ts';
import { indexAllKeys } from '../../store/sqlite/key-index.ts';
import { hashOfDigest } from '../../store/sqlite/nonce-index.ts';
import type { ColumnType } from '../../store/tables.ts';
import {
  bytesOfRow,
  COPIED_TABLES,
  type CopiedDatabase,
  type CopiedRow,
  type CopiedTable,
  type CopiedValue,
  type CopyEnd,
  type CopyProgress,
  SLICE_BYTES,
  SLICE_ROWS,
} from './copied-database.ts';

/** Opens a database, or creates the target if it does not exist. Throws if a service is using it. */
export function openCopiedSqlite(path: string, { isSource }: CopyEnd): CopiedDatabase {
  if (isSource && !existsSync(path)) throw new Error(`the database ${path} cannot be opened: there is no such file`);
  const { db, foreign, close } = openWriter(path, { isCopied: true });
  db.transaction(() => new CountTables(db).addAppended()).immediate();
  return {
    name: `sqlite:${path}`,
    foreign,
    read: (table, skip) => readSlices(db, table, skip),
    async findProgress() {
      return findProgress(db);
    },
    async isEmpty() {
      return COPIED_TABLES.every(({ name }) => db.prepare(`SELECT 1 FROM ${name} LIMIT 1`).get() === undefined);
    },
    async begin(source) {
      db.exec(`CREATE TABLE ${COPY_MARK} (name TEXT PRIMARY KEY, source TEXT, rows INTEGER)`);
      db.prepare(`INSERT INTO ${COPY_MARK} (name, source) VALUES ('', ?)`).run(source);
    },
    async write(table, slice) {
      write(db, table, slice);
    },
    async derive() {
      db.exec(`UPDATE refused_state SET (rows, bytes) =
        (SELECT count(*), coalesce(sum(kept_bytes), 0) FROM deliveries WHERE run_id IS NULL AND outcome IS NULL)`);
      db.exec(`UPDATE run_deliveries SET joined = nth, position = (SELECT seq FROM runs WHERE id = run_deliveries.run_id)
        FROM (
          SELECT run_id, place, row_number() OVER (ORDER BY delivery_id) AS nth FROM run_deliveries WHERE place > 1
        ) AS numbered
        WHERE numbered.run_id = run_deliveries.run_id AND numbered.place = run_deliveries.place`);
      indexAllKeys(db);
    },
    async finish() {
      db.exec(`DROP TABLE ${COPY_MARK}`);
      db.pragma('wal_checkpoint(TRUNCATE)');
    },
    async close() {
      close();
    },
  };
}

function findProgress(db: Database): CopyProgress | undefined {
  const isCopy = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(COPY_MARK);
  if (isCopy === undefined) return undefined;
  const marks = db
    .prepare<[], { name: string; source: string | null; rows: number | null }>(
      `SELECT name, source, rows FROM ${COPY_MARK}`,
    )
    .all();
  return {
    source: marks.find(({ name }) => name === '')?.source ?? '',
    rows: new Map(marks.map(({ name, rows }) => [name, rows ?? 0])),
  };
}

/** Tables whose rows are found by a hash: how it is computed, and the columns that distinguish names. */
const HASHED = {
  nonces: { digestOf: digestOfNonceRow, name: 'flow_id, trigger_key, is_verified, header, nonce' },
  event_ids: { digestOf: digestOfEventRow, name: 'flow_id, trigger_key, event_id' },
} as const;

const isHashed = (table: string): table is keyof typeof HASHED => Object.hasOwn(HASHED, table);

/** The last use of each name, which can be accepted again after it expired. */
const newestOf = (table: keyof typeof HASHED) => `(SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY hash, ${HASHED[table].name} ORDER BY seq DESC) AS age FROM ${table}
) WHERE age = 1)`;

async function* readSlices(db: Database, table: CopiedTable, skip: number): AsyncGenerator<CopiedRow[]> {
  const types = Object.values(table.columns);
  const columns = Object.keys(table.columns).map((name) => `"${name}"`);
  const from = isHashed(table.name) ? newestOf(table.name) : table.name;
  const order = table.key.map((name) => `"${name}"`).join(', ');
  const rows = db
    .prepare<[number], unknown[]>(`SELECT ${columns.join(', ')} FROM ${from} ORDER BY ${order} LIMIT -1 OFFSET ?`)
    .raw()
    .iterate(skip);
  let slice: CopiedRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    const values = row.map((value, at) => fromSqlite(value, types[at]));
    slice.push(values);
    bytes += bytesOfRow(values);
    if (slice.length < SLICE_ROWS && bytes < SLICE_BYTES) continue;
    yield slice;
    slice = [];
    bytes = 0;
  }
  if (slice.length > 0) yield slice;
}

function fromSqlite(value: unknown, type: ColumnType | undefined): CopiedValue {
  if (value === null) return null;
  if (type === 'boolean') return value === 1;
  if (type === 'bytes') return new Uint8Array(value as Buffer);
  return value as string | number;
}

function write(
  db: Database,
  { name: table, columns }: CopiedTable,
  { rows, total }: { rows: readonly CopiedRow[]; total: number },
): void {
  const names = Object.keys(columns);
  const stored = [...names.map((name) => `"${name}"`), ...(isHashed(table) ? ['hash'] : [])];
  const insert = db.prepare<unknown[]>(
    `INSERT INTO ${table} (${stored.join(', ')}) VALUES (${stored.map(() => '?').join(', ')})`,
  );
  const keep = db.prepare<[string, number]>(
    `INSERT INTO ${COPY_MARK} (name, rows) VALUES (?, ?) ON CONFLICT DO UPDATE SET rows = excluded.rows`,
  );
  const hashOf = (row: CopiedRow) =>
    isHashed(table)
      ? [hashOfDigest(HASHED[table].digestOf(Object.fromEntries(names.map((name, at) => [name, row[at]]))))]
      : [];
  db.transaction(() => {
    for (const row of rows) insert.run(...row.map(toSqlite), ...hashOf(row));
    keep.run(table, total);
  }).immediate();
}

function toSqlite(value: CopiedValue): unknown {
  return typeof value === 'boolean' ? Number(value) : value;
}
