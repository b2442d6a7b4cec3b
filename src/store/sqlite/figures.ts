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

interface DurationRow {
  readonly hour: number;
  readonly durationMs: number;
  readonly count: number;
}

interface StatusRow {
  readonly at: number;
  readonly status: RunStatus;
  readonly count: number;
}

export function prepareRunTimeseries(db: Database): (range: BucketRange) => RunBucket[] {
  const prepare = (filter: string) => ({
    ended: db.prepare<SqlValue[], StatusRow>(`
      SELECT ${bucketOfHour} AS at, status, sum(count) AS count FROM run_starts
      WHERE hour >= ? AND hour < ? ${filter} GROUP BY 1, 2 HAVING sum(count) > 0`),
    running: db.prepare<SqlValue[], StatusRow>(`
      SELECT ${bucketOfInstant} AS at, status, count(*) AS count FROM runs
      WHERE status = 'Running' AND status <> 'Succeeded' AND started_at >= ? AND started_at < ? ${filter} GROUP BY 1`),
  });
  const ofAll = prepare('');
  const ofFlow = prepare('AND flow_id = ?');
  // In the order of the key and summed up here: to group them SQLite would sort them first.
  const durations = db.prepare<SqlValue[], DurationRow>(`
    SELECT hour, duration_ms AS durationMs, count FROM run_durations
    WHERE flow_id = ? AND hour >= ? AND hour < ? AND count > 0 ORDER BY hour, duration_ms`);
  return ({ since, until, bucketMs, flowId }) => {
    const { ended, running } = flowId === undefined ? ofAll : ofFlow;
    const flow = flowId === undefined ? [] : [flowId];
    const hours = [hourOf(since), hourOf(until)];
    const tallies = new Tallies(bucketMs);
    for (const row of ended.all(bucketMs, bucketMs, ...hours, ...flow)) tallies.addStatus(row);
    for (const row of running.all(bucketMs, bucketMs, since, until, ...flow)) tallies.addStatus(row);
    for (const row of durations.iterate(flowId ?? '', ...hours)) tallies.addDuration(row);
    return tallies.buckets();
  };
}

/** What is known of the runs of each bucket. */
class Tallies {
  readonly #bucketMs: number;
  readonly #statuses = new Map<number, Partial<Record<RunStatus, number>>>();
  readonly #durations = new Map<number, Map<number, number>>();

  constructor(bucketMs: number) {
    this.#bucketMs = bucketMs;
  }

  addStatus({ at, status, count }: StatusRow): void {
    this.#statuses.set(at, { ...this.#statuses.get(at), [status]: count });
  }

  addDuration({ hour, durationMs, count }: DurationRow): void {
    const at = Math.floor((hour * HOUR_MS) / this.#bucketMs) * this.#bucketMs;
    const counts = this.#durations.get(at) ?? new Map<number, number>();
    this.#durations.set(at, counts.set(durationMs, (counts.get(durationMs) ?? 0) + count));
  }

  buckets(): RunBucket[] {
    const entries = [...this.#statuses].sort(([a], [b]) => a - b);
    return entries.map(([at, counts]) => {
      const durations = [...(this.#durations.get(at) ?? [])].sort(([a], [b]) => a - b);
      return { at, counts, p50DurationMs: percentile(durations, 0.5), p95DurationMs: percentile(durations, 0.95) };
    });
  }
}

/** Nearest rank, of durations in their order with how often each came. */
function percentile(durations: readonly (readonly [ms: number, count: number])[], share: number): number | null {
  const rank = Math.ceil(durations.reduce((sum, [, count]) => sum + count, 0) * share);
  let passed = 0;
  for (const [ms, count] of durations) {
    passed += count;
    if (passed >= rank) return ms;
  }
  return null;
}
