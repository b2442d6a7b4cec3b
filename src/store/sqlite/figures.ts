import type { Database } from 'better-sqlite3';
import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode, RunStatus } from '../../model/manifest.ts';
import { roundDuration } from '../durations.ts';
import { type DurationRow, type StatusRow, Tallies, type TimedRun } from '../run-buckets.ts';
import type { DeliveryBucket, DeliveryCount, RunCount } from '../store.ts';
import { prepareCounter, prepareSums } from './batch.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';

export const figureOperations = {
  deliveryStats: { thread: 'reader', readsLog: true, prepare: prepareDeliveryStats },
  countDeliveries: { thread: 'reader', readsLog: true, prepare: prepareCountDeliveries },
  deliveryTimeseries: { thread: 'reader', readsLog: true, prepare: prepareDeliveryTimeseries },
  countRuns: { thread: 'reader', prepare: prepareCountRuns },
  countEndedRuns: { thread: 'reader', prepare: prepareCountEndedRuns },
  runTimeseries: { thread: 'reader', prepare: prepareRunTimeseries },
} as const;

// A bound number is a float to SQLite, and a division by one keeps its fraction.
const bucketOfHour = 'hour / CAST(? / 3600000 AS INTEGER) * CAST(? AS INTEGER)';
const bucketOfInstant = 'started_at / CAST(? AS INTEGER) * CAST(? AS INTEGER)';
const hourOf = (at: number) => Math.floor(at / HOUR_MS);

/** What a delivery is counted under. */
export interface CountedDelivery {
  /** What the store itself may change. */
  readonly rejected: 0 | 1;
  readonly reason: Reason | null;
  readonly runId: string | null;
  readonly receivedAt: number;
  readonly redeliveredFrom: string | null;
  readonly counted: {
    readonly id: string;
    readonly flowId: string | null;
    readonly triggerKey: string | null;
    readonly mode: EnforcementMode;
    readonly usedPreviousKey: 0 | 1;
  };
}

/**
 * Counts a delivery in its minute and hour, so that stats stay exact when records are deleted, and cheap while there
 * are many; and in the totals of the records that there are, which a trigger lowers when one is deleted.
 */
export function prepareCountDelivery(
  db: Database,
): (delivery: CountedDelivery, violations: string, keptBytes: number) => void {
  const countHour = prepareCountHour(db);
  const countMinute = prepareCountMinute(db);
  const countTotal = prepareSums(db, 'delivery_totals (flow_id, reason, rejected, count)');
  const addRefused = db.prepare<[number, number]>('UPDATE refused_state SET rows = rows + ?, bytes = bytes + ?');
  const countRefused = prepareCounter<{ rows: number; bytes: number }>(db, {
    keyOf: () => '',
    merge(into, { rows, bytes }) {
      into.rows += rows;
      into.bytes += bytes;
    },
    write: ({ rows, bytes }) => addRefused.run(rows, bytes),
  });
  return ({ counted, receivedAt, reason, rejected, redeliveredFrom, runId }, violations, keptBytes) => {
    const { id, mode, usedPreviousKey } = counted;
    const [flowId, triggerKey, cause] = [counted.flowId ?? '', counted.triggerKey ?? '', reason ?? ''];
    countMinute({ key: [Math.floor(receivedAt / MINUTE_MS), cause, rejected], count: 1, firstId: id, lastId: id });
    countTotal([flowId, cause, rejected], 1);
    const hour = Math.floor(receivedAt / HOUR_MS);
    const key = [hour, flowId, triggerKey, mode, cause, violations, rejected, Number(redeliveredFrom !== null)];
    countHour({ key, count: 1, previousKey: usedPreviousKey, firstAt: receivedAt, firstId: id, lastId: id });
    if (runId === null) countRefused({ rows: 1, bytes: keptBytes });
  };
}

interface MinuteRow {
  readonly key: readonly SqlValue[];
  count: number;
  /** Ids of the records lie between these, both included. */
  firstId: string;
  lastId: string;
}

