export const subRuns = {
  version: 10,
  name: 'sub-runs',
  compatibleFrom: 1,
  sql: `
    -- The revisions of other flows that a run's steps may start; no row for a run whose flow runs none.
    CREATE TABLE sluice.run_pins (
      run_id uuid NOT NULL,
      flow_id text COLLATE "C" NOT NULL,
      revision integer NOT NULL,
      PRIMARY KEY (run_id, flow_id)
    );
    CREATE INDEX run_pins_by_flow ON sluice.run_pins (flow_id);

    -- Runs that steps of other runs started.
    CREATE TABLE sluice.sub_runs (
      run_id uuid PRIMARY KEY,
      parent_run_id uuid NOT NULL,
      step_key text COLLATE "C" NOT NULL,
      is_awaited boolean NOT NULL,
      depth integer NOT NULL,
      -- When the first of the runs above it started.
      root_started_at bigint NOT NULL,
      is_of_failure boolean NOT NULL
    );
    CREATE INDEX sub_runs_by_parent ON sluice.sub_runs (parent_run_id, step_key, run_id);

    -- Runs whose end nothing waits for any more, and that are to be cancelled.
    CREATE TABLE sluice.orphaned_runs (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      run_id uuid NOT NULL
    );

    -- Flows of which a run started with an older revision than the newest: their revisions do not have the order of time.
    CREATE TABLE sluice.unordered_flows (flow_id text COLLATE "C" PRIMARY KEY);

    -- What the steps of a run wait for, the end of another run among it.
    DROP INDEX sluice.steps_waiting;
    CREATE INDEX steps_waiting ON sluice.steps (
      (CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
        WHEN strpos(wait, '"hostTurn":"') > 0 THEN 'host' WHEN strpos(wait, '"lastPoll":') > 0 THEN 'poll'
        WHEN strpos(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END),
      run_id, due_at, flow_id
    ) WHERE status = 'Pending';
  `,
};
