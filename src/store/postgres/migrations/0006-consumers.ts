import { consumers } from '../../migrations/0006-consumers.ts';

const commits = `
  -- The transaction that inserted it: the order in which runs can be seen. An id is made before its run is committed, so
  -- that one behind it may be seen first.
  ALTER TABLE sluice.runs ADD COLUMN xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX runs_by_commit ON sluice.runs (xid, delivery_id) WHERE delivery_id IS NOT NULL;
`;

export const consumersOfDeliveries = {
  version: 6,
  name: 'consumers',
  compatibleFrom: 1,
  locks: ['runs'],
  sql: consumers + commits,
};
