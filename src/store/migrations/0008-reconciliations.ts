import type { SharedMigration } from './migration.ts';

export const reconciliations: SharedMigration = {
  version: 8,
  name: 'reconciliations',
  compatibleFrom: 1,
  sql: `
  -- Who asks the publisher of a trigger what it sent, until when, and what came of it.
  CREATE TABLE sluice.reconciliations (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    -- Null where nobody asks now.
    owner text COLLATE "C",
    leased_until bigint NOT NULL,
    last_at bigint,
    state text,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;
`,
};
