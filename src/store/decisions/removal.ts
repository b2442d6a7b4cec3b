import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import type { RunStatus } from '../../model/manifest.ts';
import { countRecords, countRunRemoved } from './counts.ts';
import type { Decision } from './decision.ts';
import { purgePlaces } from './delivery-places.ts';
import { type Bounds, measureKept, type Size } from './kept-sizes.ts';
import { type FixedText, fixed, type Port, sql } from './port.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** A backend's rows of runs and deliveries, beyond the tables of every store. */
export interface OwnRows {
  /** Deletes what it has of these runs, whose rows and search keys still exist. */
  forgetRuns?(port: Port, runIds: readonly string[]): void;
  /** Deletes what it has of these deliveries, which repeated others. */
  forgetRedeliveries?(port: Port, ids: readonly string[]): void;
}

/**
 * A slice ends with the row that brings its values to this size: freeing pages costs as much as writing them. In SQLite
 * 200 rows of 1 KiB hold the writer for 3 ms, 1 MiB of values for 2 ms.
 */
const SLICE_BYTES = 1024 * 1024;

const inputAndOutput = 'coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0)';

/** Tables with rows of a run, in the order of deletion: their keys, and the size of their values. */
const TABLES = [
  { table: 'attempts', keys: 'run_id, step_key, attempt', values: inputAndOutput },
  { table: 'steps', keys: 'run_id, step_key', values: inputAndOutput },
  { table: 'signals', keys: 'run_id, name, id', values: 'coalesce(octet_length(body), 0)' },
  { table: 'loop_items', keys: 'run_id, step_key, first_index', values: 'octet_length(items)' },
  { table: 'loops', keys: 'run_id, step_key', values: '0' },
  { table: 'run_pins', keys: 'run_id, flow_id', values: '0' },
  { table: 'run_deliveries', keys: 'run_id, place', values: 'coalesce(octet_length(body), 0)' },
].map(({ table, keys, values }) => ({ table: fixed(`sluice.${table}`), keys: fixed(keys), values: fixed(values) }));

/**
 * Removes runs at once, and their rows in as many slices as needed: a loop can have tens of thousands of rows of
 * children. If several replicas purge at the same time, each takes runs that the others have not taken.
 */
function* purgeRuns(
  port: Port,
  { before, maxRows }: Given<'purgeRuns'>,
  forgetRuns: OwnRows['forgetRuns'],
): Decision<Answer<'purgeRuns'>> {
  const removed = yield* port.all<{ runId: string }>(sql`
    SELECT run_id AS "runId" FROM sluice.removed_runs ORDER BY run_id LIMIT ${maxRows} FOR UPDATE SKIP LOCKED`);
  const runIds = removed.map(({ runId }) => runId);
  let [rows, bytes] = [0, 0];
  for (const table of runIds.length === 0 ? [] : TABLES) {
    const deleted = yield* emptyTable(port, table, { runIds, rows: maxRows - rows, bytes: SLICE_BYTES - bytes });
    rows += deleted.length;
    for (const row of deleted) bytes += row.bytes;
    if (rows >= maxRows || bytes >= SLICE_BYTES) return { runs: 0, rows, isDone: false };
  }
  if (runIds.length > 0) port.later(sql`DELETE FROM sluice.removed_runs WHERE run_id = ANY (${runIds})`);
  if (rows > 0) return { runs: 0, rows, isDone: false };
  forgetFigures(port, before);
  return yield* removeRuns(port, { before, maxRows }, forgetRuns);
}

interface Slice {
  readonly runIds: readonly string[];
  readonly rows: number;
  readonly bytes: number;
}

/** Deletes rows of runs up to a number of rows, ending with the first row that reaches the number of bytes. */
function emptyTable(port: Port, { table, keys, values }: (typeof TABLES)[number], { runIds, rows, bytes }: Slice) {
  return port.all<{ bytes: number }>(sql`
    DELETE FROM ${table} WHERE (${keys}) IN (
      SELECT ${keys} FROM (
        SELECT ${keys}, sum(bytes) OVER (ORDER BY ${keys}) - bytes AS before FROM (
          SELECT ${keys}, ${values} AS bytes FROM ${table} WHERE run_id = ANY (${runIds}) ORDER BY ${keys} LIMIT ${rows}
        ) AS oldest
      ) AS weighed
      WHERE before < ${bytes}
    )
    RETURNING ${values} AS bytes`);
}

