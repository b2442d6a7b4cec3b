export const keys = {
  version: 7,
  name: 'keys',
  compatibleFrom: 1,
  sql: `
    -- Keys that triggers have or had, by a name that gives nothing of the key away.
    CREATE TABLE sluice.trigger_keys (
      flow_id text NOT NULL,
      trigger_key text NOT NULL,
      key_name text NOT NULL,
      -- Null once no trigger has it.
      role text,
      role_since bigint NOT NULL,
      first_noted_at bigint NOT NULL,
      noted_at bigint NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, key_name)
    );
    -- Accepted deliveries by the key that verified them. Hour 0 is all that was counted before the hours that are kept.
    CREATE TABLE sluice.key_hours (
      flow_id text NOT NULL,
      trigger_key text NOT NULL,
      key_name text NOT NULL,
      hour bigint NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      last_at bigint NOT NULL,
      last_id uuid NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, key_name, hour, slot)
    );
    CREATE INDEX key_hours_by_hour ON sluice.key_hours (hour);
  `,
};
