import type { SharedMigration } from './migration.ts';

export const order: SharedMigration = {
  version: 2,
  name: 'order',
  compatibleFrom: 2,
  locks: ['held_deliveries'],
  sql: `
  -- Runs of flows that run one at a time. Those that have a state are in their lane, in the order of their numbers: the
  -- first may run, or has failed and holds the lane, and the others wait. What has left keeps its key for a retry.
  CREATE TABLE sluice.ordered_runs (
    run_id uuid NOT NULL PRIMARY KEY,
    flow_id text COLLATE "C" NOT NULL,
    -- A digest of flow, key, and whether what started the run was verified.
    lane uuid NOT NULL,
    seq bigint NOT NULL,
    state text,
    is_verified boolean NOT NULL,
    key text,
    -- Why it has no key.
    problem text
  ) /*sqlite: WITHOUT ROWID*/;
  -- Lanes are random: only runs in flight are in it.
  CREATE UNIQUE INDEX ordered_runs_by_lane ON sluice.ordered_runs (lane, seq) WHERE state IS NOT NULL;
  CREATE INDEX ordered_runs_waiting ON sluice.ordered_runs (run_id, flow_id) WHERE state = 'waiting';
  CREATE INDEX ordered_runs_stopped ON sluice.ordered_runs (run_id) WHERE state = 'stopped';
  CREATE INDEX ordered_runs_keyless ON sluice.ordered_runs (run_id, flow_id) WHERE problem IS NOT NULL;

  -- Of what was held before, nobody knows: it does not count as verified.
  ALTER TABLE sluice.held_deliveries ADD COLUMN is_verified boolean NOT NULL DEFAULT false;
`,
};
