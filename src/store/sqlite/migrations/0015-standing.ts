export const standing = {
  version: 15,
  name: 'standing',
  sql: `
    -- What the steps of a run wait for. A step that was not tried yet waits for a slot alone.
    CREATE INDEX steps_waiting ON steps (
      CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
        WHEN instr(wait, '"lastPoll":') > 0 THEN 'poll' ELSE 'delay' END,
      run_id, due_at, flow_id
    ) WHERE status = 'Pending';

    -- Why a run failed, and which failures it got over; what failed within a loop the loop's own error says.
    CREATE INDEX steps_failed ON steps (run_id, completed_at) WHERE status = 'Failed' AND instr(step_key, '.') = 0;
  `,
};