/** How many rows the removal of a run counts as. */
const RUN_ROWS = 3;

/** Removes runs that ended before `before`, oldest first, and notes whose rows still exist. */
function* removeRuns(
  port: Port,
  { before, maxRows }: Given<'purgeRuns'>,
  forgetRuns: OwnRows['forgetRuns'],
): Decision<Answer<'purgeRuns'>> {
  // A run that is being retried at this moment is not old.
  const old = yield* port.all<{ id: string; flowId: string; status: RunStatus; bytes: number }>(sql`
    SELECT id, flow_id AS "flowId", status,
      (SELECT octet_length(i.body) FROM sluice.run_inputs AS i WHERE i.run_id = r.id) AS bytes
    FROM sluice.runs AS r
    WHERE started_at < ${before} AND completed_at < ${before} AND status <> 'Running' AND NOT EXISTS (
      SELECT 1 FROM sluice.ordered_runs AS o WHERE o.run_id = r.id AND o.state = 'stopped'
    ) AND NOT EXISTS (
      SELECT 1 FROM sluice.sub_runs AS s JOIN /*sqlite instead: CROSS JOIN */ sluice.runs AS p
        ON p.id = s.parent_run_id AND p.status = 'Running'
      WHERE s.run_id = r.id AND s.is_awaited)
    ORDER BY started_at LIMIT ${Math.max(1, Math.floor(maxRows / RUN_ROWS))} FOR UPDATE SKIP LOCKED`);
  const runIds: string[] = [];
  let bytes = 0;
  for (const run of old) {
    if (bytes >= SLICE_BYTES) break;
    runIds.push(run.id);
    countRunRemoved(port.count, run);
    bytes += run.bytes;
  }
  if (runIds.length > 0) {
    for (const log of logsOf(port)) keepWithDeliveries(log, runIds);
    port.later(sql`
      DELETE FROM sluice.idempotency_keys WHERE run_id = ANY (${runIds}) AND (flow_id, trigger_key, key) IN (
        SELECT flow_id, trigger_key, idempotency_key FROM sluice.runs WHERE id = ANY (${runIds})
        UNION ALL
        SELECT r.flow_id, r.trigger_key, j.idempotency_key
        FROM sluice.run_deliveries AS j JOIN /*sqlite instead: CROSS JOIN */ sluice.runs AS r ON r.id = j.run_id
        WHERE j.run_id = ANY (${runIds}) AND j.idempotency_key IS NOT NULL)`);
    forgetRuns?.(port, runIds);
    port.later(sql`DELETE FROM sluice.sub_runs WHERE run_id = ANY (${runIds})`);
    port.later(sql`DELETE FROM sluice.ordered_runs WHERE run_id = ANY (${runIds})`);
    port.later(sql`
      INSERT INTO sluice.removed_runs (run_id)
      SELECT run_id FROM unnest(${runIds}::uuid[]) AS given (run_id) WHERE true ON CONFLICT DO NOTHING`);
    port.later(sql`DELETE FROM sluice.runs WHERE id = ANY (${runIds})`);
  }
  return { runs: runIds.length, rows: runIds.length * RUN_ROWS, isDone: runIds.length === 0 };
}

/** Where records of deliveries are: of two logs, the second is the one that an earlier setting left in the database. */
const logsOf = (port: Port) => (port.storedLog === undefined ? [port] : [port, port.storedLog]);

