import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import type { RunStatus } from '../../model/manifest.ts';
import { Counters } from './counters.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql, SqlValue } from './sql.ts';

export const removalOperations: Operations<'purgeRuns' | 'purgeNonces' | 'purgeDeliveries' | 'releaseSpace'> = {
  purgeRuns: { lane: 'write', run: purgeRuns },
  purgeNonces: { lane: 'write', run: purgeNonces },
  purgeDeliveries: { lane: 'write', run: purgeDeliveries },
  releaseSpace: { lane: 'read', run: releaseSpace },
};

/** A slice ends with the row that brings its values to this size, so that no slice writes for long. */
const SLICE_BYTES = 1024 * 1024;

const inputAndOutput = 'coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0)';

/** Tables with rows of a run, in the order of deletion: their keys, and the size of their values. */
const TABLES = [
  { name: 'attempts', key: 'run_id, step_key, attempt', bytes: inputAndOutput },
  { name: 'steps', key: 'run_id, step_key', bytes: inputAndOutput },
  { name: 'signals', key: 'id', bytes: 'coalesce(octet_length(body), 0)' },
  { name: 'loop_items', key: 'run_id, step_key, first_index', bytes: 'octet_length(items)' },
  { name: 'loops', key: 'run_id, step_key', bytes: '0' },
  { name: 'run_keys', key: 'run_id, name', bytes: '0' },
  { name: 'run_pins', key: 'run_id, flow_id', bytes: '0' },
] as const;

/**
 * Removes runs at once, and their rows in as many slices as it takes: the children of a loop are tens of thousands of
 * rows. Of replicas that purge at the same time each takes what the others have not.
 */
async function purgeRuns(sql: Sql, { before, maxRows }: Given<'purgeRuns'>): Promise<Answer<'purgeRuns'>> {
  const removed = await sql.all<{ runId: string }>(
    `SELECT run_id AS "runId" FROM sluice.removed_runs ORDER BY run_id LIMIT $1 FOR UPDATE SKIP LOCKED`,
    [maxRows],
  );
  const runIds = removed.map(({ runId }) => runId);
  let rows = 0;
  let bytes = 0;
  for (const table of runIds.length === 0 ? [] : TABLES) {
    const left = { rows: maxRows - rows, bytes: SLICE_BYTES - bytes };
    const done = await emptyTable(sql, table, { runIds, left });
    rows += done.rows;
    bytes += done.bytes;
    if (rows >= maxRows || bytes >= SLICE_BYTES) return { runs: 0, rows, isDone: false };
  }
  await sql.run('DELETE FROM sluice.removed_runs WHERE run_id = ANY($1)', [runIds]);
  if (rows > 0) return { runs: 0, rows, isDone: false };
  await forgetFigures(sql, before);
  return removeRuns(sql, before, maxRows);
}

interface Slice {
  readonly runIds: readonly string[];
  readonly left: { readonly rows: number; readonly bytes: number };
}

/** Deletes rows of runs up to a number of rows, ending with the first row that reaches the number of bytes. */
async function emptyTable(
  sql: Sql,
  { name, key, bytes }: (typeof TABLES)[number],
  { runIds, left }: Slice,
): Promise<{ rows: number; bytes: number }> {
  const deleted = await sql.get<{ rows: number; bytes: number }>(
    `WITH deleted AS (
      DELETE FROM sluice.${name} WHERE (${key}) IN (
        SELECT ${key} FROM (
          SELECT ${key}, sum(bytes) OVER (ORDER BY ${key}) - bytes AS before FROM (
            SELECT ${key}, ${bytes} AS bytes FROM sluice.${name} WHERE run_id = ANY($1) ORDER BY ${key} LIMIT $2
          ) AS oldest
        ) AS weighed
        WHERE before < $3
      )
      RETURNING ${bytes} AS bytes
    )
    SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes FROM deleted`,
    [runIds, left.rows, left.bytes],
  );
  return deleted ?? { rows: 0, bytes: 0 };
}

