import type { Database } from 'better-sqlite3';
import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import type { DeliveryStats } from '../store.ts';
import type { DeliveryValues } from './deliveries.ts';

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
): (delivery: Omit<DeliveryValues, 'rest' | 'runId'>, violations: string) => void {
  const countHour = db.prepare<unknown[]>(`
    INSERT INTO delivery_hours VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + 1, previous_key = previous_key + excluded.previous_key,
      first_at = min(first_at, excluded.first_at), first_id = min(first_id, excluded.first_id),
      last_id = max(last_id, excluded.last_id)`);
  const countTotal = db.prepare<unknown[]>(`
    INSERT INTO delivery_totals VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1`);
  const count = db.prepare<unknown[]>(`
    INSERT INTO delivery_counts (minute, reason, rejected, count) VALUES (?, ?, ?, 1)
    ON CONFLICT DO UPDATE SET count = count + 1`);
  return ({ counted, receivedAt, reason, rejected, redeliveredFrom }, violations) => {
    const { id, mode, usedPreviousKey } = counted;
    const [flowId, triggerKey, cause] = [counted.flowId ?? '', counted.triggerKey ?? '', reason ?? ''];
    count.run(Math.floor(receivedAt / MINUTE_MS), cause, rejected);
    countTotal.run(flowId, cause, rejected);
    const key = [Math.floor(receivedAt / HOUR_MS), flowId, triggerKey, mode, cause, violations, rejected];
    countHour.run(key, Number(redeliveredFrom !== null), usedPreviousKey, receivedAt, id, id);
  };
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
