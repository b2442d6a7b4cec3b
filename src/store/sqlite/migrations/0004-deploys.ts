export const deploys = {
  version: 4,
  name: 'deploys',
  sql: `
    -- What a deploy said of the change, and who made it; null where a release before this one did.
    ALTER TABLE revisions ADD COLUMN source TEXT;
    ALTER TABLE revisions ADD COLUMN findings TEXT;
    ALTER TABLE revisions ADD COLUMN overrides TEXT;
    ALTER TABLE flows ADD COLUMN draining_since INTEGER;

    -- Leads from a revision to its newest run, and so from a step key to the newest run that has a row of it.
    CREATE INDEX runs_by_revision ON runs (flow_id, revision);

    -- Accepted deliveries whose runs are to start later, in order of arrival.
    CREATE TABLE held_deliveries (
      seq INTEGER NOT NULL PRIMARY KEY,
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      run_id TEXT NOT NULL,
      delivery_id TEXT,
      idempotency_key TEXT,
      traceparent TEXT,
      content_type TEXT,
      headers TEXT NOT NULL,
      body BLOB NOT NULL
    );
    CREATE INDEX held_by_flow ON held_deliveries (flow_id, seq);
    CREATE INDEX held_by_delivery ON held_deliveries (delivery_id);
  `,
};
