import type { SharedMigration } from './migration.ts';

export const consumersOfDeliveries: SharedMigration = {
  version: 6,
  name: 'consumers',
  compatibleFrom: 1,
  locks: ['runs'],
  sql: `
  -- Who has deliveries forwarded, and how far they have come.
  CREATE TABLE sluice.consumers (
    name text COLLATE "C" PRIMARY KEY,
    -- What is forwarded; null for the deliveries of all flows, or of all triggers of the flow.
    flow_id text COLLATE "C",
    trigger_key text COLLATE "C",
    -- The last delivery that was forwarded, or an id of the time to begin at.
    delivery_id uuid NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL,
    -- Where the run of that delivery stands in the order of commits; null where no one knows, as in a copy.
    position bigint
  ) /*sqlite: WITHOUT ROWID*/;
`,
  ofPostgres: `
  -- The transaction that inserted it: the order in which runs can be seen. An id is made before its run is committed, so
  -- that one behind it may be seen first.
  ALTER TABLE sluice.runs ADD COLUMN xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX runs_by_commit ON sluice.runs (xid, delivery_id) WHERE delivery_id IS NOT NULL;
`,
};
