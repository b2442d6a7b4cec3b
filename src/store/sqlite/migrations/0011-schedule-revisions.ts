export const scheduleRevisions = {
  version: 11,
  name: 'schedule revisions',
  sql: `
    -- Grows with each change, so that nobody writes back what they read before another changed it.
    ALTER TABLE flow_schedules ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
  `,
};
