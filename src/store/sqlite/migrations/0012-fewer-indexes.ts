// The first 48 bits of an id are the instant it was made, in milliseconds.
const idAt = (ms: string) => `printf('%08x-%04x', (${ms}) / 65536, (${ms}) % 65536)`;

export const fewerIndexes = {
  version: 12,
  name: 'fewer indexes',
  sql: `
    -- Each index is a page or two of every commit, and an entry of every acceptance.

    -- Ids grow with time, so records are found by them. Which ids a minute has is kept with its counts: the part of a
    -- minute that a figure asks for is counted from its records.
    DROP INDEX deliveries_by_time;
    ALTER TABLE delivery_counts ADD COLUMN first_id TEXT NOT NULL DEFAULT '';
    ALTER TABLE delivery_counts ADD COLUMN last_id TEXT NOT NULL DEFAULT '';
    UPDATE delivery_counts
    SET first_id = ${idAt('minute * 60000')}, last_id = ${idAt('(minute + 1) * 60000')};

    -- A run is of the newest revision that its flow has when it starts. So the index by revision has the runs of a flow
    -- in the order of their starts too, and the end of a run does not change it.
    DROP INDEX runs_by_flow;
  `,
};
