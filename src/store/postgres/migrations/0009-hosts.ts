export const hosts = {
  version: 9,
  name: 'hosts',
  compatibleFrom: 1,
  sql: `
    -- Hosts that are not asked now.
    CREATE TABLE sluice.host_circuits (
      origin text COLLATE "C" PRIMARY KEY,
      version bigint NOT NULL,
      circuit text NOT NULL
    );

    -- As before, and steps that wait for the turn of the host that they call.
    DROP INDEX sluice.steps_waiting;
    CREATE INDEX steps_waiting ON sluice.steps (
      (CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
        WHEN strpos(wait, '"hostTurn":"') > 0 THEN 'host' WHEN strpos(wait, '"lastPoll":') > 0 THEN 'poll' ELSE 'delay' END),
      run_id, due_at, flow_id
    ) WHERE status = 'Pending';

    -- By host. An origin holds no character that JSON escapes.
    CREATE INDEX steps_of_host ON sluice.steps (
      (split_part(split_part(wait, '"hostTurn":"', 2), '"', 1) COLLATE "C"),
      due_at
    ) WHERE status = 'Pending' AND strpos(wait, '"hostTurn":"') > 0;
  `,
};
