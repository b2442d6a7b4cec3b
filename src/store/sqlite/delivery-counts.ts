import type { Database } from 'better-sqlite3';
import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import type { DeliveryStats } from '../store.ts';
import { prepareCounter } from './counter.ts';
import type { DeliveryValues } from './deliveries.ts';
import type { SqlValue } from './sql-value.ts';
import { prepareSums } from './sums.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

interface Counted {
  readonly reason: Reason | '';
  readonly rejected: number;
  readonly count: number;
}

/** What a delivery is counted under beside what the store may change. */
export interface CountedDelivery {
  readonly id: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly mode: EnforcementMode;
  readonly usedPreviousKey: 0 | 1;
}

/**
 * Counts a delivery in its minute and hour, so that stats stay exact when records are deleted, and cheap while there are
 * many; and in the totals of the records that there are, which a trigger lowers when one is deleted.
 */
export function prepareCountDelivery(
  db: Database,
): (delivery: Omit<DeliveryValues, 'rest'>, violations: string, keptBytes: number) => void {
  const countHour = prepareCountHour(db);
  const count = prepareSums(db, 'delivery_counts (minute, reason, rejected, count)');
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
    count([Math.floor(receivedAt / MINUTE_MS), cause, rejected], 1);
    countTotal([flowId, cause, rejected], 1);
    const hour = Math.floor(receivedAt / HOUR_MS);
    const key = [hour, flowId, triggerKey, mode, cause, violations, rejected, Number(redeliveredFrom !== null)];
    countHour({ key, count: 1, previousKey: usedPreviousKey, firstAt: receivedAt, firstId: id, lastId: id });
    if (runId === null) countRefused({ rows: 1, bytes: keptBytes });
  };
}

interface HourRow {
  readonly key: readonly SqlValue[];
  count: number;
  previousKey: number;
  firstAt: number;
  firstId: string;
  lastId: string;
}

function prepareCountHour(db: Database): (row: HourRow) => void {
  const add = db.prepare<unknown[]>(`
    INSERT INTO delivery_hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, previous_key = previous_key + excluded.previous_key,
      first_at = min(first_at, excluded.first_at), first_id = min(first_id, excluded.first_id),
      last_id = max(last_id, excluded.last_id)`);
  return prepareCounter<HourRow>(db, {
    keyOf: ({ key }) => JSON.stringify(key),
    merge(into, { count, previousKey, firstAt, firstId, lastId }) {
      into.count += count;
      into.previousKey += previousKey;
      if (firstAt < into.firstAt) into.firstAt = firstAt;
      if (firstId < into.firstId) into.firstId = firstId;
      if (lastId > into.lastId) into.lastId = lastId;
    },
    write: ({ key, count, previousKey, firstAt, firstId, lastId }) =>
      add.run(key, count, previousKey, firstAt, firstId, lastId),
  });
}

/** Whole hours and minutes from their counts, what is left of the first minute from its records. */
export function prepareDeliveryStats(db: Database): (since: number) => DeliveryStats {
  const counted = (table: string) => `SELECT reason, rejected, sum(count) AS count FROM ${table}`;
  const ofHours = db.prepare<unknown[], Counted>(`
    ${counted('delivery_hours')} WHERE hour >= ? GROUP BY reason, rejected`);
  const ofMinutes = db.prepare<unknown[], Counted>(`
    ${counted('delivery_counts')} WHERE minute >= ? AND minute < ? GROUP BY reason, rejected`);
  const ofRecords = db.prepare<unknown[], Counted>(`
    SELECT coalesce(reason, '') AS reason, rejected, count(*) AS count FROM deliveries
    WHERE received_at >= ? AND received_at < ? GROUP BY reason, rejected`);
  return (since) => {
    const minute = Math.ceil(since / MINUTE_MS);
    const hour = Math.ceil(minute / 60);
    return statsOf([
      ...ofRecords.all(since, minute * MINUTE_MS),
      ...ofMinutes.all(minute, hour * 60),
      ...ofHours.all(hour),
    ]);
  };
}

function statsOf(rows: readonly Counted[]): DeliveryStats {
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
