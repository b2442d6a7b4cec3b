import type { SharedMigration } from './migration.ts';

/** Deliveries that answer steps. */
export const signals: SharedMigration = {
  version: 11,
  name: 'signals',
  // Earlier releases refuse the manifests that write any of it.
  compatibleFrom: 1,
  locks: ['steps', 'signals'],
  sql: `
  -- Of a step that waits or waited for deliveries of a key: the digest names flow, step and key.
  ALTER TABLE sluice.steps ADD COLUMN awaited uuid;
  CREATE INDEX steps_awaited ON sluice.steps (awaited, signal_name) WHERE awaited IS NOT NULL;

  -- The delivery that a signal came by.
  ALTER TABLE sluice.signals ADD COLUMN delivery_id uuid;
  CREATE INDEX signals_by_delivery ON sluice.signals (delivery_id) WHERE delivery_id IS NOT NULL;

  -- Such deliveries, for steps that begin to wait later.
  CREATE TABLE sluice.kept_signals (
    digest uuid NOT NULL,
    delivery_id uuid NOT NULL,
    came_at bigint NOT NULL,
    choice text,
    body text NOT NULL,
    PRIMARY KEY (digest, delivery_id)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX kept_signals_by_time ON sluice.kept_signals (came_at);
`,
};
