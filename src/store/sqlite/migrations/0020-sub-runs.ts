export const subRuns = {
  version: 20,
  name: 'sub-runs',
  sql: `
    -- The revisions of other flows that a run's steps may start; no row for a run whose flow runs none.
    CREATE TABLE run_pins (
      run_id TEXT NOT NULL,
      flow_id TEXT NOT NULL,
      revision INTEGER NOT NULL,
      PRIMARY KEY (run_id, flow_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX run_pins_by_flow ON run_pins (flow_id);

    -- Runs that steps of other runs started.
    CREATE TABLE sub_runs (
      run_id TEXT NOT NULL PRIMARY KEY,
      parent_run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      is_awaited INTEGER NOT NULL,
      depth INTEGER NOT NULL,
      -- When the first of the runs above it started.
      root_started_at INTEGER NOT NULL,
      is_of_failure INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sub_runs_by_parent ON sub_runs (parent_run_id, step_key, run_id);

    -- Runs whose end nothing waits for any more, and that are to be cancelled.
    CREATE TABLE orphaned_runs (
      seq INTEGER PRIMARY KEY,
      run_id TEXT NOT NULL
    ) STRICT;

    -- Flows of which a run started with an older revision than the newest: their revisions do not have the order of time.
    CREATE TABLE unordered_flows (flow_id TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;

    -- What the steps of a run wait for, the end of another run among it.
    DROP INDEX steps_waiting;
    CREATE INDEX steps_waiting ON steps (
      CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
        WHEN instr(wait, '"hostTurn":"') > 0 THEN 'host' WHEN instr(wait, '"lastPoll":') > 0 THEN 'poll'
        WHEN instr(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END,
      run_id, due_at, flow_id
    ) WHERE status = 'Pending';
  `,
};