/** Removes runs that ended before, oldest first, and notes whose rows are still there. */
async function removeRuns(sql: Sql, before: number, maxRows: number): Promise<Answer<'purgeRuns'>> {
  // One that is tried again at this moment is not old.
  const old = await sql.all<{ id: string; flowId: string; status: RunStatus; bytes: number }>(
    `SELECT id, flow_id AS "flowId", status, octet_length(trigger_body) AS bytes FROM sluice.runs AS r
    WHERE started_at < $1 AND completed_at < $1 AND status <> 'Running' AND NOT EXISTS (
      SELECT FROM sluice.sub_runs s JOIN sluice.runs p ON p.id = s.parent_run_id AND p.status = 'Running'
      WHERE s.run_id = r.id AND s.is_awaited)
    ORDER BY started_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
    // Each is three rows.
    [before, Math.max(1, Math.floor(maxRows / 3))],
  );
  const counters = new Counters();
  const runIds: string[] = [];
  let bytes = 0;
  for (const run of old) {
    if (bytes >= SLICE_BYTES) break;
    runIds.push(run.id);
    counters.runsRemoved(run, 1);
    bytes += run.bytes;
  }
  if (runIds.length > 0) {
    // The records of their deliveries may be kept for longer, and have no keys of their own so far.
    await sql.run(
      `INSERT INTO sluice.delivery_keys (delivery_id, name, folded, value)
      SELECT d.id, k.name, k.folded, k.value FROM sluice.runs r
      JOIN sluice.run_keys k ON k.run_id = r.id JOIN sluice.deliveries d ON d.id = r.delivery_id
      WHERE r.id = ANY($1) FOR KEY SHARE OF d SKIP LOCKED ON CONFLICT DO NOTHING`,
      [runIds],
    );
    await sql.run(
      `WITH keys AS (DELETE FROM sluice.idempotency_keys WHERE run_id = ANY($1)),
      subs AS (DELETE FROM sluice.sub_runs WHERE run_id = ANY($1)),
      runs AS (DELETE FROM sluice.runs WHERE id = ANY($1))
      INSERT INTO sluice.removed_runs (run_id) SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING`,
      [runIds],
    );
    counters.write(sql);
  }
  return { runs: runIds.length, rows: runIds.length * 3, isDone: runIds.length === 0 };
}

async function forgetFigures(sql: Sql, before: number): Promise<void> {
  const hour = Math.floor(before / HOUR_MS);
  await sql.run('DELETE FROM sluice.run_starts WHERE hour < $1', [hour]);
  await sql.run('DELETE FROM sluice.run_ends WHERE hour < $1', [hour]);
  // Flow by flow, because the hour follows it in the key.
  await sql.run(
    `DELETE FROM sluice.run_durations
    WHERE flow_id IN (SELECT flow_id FROM sluice.run_totals UNION SELECT '') AND hour < $1`,
    [hour],
  );
}

/** No id that was made at that instant or later is lower: the first 48 bits of an id are its milliseconds. */
function firstIdAt(at: number): string {
  const hex = Math.max(0, at).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

/** Stats look back 720 hours; older minutes are never read. */
const countedMinutes = 31 * 24 * 60;

async function purgeDeliveries(sql: Sql, { before, limit }: Given<'purgeDeliveries'>): Promise<number> {
  await sql.run(
    `DELETE FROM sluice.delivery_counts
    WHERE minute < (SELECT max(minute) FROM sluice.delivery_counts) - ${countedMinutes} AND minute < $1`,
    [Math.floor(before / MINUTE_MS)],
  );
  await sql.run(
    `DELETE FROM sluice.delivery_hours
    WHERE hour < (SELECT max(hour) FROM sluice.delivery_hours) - ${countedMinutes / 60} AND hour < $1`,
    [Math.floor(before / HOUR_MS)],
  );
  // Ids are made when deliveries arrive, and grow when the clock goes back: no older record has a higher one, except
  // for as long as the clock went back.
  return deleteRecords(
    sql,
    `SELECT id FROM sluice.deliveries AS d
    WHERE id < $1 AND received_at < $2 AND NOT EXISTS (SELECT FROM sluice.held_deliveries h WHERE h.delivery_id = d.id)
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED`,
    [firstIdAt(before), before, limit],
  );
}

interface DeletedRecords {
  readonly flowId: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly isBounded: boolean;
  readonly rows: number;
  readonly bytes: number;
}

/** Deletes records of deliveries whose ids a statement selects, and yields how many. Counts over time outlive them. */
async function deleteRecords(sql: Sql, ids: string, values: readonly SqlValue[]): Promise<number> {
  const groups = await sql.all<DeletedRecords>(
    // Chosen once, as in `purgeNonces`.
    `WITH chosen (id) AS MATERIALIZED (${ids}), deleted AS (
      DELETE FROM sluice.deliveries AS d USING chosen WHERE d.id = chosen.id
      RETURNING d.id, flow_id, reason, rejected, run_id IS NULL AS is_bounded, kept_bytes, redelivered_from
    ), keys AS (
      DELETE FROM sluice.delivery_keys WHERE delivery_id IN (SELECT id FROM deleted)
    ), forgotten AS (
      DELETE FROM sluice.redeliveries WHERE delivery_id IN (SELECT id FROM deleted WHERE redelivered_from IS NOT NULL)
    )
    SELECT flow_id AS "flowId", reason, rejected, is_bounded AS "isBounded", count(*) AS rows, sum(kept_bytes) AS bytes
    FROM deleted GROUP BY flow_id, reason, rejected, is_bounded`,
    values,
  );
  const counters = new Counters();
  for (const { rows, bytes, ...record } of groups) counters.recordsChanged(record, { rows: -rows, bytes: -bytes });
  counters.write(sql);
  return groups.reduce((sum, { rows }) => sum + rows, 0);
}

/** Records deleted at a time. */
const CHUNK_ROWS = 500;

/**
 * Keeps the delivery log within its bounds: records beyond them push out the oldest ones in the same transaction. Only
 * records that started no run are bounded, so that no flood can push out accepted deliveries. Counts of deleted records
 * stay in the stats.
 */
export async function boundLog(sql: Sql): Promise<void> {
  const { maxRows, maxBytes } = sql.bounds.log;
  if (maxRows === Number.POSITIVE_INFINITY && maxBytes === Number.POSITIVE_INFINITY) return;
  if (!exceeds(await measureLog(sql), sql.bounds.log)) return;
  // One after the other: else two would delete for the same excess.
  await sql.run("SELECT pg_advisory_xact_lock(hashtextextended('sluice log', sluice_lock_scope))");
  let size = await measureLog(sql);
  while (exceeds(size, sql.bounds.log)) {
    const oldest = await sql.all<{ id: string; bytes: number }>(
      'SELECT id, kept_bytes AS bytes FROM sluice.deliveries WHERE run_id IS NULL ORDER BY id LIMIT $1',
      [CHUNK_ROWS],
    );
    const ids: string[] = [];
    for (const { id, bytes } of oldest) {
      if (!exceeds(size, sql.bounds.log)) break;
      ids.push(id);
      size = { rows: size.rows - 1, bytes: size.bytes - bytes };
    }
    if (ids.length === 0) return;
    await deleteRecords(sql, 'SELECT unnest($1::uuid[])', [ids]);
  }
}

interface Size {
  readonly rows: number;
  readonly bytes: number;
}

async function measureLog(sql: Sql): Promise<Size> {
  const size = await sql.get<Size>(
    `SELECT coalesce(sum(rows), 0) AS rows, coalesce(sum(bytes), 0) AS bytes
    FROM sluice.kept_sizes WHERE kind = 'refused'`,
  );
  return size ?? { rows: 0, bytes: 0 };
}

function exceeds({ rows, bytes }: Size, { maxRows, maxBytes }: Sql['bounds']['log']): boolean {
  return rows > maxRows || bytes > maxBytes;
}

async function purgeNonces(sql: Sql, { now, limit }: Given<'purgeNonces'>): Promise<number> {
  // One that an acceptance takes over at this moment is new again; waiting for it could end in a deadlock.
  return sql.run(
    // Selected once: a query plan may evaluate a subquery again for each row, and then delete more rows than intended.
    `WITH expired AS MATERIALIZED (
      SELECT key FROM sluice.nonces WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM sluice.nonces n USING expired WHERE n.key = expired.key`,
    [now, limit],
  );
}

/** PostgreSQL's autovacuum finds free pages, and uses them again. */
async function releaseSpace(): Promise<number> {
  return 0;
}