function mergeCounts(into: MinuteRow, { count, firstId, lastId }: MinuteRow): void {
  into.count += count;
  if (firstId < into.firstId) into.firstId = firstId;
  if (lastId > into.lastId) into.lastId = lastId;
}

const keyOf = ({ key }: MinuteRow) => JSON.stringify(key);

function prepareCountMinute(db: Database): (row: MinuteRow) => void {
  const add = db.prepare<unknown[]>(`
    INSERT INTO delivery_counts (minute, reason, rejected, count, first_id, last_id) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, first_id = min(first_id, excluded.first_id),
      last_id = max(last_id, excluded.last_id)`);
  return prepareCounter<MinuteRow>(db, {
    keyOf,
    merge: mergeCounts,
    write: ({ key, count, firstId, lastId }) => add.run(key, count, firstId, lastId),
  });
}

interface HourRow extends MinuteRow {
  previousKey: number;
  firstAt: number;
}

function prepareCountHour(db: Database): (row: HourRow) => void {
  const add = db.prepare<unknown[]>(`
    INSERT INTO delivery_hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, previous_key = previous_key + excluded.previous_key,
      first_at = min(first_at, excluded.first_at), first_id = min(first_id, excluded.first_id),
      last_id = max(last_id, excluded.last_id)`);
  return prepareCounter<HourRow>(db, {
    keyOf,
    merge(into, row) {
      mergeCounts(into, row);
      into.previousKey += row.previousKey;
      into.firstAt = Math.min(into.firstAt, row.firstAt);
    },
    write: ({ key, count, previousKey, firstAt, firstId, lastId }) =>
      add.run(key, count, previousKey, firstAt, firstId, lastId),
  });
}

interface Counted {
  readonly reason: Reason | '';
  readonly rejected: number;
  readonly count: number;
}

/** Reads whole hours and minutes from counts, and the rest of the first minute from records. */
function prepareDeliveryStats(db: Database): Member<'deliveryStats'> {
  const counted = (table: string) => `SELECT reason, rejected, sum(count) AS count FROM ${table}`;
  const ofHours = db.prepare<unknown[], Counted>(`
    ${counted('delivery_hours')} WHERE hour >= ? GROUP BY reason, rejected`);
  const ofMinutes = db.prepare<unknown[], Counted>(`
    ${counted('delivery_counts')} WHERE minute >= ? AND minute < ? GROUP BY reason, rejected`);
  const ofRecords = db.prepare<unknown[], Counted>(`
    SELECT coalesce(reason, '') AS reason, rejected, count(*) AS count FROM deliveries
    WHERE id BETWEEN (SELECT min(first_id) FROM delivery_counts WHERE minute = ?)
        AND (SELECT max(last_id) FROM delivery_counts WHERE minute = ?)
      AND received_at >= ? AND received_at < ?
    GROUP BY reason, rejected`);
  return (since) => {
    const minute = Math.ceil(since / MINUTE_MS);
    const hour = Math.ceil(minute / 60);
    return statsOf([
      ...ofRecords.all(minute - 1, minute - 1, since, minute * MINUTE_MS),
      ...ofMinutes.all(minute, hour * 60),
      ...ofHours.all(hour),
    ]);
  };
}

function statsOf(rows: readonly Counted[]): ReturnType<Member<'deliveryStats'>> {
  const counts: Partial<Record<Reason, number>> = {};
  let accepted = 0;
  let rejected = 0;
  for (const row of rows) {
    if (row.reason !== '') counts[row.reason] = (counts[row.reason] ?? 0) + row.count;
    if (row.rejected === 1) rejected += row.count;
    else accepted += row.count;
  }
  return { counts, accepted, rejected, total: accepted + rejected };
}

function prepareCountDeliveries(db: Database): Member<'countDeliveries'> {
  const count = db.prepare<SqlValue[], Omit<DeliveryCount, 'rejected'> & { rejected: number }>(`
    SELECT nullif(flow_id, '') AS flowId, nullif(trigger_key, '') AS triggerKey, nullif(reason, '') AS reason, rejected,
      sum(count) AS count, sum(iif(hour >= ?, count, 0)) AS recent, sum(previous_key) AS usedPreviousKey
    FROM delivery_hours WHERE hour >= ? GROUP BY flow_id, trigger_key, delivery_hours.reason, rejected
    ORDER BY flow_id, trigger_key, delivery_hours.reason, rejected`);
  return ({ since, recentSince }) =>
    count.all(hourOf(recentSince), hourOf(since)).map((row) => ({ ...row, rejected: row.rejected === 1 }));
}

