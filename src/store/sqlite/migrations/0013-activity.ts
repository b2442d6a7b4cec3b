export const activity = {
  version: 13,
  name: 'activity',
  sql: `
    -- What people and programs did to the service. Ids are in the order of time.
    CREATE TABLE interventions (
      id TEXT PRIMARY KEY,
      at INTEGER NOT NULL,
      actor TEXT NOT NULL,
      client_ip TEXT,
      action TEXT NOT NULL,
      target_type TEXT,
      target_id TEXT,
      details TEXT NOT NULL,
      reason TEXT,
      -- Null while it is under way.
      status_code INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX interventions_by_target ON interventions (target_id) WHERE target_id IS NOT NULL;
  `,
};
