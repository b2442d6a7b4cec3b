import type { SharedMigration } from './migration.ts';

/** What became of deliveries that went to several triggers at one slug. */
export const sharedDeliveries: SharedMigration = {
  version: 3,
  name: 'delivery shares',
  compatibleFrom: 1,
  sql: `
  CREATE TABLE sluice.delivery_shares (
    delivery_id uuid NOT NULL,
    place bigint NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    run_id uuid,
    outcome text,
    PRIMARY KEY (delivery_id, place)
  ) /*sqlite: WITHOUT ROWID*/;
  -- The first place is that of the record itself, which is found by its own flow.
  CREATE INDEX delivery_shares_by_flow ON sluice.delivery_shares (flow_id, delivery_id) WHERE place > 0;
`,
};
