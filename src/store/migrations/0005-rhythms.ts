import type { SharedMigration } from './migration.ts';

export const rhythms: SharedMigration = {
  version: 5,
  name: 'rhythms',
  compatibleFrom: 1,
  sql: `
  -- When verified deliveries came, by the hour. An event of '' is all of them; others begin with '='.
  CREATE TABLE sluice.arrival_hours (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    count bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    longest_gap_ms bigint NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, event, hour)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX arrival_hours_by_hour ON sluice.arrival_hours (hour);
  -- Up to which delivery each trigger was counted, and what was found.
  CREATE TABLE sluice.rhythms (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    last_id uuid NOT NULL,
    last_at bigint,
    state text NOT NULL,
    found text NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;
  -- Times in which no process had the database.
  CREATE TABLE sluice.downtimes (
    ended_at bigint NOT NULL PRIMARY KEY,
    started_at bigint NOT NULL,
    offset_ms bigint NOT NULL
  );
`,
};
