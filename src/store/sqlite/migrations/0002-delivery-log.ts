export const deliveryLog = {
  version: 2,
  name: 'delivery log',
  sql: `
    ALTER TABLE deliveries ADD COLUMN facts TEXT;
    ALTER TABLE deliveries ADD COLUMN request_url TEXT;
    ALTER TABLE deliveries ADD COLUMN body_key TEXT;
    ALTER TABLE deliveries ADD COLUMN redelivered_from TEXT;
    CREATE UNIQUE INDEX deliveries_redelivered ON deliveries (redelivered_from) WHERE redelivered_from IS NOT NULL;

    -- Those that started no run: what may be judged again, and what is bounded.
    CREATE INDEX deliveries_refused ON deliveries (id) WHERE run_id IS NULL;

    -- How many of those there are, and their size; triggers, so that no deletion can forget to tell.
    CREATE TABLE refused_state (id INTEGER PRIMARY KEY CHECK (id = 1), rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
    INSERT INTO refused_state (id, rows, bytes)
      SELECT 1, count(*), coalesce(sum(coalesce(length(body), 0)), 0) FROM deliveries WHERE run_id IS NULL;
    CREATE TRIGGER refused_added AFTER INSERT ON deliveries WHEN new.run_id IS NULL BEGIN
      UPDATE refused_state SET rows = rows + 1, bytes = bytes + coalesce(length(new.body), 0);
    END;
    CREATE TRIGGER refused_deleted AFTER DELETE ON deliveries WHEN old.run_id IS NULL BEGIN
      UPDATE refused_state SET rows = rows - 1, bytes = bytes - coalesce(length(old.body), 0);
    END;

    -- Stats outlive the records that they count. A clean delivery has the reason ''.
    CREATE TABLE delivery_counts (
      minute INTEGER NOT NULL,
      reason TEXT NOT NULL,
      rejected INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (minute, reason, rejected)
    ) WITHOUT ROWID;
    INSERT INTO delivery_counts (minute, reason, rejected, count)
      SELECT received_at / 60000, coalesce(reason, ''), rejected, count(*) FROM deliveries GROUP BY 1, 2, 3;
  `,
};