function prepareDeliveryTimeseries(db: Database): Member<'deliveryTimeseries'> {
  const list = (filter: string) =>
    db.prepare<SqlValue[], DeliveryBucket>(`
      SELECT ${bucketOfHour} AS at, sum(iif(rejected = 1, 0, count)) AS accepted, sum(iif(rejected = 1, count, 0)) AS rejected
      FROM delivery_hours WHERE hour >= ? AND hour < ? ${filter} GROUP BY 1 ORDER BY 1`);
  const ofAll = list('');
  const ofFlow = list('AND flow_id = ?');
  const sums = 'sum(iif(rejected = 1, 0, count)) AS accepted, sum(iif(rejected = 1, count, 0)) AS rejected';
  const minutesOfAll = db.prepare<SqlValue[], DeliveryBucket>(`
    SELECT minute / CAST(? / ${MINUTE_MS} AS INTEGER) * CAST(? AS INTEGER) AS at, ${sums}
    FROM delivery_counts WHERE minute >= ? AND minute < ? GROUP BY 1 ORDER BY 1`);
  // Of one flow no minutes are counted.
  const minutesOfFlow = db.prepare<SqlValue[], DeliveryBucket>(`
    SELECT at, ${sums} FROM (
      SELECT received_at / CAST(? AS INTEGER) * CAST(? AS INTEGER) AS at, rejected, 1 AS count FROM deliveries
      WHERE flow_id = ? AND received_at >= ? AND received_at < ?
        AND id BETWEEN (SELECT min(first_id) FROM delivery_counts WHERE minute >= ? AND minute < ?)
          AND (SELECT max(last_id) FROM delivery_counts WHERE minute >= ? AND minute < ?)
    ) GROUP BY 1 ORDER BY 1`);
  return ({ since, until, bucketMs, flowId }) => {
    if (bucketMs < HOUR_MS) {
      const minutes = [since / MINUTE_MS, until / MINUTE_MS];
      if (flowId === undefined) return minutesOfAll.all(bucketMs, bucketMs, ...minutes);
      return minutesOfFlow.all(bucketMs, bucketMs, flowId, since, until, ...minutes, ...minutes);
    }
    const values = [bucketMs, bucketMs, hourOf(since), hourOf(until)];
    return flowId === undefined ? ofAll.all(...values) : ofFlow.all(...values, flowId);
  };
}

interface TalliedRun {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly startedAt: number;
  readonly completedAt: number | null;
}

/** Keeps the counts of runs, within the transaction that changes the runs. */
interface RunTallies {
  added(run: TalliedRun): void;
  /** Ends a run in flight. */
  end(runId: string, status: RunStatus, at: number): void;
  /** Called before a run, which may have ended, is in flight again. */
  reopening(runId: string): void;
}

/**
 * Statements, not triggers: SQLite journals each statement that has one, which made an acceptance half as slow again.
 */
