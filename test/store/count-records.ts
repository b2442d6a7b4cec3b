import type { Database } from 'better-sqlite3';
import { roundDuration } from '../../src/store/durations.ts';

/** Fills the counts from deliveries and runs that a test or a bench inserted directly. */
export function countRecords(db: Database): void {
  db.function('round_duration', { deterministic: true }, (ms) => roundDuration(Number(ms)));
  db.exec(`
    INSERT INTO delivery_counts
      SELECT received_at / 60000, coalesce(reason, ''), rejected, count(*), min(id), max(id)
      FROM deliveries GROUP BY 1, 2, 3;
    INSERT INTO delivery_hours
      SELECT received_at / 3600000, coalesce(flow_id, ''), coalesce(trigger_key, ''), mode, coalesce(reason, ''), violations,
        rejected, redelivered_from IS NOT NULL, count(*), sum(used_previous_key), min(received_at), min(id), max(id)
      FROM deliveries GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
    INSERT INTO delivery_totals
      SELECT coalesce(flow_id, ''), coalesce(reason, ''), rejected, count(*) FROM deliveries GROUP BY 1, 2, 3;
    INSERT INTO run_totals SELECT flow_id, status, count(*) FROM runs GROUP BY 1, 2;
    INSERT INTO run_starts
      SELECT started_at / 3600000, flow_id, status, count(*) FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
    INSERT INTO run_ends
      SELECT completed_at / 3600000, flow_id, status, count(*) FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
    INSERT INTO run_durations
      SELECT flow_id, started_at / 3600000, round_duration(completed_at - started_at), count(*)
      FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
    INSERT INTO run_durations SELECT '', hour, duration_ms, sum(count) FROM run_durations GROUP BY 2, 3;
  `);
}
