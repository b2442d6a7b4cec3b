import pg from 'pg';
import { ownerOf } from '../../model/runtime-keys.ts';
import { digestOfEventRow, digestOfNonceRow } from '../../store/decisions/nonce-names.ts';
import { digestOf } from '../../store/digest.ts';
import { COPY_MARK, migrate } from '../../store/postgres/migrate.ts';
import { Statements, types } from '../../store/postgres/sql.ts';
import { COUNTS, type ColumnType, SQL_TYPES } from '../../store/tables.ts';
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

interface CopiedSchema extends CopyEnd {
  readonly url: string;
  readonly schema: string;
}

/** Runs statements on one connection; they name tables as elsewhere in this folder. */
type Query = <Row = Record<string, unknown>>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

/** Opens a schema, or creates the target if it does not exist. Throws an error naming the service if one uses it. */
export async function openCopiedPostgres({ url, schema, isSource }: CopiedSchema): Promise<CopiedDatabase> {
  const name = `postgres:${addressOf(url)}/${schema}`;
  try {
    return await openNamed({ url, schema, isSource, name });
  } catch (error) {
    throw new Error(`${name} cannot be opened: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

async function openNamed(options: CopiedSchema & { readonly name: string }): Promise<CopiedDatabase> {
  const { url, schema, isSource, name } = options;
  let foreign: readonly string[] = [];
  const onForeign = (names: readonly string[]) => {
    foreign = names;
  };
  await migrate({ url, schema, isCopied: true, mustExist: isSource, onForeign });
  const client = new pg.Client({ connectionString: url, application_name: 'sluice/copy' });
  client.on('error', () => {});
  await client.connect();
  const statements = new Statements({ schema, isPrepared: false });
  const query: Query = async <Row>(text: string, values: readonly unknown[] = []) =>
    (await client.query({ text: statements.rename(text), values: [...values], types })).rows as Row[];
  const transact = async (work: () => Promise<unknown>) => {
    await query('BEGIN');
    try {
      await work();
      await query('COMMIT');
    } catch (error) {
      await query('ROLLBACK').catch(() => {});
      throw error;
    }
  };
  try {
    await keepServicesOut(query, schema);
  } catch (error) {
    await client.end();
    throw error;
  }
  return {
    name,
    foreign,
    read: (table, skip) => readSlices(query, table, skip),
    findProgress: () => findProgress(query),
    async isEmpty() {
      const [found] = await query(
        COPIED_TABLES.map(({ name }) => `(SELECT 1 AS found FROM sluice.${name} LIMIT 1)`).join(' UNION ALL '),
      );
      return found === undefined;
    },
    begin: (source) =>
      transact(async () => {
        await query(`CREATE TABLE sluice.${COPY_MARK} (name text PRIMARY KEY, source text, rows bigint)`);
        await query(`INSERT INTO sluice.${COPY_MARK} (name, source) VALUES ('', $1)`, [source]);
      }),
    write: (table, { rows, total }) =>
      transact(async () => {
        await insert(query, table, rows);
        await query(
          `INSERT INTO sluice.${COPY_MARK} (name, rows) VALUES ($1, $2)
          ON CONFLICT (name) DO UPDATE SET rows = excluded.rows`,
          [table.name, total],
        );
      }),
    derive: () => transact(() => derive(query)),
    async finish() {
      for (const { name } of COPIED_TABLES) await query(`ANALYZE sluice.${name}`);
      await query(`DROP TABLE sluice.${COPY_MARK}`);
    },
    close: () => client.end(),
  };
}

function addressOf(url: string): string {
  const { hostname, port, pathname } = new URL(url);
  return `//${hostname}${port === '' ? '' : `:${port}`}${pathname}`;
}

/** A service that starts meanwhile waits to migrate; a started one is among the replicas. */
async function keepServicesOut(query: Query, schema: string): Promise<void> {
  const [lock] = await query<{ isTaken: boolean }>(
    `SELECT pg_try_advisory_lock(hashtextextended('sluice migrates ' || $1, 0)) AS "isTaken"`,
    [schema],
  );
  if (lock?.isTaken !== true) throw new Error('a service starts on it, or it is being copied');
  const alive = await query<{ name: string }>(
    `SELECT name FROM sluice.replicas WHERE seen_at > (extract(epoch FROM clock_timestamp()) - 15) * 1000`,
  );
  if (alive.length === 0) return;
  const names = alive.map(({ name }) => name).join(', ');
  throw new Error(`it is in use by ${names}; stop it, and wait 15 seconds if it was killed`);
}

async function findProgress(query: Query): Promise<CopyProgress | undefined> {
  const [mark] = await query<{ found: boolean }>(`SELECT to_regclass('sluice.${COPY_MARK}') IS NOT NULL AS found`);
  if (mark?.found !== true) return undefined;
  const marks = await query<{ name: string; source: string | null; rows: number | null }>(
    `SELECT name, source, rows FROM sluice.${COPY_MARK}`,
  );
  return {
    source: marks.find(({ name }) => name === '')?.source ?? '',
    rows: new Map(marks.map(({ name, rows }) => [name, rows ?? 0])),
  };
}

/** How the values of a column in several slots become one; other columns are added up. */
const AGGREGATES: Readonly<Record<string, string>> = { first_at: 'min', last_at: 'max' };

function selectOf({ name, columns, key }: CopiedTable): string {
  const order = key.join(', ');
  if (!COUNTS.has(name)) return `SELECT ${Object.keys(columns).join(', ')} FROM sluice.${name} ORDER BY ${order}`;
  const sums = Object.keys(columns).map((column) => {
    if (key.includes(column)) return column;
    if (column === 'first_id') return '(array_agg(first_id ORDER BY first_id))[1] AS first_id';
    if (column === 'last_id') return '(array_agg(last_id ORDER BY last_id DESC))[1] AS last_id';
    return `${AGGREGATES[column] ?? 'sum'}(${column}) AS ${column}`;
  });
  return `SELECT ${sums.join(', ')} FROM sluice.${name} GROUP BY ${order} ORDER BY ${order}`;
}

async function* readSlices(query: Query, table: CopiedTable, skip: number): AsyncGenerator<CopiedRow[]> {
  await query('BEGIN READ ONLY');
  try {
    await query(`DECLARE copied NO SCROLL CURSOR FOR ${selectOf(table)} OFFSET ${skip}`);
    // Rows can be large: if these were, the next fetch is smaller.
    for (let count = SLICE_ROWS / 10; ; ) {
      const rows = await query(`FETCH ${count} FROM copied`);
      if (rows.length === 0) break;
      const slice = rows.map((row) => rowOf(table, row));
      const bytes = slice.reduce((sum, row) => sum + bytesOfRow(row), 0);
      count = Math.max(1, Math.min(SLICE_ROWS, Math.floor((SLICE_BYTES / bytes) * rows.length)));
      yield slice;
    }
  } finally {
    await query('ROLLBACK');
  }
}

function rowOf({ columns }: CopiedTable, row: Record<string, unknown>): CopiedRow {
  return Object.keys(columns).map((column) => (row as Record<string, CopiedValue>)[column] ?? null);
}

type Given = Readonly<Record<string, CopiedValue>>;

interface DerivedColumn {
  readonly name: string;
  readonly type: ColumnType;
  of(row: Given): CopiedValue;
}

/** The digest of a trigger's claim. */
const claimDigest = (of: DerivedColumn['of']): DerivedColumn => ({ name: 'digest', type: 'id', of });

/** Columns computed from the others of a row. */
const DERIVED: Readonly<Record<string, readonly DerivedColumn[]>> = {
  nonces: [claimDigest(digestOfNonceRow)],
  event_ids: [claimDigest(digestOfEventRow)],
  idempotency_keys: [claimDigest((row) => digestOf(String(row.flow_id), String(row.trigger_key), String(row.key)))],
  steps: [
    {
      name: 'lease_owner',
      type: 'text',
      of: ({ lease_token: token }) => (typeof token === 'string' ? ownerOf(token) : null),
    },
  ],
};

async function insert(query: Query, { name: table, columns }: CopiedTable, rows: readonly CopiedRow[]): Promise<void> {
  const names = Object.keys(columns);
  const given = (row: CopiedRow) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? null]));
  const stored = [
    ...names.map((name, at) => ({ name, type: columns[name] ?? 'text', of: (row: CopiedRow) => row[at] ?? null })),
    ...(DERIVED[table] ?? []).map(({ name, type, of }) => ({ name, type, of: (row: CopiedRow) => of(given(row)) })),
  ];
  const list = stored.map(({ name }) => name).join(', ');
  const [slot, zero] = COUNTS.has(table) ? [', slot', ', 0'] : ['', ''];
  await query(
    `INSERT INTO sluice.${table} (${list}${slot}) OVERRIDING SYSTEM VALUE
    SELECT ${list}${zero} FROM unnest(${stored.map(({ type }, at) => `$${at + 1}::${SQL_TYPES[type]}[]`).join(', ')})
      AS given (${list})`,
    stored.map(({ of }) => rows.map((row) => toPostgres(of(row)))),
  );
}

