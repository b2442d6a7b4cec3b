const tables = `
  -- Times are milliseconds since the Unix epoch, given by the caller; JSON is text. Ids of runs and deliveries are UUID
  -- v7: they grow, so that a new row dirties the last page of each index and no other. The declared types say how
  -- values are decoded: a BOOLEAN is stored as 0 or 1. STRICT tables would refuse that type.
  --
  -- Large values come last, so that what only asks where a row stands never reads their pages. For the same reason
  -- tables with large values have row ids: a table without them compares whole rows to find one. Among 300 steps that
  -- left 0.9 MB each, a look-up by key took 5 ms and takes 0.01.

  CREATE TABLE flows (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    revision INTEGER NOT NULL,
    is_enabled BOOLEAN NOT NULL,
    draining_since INTEGER,
    -- Of a flow that was deleted; a deploy brings it back.
    deleted_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE revisions (
    flow_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    hash TEXT NOT NULL,
    -- Names the manifest without its name, whatever the order of keys: an earlier revision is known by it.
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Null where the service deployed a flow of its own.
    source TEXT,
    -- Who deployed it, why, and what it did to who gets in.
    actor TEXT,
    reason TEXT,
    access TEXT NOT NULL,
    -- What was allowed, and what the deploy said of the change.
    overrides TEXT NOT NULL,
    findings TEXT NOT NULL,
    -- Keys of the steps of another type than NoOp, as a JSON array: which steps were retired since is known by it.
    acting_steps TEXT NOT NULL,
    -- Null where retention has removed it.
    snapshot TEXT,
    -- Null where the service deployed a flow of its own.
    needs TEXT,
    PRIMARY KEY (flow_id, revision)
  );
  -- What retention may remove.
  CREATE INDEX revisions_with_snapshot ON revisions (flow_id, revision) WHERE snapshot IS NOT NULL;

  -- Flows of which a run started with an older revision than the newest: their revisions do not have the order of time.
  CREATE TABLE unordered_flows (flow_id TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;

  -- Triggers that received before what a trigger receives now, because it was renamed or took their slug: what was accepted
  -- under one of them counts under the new one too. Where a former one receives something else, only what was accepted
  -- before that still counts.
  CREATE TABLE former_trigger_keys (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    former_flow_id TEXT NOT NULL,
    former_key TEXT NOT NULL,
    last_seq INTEGER,
    reused_at INTEGER,
    PRIMARY KEY (flow_id, trigger_key, former_flow_id, former_key)
  ) WITHOUT ROWID;
  CREATE INDEX former_trigger_keys_by_former ON former_trigger_keys (former_flow_id, former_key);

  -- Where each slug led last, in lower case: the trigger, and the last revision of its flow that gave it the slug.
  CREATE TABLE routes (
    slug TEXT NOT NULL PRIMARY KEY,
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    revision INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX routes_by_revision ON routes (flow_id, revision);

  -- Headers that tell the deliveries of a trigger apart, '' where the signed bytes do, and how long nonces of each live.
  CREATE TABLE nonce_headers (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    header TEXT NOT NULL,
    lasts_until INTEGER NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, header)
  ) WITHOUT ROWID;

  -- How far the time has come that the ends of nonces are stored by; one row, and none before the first start.
  CREATE TABLE ledger_time (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL
  );

  CREATE TABLE flow_schedules (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    cron TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    -- An operator's expression in place of the manifest's.
    cron_override TEXT,
    paused BOOLEAN NOT NULL,
    next_at INTEGER,
    last_at INTEGER,
    -- Grows with each change, so that nobody writes back what they read before another changed it.
    revision INTEGER NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) WITHOUT ROWID;

  CREATE TABLE learned_keys (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    scheme TEXT NOT NULL,
    secret BLOB NOT NULL,
    sealed_with TEXT,
    learned_at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) WITHOUT ROWID;

  -- Keys that triggers have or had, by a name that gives nothing of the key away.
  CREATE TABLE trigger_keys (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    key_name TEXT NOT NULL,
    -- Null once no trigger has it.
    role TEXT,
    role_since INTEGER NOT NULL,
    first_noted_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, key_name)
  ) WITHOUT ROWID;

  -- Appended to and found by hash; NonceIndex says why no index holds the nonce itself.
  CREATE TABLE nonces (
    seq INTEGER NOT NULL PRIMARY KEY,
    hash INTEGER NOT NULL,
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    is_verified BOOLEAN NOT NULL,
    header TEXT NOT NULL,
    nonce TEXT NOT NULL,
    alias TEXT,
    body_sha256 TEXT NOT NULL,
    run_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  );
  CREATE INDEX nonces_by_expiry ON nonces (expires_at);
  CREATE TABLE nonce_index (hash INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (hash, seq)) WITHOUT ROWID;
  CREATE TABLE nonce_index_state (id INTEGER PRIMARY KEY CHECK (id = 1), indexed_to INTEGER NOT NULL);
  INSERT INTO nonce_index_state (id, indexed_to) VALUES (1, 0);

  CREATE TABLE idempotency_keys (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    key TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, key)
  ) WITHOUT ROWID;

  CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    flow_id TEXT,
    trigger_key TEXT,
    received_at INTEGER NOT NULL,
    client_ip TEXT NOT NULL,
    mode TEXT NOT NULL,
    scheme TEXT,
    rejected BOOLEAN NOT NULL,
    enforced BOOLEAN NOT NULL,
    status_code INTEGER NOT NULL,
    reason TEXT,
    violations TEXT NOT NULL,
    detail TEXT,
    body_bytes INTEGER NOT NULL,
    processing_ms REAL NOT NULL,
    run_id TEXT,
    used_previous_key BOOLEAN NOT NULL,
    redelivered_from TEXT,
    -- All that the row takes: what the log's bound counts.
    kept_bytes INTEGER NOT NULL,
    body_key TEXT,
    request_url TEXT,
    -- Null where the run, or the held delivery, has the same.
    headers TEXT,
    -- Shorter than the results are: see shortResult.
    gate_results TEXT,
    -- Null where the run has it.
    body BLOB
  );
  -- What a filter asks for stands in the index, so that rows that are skipped are not read: a page after 900 000
  -- accepted deliveries took 360 ms and takes 15.
  CREATE INDEX deliveries_by_flow ON deliveries (flow_id, id, rejected);
  CREATE INDEX deliveries_by_rejected ON deliveries (rejected, id);
  -- A rare reason of one flow, or its refusals, are found without reading all else that it received. These indexes
  -- hold rejected deliveries alone, so that clean ones pay nothing for them.
  CREATE INDEX deliveries_by_reason ON deliveries (reason, id) WHERE reason IS NOT NULL;
  CREATE INDEX deliveries_by_flow_reason ON deliveries (flow_id, reason, id) WHERE reason IS NOT NULL;
  CREATE INDEX deliveries_by_flow_rejected ON deliveries (flow_id, id) WHERE rejected = 1;
  -- Those that started no run: what may be judged again, and what is bounded.
  CREATE INDEX deliveries_refused ON deliveries (id, kept_bytes) WHERE run_id IS NULL;
  CREATE UNIQUE INDEX deliveries_redelivered ON deliveries (redelivered_from) WHERE redelivered_from IS NOT NULL;

  -- Accepted deliveries whose runs are to start later, in order of arrival.
  CREATE TABLE held_deliveries (
    seq INTEGER NOT NULL PRIMARY KEY,
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    delivery_id TEXT,
    idempotency_key TEXT,
    traceparent TEXT,
    content_type TEXT,
    held_at INTEGER NOT NULL,
    kept_bytes INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL
  );
  CREATE INDEX held_by_flow ON held_deliveries (flow_id, seq);
  CREATE INDEX held_by_delivery ON held_deliveries (delivery_id);

  -- What controls a run stands in its row: one table fewer per acceptance.
  CREATE TABLE runs (
    -- In the order of insertion; no VACUUM changes it.
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    flow_id TEXT NOT NULL,
    flow_name TEXT NOT NULL,
    flow_version TEXT NOT NULL,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    trigger_type TEXT NOT NULL,
    delivery_id TEXT,
    source_run_id TEXT,
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    idempotency_key TEXT,
    timeout_at INTEGER,
    cancel_requested_at INTEGER,
    cancel_reason TEXT,
    timed_out_at INTEGER,
    traceparent TEXT
  );
  -- What runs were started by. Apart from them: a run's row changes as it ends, and is written anew with all that it has.
  CREATE TABLE run_input_rows (
    seq INTEGER PRIMARY KEY,
    content_type TEXT,
    headers TEXT NOT NULL,
    body BLOB NOT NULL
  );
  CREATE VIEW run_inputs AS SELECT r.id AS run_id, i.content_type, i.headers, i.body
    FROM runs r CROSS JOIN run_input_rows i ON i.seq = r.seq;
  CREATE TRIGGER run_input_added INSTEAD OF INSERT ON run_inputs BEGIN
    INSERT INTO run_input_rows (seq, content_type, headers, body)
    SELECT seq, new.content_type, new.headers, new.body FROM runs WHERE id = new.run_id;
  END;
  CREATE TRIGGER run_input_deleted AFTER DELETE ON runs BEGIN
    DELETE FROM run_input_rows WHERE seq = old.seq;
  END;
  CREATE INDEX runs_by_time ON runs (started_at);
  -- Leads from a revision to its newest run; a run is of the newest revision when it starts, so this has the runs of a
  -- flow in the order of their starts too, and the end of a run does not change it.
  CREATE INDEX runs_by_revision ON runs (flow_id, revision, started_at);
  -- Most runs succeed: those are found by time, the others here.
  CREATE INDEX runs_by_status ON runs (status, started_at, flow_id) WHERE status <> 'Succeeded';
  CREATE INDEX runs_by_source ON runs (source_run_id) WHERE source_run_id IS NOT NULL;
  CREATE INDEX runs_by_deadline ON runs (timeout_at)
    WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL;

  -- Runs that were removed and whose rows are still to be deleted, a slice at a time.
  CREATE TABLE removed_runs (run_id TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;

  -- What people look for runs and deliveries by. Tables of their own, so that whoever names no keys pays nothing. What
  -- a run was started by is kept with the run alone, as its bytes are. The value is null where it is what is compared.
  CREATE TABLE run_keys (
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    value TEXT,
    PRIMARY KEY (run_id, name)
  ) WITHOUT ROWID;
  -- Finds runs by their keys; a segment has those of the runs after the segment before, up to its last one. The file
  -- key-index.ts says why.
  CREATE TABLE run_key_index (
    segment INTEGER NOT NULL,
    folded TEXT NOT NULL,
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (segment, folded, run, name)
  ) WITHOUT ROWID;
  CREATE TABLE run_key_segments (segment INTEGER NOT NULL PRIMARY KEY, last_run INTEGER NOT NULL);
  CREATE INDEX run_key_segments_by_run ON run_key_segments (last_run);
  CREATE TABLE delivery_keys (
    delivery_id TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    value TEXT,
    PRIMARY KEY (delivery_id, name)
  ) WITHOUT ROWID;
  CREATE INDEX delivery_keys_by_value ON delivery_keys (folded, delivery_id, name);
  -- Records are deleted in several places; none of them can forget the keys.

  -- The revisions of other flows that a run's steps may start; no row for a run whose flow runs none.
  CREATE TABLE run_pins (
    run_id TEXT NOT NULL,
    flow_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (run_id, flow_id)
  ) WITHOUT ROWID;
  CREATE INDEX run_pins_by_flow ON run_pins (flow_id, revision);

  -- Runs that steps of other runs started.
  CREATE TABLE sub_runs (
    run_id TEXT NOT NULL PRIMARY KEY,
    parent_run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    is_awaited BOOLEAN NOT NULL,
    depth INTEGER NOT NULL,
    -- When the first of the runs above it started.
    root_started_at INTEGER NOT NULL,
    is_of_failure BOOLEAN NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX sub_runs_by_parent ON sub_runs (parent_run_id, step_key, run_id);

  -- Runs whose end nothing waits for any more, and that are to be cancelled.
  CREATE TABLE orphaned_runs (
    seq INTEGER NOT NULL PRIMARY KEY,
    run_id TEXT NOT NULL
  );

  CREATE TABLE steps (
    run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    step_type TEXT NOT NULL,
    status TEXT NOT NULL,
    due_at INTEGER,
    lease_token TEXT,
    -- The replica that leased the step last: always the same one here.
    lease_owner TEXT,
    -- The run's flow, so that flows take turns without their runs being read; '' where the step was skipped unseen.
    flow_id TEXT NOT NULL DEFAULT '',
    -- When the time limit of a waiting step is up.
    limit_at INTEGER,
    interruptions INTEGER NOT NULL DEFAULT 0,
    -- Processes that died while they ran the step since it last had an outcome, and those of them that ran nothing else.
    deaths INTEGER NOT NULL DEFAULT 0,
    lone_deaths INTEGER NOT NULL DEFAULT 0,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    -- Attempts before the last retry by hand: the step's retry policy counts from there.
    attempt_base INTEGER NOT NULL DEFAULT 0,
    signal_name TEXT,
    skip_reason TEXT,
    started_at INTEGER,
    completed_at INTEGER,
    error TEXT,
    -- What a waiting step keeps between two looks, as { state }; null where it does not wait.
    wait TEXT,
    evaluation_trace TEXT,
    input TEXT,
    output TEXT,
    PRIMARY KEY (run_id, step_key)
  );
  -- A flow's due steps by type, and the few that must run alone in an index of their own.
  CREATE INDEX steps_due ON steps (status, flow_id, step_type, due_at, run_id, step_key)
    WHERE due_at IS NOT NULL AND deaths < 2;
  CREATE INDEX steps_suspect ON steps (due_at, run_id, step_key) WHERE due_at IS NOT NULL AND deaths >= 2;
  CREATE INDEX steps_by_limit ON steps (limit_at, run_id, step_key) WHERE limit_at IS NOT NULL;
  -- What the steps of a run wait for. A step that was not tried yet waits for a slot alone.
  CREATE INDEX steps_waiting ON steps (
    CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
      WHEN instr(wait, '"hostTurn":"') > 0 THEN 'host' WHEN instr(wait, '"lastPoll":') > 0 THEN 'poll'
      WHEN instr(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END,
    run_id, due_at, flow_id
  ) WHERE status = 'Pending';
  -- Steps that wait for the turn of a host, by queue. Its key holds no character that JSON escapes.
  CREATE INDEX steps_of_host ON steps (
    substr(wait, instr(wait, '"hostTurn":"') + 12, instr(substr(wait, instr(wait, '"hostTurn":"') + 12), '"') - 1),
    due_at
  ) WHERE status = 'Pending' AND instr(wait, '"hostTurn":"') > 0;
  -- Why a run failed, and which failures it got over; what failed within a loop the loop's own error says.
  CREATE INDEX steps_failed ON steps (run_id, completed_at) WHERE status = 'Failed' AND instr(step_key, '.') = 0;

  CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    -- When the attempt could have begun, had a slot been free.
    due_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    error TEXT,
    input TEXT,
    output TEXT,
    PRIMARY KEY (run_id, step_key, attempt)
  );

  -- A signal without a step was sent before any step waited for it.
  CREATE TABLE signals (
    id INTEGER NOT NULL PRIMARY KEY,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    delivered_at INTEGER NOT NULL,
    step_key TEXT,
    body TEXT
  );
  CREATE INDEX signals_by_run ON signals (run_id, name);

  -- Counts that cannot be true are refused instead of kept: a loop once "succeeded" with -1 failures.
  CREATE TABLE loops (
    run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    total INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (run_id, step_key),
    CHECK (0 <= failed AND failed <= ended AND ended <= started AND started <= total)
  ) WITHOUT ROWID;
  -- The items from first_index on: a child reads the chunk that its own is in.
  CREATE TABLE loop_items (
    run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    first_index INTEGER NOT NULL,
    items TEXT NOT NULL,
    PRIMARY KEY (run_id, step_key, first_index)
  );

  -- Hosts that are not asked now.
  CREATE TABLE host_circuits (
    queue TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    circuit TEXT NOT NULL
  ) WITHOUT ROWID;
  -- Requests under way where so many may be at once: each has a number from 1 on.
  CREATE TABLE host_places (
    queue TEXT NOT NULL,
    place INTEGER NOT NULL,
    owner TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    PRIMARY KEY (queue, place)
  ) WITHOUT ROWID;

  -- What people and programs did to the service: a chain of rows that are never changed. Ids are in the order of time; the
  -- newest row of an id says all of it.
  CREATE TABLE interventions (
    seq INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    client_ip TEXT,
    action TEXT NOT NULL,
    target_type TEXT,
    target_id TEXT,
    reason TEXT,
    -- Null while it is under way.
    status_code INTEGER,
    details TEXT NOT NULL,
    -- Of the key that made the hash; null without one.
    key_id TEXT,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL
  );
  CREATE INDEX interventions_by_id ON interventions (id, seq);
  CREATE INDEX interventions_by_target ON interventions (target_id) WHERE target_id IS NOT NULL;

  -- The ends of the chain: the last row that was removed, and the newest.
  CREATE TABLE intervention_ends (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    removed_seq INTEGER NOT NULL,
    removed_hash TEXT NOT NULL,
    newest_seq INTEGER NOT NULL,
    newest_hash TEXT NOT NULL,
    key_id TEXT,
    seal TEXT NOT NULL
  );

  -- Sessions of the dashboard that were logged out before their time.
  CREATE TABLE ended_sessions (
    id TEXT NOT NULL PRIMARY KEY,
    lasts_until INTEGER NOT NULL
  ) WITHOUT ROWID;

  -- Credentials of the dashboard that are in force, and since when: sessions from before have ended. What is kept of a token
  -- only tells whether it was replaced.
  CREATE TABLE credentials_in_force (
    id TEXT NOT NULL PRIMARY KEY,
    mark TEXT NOT NULL,
    since INTEGER NOT NULL
  ) WITHOUT ROWID;

  -- What the service proves to itself with, such as that a plan is its own. Made at the first use.
  CREATE TABLE service_secrets (
    name TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL
  ) WITHOUT ROWID;

  -- What those who tell people of failures remember; no row where nobody is told.
  CREATE TABLE alert_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    state TEXT NOT NULL
  );
  -- Runs that failed and that nobody was told of yet.
  CREATE TABLE failed_run_notices (
    seq INTEGER NOT NULL PRIMARY KEY,
    run_id TEXT NOT NULL
  );
  -- A trigger, so that no way to end a run can forget to tell.
  CREATE TRIGGER note_failed_run AFTER UPDATE OF status ON runs
  WHEN NEW.status IN ('Failed', 'TimedOut') AND OLD.status = 'Running' BEGIN
    INSERT INTO failed_run_notices (run_id) SELECT NEW.id WHERE EXISTS (SELECT 1 FROM alert_state);
  END;

  -- What deliveries had at the paths that their flows read, by the hour. An event of '' is none; others begin with '='.
  CREATE TABLE payload_paths (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    event TEXT NOT NULL,
    path TEXT NOT NULL,
    hour INTEGER NOT NULL,
    type TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_id TEXT NOT NULL,
    last_id TEXT NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, event, path, hour, type)
  ) WITHOUT ROWID;
  CREATE INDEX payload_paths_by_hour ON payload_paths (hour);
  -- Up to which delivery each trigger was looked at, and what was found.
  CREATE TABLE payload_watches (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    version INTEGER NOT NULL,
    last_id TEXT NOT NULL,
    drifts TEXT NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) WITHOUT ROWID;

  -- Counts. A flow, trigger or reason that is null stands as ''.

  -- The ids are the first and the last of the minute: records are found by them.
  CREATE TABLE delivery_counts (
    minute INTEGER NOT NULL,
    reason TEXT NOT NULL,
    rejected BOOLEAN NOT NULL,
    count INTEGER NOT NULL,
    first_id TEXT NOT NULL,
    last_id TEXT NOT NULL,
    PRIMARY KEY (minute, reason, rejected)
  ) WITHOUT ROWID;

  -- Deliveries by the hour and by all that figures ask for; they outlive the records that they count.
  CREATE TABLE delivery_hours (
    hour INTEGER NOT NULL,
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    mode TEXT NOT NULL,
    reason TEXT NOT NULL,
    violations TEXT NOT NULL,
    rejected BOOLEAN NOT NULL,
    redelivered BOOLEAN NOT NULL,
    count INTEGER NOT NULL,
    -- Of them those that only the previous key could verify.
    previous_key INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    first_id TEXT NOT NULL,
    last_id TEXT NOT NULL,
    PRIMARY KEY (hour, flow_id, trigger_key, mode, reason, violations, rejected, redelivered)
  ) WITHOUT ROWID;

  -- Accepted deliveries by the key that verified them. Hour 0 is all that was counted before the hours that are kept.
  CREATE TABLE key_hours (
    flow_id TEXT NOT NULL,
    trigger_key TEXT NOT NULL,
    key_name TEXT NOT NULL,
    hour INTEGER NOT NULL,
    count INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    last_id TEXT NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, key_name, hour)
  ) WITHOUT ROWID;
  CREATE INDEX key_hours_by_hour ON key_hours (hour);

  -- How many records there are: what a page's total is read from.
  CREATE TABLE delivery_totals (
    flow_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    rejected BOOLEAN NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (flow_id, reason, rejected)
  ) WITHOUT ROWID;

  -- Refused deliveries that are kept, and deliveries that are held: how many, and the bytes that they take.
  CREATE TABLE refused_state (id INTEGER PRIMARY KEY CHECK (id = 1), rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
  INSERT INTO refused_state (id, rows, bytes) VALUES (1, 0, 0);
  CREATE TABLE held_state (id INTEGER PRIMARY KEY CHECK (id = 1), rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
  INSERT INTO held_state (id, rows, bytes) VALUES (1, 0, 0);
  CREATE TRIGGER held_added AFTER INSERT ON held_deliveries BEGIN
    UPDATE held_state SET rows = rows + 1, bytes = bytes + new.kept_bytes;
  END;
  CREATE TRIGGER held_deleted AFTER DELETE ON held_deliveries BEGIN
    UPDATE held_state SET rows = rows - 1, bytes = bytes - old.kept_bytes;
  END;

  -- Runs that ended, by the hour of their start and by that of their end.
  CREATE TABLE run_starts (
    hour INTEGER NOT NULL,
    flow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, flow_id, status)
  ) WITHOUT ROWID;
  CREATE TABLE run_ends (
    hour INTEGER NOT NULL,
    flow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, flow_id, status)
  ) WITHOUT ROWID;

  -- How long they took, by the hour of their start. The flow '' is all of them: a month of every flow would else be
  -- hundreds of thousands of rows.
  CREATE TABLE run_durations (
    flow_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (flow_id, hour, duration_ms)
  ) WITHOUT ROWID;

  CREATE TABLE run_totals (
    flow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (flow_id, status)
  ) WITHOUT ROWID;

  -- One row whose number a ping raises: the only proof that the store can write is a write.
  CREATE TABLE pings (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL);
  INSERT INTO pings (id, count) VALUES (1, 0);
`;

export const initial = { version: 1, name: 'initial', sql: tables };
