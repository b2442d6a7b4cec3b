import type { SharedMigration } from './migration.ts';

export const joinedDeliveries: SharedMigration = {
  version: 7,
  name: 'joined deliveries',
  compatibleFrom: 1,
  locks: ['run_deliveries', 'consumers'],
  sql: `
  -- The last delivery that joined the run of another and was forwarded, where those have numbers of their own.
  ALTER TABLE sluice.consumers ADD COLUMN joined bigint NOT NULL DEFAULT 0;
  CREATE INDEX run_deliveries_that_joined ON sluice.run_deliveries (delivery_id) WHERE place > 1;
`,
  ofPostgres: `
  -- The transaction that inserted it, as of a run. What has joined before is not forwarded.
  ALTER TABLE sluice.run_deliveries ADD COLUMN xid bigint;
  ALTER TABLE sluice.run_deliveries ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX run_deliveries_by_commit ON sluice.run_deliveries (xid, delivery_id) WHERE place > 1;
`,
  ofSqlite: `
  -- The newest run as it joined, and a number that grows. What has joined before has neither, and is not forwarded.
  ALTER TABLE run_deliveries ADD COLUMN position INTEGER;
  ALTER TABLE run_deliveries ADD COLUMN joined INTEGER;
  CREATE INDEX run_deliveries_by_commit ON run_deliveries (joined);
  CREATE INDEX consumers_by_joined ON consumers (joined);
`,
};
