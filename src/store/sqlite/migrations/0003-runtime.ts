export const runtime = {
  version: 3,
  name: 'runtime',
  sql: `
    -- What a waiting step keeps between two looks, as { state }; null where it does not wait.
    ALTER TABLE steps ADD COLUMN wait TEXT;
    ALTER TABLE steps ADD COLUMN signal_name TEXT;
    -- Attempts before the last retry by hand: the step's retry policy counts from there.
    ALTER TABLE steps ADD COLUMN attempt_base INTEGER NOT NULL DEFAULT 0;

    -- A signal without a step was sent before any step waited for it.
    CREATE TABLE signals (
      id INTEGER NOT NULL PRIMARY KEY,
      run_id TEXT NOT NULL,
      name TEXT NOT NULL,
      body TEXT,
      delivered_at INTEGER NOT NULL,
      step_key TEXT
    );
    CREATE INDEX signals_by_run ON signals (run_id, name);

    CREATE TABLE loops (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      total INTEGER NOT NULL,
      concurrency INTEGER NOT NULL,
      started INTEGER NOT NULL,
      ended INTEGER NOT NULL,
      failed INTEGER NOT NULL,
      PRIMARY KEY (run_id, step_key)
    ) WITHOUT ROWID;
    -- Apart from the counters: SQLite writes a row anew as a whole.
    CREATE TABLE loop_items (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      items TEXT NOT NULL,
      PRIMARY KEY (run_id, step_key)
    );

    CREATE TABLE flow_schedules (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      cron TEXT NOT NULL,
      time_zone TEXT NOT NULL,
      -- An operator's expression in place of the manifest's.
      cron_override TEXT,
      paused INTEGER NOT NULL,
      next_at INTEGER,
      last_at INTEGER,
      PRIMARY KEY (flow_id, trigger_key)
    ) WITHOUT ROWID;

    CREATE INDEX runs_by_source ON runs (source_run_id) WHERE source_run_id IS NOT NULL;
    CREATE INDEX runs_by_deadline ON runs (timeout_at)
      WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL;
  `,
};
