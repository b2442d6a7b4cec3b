import { toSqlite } from '../../migrations/0001-tables.ts';
import { joinedDeliveries as shared } from '../../migrations/0007-joined-deliveries.ts';

const commits = `
  -- The newest run as it joined, and a number that grows. What has joined before has neither, and is not forwarded.
  ALTER TABLE run_deliveries ADD COLUMN position INTEGER;
  ALTER TABLE run_deliveries ADD COLUMN joined INTEGER;
  CREATE INDEX run_deliveries_by_commit ON run_deliveries (joined);
  CREATE INDEX consumers_by_joined ON consumers (joined);
`;

export const joinedDeliveries = { version: 7, name: 'joined deliveries', sql: toSqlite(shared) + commits };
