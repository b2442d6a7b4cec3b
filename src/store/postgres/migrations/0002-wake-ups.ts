export const wakeUps = {
  version: 2,
  name: 'wake-ups',
  compatibleFrom: 1,
  sql: `
    -- Whoever makes a step due that it has not leased itself leaves a job of graphile-worker, which wakes a replica with
    -- a free slot. One key for each connection, and for each tenth of a second in which steps fall due later: so there are
    -- few jobs however many steps wait, and no transaction waits for another one's job. A job names no step: the replica
    -- that takes it claims what is due.
    CREATE FUNCTION sluice.add_wake_ups(tenths bigint[]) RETURNS void LANGUAGE plpgsql AS $body$
    DECLARE
      jobs graphile_worker.job_spec[];
    BEGIN
      SELECT array_agg(ROW('step', '{"v":1}', NULL, to_timestamp(tenth / 10.0), NULL,
        CASE WHEN tenth IS NULL THEN 'now:' ELSE 'at:' || tenth || ':' END || pg_backend_pid(), NULL, NULL
      )::graphile_worker.job_spec) INTO jobs
      FROM unnest(tenths) AS due (tenth);
      PERFORM graphile_worker.add_jobs(jobs);
    END $body$;
    CREATE FUNCTION sluice.wake_replicas() RETURNS trigger LANGUAGE plpgsql AS $body$
    DECLARE
      tenths bigint[];
    BEGIN
      -- A process that is alone knows what it made due.
      IF NOT EXISTS (SELECT FROM sluice.replicas OFFSET 1) THEN
        RETURN NULL;
      END IF;
      SELECT array_agg(DISTINCT
        CASE WHEN due_at > extract(epoch FROM clock_timestamp()) * 1000 THEN (due_at + 99) / 100 END
      ) INTO tenths
      FROM made WHERE due_at IS NOT NULL AND lease_token IS NULL;
      IF tenths IS NULL THEN
        RETURN NULL;
      END IF;
      BEGIN
        PERFORM sluice.add_wake_ups(tenths);
      EXCEPTION
        -- The row is the truth: it is committed whether or not anybody can be woken.
        WHEN undefined_object OR undefined_function OR undefined_table OR invalid_schema_name OR insufficient_privilege THEN
          NULL;
      END;
      RETURN NULL;
    END $body$;
    CREATE TRIGGER wake_by_insert AFTER INSERT ON sluice.steps REFERENCING NEW TABLE AS made
      FOR EACH STATEMENT EXECUTE FUNCTION sluice.wake_replicas();
    CREATE TRIGGER wake_by_update AFTER UPDATE ON sluice.steps REFERENCING NEW TABLE AS made
      FOR EACH STATEMENT EXECUTE FUNCTION sluice.wake_replicas();

    -- Each call of add_jobs draws a number for a task that it then finds, and an integer ends after 2^31 of them.
    DO $body$ BEGIN
      EXECUTE 'ALTER SEQUENCE ' || pg_get_serial_sequence('graphile_worker._private_tasks', 'id') || ' CYCLE';
    END $body$;
    -- Two transactions that both add the first job of a task wait for each other.
    SELECT graphile_worker.add_job('step', job_key => 'first');
    SELECT graphile_worker.remove_job('first');
  `,
};
