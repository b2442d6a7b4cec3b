import {
  EVENT_ID_COLUMNS,
  IDEMPOTENCY_KEY_COLUMNS,
  NONCE_COLUMNS,
  RUN_COLUMNS,
  tables,
} from '../../migrations/0001-tables.ts';

const before = `
  -- Nonces, event ids and idempotency keys are found by a digest of flow, trigger and text, so that any text fits into the
  -- index. One row each: a replica that inserts it first has won.
  CREATE TABLE sluice.nonces (
    digest uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,${NONCE_COLUMNS}
  );
  -- Only asked after another nonce header was named. By the hour, so that new entries are on pages that are in use anyway.
  CREATE INDEX nonces_by_alias ON sluice.nonces ((expires_at / 3600000), alias) WHERE alias IS NOT NULL;
  CREATE TABLE sluice.event_ids (
    digest uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,${EVENT_ID_COLUMNS}
  );
  CREATE TABLE sluice.idempotency_keys (
    digest uuid PRIMARY KEY,${IDEMPOTENCY_KEY_COLUMNS}
  );
  CREATE INDEX idempotency_keys_by_run ON sluice.idempotency_keys (run_id);

  -- What controls a run stands in its row: one table fewer per acceptance.
  CREATE TABLE sluice.runs (
    id uuid PRIMARY KEY,${RUN_COLUMNS},
    trigger_content_type text,
    trigger_headers text NOT NULL DEFAULT '',
    trigger_body bytea NOT NULL DEFAULT ''
  ) WITH (fillfactor = 85);
`;

const after = `
  CREATE INDEX deliveries_by_flow ON sluice.deliveries (flow_id, id);

  -- Which delivery repeats a refused one: claimed by insert, so that of two replicas one wins.
  CREATE TABLE sluice.redeliveries (
    source uuid PRIMARY KEY,
    delivery_id uuid NOT NULL,
    run_id uuid NOT NULL
  );
  CREATE INDEX redeliveries_by_delivery ON sluice.redeliveries (delivery_id);

  CREATE INDEX runs_by_delivery ON sluice.runs (delivery_id) WHERE delivery_id IS NOT NULL;
  -- As SQLite has them: there a row that changes is written anew with all that it has, here large values are not.
  CREATE VIEW sluice.run_inputs AS
    SELECT id AS run_id, trigger_content_type AS content_type, trigger_headers AS headers, trigger_body AS body
    FROM sluice.runs;
  CREATE FUNCTION sluice.add_run_input() RETURNS trigger LANGUAGE plpgsql AS $body$
  BEGIN
    UPDATE sluice.runs
    SET trigger_content_type = new.content_type, trigger_headers = new.headers, trigger_body = new.body
    WHERE id = new.run_id;
    RETURN new;
  END $body$;
  CREATE TRIGGER add_run_input INSTEAD OF INSERT ON sluice.run_inputs
    FOR EACH ROW EXECUTE FUNCTION sluice.add_run_input();

  -- What people look for runs by. A table of its own, so that whoever names no keys pays nothing. The value is null where
  -- it is what is compared.
  CREATE TABLE sluice.run_keys (
    run_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    value text,
    PRIMARY KEY (run_id, name)
  );
  CREATE INDEX run_keys_by_value ON sluice.run_keys (folded, run_id, name);
  -- Steps that wait for the turn of a host, by queue. Its key holds no character that JSON escapes.
  CREATE INDEX steps_of_host ON sluice.steps (
    (split_part(split_part(wait, '"hostTurn":"', 2), '"', 1) COLLATE "C"),
    due_at
  ) WHERE status = 'Pending' AND strpos(wait, '"hostTurn":"') > 0;
  -- What failed with a code: a code holds no character that JSON escapes.
  CREATE INDEX steps_failed_by_code ON sluice.steps (
    (split_part(split_part(error, '"code":"', 2), '"', 1) COLLATE "C"),
    run_id, flow_id, step_key
  ) WHERE status = 'Failed' AND strpos(step_key, '.') = 0;
  CREATE INDEX interventions_by_time ON sluice.interventions (at);

  -- A trigger, so that no way to end a run can forget to tell.
  CREATE FUNCTION sluice.note_failed_run() RETURNS trigger LANGUAGE plpgsql AS $body$
  BEGIN
    INSERT INTO sluice.failed_run_notices (run_id) SELECT NEW.id WHERE EXISTS (SELECT FROM sluice.alert_state);
    RETURN NULL;
  END $body$;
  CREATE TRIGGER note_failed_run AFTER UPDATE OF status ON sluice.runs FOR EACH ROW
    WHEN (NEW.status IN ('Failed', 'TimedOut') AND OLD.status = 'Running')
    EXECUTE FUNCTION sluice.note_failed_run();

  -- Refused deliveries that are kept, and deliveries that are held: how many, and the bytes that they take.
  CREATE TABLE sluice.kept_sizes (
    kind text NOT NULL,
    slot integer NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (kind, slot)
  );

  -- The processes that have the database; times are those of its own clock, but for that of the start.
  CREATE TABLE sluice.replicas (
    name text COLLATE "C" PRIMARY KEY,
    -- Tells processes of one name from each other.
    instance text NOT NULL,
    -- What its counts go under: see above.
    slot integer NOT NULL,
    version text NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    clock_offset_ms bigint NOT NULL,
    fingerprint text NOT NULL
  );
  -- Those that ended without leaving, and none came back under their name; of the last day.
  CREATE TABLE sluice.dead_replicas (
    name text COLLATE "C" PRIMARY KEY,
    died_at bigint NOT NULL,
    steps bigint NOT NULL
  );

  -- What was changed last of each flow that replicas keep in memory, and by which transaction.
  CREATE TABLE sluice.changes (
    flow_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (flow_id, kind)
  );
  CREATE INDEX changes_by_xid ON sluice.changes (xid);

  -- When the cluster last removed what is old; one row.
  CREATE TABLE sluice.housekeeping (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    began_at timestamptz NOT NULL
  );
  INSERT INTO sluice.housekeeping (began_at) VALUES ('-infinity');

  -- Row per slot whose number a ping raises: the only proof that the store can write is a write.
  CREATE TABLE sluice.pings (slot integer PRIMARY KEY, count bigint NOT NULL);
`;

const wakeUps = `
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
`;

export const initial = {
  version: 1,
  name: 'initial of 2026-11-27',
  compatibleFrom: 1,
  sql: before + tables + after + wakeUps,
};
