export const searchKeys = {
  version: 4,
  name: 'search keys',
  compatibleFrom: 1,
  sql: `
    -- What people look for runs and deliveries by. Tables of their own, so that whoever names no keys pays nothing. What
    -- a run was started by is kept with the run alone, as its bytes are. The value is null where it is what is compared.
    CREATE TABLE sluice.run_keys (
      run_id uuid NOT NULL,
      name text COLLATE "C" NOT NULL,
      folded text COLLATE "C" NOT NULL,
      value text,
      PRIMARY KEY (run_id, name)
    );
    CREATE INDEX run_keys_by_value ON sluice.run_keys (folded, run_id, name);
    CREATE TABLE sluice.delivery_keys (
      delivery_id uuid NOT NULL,
      name text COLLATE "C" NOT NULL,
      folded text COLLATE "C" NOT NULL,
      value text,
      PRIMARY KEY (delivery_id, name)
    );
    CREATE INDEX delivery_keys_by_value ON sluice.delivery_keys (folded, delivery_id, name);
  `,
};
