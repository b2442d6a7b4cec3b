import type { Database } from 'better-sqlite3';
import { HOUR_MS } from '../../model/clock.ts';
import { batchCountersOf } from './batch.ts';
import type { SqlValue } from './columns.ts';
import type { Member, StoreOptions } from './messages.ts';

export const removalOperations = {
  purgeRuns: { thread: 'writer', prepare: preparePurgeRuns },
  purgeNonces: { thread: 'writer', prepare: preparePurgeNonces },
  purgeDeliveries: { thread: 'writer', prepare: preparePurgeDeliveries },
  releaseSpace: { thread: 'writer', prepare: prepareReleaseSpace },
} as const;

/**
 * A slice ends with the row that brings its values to this size: freeing pages costs as much as writing them. 200 rows
 * of 1 KiB hold the writer for 3 ms, 1 MiB of values for 2 ms.
 */
const SLICE_BYTES = 1024 * 1024;

/**
 * Tables with rows of a run, in the order of deletion: the key columns after the run's id, and the size of their
 * values.
 */
const TABLES = [
  {
    name: 'attempts',
    key: 'step_key, attempt',
    bytes: 'coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0)',
  },
  { name: 'steps', key: 'step_key', bytes: 'coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0)' },
  { name: 'signals', key: 'id', bytes: 'coalesce(octet_length(body), 0)' },
  { name: 'loop_items', key: 'step_key, first_index', bytes: 'octet_length(items)' },
  { name: 'loops', key: 'step_key', bytes: '0' },
  { name: 'run_keys', key: 'name', bytes: '0' },
  { name: 'run_pins', key: 'flow_id', bytes: '0' },
] as const;

/**
 * Removes a run at once, and its rows in as many slices as it takes: the children of a loop are tens of thousands of
 * rows, and every other write waits for a slice.
 */
function preparePurgeRuns(db: Database): Member<'purgeRuns'> {
  const empty = TABLES.map((table) => prepareEmpty(db, table));
  const findRemoved = db.prepare<[], { runId: string }>('SELECT run_id AS runId FROM removed_runs LIMIT 1');
  const forgetRemoved = db.prepare('DELETE FROM removed_runs WHERE run_id = ?');
  const removeRuns = prepareRemoveRuns(db);
  const forgetFigures = prepareForgetFigures(db);

  return ({ before, maxRows }) => {
    let rows = 0;
    let bytes = 0;
    // Most runs have a few rows: one run a slice removed 250 runs a second, and fewer than were accepted under load.
    for (let forgotten = 0; ; forgotten += 1) {
      const removed = findRemoved.get();
      if (removed === undefined) break;
      for (const table of empty) {
        const done = table(removed.runId, { rows: maxRows - rows - forgotten, bytes: SLICE_BYTES - bytes });
        rows += done.rows;
        bytes += done.bytes;
        if (!done.isEmpty) return { runs: 0, rows, isDone: false };
      }
      forgetRemoved.run(removed.runId);
    }
    if (rows > 0) return { runs: 0, rows, isDone: false };
    forgetFigures(before);
    return removeRuns(before, maxRows);
  };
}

