export const payloads = {
  version: 18,
  name: 'payloads',
  sql: `
    -- What deliveries had at the paths that their flows read, by the hour. An event of '' is none; others begin with '='.
    CREATE TABLE payload_paths (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      event TEXT NOT NULL,
      path TEXT NOT NULL,
      hour INTEGER NOT NULL,
      type TEXT NOT NULL,
      count INTEGER NOT NULL,
      first_id TEXT NOT NULL,
      last_id TEXT NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, event, path, hour, type)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX payload_paths_by_hour ON payload_paths (hour);
    -- Up to which delivery each trigger was looked at, and what was found.
    CREATE TABLE payload_watches (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      version INTEGER NOT NULL,
      last_id TEXT NOT NULL,
      drifts TEXT NOT NULL,
      PRIMARY KEY (flow_id, trigger_key)
    ) STRICT, WITHOUT ROWID;
  `,
};