export function prepareRunTallies(db: Database): RunTallies {
  const addTotal = prepareSums(db, 'run_totals (flow_id, status, count)');
  const addStart = prepareSums(db, 'run_starts (hour, flow_id, status, count)');
  const addEnd = prepareSums(db, 'run_ends (hour, flow_id, status, count)');
  const addDuration = prepareSums(db, 'run_durations (flow_id, hour, duration_ms, count)');
  const run = 'flow_id AS flowId, status, started_at AS startedAt, completed_at AS completedAt';
  const find = db.prepare<[string], TalliedRun>(`SELECT ${run} FROM runs WHERE id = ?`);
  const end = db.prepare<[RunStatus, number, string], TalliedRun>(
    `UPDATE runs SET status = ?, completed_at = ? WHERE id = ? RETURNING ${run}`,
  );

  const addEnded = ({ flowId, status, startedAt, completedAt }: TalliedRun, by: 1 | -1) => {
    const endedAt = completedAt ?? startedAt;
    const startHour = hourOf(startedAt);
    const durationMs = roundDuration(endedAt - startedAt);
    addStart([startHour, flowId, status], by);
    addEnd([hourOf(endedAt), flowId, status], by);
    addDuration([flowId, startHour, durationMs], by);
    addDuration(['', startHour, durationMs], by);
  };

  return {
    added(run) {
      addTotal([run.flowId, run.status], 1);
      if (run.status !== 'Running') addEnded(run, 1);
    },
    end(runId, status, at) {
      const run = end.get(status, at, runId);
      if (run === undefined) return;
      addTotal([run.flowId, 'Running'], -1);
      addTotal([run.flowId, run.status], 1);
      addEnded(run, 1);
    },
    reopening(runId) {
      const run = find.get(runId);
      if (run === undefined || run.status === 'Running') return;
      addTotal([run.flowId, run.status], -1);
      addTotal([run.flowId, 'Running'], 1);
      addEnded(run, -1);
    },
  };
}

function prepareCountRuns(db: Database): Member<'countRuns'> {
  const count = db.prepare<[], RunCount>('SELECT flow_id AS flowId, status, count FROM run_totals WHERE count > 0');
  return () => count.all();
}

function prepareCountEndedRuns(db: Database): Member<'countEndedRuns'> {
  const count = db.prepare<[number], RunCount>(`
    SELECT flow_id AS flowId, status, sum(count) AS count FROM run_ends
    WHERE hour >= ? GROUP BY flow_id, status HAVING sum(count) > 0`);
  return (since) => count.all(hourOf(since));
}

function prepareRunTimeseries(db: Database): Member<'runTimeseries'> {
  const prepare = (filter: string) => ({
    started: db.prepare<SqlValue[], TimedRun>(`
      SELECT ${bucketOfInstant} AS at, status,
        iif(status = 'Running', NULL, coalesce(completed_at, started_at) - started_at) AS tookMs
      FROM runs WHERE started_at >= ? AND started_at < ? ${filter.replace('flow_id', '+flow_id')}`),
    ended: db.prepare<SqlValue[], StatusRow>(`
      SELECT ${bucketOfHour} AS at, status, sum(count) AS count FROM run_starts
      WHERE hour >= ? AND hour < ? ${filter} GROUP BY 1, 2 HAVING sum(count) > 0`),
    running: db.prepare<SqlValue[], StatusRow>(`
      SELECT ${bucketOfInstant} AS at, status, count(*) AS count FROM runs
      WHERE status = 'Running' AND status <> 'Succeeded' AND started_at >= ? AND started_at < ? ${filter} GROUP BY 1`),
  });
  const ofAll = prepare('');
  const ofFlow = prepare('AND flow_id = ?');
  // In the order of the key and summed up here, because SQLite would sort them to group them.
  const durations = db.prepare<SqlValue[], DurationRow>(`
    SELECT hour, duration_ms AS durationMs, count FROM run_durations
    WHERE flow_id = ? AND hour >= ? AND hour < ? AND count > 0 ORDER BY hour, duration_ms`);
  return ({ since, until, bucketMs, flowId }) => {
    const { started, ended, running } = flowId === undefined ? ofAll : ofFlow;
    const flow = flowId === undefined ? [] : [flowId];
    const hours = [hourOf(since), hourOf(until)];
    const tallies = new Tallies(bucketMs);
    if (bucketMs < HOUR_MS) {
      for (const run of started.iterate(bucketMs, bucketMs, since, until, ...flow)) tallies.addRun(run);
      return tallies.buckets();
    }
    for (const row of ended.all(bucketMs, bucketMs, ...hours, ...flow)) tallies.addStatus(row);
    for (const row of running.all(bucketMs, bucketMs, since, until, ...flow)) tallies.addStatus(row);
    for (const row of durations.iterate(flowId ?? '', ...hours)) tallies.addDuration(row);
    return tallies.buckets();
  };
}
