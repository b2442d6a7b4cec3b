export const initial = {
  version: 1,
  name: 'initial',
  compatibleFrom: 1,
  sql: `
    -- Times are milliseconds since the Unix epoch, given by the caller; JSON is text, as the caller wrote it. Keys and
    -- ids sort by their bytes, as in SQLite. Ids of runs and deliveries are UUID v7: they grow.

    CREATE TABLE sluice.flows (
      id text COLLATE "C" PRIMARY KEY,
      name text NOT NULL,
      version text NOT NULL,
      revision integer NOT NULL,
      is_enabled boolean NOT NULL,
      draining_since bigint,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL
    );

    CREATE TABLE sluice.revisions (
      flow_id text COLLATE "C" NOT NULL,
      revision integer NOT NULL,
      version text NOT NULL,
      hash text NOT NULL,
      snapshot text NOT NULL,
      created_at bigint NOT NULL,
      source text,
      findings text,
      overrides text,
      PRIMARY KEY (flow_id, revision)
    );

    -- Keys that a trigger had before it was renamed: what was accepted under one of them counts under the new one too.
    -- Where a former key comes back as another trigger, only what was accepted before that still counts.
    CREATE TABLE sluice.former_trigger_keys (
      flow_id text COLLATE "C" NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      former_key text COLLATE "C" NOT NULL,
      last_seq bigint,
      reused_at bigint,
      PRIMARY KEY (flow_id, trigger_key, former_key)
    );

    -- The key is a digest of flow, trigger and nonce, so that any text fits into the index. One row a key: a replica
    -- that inserts it first has won. The name is the same three as JSON: a copy into another database needs them.
    CREATE TABLE sluice.nonces (
      key uuid PRIMARY KEY,
      name text NOT NULL,
      seq bigint GENERATED ALWAYS AS IDENTITY,
      body_sha256 text NOT NULL,
      run_id uuid NOT NULL,
      expires_at bigint NOT NULL
    );
    CREATE INDEX nonces_by_expiry ON sluice.nonces (expires_at);

    CREATE TABLE sluice.idempotency_keys (
      key uuid PRIMARY KEY,
      run_id uuid NOT NULL,
      created_at bigint NOT NULL
    );
    CREATE INDEX idempotency_keys_by_run ON sluice.idempotency_keys (run_id);

    CREATE TABLE sluice.deliveries (
      id uuid PRIMARY KEY,
      flow_id text COLLATE "C",
      trigger_key text COLLATE "C",
      received_at bigint NOT NULL,
      client_ip text NOT NULL,
      mode text NOT NULL,
      scheme text,
      rejected boolean NOT NULL,
      enforced boolean NOT NULL,
      status_code integer NOT NULL,
      reason text,
      violations text NOT NULL,
      detail text,
      body_bytes bigint NOT NULL,
      processing_ms double precision NOT NULL,
      run_id uuid,
      used_previous_key boolean NOT NULL,
      headers text NOT NULL,
      story text,
      request_url text,
      body_key text,
      redelivered_from uuid,
      kept_bytes bigint NOT NULL,
      -- Null where the run has it.
      body bytea
    );
    CREATE INDEX deliveries_by_flow ON sluice.deliveries (flow_id, id);
    CREATE INDEX deliveries_by_reason ON sluice.deliveries (reason, id) WHERE reason IS NOT NULL;
    CREATE INDEX deliveries_by_flow_reason ON sluice.deliveries (flow_id, reason, id) WHERE reason IS NOT NULL;
    CREATE INDEX deliveries_rejected ON sluice.deliveries (id) WHERE rejected;
    CREATE INDEX deliveries_by_flow_rejected ON sluice.deliveries (flow_id, id) WHERE rejected;
    -- Those that started no run: what may be judged again, and what is bounded.
    CREATE INDEX deliveries_refused ON sluice.deliveries (id, kept_bytes) WHERE run_id IS NULL;

    -- Which delivery repeats a refused one: claimed by insert, so that of two replicas one wins.
    CREATE TABLE sluice.redeliveries (
      source uuid PRIMARY KEY,
      delivery_id uuid NOT NULL,
      run_id uuid NOT NULL
    );
    CREATE INDEX redeliveries_by_delivery ON sluice.redeliveries (delivery_id);

    -- Accepted deliveries whose runs are to start later, in order of arrival.
    CREATE TABLE sluice.held_deliveries (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      flow_id text COLLATE "C" NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      run_id uuid NOT NULL,
      delivery_id uuid,
      idempotency_key text,
      traceparent text,
      content_type text,
      headers text NOT NULL,
      body bytea NOT NULL,
      kept_bytes bigint NOT NULL
    );
    CREATE INDEX held_by_flow ON sluice.held_deliveries (flow_id, seq);
    CREATE INDEX held_by_delivery ON sluice.held_deliveries (delivery_id);

    CREATE TABLE sluice.runs (
      id uuid PRIMARY KEY,
      flow_id text COLLATE "C" NOT NULL,
      flow_name text NOT NULL,
      flow_version text NOT NULL,
      revision integer NOT NULL,
      status text NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      trigger_type text NOT NULL,
      delivery_id uuid,
      source_run_id uuid,
      started_at bigint NOT NULL,
      completed_at bigint,
      idempotency_key text,
      timeout_at bigint,
      cancel_requested_at bigint,
      cancel_reason text,
      timed_out_at bigint,
      traceparent text,
      trigger_content_type text,
      trigger_headers text NOT NULL,
      trigger_body bytea NOT NULL
    ) WITH (fillfactor = 85);
    CREATE INDEX runs_by_time ON sluice.runs (started_at);
    -- Leads from a revision to its newest run; a run is of the newest revision when it starts, so this has the runs of a
    -- flow in the order of their starts too.
    CREATE INDEX runs_by_revision ON sluice.runs (flow_id, revision, started_at);
    -- Most runs succeed: those are found by time, the others here.
    CREATE INDEX runs_by_status ON sluice.runs (status, started_at, flow_id) WHERE status <> 'Succeeded';
    CREATE INDEX runs_by_source ON sluice.runs (source_run_id) WHERE source_run_id IS NOT NULL;
    CREATE INDEX runs_by_delivery ON sluice.runs (delivery_id) WHERE delivery_id IS NOT NULL;
    CREATE INDEX runs_by_deadline ON sluice.runs (timeout_at)
      WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL;

    -- Runs that were removed and whose rows are still to be deleted, a slice at a time.
    CREATE TABLE sluice.removed_runs (run_id uuid PRIMARY KEY);

    CREATE TABLE sluice.steps (
      run_id uuid NOT NULL,
      step_key text COLLATE "C" NOT NULL,
      step_type text COLLATE "C" NOT NULL,
      status text NOT NULL,
      due_at bigint,
      lease_token text,
      -- The replica that leased the step last.
      lease_owner text,
      flow_id text COLLATE "C" NOT NULL DEFAULT '',
      limit_at bigint,
      interruptions integer NOT NULL DEFAULT 0,
      -- Processes that died while they ran the step since it last had an outcome, and those of them that ran nothing else.
      deaths integer NOT NULL DEFAULT 0,
      lone_deaths integer NOT NULL DEFAULT 0,
      attempt_count integer NOT NULL DEFAULT 0,
      -- Attempts before the last retry by hand: the step's retry policy counts from there.
      attempt_base integer NOT NULL DEFAULT 0,
      signal_name text,
      skip_reason text,
      started_at bigint,
      completed_at bigint,
      error text,
      wait text,
      evaluation_trace text,
      input text,
      output text,
      PRIMARY KEY (run_id, step_key)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
    CREATE INDEX steps_due ON sluice.steps (status, flow_id, step_type, due_at, run_id, step_key)
      WHERE due_at IS NOT NULL AND deaths < 2;
    CREATE INDEX steps_suspect ON sluice.steps (due_at, run_id, step_key) WHERE due_at IS NOT NULL AND deaths >= 2;
    CREATE INDEX steps_by_limit ON sluice.steps (limit_at, run_id, step_key) WHERE limit_at IS NOT NULL;

    CREATE TABLE sluice.attempts (
      run_id uuid NOT NULL,
      step_key text COLLATE "C" NOT NULL,
      attempt integer NOT NULL,
      status text NOT NULL,
      due_at bigint,
      started_at bigint NOT NULL,
      completed_at bigint,
      error text,
      input text,
      output text,
      PRIMARY KEY (run_id, step_key, attempt)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

    -- A signal without a step was sent before any step waited for it.
    CREATE TABLE sluice.signals (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      run_id uuid NOT NULL,
      name text COLLATE "C" NOT NULL,
      body text,
      delivered_at bigint NOT NULL,
      step_key text COLLATE "C"
    );
    CREATE INDEX signals_by_run ON sluice.signals (run_id);

    CREATE TABLE sluice.loops (
      run_id uuid NOT NULL,
      step_key text COLLATE "C" NOT NULL,
      total integer NOT NULL,
      concurrency integer NOT NULL,
      started integer NOT NULL,
      ended integer NOT NULL,
      failed integer NOT NULL,
      PRIMARY KEY (run_id, step_key),
      CHECK (0 <= failed AND failed <= ended AND ended <= started AND started <= total)
    );
    -- The items from first_index on: a child reads the chunk that its own is in.
    CREATE TABLE sluice.loop_items (
      run_id uuid NOT NULL,
      step_key text COLLATE "C" NOT NULL,
      first_index integer NOT NULL,
      items text NOT NULL,
      PRIMARY KEY (run_id, step_key, first_index)
    );

    CREATE TABLE sluice.flow_schedules (
      flow_id text COLLATE "C" NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      cron text NOT NULL,
      time_zone text NOT NULL,
      -- An operator's expression in place of the manifest's.
      cron_override text,
      paused boolean NOT NULL,
      next_at bigint,
      last_at bigint,
      revision integer NOT NULL,
      PRIMARY KEY (flow_id, trigger_key)
    );

    CREATE TABLE sluice.learned_keys (
      flow_id text COLLATE "C" NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      scheme text NOT NULL,
      secret bytea NOT NULL,
      sealed_with text,
      learned_at bigint NOT NULL,
      PRIMARY KEY (flow_id, trigger_key)
    );

    -- What people and programs did to the service. Ids are in the order of time.
    CREATE TABLE sluice.interventions (
      id uuid PRIMARY KEY,
      at bigint NOT NULL,
      actor text NOT NULL,
      client_ip text,
      action text NOT NULL,
      target_type text,
      target_id text COLLATE "C",
      details text NOT NULL,
      reason text,
      -- Null while it is under way.
      status_code integer
    );
    CREATE INDEX interventions_by_time ON sluice.interventions (at);
    CREATE INDEX interventions_by_target ON sluice.interventions (target_id) WHERE target_id IS NOT NULL;

    -- Counts. A flow, trigger or reason that is null stands as ''. The slot belongs to one replica's connection, so that
    -- commits of different replicas never wait for each other's row; readers add the slots up.

    CREATE TABLE sluice.delivery_counts (
      minute bigint NOT NULL,
      reason text NOT NULL,
      rejected boolean NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      first_id uuid NOT NULL,
      last_id uuid NOT NULL,
      PRIMARY KEY (minute, reason, rejected, slot)
    );

    -- Deliveries by the hour and by all that figures ask for; they outlive the records that they count.
    CREATE TABLE sluice.delivery_hours (
      hour bigint NOT NULL,
      flow_id text COLLATE "C" NOT NULL,
      trigger_key text COLLATE "C" NOT NULL,
      mode text NOT NULL,
      reason text NOT NULL,
      violations text NOT NULL,
      rejected boolean NOT NULL,
      redelivered boolean NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      -- Of them those that only the previous key could verify.
      previous_key bigint NOT NULL,
      first_at bigint NOT NULL,
      first_id uuid NOT NULL,
      last_id uuid NOT NULL,
      PRIMARY KEY (hour, flow_id, trigger_key, mode, reason, violations, rejected, redelivered, slot)
    );

    -- How many records there are: what a page's total is read from.
    CREATE TABLE sluice.delivery_totals (
      flow_id text COLLATE "C" NOT NULL,
      reason text NOT NULL,
      rejected boolean NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (flow_id, reason, rejected, slot)
    );

    -- Refused deliveries that are kept, and deliveries that are held: how many, and the bytes that they take.
    CREATE TABLE sluice.kept_sizes (
      kind text NOT NULL,
      slot integer NOT NULL,
      rows bigint NOT NULL,
      bytes bigint NOT NULL,
      PRIMARY KEY (kind, slot)
    );

    -- Runs that ended, by the hour of their start and by that of their end.
    CREATE TABLE sluice.run_starts (
      hour bigint NOT NULL,
      flow_id text COLLATE "C" NOT NULL,
      status text NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (hour, flow_id, status, slot)
    );
    CREATE TABLE sluice.run_ends (
      hour bigint NOT NULL,
      flow_id text COLLATE "C" NOT NULL,
      status text NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (hour, flow_id, status, slot)
    );

    -- How long they took, by the hour of their start. The flow '' is all of them.
    CREATE TABLE sluice.run_durations (
      flow_id text COLLATE "C" NOT NULL,
      hour bigint NOT NULL,
      duration_ms bigint NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (flow_id, hour, duration_ms, slot)
    );

    CREATE TABLE sluice.run_totals (
      flow_id text COLLATE "C" NOT NULL,
      status text NOT NULL,
      slot integer NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (flow_id, status, slot)
    );

    -- The processes that have the database; times are those of its own clock, but for that of the start.
    CREATE TABLE sluice.replicas (
      name text COLLATE "C" PRIMARY KEY,
      -- What its counts go under: see above.
      slot integer NOT NULL,
      version text NOT NULL,
      started_at bigint NOT NULL,
      seen_at bigint NOT NULL,
      clock_offset_ms bigint NOT NULL,
      fingerprint text NOT NULL
    );

    -- What was changed last of each flow that replicas keep in memory, and by which transaction.
    CREATE TABLE sluice.changes (
      flow_id text COLLATE "C" NOT NULL,
      kind text NOT NULL,
      xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
      PRIMARY KEY (flow_id, kind)
    );
    CREATE INDEX changes_by_xid ON sluice.changes (xid);

    -- Row per slot whose number a ping raises: the only proof that the store can write is a write.
    CREATE TABLE sluice.pings (slot integer PRIMARY KEY, count bigint NOT NULL);
  `,
};