/** Records can be kept longer than their run, and have neither keys nor headers of their own. */
function keepWithDeliveries({ later }: Port, runIds: readonly string[]): void {
  later(sql`
    INSERT INTO sluice.delivery_keys (delivery_id, name, folded, value)
    SELECT d.id, k.name, k.folded, k.value FROM sluice.runs AS r
    JOIN /*sqlite instead: CROSS JOIN */ sluice.run_keys AS k ON k.run_id = r.id
    JOIN /*sqlite instead: CROSS JOIN */ sluice.deliveries AS d ON d.id = r.delivery_id
    WHERE r.id = ANY (${runIds}) AND d.run_id = r.id FOR KEY SHARE OF d SKIP LOCKED ON CONFLICT DO NOTHING`);
  later(sql`
    UPDATE sluice.deliveries AS d
    SET headers = (SELECT i.headers FROM sluice.run_inputs AS i WHERE i.run_id = d.run_id)
    WHERE headers IS NULL AND id IN (SELECT delivery_id FROM sluice.runs WHERE id = ANY (${runIds}))`);
}

function forgetFigures({ later }: Port, before: number): void {
  const hour = Math.floor(before / HOUR_MS);
  later(sql`DELETE FROM sluice.run_starts WHERE hour < ${hour}`);
  later(sql`DELETE FROM sluice.run_ends WHERE hour < ${hour}`);
  // Flow by flow, because in the key the hour comes after the flow.
  later(sql`
    DELETE FROM sluice.run_durations
    WHERE flow_id IN (SELECT flow_id FROM sluice.run_totals UNION SELECT '') AND hour < ${hour}`);
}

/** Stats look back 720 hours; older minutes are never read. */
const [COUNTED_HOURS, COUNTED_MINUTES] = [fixed(`${31 * 24}`), fixed(`${31 * 24 * 60}`)];

function* purgeDeliveries(
  port: Port,
  { before, limit }: Given<'purgeDeliveries'>,
  forgetRedeliveries: OwnRows['forgetRedeliveries'],
): Decision<number> {
  port.later(sql`
    DELETE FROM sluice.delivery_counts
    WHERE minute < (SELECT max(minute) FROM sluice.delivery_counts) - ${COUNTED_MINUTES} AND minute < ${Math.floor(before / MINUTE_MS)}`);
  port.later(sql`
    DELETE FROM sluice.delivery_hours
    WHERE hour < (SELECT max(hour) FROM sluice.delivery_hours) - ${COUNTED_HOURS} AND hour < ${Math.floor(before / HOUR_MS)}`);
  let purged = 0;
  for (const log of logsOf(port)) {
    // Ids are made when deliveries arrive, and still grow when the clock goes back: no older record has a higher id,
    // except for the time by which the clock went back.
    const old = yield* log.all<{ id: string }>(sql`
      SELECT id FROM sluice.deliveries AS d
      WHERE id < ${firstIdAt(before)} AND received_at < ${before} AND NOT EXISTS (
        SELECT 1 FROM sluice.held_deliveries AS h WHERE h.delivery_id = d.id)
      ORDER BY id LIMIT ${limit - purged} FOR UPDATE SKIP LOCKED`);
    const redelivered = yield* deleteRecords(
      log,
      old.map(({ id }) => id),
    );
    if (redelivered.length > 0) forgetRedeliveries?.(port, redelivered);
    purged += old.length;
    if (purged === limit) break;
  }
  return purged;
}

interface DeletedRecord {
  readonly id: string;
  readonly flowId: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly isBounded: boolean;
  readonly bytes: number;
  readonly isRedelivered: boolean;
}

/** Deletes records of deliveries, and yields those that repeated others. Counts over time outlive them. */
function* deleteRecords(port: Port, ids: readonly string[]): Decision<string[]> {
  if (ids.length === 0) return [];
  const deleted = yield* port.all<DeletedRecord>(sql`
    DELETE FROM sluice.deliveries WHERE id = ANY (${ids})
    RETURNING id, flow_id AS "flowId", reason, rejected::boolean AS rejected, (run_id IS NULL AND outcome IS NULL)::boolean AS "isBounded",
      kept_bytes AS bytes, (redelivered_from IS NOT NULL)::boolean AS "isRedelivered"`);
  port.later(sql`DELETE FROM sluice.delivery_keys WHERE delivery_id = ANY (${ids})`);
  port.later(sql`DELETE FROM sluice.delivery_shares WHERE delivery_id = ANY (${ids})`);
  for (const { bytes, ...record } of deleted) countRecords(port.count, record, { rows: -1, bytes: -bytes });
  return deleted.filter(({ isRedelivered }) => isRedelivered).map(({ id }) => id);
}

