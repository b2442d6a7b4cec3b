import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import type { BucketRange, DeliveryBucket, DeliveryCount, RunBucket, RunCount } from '../store.ts';
import type { SqlValue } from './sql-value.ts';

const HOUR_MS = 3_600_000;
// A bound number is a float to SQLite, and a division by one keeps its fraction.
const bucketOfHour = 'hour / CAST(? / 3600000 AS INTEGER) * CAST(? AS INTEGER)';
const bucketOfInstant = 'started_at / CAST(? AS INTEGER) * CAST(? AS INTEGER)';
const hourOf = (at: number) => Math.floor(at / HOUR_MS);

export function prepareCountDeliveries(
  db: Database,
): (query: { since: number; recentSince: number }) => DeliveryCount[] {
  const count = db.prepare<SqlValue[], Omit<DeliveryCount, 'rejected'> & { rejected: number }>(`
    SELECT nullif(flow_id, '') AS flowId, nullif(trigger_key, '') AS triggerKey, nullif(reason, '') AS reason, rejected,
      sum(count) AS count, sum(iif(hour >= ?, count, 0)) AS recent, sum(previous_key) AS usedPreviousKey
    FROM delivery_hours WHERE hour >= ? GROUP BY flow_id, trigger_key, reason, rejected`);
  return ({ since, recentSince }) =>
    count.all(hourOf(recentSince), hourOf(since)).map((row) => ({ ...row, rejected: row.rejected === 1 }));
}

export function prepareDeliveryTimeseries(db: Database): (range: BucketRange) => DeliveryBucket[] {
  const list = (filter: string) =>
    db.prepare<SqlValue[], DeliveryBucket>(`
      SELECT ${bucketOfHour} AS at, sum(iif(rejected = 1, 0, count)) AS accepted, sum(iif(rejected = 1, count, 0)) AS rejected
      FROM delivery_hours WHERE hour >= ? AND hour < ? ${filter} GROUP BY 1 ORDER BY 1`);
  const ofAll = list('');
  const ofFlow = list('AND flow_id = ?');
  return ({ since, until, bucketMs, flowId }) => {
    const values = [bucketMs, bucketMs, hourOf(since), hourOf(until)];
    return flowId === undefined ? ofAll.all(...values) : ofFlow.all(...values, flowId);
  };
}

export function prepareCountRuns(db: Database): () => RunCount[] {
  const count = db.prepare<[], RunCount>('SELECT flow_id AS flowId, status, count FROM run_totals WHERE count > 0');
  return () => count.all();
}

export function prepareCountEndedRuns(db: Database): (since: number) => RunCount[] {
  const count = db.prepare<[number], RunCount>(`
    SELECT flow_id AS flowId, status, sum(count) AS count FROM run_ends
    WHERE hour >= ? GROUP BY flow_id, status HAVING sum(count) > 0`);
  return (since) => count.all(hourOf(since));
}

interface EndedRow {
  readonly at: number;
  readonly status: RunStatus;
  readonly durationMs: number;
  readonly count: number;
}

export function prepareRunTimeseries(db: Database): (range: BucketRange) => RunBucket[] {
  const prepare = (filter: string) => ({
    ended: db.prepare<SqlValue[], EndedRow>(`
      SELECT ${bucketOfHour} AS at, status, duration_ms AS durationMs, sum(count) AS count FROM run_hours
      WHERE hour >= ? AND hour < ? ${filter} GROUP BY 1, 2, 3 HAVING sum(count) > 0 ORDER BY 1, 3`),
    running: db.prepare<SqlValue[], { at: number; count: number }>(`
      SELECT ${bucketOfInstant} AS at, count(*) AS count FROM runs
      WHERE status = 'Running' AND status <> 'Succeeded' AND started_at >= ? AND started_at < ? ${filter} GROUP BY 1`),
  });
  const ofAll = prepare('');
  const ofFlow = prepare('AND flow_id = ?');
  return ({ since, until, bucketMs, flowId }) => {
    const { ended, running } = flowId === undefined ? ofAll : ofFlow;
    const flow = flowId === undefined ? [] : [flowId];
    const rows = ended.all(bucketMs, bucketMs, hourOf(since), hourOf(until), ...flow);
    const open = new Map(running.all(bucketMs, bucketMs, since, until, ...flow).map(({ at, count }) => [at, count]));
    const byBucket = groupByBucket(rows);
    const starts = [...new Set([...byBucket.keys(), ...open.keys()])].sort((a, b) => a - b);
    return starts.map((at) => bucketOf(at, byBucket.get(at) ?? [], open.get(at) ?? 0));
  };
}

function groupByBucket(rows: readonly EndedRow[]): Map<number, EndedRow[]> {
  const groups = new Map<number, EndedRow[]>();
  for (const row of rows) {
    const group = groups.get(row.at);
    if (group === undefined) groups.set(row.at, [row]);
    else group.push(row);
  }
  return groups;
}

/** Of rows in the order of their durations. */
function bucketOf(at: number, rows: readonly EndedRow[], running: number): RunBucket {
  const counts: Partial<Record<RunStatus, number>> = running === 0 ? {} : { Running: running };
  for (const { status, count } of rows) counts[status] = (counts[status] ?? 0) + count;
  return { at, counts, p50DurationMs: percentile(rows, 0.5), p95DurationMs: percentile(rows, 0.95) };
}

function percentile(rows: readonly EndedRow[], share: number): number | null {
  const rank = Math.ceil(rows.reduce((sum, { count }) => sum + count, 0) * share);
  let passed = 0;
  return (
    rows.find(({ count }) => {
      passed += count;
      return passed >= rank;
    })?.durationMs ?? null
  );
}
