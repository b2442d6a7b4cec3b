import type { Database } from 'better-sqlite3';
import type { DeliveryGroup, NonceSearch } from '../store.ts';
import { prepareKnownKeys } from './former-keys.ts';
import type { SqlValue } from './sql-value.ts';

const HOUR_MS = 3_600_000;

/** Stats look back 720 hours; counts of older minutes are asked for no more. */
const countedMinutes = 31 * 24 * 60;

/** So many free pages are left for what comes next: 8 MiB. */
const sparePages = 1024;

export function prepareFindRedelivery(db: Database): (id: string) => { deliveryId: string; runId: string } | undefined {
  const find = db.prepare<SqlValue[], { deliveryId: string; runId: string }>(
    'SELECT id AS deliveryId, run_id AS runId FROM deliveries WHERE redelivered_from = ?',
  );
  return (id) => find.get(id);
}

export function prepareFindAcceptedNonce(db: Database): (search: NonceSearch) => string | undefined {
  const find = db.prepare<SqlValue[], { runId: string }>(`
    SELECT run_id AS runId FROM deliveries
    WHERE flow_id = ? AND trigger_key = ? AND received_at >= ? AND received_at < ? AND run_id IS NOT NULL AND instr(facts, ?) > 0
      AND EXISTS (SELECT 1 FROM json_each(facts) gate WHERE json_extract(gate.value, '$.facts.nonce') = ?)
    ORDER BY id LIMIT 1`);
  const knownKeys = prepareKnownKeys(db);
  return ({ flowId, triggerKey, nonce, since }) => {
    for (const key of knownKeys(flowId, triggerKey)) {
      const found = find.get(flowId, key.triggerKey, since, key.reusedAt, JSON.stringify(nonce), nonce);
      if (found !== undefined) return found.runId;
    }
    return undefined;
  };
}

export function prepareSummariseDeliveries(
  db: Database,
): (query: { since: number; flowId?: string | undefined }) => DeliveryGroup[] {
  const summarise = db.prepare<SqlValue[], Omit<DeliveryGroup, 'violations'> & { violations: string }>(`
    SELECT flow_id AS flowId, trigger_key AS triggerKey, mode, violations, sum(count) AS count,
      min(first_at) AS firstAt, min(first_id) AS firstId, max(last_id) AS lastId
    FROM delivery_hours
    WHERE hour >= ? AND flow_id = coalesce(?, flow_id) AND flow_id <> '' AND redelivered = 0
    GROUP BY flow_id, trigger_key, mode, violations
    ORDER BY min(first_id)`);
  const isKept = db.prepare('SELECT 1 FROM deliveries WHERE id = ?');
  return ({ since, flowId }) =>
    summarise.all(Math.floor(since / HOUR_MS), flowId ?? null).map((row) => ({
      ...row,
      violations: JSON.parse(row.violations),
      // Counts outlive records: an example that is gone is none.
      firstId: isKept.get(row.firstId) === undefined ? row.lastId : row.firstId,
    }));
}

export function preparePurgeDeliveries(db: Database): (purge: { before: number; limit: number }) => number {
  const purgeFrom = (table: string) =>
    db.prepare<SqlValue[]>(`
      DELETE FROM ${table} WHERE id IN (
        SELECT id FROM ${table} d
        WHERE received_at < ? AND NOT EXISTS (SELECT 1 FROM held_deliveries h WHERE h.delivery_id = d.id)
        ORDER BY received_at LIMIT ?)`);
  const purge = purgeFrom('deliveries');
  // Where the log is in memory, what the database has is of an earlier setting: it grows old all the same.
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
    const purged = purge.run(before, limit).changes;
    return purged === limit ? purged : purged + purgeStored.run(before, limit - purged).changes;
  };
}

export function prepareReleaseSpace(db: Database): (request: { pages: number }) => number {
  const free = db.prepare<[], { freelist_count: number }>('PRAGMA freelist_count');
  const count = () => free.get()?.freelist_count ?? 0;
  return ({ pages }) => {
    const before = count();
    if (before <= sparePages) return 0;
    db.pragma(`incremental_vacuum(${Math.min(pages, before - sparePages)})`);
    return before - count();
  };
}