/** How many records are deleted at a time. */
const CHUNK_ROWS = 500;

interface LogBounds extends Bounds {
  /** Whether records of deliveries that started runs are bounded too. */
  readonly includesStarted?: boolean;
}

/**
 * Keeps the delivery log within its bounds: records beyond them push out the oldest ones in the same transaction. Only
 * records that started no run are bounded, so that no flood can push out accepted deliveries, except if the log is in
 * memory. Counts of deleted records stay in the stats. Yields whether more has to go after `most` were deleted.
 */
export function* boundLog(port: Port, bounds: LogBounds, most = Number.POSITIVE_INFINITY): Decision<boolean> {
  const { maxRows, maxBytes, includesStarted = false } = bounds;
  if (maxRows === Number.POSITIVE_INFINITY && maxBytes === Number.POSITIVE_INFINITY) return false;
  const exceeds = ({ rows, bytes }: Size) => rows > maxRows || bytes > maxBytes;
  if (!exceeds(yield* measureKept(port, 'refused'))) return false;
  // One after the other: otherwise two would delete for the same excess.
  yield* port.run(sql`SELECT pg_advisory_xact_lock(hashtextextended('sluice log', sluice_lock_scope))`);
  let { rows, bytes } = yield* measureKept(port, 'refused');
  for (let deleted = 0; exceeds({ rows, bytes }); deleted += CHUNK_ROWS) {
    if (deleted >= most) return true;
    const ids: string[] = [];
    for (const oldest of yield* listOldest(port, includesStarted ? ALL : BOUNDED)) {
      if (!exceeds({ rows, bytes })) break;
      ids.push(oldest.id);
      rows -= 1;
      bytes -= oldest.bytes;
    }
    if (ids.length === 0) return false;
    yield* deleteRecords(port, ids);
  }
  return false;
}

// As in the counter of their sizes: a delivery accepted without a run, such as a filtered one, stays.
const BOUNDED = fixed('WHERE run_id IS NULL AND outcome IS NULL');
const ALL = fixed('');

function listOldest(port: Port, bounded: FixedText) {
  return port.all<{ id: string; bytes: number }>(
    sql`SELECT id, kept_bytes AS bytes FROM sluice.deliveries ${bounded} ORDER BY id LIMIT ${CHUNK_ROWS}`,
  );
}

export function removalVerbs({
  forgetRuns,
  forgetRedeliveries,
}: OwnRows): Verbs<'purgeRuns' | 'purgeNonces' | 'purgeDeliveries'> {
  return {
    purgeRuns: { access: 'write', changes: null, decide: (port, given) => purgeRuns(port, given, forgetRuns) },
    purgeNonces: {
      access: 'write',
      changes: null,
      *decide(port, { now, limit }) {
        // A nonce that an acceptance takes over at this moment is new again; waiting for it could end in a deadlock.
        const nonces = yield* port.run(sql`
          DELETE FROM sluice.nonces WHERE digest /*sqlite instead: seq */ = ANY (ARRAY(
            SELECT digest /*sqlite instead: seq */ FROM sluice.nonces
            WHERE expires_at < ${now} ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`);
        if (nonces === limit) return nonces;
        const places = yield* purgePlaces(port, { now, limit: limit - nonces });
        const left = limit - nonces - places;
        if (left === 0) return limit;
        const events = yield* port.run(sql`
          DELETE FROM sluice.event_ids WHERE digest /*sqlite instead: seq */ = ANY (ARRAY(
            SELECT digest /*sqlite instead: seq */ FROM sluice.event_ids
            WHERE expires_at < ${now} ORDER BY expires_at LIMIT ${left} FOR UPDATE SKIP LOCKED))`);
        return nonces + places + events;
      },
    },
    purgeDeliveries: {
      access: 'write',
      changes: null,
      decide: (port, given) => purgeDeliveries(port, given, forgetRedeliveries),
    },
  };
}
