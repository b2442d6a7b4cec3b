import { joinedDeliveries as shared } from '../../migrations/0007-joined-deliveries.ts';

const commits = `
  -- The transaction that inserted it, as of a run. What has joined before is not forwarded.
  ALTER TABLE sluice.run_deliveries ADD COLUMN xid bigint;
  ALTER TABLE sluice.run_deliveries ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX run_deliveries_by_commit ON sluice.run_deliveries (xid, delivery_id) WHERE place > 1;
`;

export const joinedDeliveries = {
  version: 7,
  name: 'joined deliveries',
  compatibleFrom: 1,
  locks: ['run_deliveries', 'consumers'],
  sql: shared + commits,
};
