export const loops = {
  version: 8,
  name: 'loops',
  sql: `
    -- Counts that cannot be true are refused instead of kept: a loop once "succeeded" with -1 failures.
    CREATE TABLE checked_loops (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      total INTEGER NOT NULL,
      concurrency INTEGER NOT NULL,
      started INTEGER NOT NULL,
      ended INTEGER NOT NULL,
      failed INTEGER NOT NULL,
      PRIMARY KEY (run_id, step_key),
      CHECK (0 <= failed AND failed <= ended AND ended <= started AND started <= total)
    ) WITHOUT ROWID;
    INSERT INTO checked_loops
      SELECT run_id, step_key, total, concurrency, min(started, total), max(0, min(ended, started, total)),
        max(0, min(failed, ended, started, total))
      FROM loops;
    DROP TABLE loops;
    ALTER TABLE checked_loops RENAME TO loops;

    -- The items from first_index on: a child reads the chunk that its own is in. A loop that began before is one chunk.
    CREATE TABLE chunked_items (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      first_index INTEGER NOT NULL,
      items TEXT NOT NULL,
      PRIMARY KEY (run_id, step_key, first_index)
    );
    INSERT INTO chunked_items SELECT run_id, step_key, 0, items FROM loop_items;
    DROP TABLE loop_items;
    ALTER TABLE chunked_items RENAME TO loop_items;

    -- Runs that were removed and whose rows are still to be deleted, a slice at a time.
    CREATE TABLE removed_runs (run_id TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;
  `,
};
