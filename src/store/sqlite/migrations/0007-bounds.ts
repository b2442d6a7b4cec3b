// `ROW_BYTES` of deliveries.ts. Repeated here because a migration must not change with the code; a test compares both.
const rowBytes = 1024;

const texts = (row: string, columns: readonly string[]) =>
  columns.map((column) => `coalesce(octet_length(${row}${column}), 0)`).join(' + ');

const delivery = ['id', 'flow_id', 'trigger_key', 'client_ip', 'mode', 'scheme', 'reason', 'violations', 'detail'];
const evidence = ['headers', 'facts', 'request_url', 'body_key', 'redelivered_from', 'body'];
const held = ['idempotency_key', 'traceparent', 'content_type', 'headers', 'body'];
const heldBytes = (row: string) => `${rowBytes} + ${texts(row, held)}`;

export const bounds = {
  version: 7,
  name: 'bounds',
  sql: `
    -- All that a refused delivery takes, not its body alone, is what the log's bound counts.
    ALTER TABLE deliveries ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE deliveries SET kept_bytes = ${rowBytes} + ${texts('', [...delivery, ...evidence])} WHERE run_id IS NULL;
    DROP INDEX deliveries_refused;
    CREATE INDEX deliveries_refused ON deliveries (id, kept_bytes) WHERE run_id IS NULL;
    UPDATE refused_state SET (rows, bytes) =
      (SELECT count(*), coalesce(sum(kept_bytes), 0) FROM deliveries WHERE run_id IS NULL);
    DROP TRIGGER refused_deleted;
    CREATE TRIGGER refused_deleted AFTER DELETE ON deliveries WHEN old.run_id IS NULL BEGIN
      UPDATE refused_state SET rows = rows - 1, bytes = bytes - old.kept_bytes;
    END;

    CREATE TABLE held_state (id INTEGER PRIMARY KEY CHECK (id = 1), rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
    INSERT INTO held_state SELECT 1, count(*), coalesce(sum(${heldBytes('')}), 0) FROM held_deliveries;
    CREATE TRIGGER held_added AFTER INSERT ON held_deliveries BEGIN
      UPDATE held_state SET rows = rows + 1, bytes = bytes + ${heldBytes('new.')};
    END;
    CREATE TRIGGER held_deleted AFTER DELETE ON held_deliveries BEGIN
      UPDATE held_state SET rows = rows - 1, bytes = bytes - (${heldBytes('old.')});
    END;

    -- Keys that a trigger had before it was renamed: what was accepted under one of them counts under the new one too.
    -- Where a former key comes back as another trigger, only what was accepted before that still counts.
    CREATE TABLE former_trigger_keys (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      former_key TEXT NOT NULL,
      last_seq INTEGER,
      reused_at INTEGER,
      PRIMARY KEY (flow_id, trigger_key, former_key)
    ) WITHOUT ROWID;
  `,
};
