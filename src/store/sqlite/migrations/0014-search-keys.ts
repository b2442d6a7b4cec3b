export const searchKeys = {
  version: 14,
  name: 'search keys',
  sql: `
    -- What people look for runs and deliveries by. Tables of their own, so that whoever names no keys pays nothing. What
    -- a run was started by is kept with the run alone, as its bytes are. The value is null where it is what is compared.
    CREATE TABLE run_keys (
      run_id TEXT NOT NULL,
      name TEXT NOT NULL,
      folded TEXT NOT NULL,
      value TEXT,
      PRIMARY KEY (run_id, name)
    ) WITHOUT ROWID;
    CREATE INDEX run_keys_by_value ON run_keys (folded, run_id, name);
    CREATE TABLE delivery_keys (
      delivery_id TEXT NOT NULL,
      name TEXT NOT NULL,
      folded TEXT NOT NULL,
      value TEXT,
      PRIMARY KEY (delivery_id, name)
    ) WITHOUT ROWID;
    CREATE INDEX delivery_keys_by_value ON delivery_keys (folded, delivery_id, name);

    -- Records are deleted in several places; none of them can forget the keys.
    CREATE TRIGGER delivery_keys_deleted AFTER DELETE ON deliveries BEGIN
      DELETE FROM delivery_keys WHERE delivery_id = old.id;
    END;
  `,
};