/** Removes runs that ended before, oldest first, and notes whose rows are still there. */
function prepareRemoveRuns(db: Database): (before: number, maxRows: number) => ReturnType<Member<'purgeRuns'>> {
  const list = db.prepare<[number, number, number], { id: string; bytes: number }>(`
    SELECT id, octet_length(trigger_body) AS bytes FROM runs
    WHERE started_at < ? AND completed_at < ? AND status <> 'Running' AND NOT EXISTS (
      SELECT 1 FROM sub_runs s CROSS JOIN runs p ON p.id = s.parent_run_id AND p.status = 'Running'
      WHERE s.run_id = runs.id AND s.is_awaited = 1)
    ORDER BY started_at LIMIT ?`);
  const steps = [
    // The record of its delivery may be kept for longer, and has no keys of its own so far.
    `INSERT OR IGNORE INTO delivery_keys (delivery_id, name, folded, value)
      SELECT d.id, k.name, k.folded, k.value FROM runs r
      CROSS JOIN run_keys k ON k.run_id = r.id CROSS JOIN deliveries d ON d.id = r.delivery_id WHERE r.id = ?`,
    `DELETE FROM idempotency_keys WHERE (flow_id, trigger_key, key, run_id) IN (
      SELECT flow_id, trigger_key, idempotency_key, id FROM runs WHERE id = ?)`,
    'DELETE FROM sub_runs WHERE run_id = ?',
    'INSERT OR IGNORE INTO removed_runs (run_id) VALUES (?)',
    'DELETE FROM runs WHERE id = ?',
  ].map((sql) => db.prepare<[string]>(sql));
  return (before, maxRows) => {
    let runs = 0;
    let bytes = 0;
    // Each is three rows.
    for (const run of list.all(before, before, Math.max(1, Math.floor(maxRows / 3)))) {
      for (const step of steps) step.run(run.id);
      runs += 1;
      bytes += run.bytes;
      if (bytes >= SLICE_BYTES) break;
    }
    return { runs, rows: runs * 3, isDone: runs === 0 };
  };
}

interface Emptied {
  readonly rows: number;
  readonly bytes: number;
  /** Nothing of the run is left. */
  readonly isEmpty: boolean;
}

function prepareEmpty(
  db: Database,
  { name, key, bytes }: (typeof TABLES)[number],
): (runId: string, left: { rows: number; bytes: number }) => Emptied {
  const list = db.prepare<[string], Record<string, string | number> & { bytes: number }>(
    `SELECT ${key}, ${bytes} AS bytes FROM ${name} WHERE run_id = ? ORDER BY ${key}`,
  );
  const columns = key.split(', ');
  const upTo = db.prepare(
    `DELETE FROM ${name} WHERE run_id = ? AND (${key}) <= (${columns.map(() => '?').join(', ')})`,
  );
  return (runId, left) => {
    if (left.rows <= 0 || left.bytes <= 0) return { rows: 0, bytes: 0, isEmpty: false };
    let last: Record<string, string | number> | undefined;
    let rows = 0;
    let weight = 0;
    let isEmpty = true;
    // Row by row: one may weigh as much as all others.
    for (const row of list.iterate(runId)) {
      isEmpty = rows < left.rows && weight < left.bytes;
      if (!isEmpty) break;
      last = row;
      rows += 1;
      weight += row.bytes;
    }
    if (last !== undefined) upTo.run(runId, ...columns.map((column) => last?.[column]));
    return { rows, bytes: weight, isEmpty };
  };
}

function prepareForgetFigures(db: Database): (before: number) => void {
  const forget = [
    'DELETE FROM run_starts WHERE hour < ?',
    'DELETE FROM run_ends WHERE hour < ?',
    // Flow by flow, because the hour follows it in the key.
    "DELETE FROM run_durations WHERE flow_id IN (SELECT DISTINCT flow_id FROM run_totals UNION SELECT '') AND hour < ?",
  ].map((sql) => db.prepare<[number]>(sql));
  return (before) => {
    for (const deletion of forget) deletion.run(Math.floor(before / HOUR_MS));
  };
}

