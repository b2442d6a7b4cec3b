export const keys = {
  version: 17,
  name: 'keys',
  sql: `
    -- Keys that triggers have or had, by a name that gives nothing of the key away.
    CREATE TABLE trigger_keys (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      key_name TEXT NOT NULL,
      -- Null once no trigger has it.
      role TEXT,
      role_since INTEGER NOT NULL,
      first_noted_at INTEGER NOT NULL,
      noted_at INTEGER NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, key_name)
    ) STRICT, WITHOUT ROWID;
    -- Accepted deliveries by the key that verified them. Hour 0 is all that was counted before the hours that are kept.
    CREATE TABLE key_hours (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      key_name TEXT NOT NULL,
      hour INTEGER NOT NULL,
      count INTEGER NOT NULL,
      last_at INTEGER NOT NULL,
      last_id TEXT NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, key_name, hour)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX key_hours_by_hour ON key_hours (hour);
  `,
};
