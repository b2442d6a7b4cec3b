export const largeRows = {
  version: 10,
  name: 'large rows',
  sql: `
    -- A table without row ids compares whole rows, values included, to find one: among 300 steps that left 0.9 MB each a
    -- look-up by key took 5 ms and now takes 0.01, and listing their statuses 80 ms and now 1.
    CREATE TABLE steps_by_row (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      step_type TEXT NOT NULL,
      status TEXT NOT NULL,
      due_at INTEGER,
      lease_token TEXT,
      flow_id TEXT NOT NULL DEFAULT '',
      limit_at INTEGER,
      interruptions INTEGER NOT NULL DEFAULT 0,
      deaths INTEGER NOT NULL DEFAULT 0,
      lone_deaths INTEGER NOT NULL DEFAULT 0,
      attempt_count INTEGER NOT NULL DEFAULT 0,
      attempt_base INTEGER NOT NULL DEFAULT 0,
      signal_name TEXT,
      skip_reason TEXT,
      started_at INTEGER,
      completed_at INTEGER,
      -- Values come last, so that what only asks where a step stands never reads their pages.
      error TEXT,
      wait TEXT,
      evaluation_trace TEXT,
      input TEXT,
      output TEXT,
      PRIMARY KEY (run_id, step_key)
    );
    INSERT INTO steps_by_row
      SELECT run_id, step_key, step_type, status, due_at, lease_token, flow_id, limit_at, interruptions, deaths, lone_deaths,
        attempt_count, attempt_base, signal_name, skip_reason, started_at, completed_at, error, wait, evaluation_trace,
        input, output
      FROM steps;
    DROP TABLE steps;
    ALTER TABLE steps_by_row RENAME TO steps;
    -- With the key, which an index of a table without row ids has by itself: rows come in its order.
    CREATE INDEX steps_due ON steps (status, flow_id, step_type, due_at, run_id, step_key)
      WHERE due_at IS NOT NULL AND deaths < 2;
    CREATE INDEX steps_suspect ON steps (due_at, run_id, step_key) WHERE due_at IS NOT NULL AND deaths >= 2;
    CREATE INDEX steps_by_limit ON steps (limit_at, run_id, step_key) WHERE limit_at IS NOT NULL;

    CREATE TABLE attempts_by_row (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      status TEXT NOT NULL,
      due_at INTEGER,
      started_at INTEGER NOT NULL,
      completed_at INTEGER,
      error TEXT,
      input TEXT,
      output TEXT,
      PRIMARY KEY (run_id, step_key, attempt)
    );
    INSERT INTO attempts_by_row
      SELECT run_id, step_key, attempt, status, due_at, started_at, completed_at, error, input, output FROM attempts;
    DROP TABLE attempts;
    ALTER TABLE attempts_by_row RENAME TO attempts;
  `,
};
