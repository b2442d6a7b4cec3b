export const hosts = {
  version: 19,
  name: 'hosts',
  sql: `
    -- Hosts that are not asked now.
    CREATE TABLE host_circuits (
      origin TEXT PRIMARY KEY,
      version INTEGER NOT NULL,
      circuit TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- As before, and steps that wait for the turn of the host that they call.
    DROP INDEX steps_waiting;
    CREATE INDEX steps_waiting ON steps (
      CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
        WHEN instr(wait, '"hostTurn":"') > 0 THEN 'host' WHEN instr(wait, '"lastPoll":') > 0 THEN 'poll' ELSE 'delay' END,
      run_id, due_at, flow_id
    ) WHERE status = 'Pending';

    -- By host. An origin holds no character that JSON escapes.
    CREATE INDEX steps_of_host ON steps (
      substr(wait, instr(wait, '"hostTurn":"') + 12, instr(substr(wait, instr(wait, '"hostTurn":"') + 12), '"') - 1),
      due_at
    ) WHERE status = 'Pending' AND instr(wait, '"hostTurn":"') > 0;
  `,
};
