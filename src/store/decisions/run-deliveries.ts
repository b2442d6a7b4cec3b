import { fixed, type Port, sql } from './port.ts';

/** A row of a run's delivery, in the words of its table. */
export interface RunDeliveryRow {
  readonly delivery_id: string | null;
  readonly received_at: number;
  readonly idempotency_key: string | null;
  readonly content_type: string | null;
  /** JSON text. */
  readonly headers: string;
  readonly body: Uint8Array;
}

/** Gives a run that repeats another one its deliveries. All have bodies: the run has the newest one's body. */
export function copyDeliveries({ later }: Pick<Port, 'later'>, runId: string, from: string): void {
  later(sql`
    INSERT INTO sluice.run_deliveries (run_id, place, delivery_id, received_at, content_type, headers, body)
    SELECT ${runId}::uuid, j.place, j.delivery_id, j.received_at,
      CASE WHEN j.body IS NULL THEN i.content_type ELSE j.content_type END, coalesce(j.headers, i.headers),
      coalesce(j.body, i.body)
    FROM sluice.run_deliveries AS j JOIN sluice.run_inputs AS i ON i.run_id = j.run_id WHERE j.run_id = ${from}`);
  later(sql`
    UPDATE sluice.runs SET deliveries = (SELECT deliveries FROM sluice.runs WHERE id = ${from}) WHERE id = ${runId}`);
}

interface NewRunDelivery extends Omit<RunDeliveryRow, 'headers' | 'body'> {
  readonly run_id: string;
  /** From 1. */
  readonly place: number;
  /** Null if the run has them itself. */
  readonly headers: string | null;
  readonly body: Uint8Array | null;
}

/** The last number that SQLite gave to a run, also if that run was removed. */
export const LAST_RUN = 'max((SELECT coalesce(max(seq), 0) FROM runs), (SELECT run FROM run_numbers))';
/** The last number that SQLite gave to a delivery that joined a run, also if it was removed with its run. */
export const LAST_JOINED =
  'max((SELECT coalesce(max(joined), 0) FROM run_deliveries), (SELECT joined FROM run_numbers))';
const [lastRun, lastJoined] = [fixed(LAST_RUN), fixed(LAST_JOINED)];

export function addDelivery({ later }: Pick<Port, 'later'>, row: NewRunDelivery): void {
  // PostgreSQL stores the transaction instead.
  later(sql`
    INSERT INTO sluice.run_deliveries (run_id, place, delivery_id, received_at, idempotency_key, content_type, headers, body
      /*sqlite: , position, joined */)
    VALUES (${row.run_id}, ${row.place}, ${row.delivery_id}, ${row.received_at}, ${row.idempotency_key},
      ${row.content_type}, ${row.headers}, ${row.body}
      /*sqlite: , ${lastRun}, 1 + ${lastJoined} */)`);
}
