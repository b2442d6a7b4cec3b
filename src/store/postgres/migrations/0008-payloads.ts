export const payloads = {
  version: 8,
  name: 'payloads',
  compatibleFrom: 1,
  sql: `
    -- What deliveries had at the paths that their flows read, by the hour. An event of '' is none; others begin with '='.
    CREATE TABLE sluice.payload_paths (
      flow_id text NOT NULL,
      trigger_key text NOT NULL,
      event text NOT NULL,
      path text NOT NULL,
      hour bigint NOT NULL,
      type text NOT NULL,
      count bigint NOT NULL,
      first_id uuid NOT NULL,
      last_id uuid NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, event, path, hour, type)
    );
    CREATE INDEX payload_paths_by_hour ON sluice.payload_paths (hour);
    -- Up to which delivery each trigger was looked at, and what was found.
    CREATE TABLE sluice.payload_watches (
      flow_id text NOT NULL,
      trigger_key text NOT NULL,
      version bigint NOT NULL,
      last_id uuid NOT NULL,
      drifts text NOT NULL,
      PRIMARY KEY (flow_id, trigger_key)
    );
  `,
};