function toPostgres(value: CopiedValue): unknown {
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

async function derive(query: Query): Promise<void> {
  await query(`INSERT INTO sluice.redeliveries (source, delivery_id, run_id)
    SELECT redelivered_from, id, run_id FROM sluice.deliveries
    WHERE redelivered_from IS NOT NULL AND run_id IS NOT NULL ON CONFLICT DO NOTHING`);
  await query('DELETE FROM sluice.kept_sizes');
  await query(`INSERT INTO sluice.kept_sizes (kind, slot, rows, bytes)
    SELECT 'refused', 0, count(*), coalesce(sum(kept_bytes), 0) FROM sluice.deliveries WHERE run_id IS NULL AND outcome IS NULL
    UNION ALL SELECT 'held', 0, count(*), coalesce(sum(kept_bytes), 0) FROM sluice.held_deliveries`);
  await query('UPDATE sluice.run_deliveries AS j SET xid = r.xid FROM sluice.runs AS r WHERE r.id = j.run_id');
  // Numbers continue after the greatest one ever given, which a former key of a trigger can have.
  const greatest = {
    'nonces.seq': `SELECT max(seq) FROM (SELECT seq FROM sluice.nonces UNION ALL
      SELECT last_seq FROM sluice.former_trigger_keys) AS numbers`,
    'event_ids.seq': 'SELECT max(seq) FROM sluice.event_ids',
    'signals.id': 'SELECT max(id) FROM sluice.signals',
    'held_deliveries.seq': 'SELECT max(seq) FROM sluice.held_deliveries',
    'failed_run_notices.seq': 'SELECT max(seq) FROM sluice.failed_run_notices',
    'orphaned_runs.seq': 'SELECT max(seq) FROM sluice.orphaned_runs',
  };
  for (const [column, select] of Object.entries(greatest)) {
    const sequence = `sluice.${column.replace('.', '_')}_seq`;
    await query(`SELECT setval('${sequence}', greatest((${select}), 1), (${select}) IS NOT NULL)`);
  }
}
