import type { SharedMigration } from './migration.ts';

export const heldShares: SharedMigration = {
  version: 10,
  name: 'held shares',
  compatibleFrom: 1,
  locks: ['flows'],
  sql: `
  -- What the deliveries take that are held of the flow: no flow takes the room of all.
  ALTER TABLE sluice.flows ADD COLUMN held_bytes bigint NOT NULL DEFAULT 0;
  UPDATE sluice.flows SET held_bytes = (
    SELECT coalesce(sum(kept_bytes), 0) FROM sluice.held_deliveries WHERE flow_id = flows.id);
`,
};
