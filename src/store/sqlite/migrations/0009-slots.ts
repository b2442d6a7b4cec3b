export const slots = {
  version: 9,
  name: 'slots',
  sql: `
    -- The run's flow, so that flows take turns without their runs being read. Steps of runs that ended have none until
    -- they are tried again.
    ALTER TABLE steps ADD COLUMN flow_id TEXT NOT NULL DEFAULT '';
    UPDATE steps SET flow_id = (SELECT flow_id FROM runs WHERE id = run_id)
      WHERE run_id IN (SELECT id FROM runs WHERE status = 'Running');

    -- Processes that died while they ran the step, since it last had an outcome; and those of them that ran nothing else.
    ALTER TABLE steps ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE steps ADD COLUMN lone_deaths INTEGER NOT NULL DEFAULT 0;

    -- When the time limit of a waiting step is up.
    ALTER TABLE steps ADD COLUMN limit_at INTEGER;
    CREATE INDEX steps_by_limit ON steps (limit_at) WHERE limit_at IS NOT NULL;

    -- When the attempt could have begun, had a slot been free; null where a release before this one began it.
    ALTER TABLE attempts ADD COLUMN due_at INTEGER;

    -- A flow's due steps by type, and the few that must run alone in an index of their own.
    DROP INDEX steps_due;
    CREATE INDEX steps_due ON steps (status, flow_id, step_type, due_at) WHERE due_at IS NOT NULL AND deaths < 2;
    CREATE INDEX steps_suspect ON steps (due_at) WHERE due_at IS NOT NULL AND deaths >= 2;
  `,
};