/** No id that was made at that instant or later is lower: the first 48 bits of an id are its milliseconds. */
function firstIdAt(at: number): string {
  const hex = Math.max(0, at).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

/** Stats look back 720 hours; older minutes are never read. */
const countedMinutes = 31 * 24 * 60;

function preparePurgeDeliveries(db: Database): Member<'purgeDeliveries'> {
  const purgeFrom = (table: string) =>
    db.prepare<SqlValue[]>(`
      DELETE FROM ${table} WHERE id IN (
        SELECT id FROM ${table} d
        WHERE id < ? AND received_at < ? AND NOT EXISTS (SELECT 1 FROM held_deliveries h WHERE h.delivery_id = d.id)
        ORDER BY id LIMIT ?)`);
  const purge = purgeFrom('deliveries');
  // If the log is in memory, records in the database come from an earlier setting, and grow old too.
  const purgeStored = purgeFrom('main.deliveries');
  const forget = db.prepare<SqlValue[]>(`
    DELETE FROM delivery_counts
    WHERE minute < (SELECT max(minute) FROM delivery_counts) - ${countedMinutes} AND minute < ?`);
  const forgetHours = db.prepare<SqlValue[]>(`
    DELETE FROM delivery_hours
    WHERE hour < (SELECT max(hour) FROM delivery_hours) - ${countedMinutes / 60} AND hour < ?`);
  return ({ before, limit }) => {
    forget.run(Math.floor(before / 60_000));
    forgetHours.run(Math.floor(before / HOUR_MS));
    // Ids are made when deliveries arrive, and grow when the clock goes back: no older record has a higher one, except
    // for as long as the clock went back.
    const id = firstIdAt(before);
    const purged = purge.run(id, before, limit).changes;
    return purged === limit ? purged : purged + purgeStored.run(id, before, limit - purged).changes;
  };
}

function preparePurgeNonces(db: Database): Member<'purgeNonces'> {
  const purge = db.prepare(`
    DELETE FROM nonces WHERE seq IN (SELECT seq FROM nonces WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`);
  return ({ now, limit }) => purge.run(now, limit).changes;
}

/** Free pages to keep for new rows: 8 MiB. */
const sparePages = 1024;

function prepareReleaseSpace(db: Database): Member<'releaseSpace'> {
  const free = db.prepare<[], { freelist_count: number }>('PRAGMA freelist_count');
  const count = () => free.get()?.freelist_count ?? 0;
  return ({ pages }) => {
    const before = count();
    if (before <= sparePages) return 0;
    db.pragma(`incremental_vacuum(${Math.min(pages, before - sparePages)})`);
    return before - count();
  };
}

/** Rows deleted in one transaction at the start, and read at a time. */
const chunkRows = 500;

interface BoundedRow {
  readonly id: string;
  readonly keptBytes: number;
}

/**
 * Keeps the delivery log within its bounds at every commit: records beyond them push out the oldest ones in the same
 * transaction. In the database only records that started no run are bounded, so that no flood can push out accepted
 * deliveries; in memory all are. Counts of deleted records stay in the stats.
 */
export function boundLog(db: Database, { inMemory, maxRows, maxBytes }: StoreOptions['log']): void {
  const measure = db.prepare<[], { rows: number; bytes: number }>('SELECT rows, bytes FROM refused_state');
  const bounded = inMemory ? '' : 'WHERE run_id IS NULL';
  const oldest = db.prepare<[number], BoundedRow>(
    `SELECT id, kept_bytes AS keptBytes FROM deliveries ${bounded} ORDER BY id LIMIT ?`,
  );
  const remove = db.prepare<SqlValue[]>('DELETE FROM deliveries WHERE id = ?');
  /** Yields whether more has to go. */
  const trimChunk = (): boolean => {
    let { rows, bytes } = measure.get() ?? { rows: 0, bytes: 0 };
    if (rows <= maxRows && bytes <= maxBytes) return false;
    const chunk = oldest.all(chunkRows);
    for (const { id, keptBytes } of chunk) {
      if (rows <= maxRows && bytes <= maxBytes) return false;
      remove.run(id);
      rows -= 1;
      bytes -= keptBytes;
    }
    return chunk.length === chunkRows;
  };
  // Lower bounds than the last process had are met before anything waits for the writer.
  const trimAtOnce = db.transaction(trimChunk);
  while (trimAtOnce.immediate());
  batchCountersOf(db).add({
    mark: () => 0,
    undo() {},
    write() {
      while (trimChunk());
    },
  });
}
