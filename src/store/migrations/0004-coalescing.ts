import type { SharedMigration } from './migration.ts';

/** Deliveries that share a run. Nothing of it is written where no trigger coalesces. */
export const coalescing: SharedMigration = {
  version: 4,
  name: 'coalescing',
  // Earlier releases refuse the manifests that write any of it.
  compatibleFrom: 1,
  locks: ['runs', 'held_deliveries'],
  sql: `
  -- How many deliveries a run that waits for more has, or had; null where its trigger does not coalesce.
  ALTER TABLE sluice.runs ADD COLUMN deliveries integer;

  -- The deliveries of such a run in order of arrival, the one that started it first. A body that is null is the run's own.
  CREATE TABLE sluice.run_deliveries (
    run_id uuid NOT NULL,
    place integer NOT NULL,
    delivery_id uuid,
    received_at bigint NOT NULL,
    idempotency_key text,
    content_type text,
    headers text,
    body bytea,
    PRIMARY KEY (run_id, place)
  );

  -- The run that the next delivery of a key joins, unless it has started or ended since. The digest names flow, trigger,
  -- key, and whether the deliveries are verified.
  CREATE TABLE sluice.coalesce_groups (
    digest uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    revision integer NOT NULL,
    deliveries integer NOT NULL,
    bytes bigint NOT NULL,
    due_at bigint NOT NULL,
    until_at bigint NOT NULL,
    -- The flow, while its deliveries are held.
    held_by text COLLATE "C"
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX coalesce_groups_by_run ON sluice.coalesce_groups (run_id);
  CREATE INDEX coalesce_groups_by_end ON sluice.coalesce_groups (until_at);
  CREATE INDEX coalesce_groups_held ON sluice.coalesce_groups (held_by) WHERE held_by IS NOT NULL;

  -- Whether a held delivery joins the run of one that was held before it.
  ALTER TABLE sluice.held_deliveries ADD COLUMN joins boolean NOT NULL DEFAULT false;
  CREATE INDEX held_that_join ON sluice.held_deliveries (run_id) WHERE joins /*sqlite: = 1 */;
`,
};
