import type { Database } from 'better-sqlite3';
import type { Reason } from '../../model/delivery.ts';
import type { DeliveryStats } from '../store.ts';

const MINUTE_MS = 60_000;

interface Counted {
  readonly reason: Reason | '';
  readonly rejected: number;
  readonly count: number;
}

/** Counts a delivery in its minute, so that stats stay exact when records are deleted, and cheap while there are many. */
export function prepareCountDelivery(
  db: Database,
): (receivedAt: number, reason: Reason | null, rejected: 0 | 1) => void {
  const count = db.prepare<unknown[]>(`
    INSERT INTO delivery_counts (minute, reason, rejected, count) VALUES (?, ?, ?, 1)
    ON CONFLICT DO UPDATE SET count = count + 1`);
  return (receivedAt, reason, rejected) => {
    count.run(Math.floor(receivedAt / MINUTE_MS), reason ?? '', rejected);
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
