/** Columns of nonces, without those by which each store finds them. */
export const NONCE_COLUMNS = `
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    is_verified boolean NOT NULL,
    header text NOT NULL,
    nonce text NOT NULL,
    alias uuid,
    body_sha256 text NOT NULL,
    -- Null where it started none.
    run_id uuid,
    expires_at bigint NOT NULL`;

/** The same for event ids. */
export const EVENT_ID_COLUMNS = `
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    event_id text NOT NULL,
    run_id uuid NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL`;

export const IDEMPOTENCY_KEY_COLUMNS = `
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    key text NOT NULL,
    body_sha256 text NOT NULL,
    run_id uuid NOT NULL,
    created_at bigint NOT NULL`;

/** Columns of runs, without the id. */
export const RUN_COLUMNS = `
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
    traceparent text`;

/**
 * The tables that both stores have, in PostgreSQL's words, without nonces, event ids, idempotency keys and runs, which
 * each store makes earlier. Text in a comment that begins with `sqlite:` exists only in SQLite.
 */
export const tables = `
  -- Times are milliseconds since the Unix epoch, given by the caller; JSON is text, as the caller wrote it. Keys and
  -- ids sort by their bytes. Ids of runs and deliveries are UUID v7: they grow, so that a new row dirties the last pages
  -- of each index and no other.
  --
  -- Large values come last, so that what only asks where a row stands never reads their pages. For the same reason
  -- tables with large values have row ids in SQLite: a table without them compares whole rows to find one. Among 300
  -- steps that left 0.9 MB each, a look-up by key took 5 ms and takes 0.01.

  CREATE TABLE sluice.flows (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    revision integer NOT NULL,
    is_enabled boolean NOT NULL,
    draining_since bigint,
    -- Whether its deliveries are held, as was said when it was disabled or drained; null where its triggers say.
    holds_deliveries boolean,
    -- Of a flow that was deleted; a deploy brings it back.
    deleted_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;

  CREATE TABLE sluice.revisions (
    flow_id text COLLATE "C" NOT NULL,
    revision integer NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    hash text NOT NULL,
    -- Names the manifest without its name, whatever the order of keys: an earlier revision is known by it.
    digest uuid NOT NULL,
    created_at bigint NOT NULL,
    -- Null where the service deployed a flow of its own.
    source text,
    -- Who deployed it, why, and what it did to who gets in.
    actor text,
    reason text,
    access text NOT NULL,
    -- What was allowed, and what the deploy said of the change.
    overrides text NOT NULL,
    findings text NOT NULL,
    -- Keys of the steps of another type than NoOp, as a JSON array: which steps were retired since is known by it.
    acting_steps text NOT NULL,
    -- Null where retention has removed it.
    snapshot text,
    -- Null where the service deployed a flow of its own.
    needs text,
    PRIMARY KEY (flow_id, revision)
  );
  -- What retention may remove.
  CREATE INDEX revisions_with_snapshot ON sluice.revisions (flow_id, revision) WHERE snapshot IS NOT NULL;

  -- Flows of which a run started with an older revision than the newest: their revisions do not have the order of time.
  CREATE TABLE sluice.unordered_flows (flow_id text COLLATE "C" PRIMARY KEY) /*sqlite: WITHOUT ROWID*/;

  -- Triggers that received before what a trigger receives now, because it was renamed or took their slug: what was accepted
  -- under one of them counts under the new one too. Where a former one receives something else, only what was accepted
  -- before that still counts.
  CREATE TABLE sluice.former_trigger_keys (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    former_flow_id text COLLATE "C" NOT NULL,
    former_key text COLLATE "C" NOT NULL,
    last_seq bigint,
    reused_at bigint,
    PRIMARY KEY (flow_id, trigger_key, former_flow_id, former_key)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX former_trigger_keys_by_former ON sluice.former_trigger_keys (former_flow_id, former_key);

  -- Where each slug led last, in lower case: the trigger, and the last revision of its flow that gave it the slug.
  CREATE TABLE sluice.routes (
    slug text COLLATE "C" PRIMARY KEY,
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    revision integer NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX routes_by_revision ON sluice.routes (flow_id, revision);

  -- Headers that tell the deliveries of a trigger apart, '' where the signed bytes do, and how long nonces of each live.
  CREATE TABLE sluice.nonce_headers (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    header text COLLATE "C" NOT NULL,
    lasts_until bigint NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, header)
  ) /*sqlite: WITHOUT ROWID*/;

  -- How far the time has come that the ends of nonces are stored by; one row, and none before the first start.
  CREATE TABLE sluice.ledger_time (
    id bigint PRIMARY KEY CHECK (id = 1),
    at bigint NOT NULL
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
    -- Grows with each change, so that nobody writes back what they read before another changed it.
    revision integer NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;

  CREATE TABLE sluice.learned_keys (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    scheme text NOT NULL,
    secret bytea NOT NULL,
    sealed_with text,
    learned_at bigint NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;

  -- Keys that triggers have or had, by a name that gives nothing of the key away.
  CREATE TABLE sluice.trigger_keys (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    key_name text COLLATE "C" NOT NULL,
    -- Null once no trigger has it.
    role text,
    role_since bigint NOT NULL,
    first_noted_at bigint NOT NULL,
    noted_at bigint NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, key_name)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX nonces_by_expiry ON sluice.nonces (expires_at);
  CREATE INDEX event_ids_by_expiry ON sluice.event_ids (expires_at);

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
    redelivered_from uuid,
    outcome text,
    -- All that the row takes: what the log's bound counts.
    kept_bytes bigint NOT NULL,
    body_key text,
    request_url text,
    -- Null where the run, or the held delivery, has the same.
    headers text,
    -- Shorter than the results are: see shortResult.
    gate_results text,
    -- Null where the run has it.
    body bytea
  );
  CREATE INDEX deliveries_rejected ON sluice.deliveries (id) WHERE rejected /*sqlite: = 1 */;
  -- A rare reason of one flow, or its refusals, are found without reading all else that it received. These indexes
  -- hold rejected deliveries alone, so that clean ones pay nothing for them.
  CREATE INDEX deliveries_by_reason ON sluice.deliveries (reason, id) WHERE reason IS NOT NULL;
  CREATE INDEX deliveries_by_flow_reason ON sluice.deliveries (flow_id, reason, id) WHERE reason IS NOT NULL;
  CREATE INDEX deliveries_by_flow_rejected ON sluice.deliveries (flow_id, id) WHERE rejected /*sqlite: = 1 */;
  CREATE INDEX deliveries_by_outcome ON sluice.deliveries (outcome, id) WHERE outcome IS NOT NULL;
  -- Those that started no run: what may be judged again, and what is bounded.
  -- Held ones that somebody discarded: what repeats them is accounted for.
  CREATE INDEX deliveries_discarded ON sluice.deliveries (run_id) WHERE strpos(detail, 'held, and discarded by ') = 1;
  CREATE INDEX deliveries_refused ON sluice.deliveries (id, kept_bytes) WHERE run_id IS NULL AND outcome IS NULL;

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
    held_at bigint NOT NULL,
    kept_bytes bigint NOT NULL,
    search_keys text,
    headers text NOT NULL,
    body bytea NOT NULL
  );
  CREATE INDEX held_by_flow ON sluice.held_deliveries (flow_id, seq);
  CREATE INDEX held_by_delivery ON sluice.held_deliveries (delivery_id);
  CREATE INDEX runs_by_time ON sluice.runs (started_at);
  -- A search for the name of a trigger finds its runs at any age.
  CREATE INDEX runs_by_trigger ON sluice.runs (trigger_key, started_at);
  -- Leads from a revision to its newest run; a run is of the newest revision when it starts, so this has the runs of a
  -- flow in the order of their starts too, and the end of a run does not change it.
  CREATE INDEX runs_by_revision ON sluice.runs (flow_id, revision, started_at);
  -- Most runs succeed: those are found by time, the others here.
  CREATE INDEX runs_by_status ON sluice.runs (status, started_at, flow_id) WHERE status <> 'Succeeded';
  CREATE INDEX runs_by_source ON sluice.runs (source_run_id) WHERE source_run_id IS NOT NULL;
  CREATE INDEX runs_by_deadline ON sluice.runs (timeout_at)
    WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL;

  -- Runs that were removed and whose rows are still to be deleted, a slice at a time.
  CREATE TABLE sluice.removed_runs (run_id uuid PRIMARY KEY) /*sqlite: WITHOUT ROWID*/;

  -- What people look for deliveries by, where no run has it: it is kept once, as their bytes are. The value is null where
  -- it is what is compared.
  CREATE TABLE sluice.delivery_keys (
    delivery_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    value text,
    PRIMARY KEY (delivery_id, name)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX delivery_keys_by_value ON sluice.delivery_keys (folded, delivery_id, name);

  -- The revisions of other flows that a run's steps may start; no row for a run whose flow runs none.
  CREATE TABLE sluice.run_pins (
    run_id uuid NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (run_id, flow_id)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX run_pins_by_flow ON sluice.run_pins (flow_id, revision);

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
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX sub_runs_by_parent ON sluice.sub_runs (parent_run_id, step_key, run_id);

  -- Runs whose end nothing waits for any more, and that are to be cancelled.
  CREATE TABLE sluice.orphaned_runs (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id uuid NOT NULL
  );

  CREATE TABLE sluice.steps (
    run_id uuid NOT NULL,
    step_key text COLLATE "C" NOT NULL,
    step_type text COLLATE "C" NOT NULL,
    status text NOT NULL,
    due_at bigint,
    lease_token text,
    -- The replica that leased the step last: in SQLite always the same one.
    lease_owner text,
    -- The run's flow, so that flows take turns without their runs being read; '' where the step was skipped unseen.
    flow_id text COLLATE "C" NOT NULL DEFAULT '',
    -- When the time limit of a waiting step is up.
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
    -- The revision that the inputs of the last attempt came from.
    inputs_revision integer,
    error text,
    -- What a waiting step keeps between two looks, as { state }; null where it does not wait.
    wait text,
    evaluation_trace text,
    input text,
    output text,
    PRIMARY KEY (run_id, step_key)
  ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
  -- A flow's due steps by type, and the few that must run alone in an index of their own.
  CREATE INDEX steps_due ON sluice.steps (status, flow_id, step_type, due_at, run_id, step_key)
    WHERE due_at IS NOT NULL AND deaths < 2;
  CREATE INDEX steps_suspect ON sluice.steps (due_at, run_id, step_key) WHERE due_at IS NOT NULL AND deaths >= 2;
  CREATE INDEX steps_by_limit ON sluice.steps (limit_at, run_id, step_key) WHERE limit_at IS NOT NULL;
  -- What the steps of a run wait for. A step that was not tried yet waits for a slot alone.
  CREATE INDEX steps_waiting ON sluice.steps (
    (CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
      WHEN strpos(wait, '"secretWait":') > 0 THEN 'secret'
      WHEN strpos(wait, '"hostTurn":"') > 0 THEN 'host' WHEN strpos(wait, '"lastPoll":') > 0 THEN 'poll'
      WHEN strpos(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END),
    run_id, due_at, flow_id
  ) WHERE status = 'Pending';
  -- Why a run failed, and which failures it got over; what failed within a loop the loop's own error says.
  CREATE INDEX steps_failed ON sluice.steps (run_id, completed_at, flow_id, step_key)
    WHERE status = 'Failed' AND strpos(step_key, '.') = 0;

  CREATE TABLE sluice.attempts (
    run_id uuid NOT NULL,
    step_key text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    status text NOT NULL,
    -- When the attempt could have begun, had a slot been free.
    due_at bigint NOT NULL,
    started_at bigint NOT NULL,
    completed_at bigint,
    inputs_revision integer,
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
    delivered_at bigint NOT NULL,
    step_key text COLLATE "C",
    body text
  );
  CREATE INDEX signals_by_run ON sluice.signals (run_id, name);

  -- Counts that cannot be true are refused instead of kept: a loop once "succeeded" with -1 failures.
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
  ) /*sqlite: WITHOUT ROWID*/;
  -- The items from first_index on: a child reads the chunk that its own is in.
  CREATE TABLE sluice.loop_items (
    run_id uuid NOT NULL,
    step_key text COLLATE "C" NOT NULL,
    first_index integer NOT NULL,
    items text NOT NULL,
    PRIMARY KEY (run_id, step_key, first_index)
  );

  -- Hosts that are not asked now.
  CREATE TABLE sluice.host_circuits (
    queue text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    circuit text NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;
  -- Requests under way where so many may be at once: each has a number from 1 on.
  CREATE TABLE sluice.host_places (
    queue text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    owner text COLLATE "C" NOT NULL,
    held_until bigint NOT NULL,
    PRIMARY KEY (queue, place)
  ) /*sqlite: WITHOUT ROWID*/;

  -- What people and programs did to the service: a chain of rows that are never changed. Ids are in the order of time; the
  -- newest row of an id says all of it.
  CREATE TABLE sluice.interventions (
    seq bigint PRIMARY KEY,
    id uuid NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    client_ip text,
    action text NOT NULL,
    target_type text,
    target_id text COLLATE "C",
    reason text,
    -- Null while it is under way.
    status_code integer,
    details text NOT NULL,
    -- Of the key that made the hash; null without one.
    key_id text,
    previous_hash text NOT NULL,
    hash text NOT NULL
  );
  CREATE INDEX interventions_by_id ON sluice.interventions (id, seq);
  CREATE INDEX interventions_by_target ON sluice.interventions (target_id) WHERE target_id IS NOT NULL;

  -- The ends of the chain: the last row that was removed, and the newest. Its lock orders those who add.
  CREATE TABLE sluice.intervention_ends (
    id integer PRIMARY KEY CHECK (id = 1),
    removed_seq bigint NOT NULL,
    removed_hash text NOT NULL,
    newest_seq bigint NOT NULL,
    newest_hash text NOT NULL,
    key_id text,
    seal text NOT NULL
  );

  -- Sessions of the dashboard that were logged out before their time.
  CREATE TABLE sluice.ended_sessions (
    id uuid PRIMARY KEY,
    lasts_until bigint NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;

  -- Credentials of the dashboard that are in force, and since when: sessions from before have ended. What is kept of a token
  -- only tells whether it was replaced.
  CREATE TABLE sluice.credentials_in_force (
    id text COLLATE "C" PRIMARY KEY,
    mark text NOT NULL,
    since bigint NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;

  -- What the service proves to itself with, such as that a plan is its own. Made at the first use.
  CREATE TABLE sluice.service_secrets (
    name text COLLATE "C" PRIMARY KEY,
    secret bytea NOT NULL
  ) /*sqlite: WITHOUT ROWID*/;

  -- What those who tell people of failures remember; no row where nobody is told.
  CREATE TABLE sluice.alert_state (
    id integer PRIMARY KEY CHECK (id = 1),
    version bigint NOT NULL,
    state text NOT NULL
  );
  -- Runs that failed and that nobody was told of yet.
  CREATE TABLE sluice.failed_run_notices (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id uuid NOT NULL
  );

  -- What deliveries had at the paths that their flows read, by the hour. An event of '' is none; others begin with '='.
  CREATE TABLE sluice.payload_paths (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    first_id uuid NOT NULL,
    last_id uuid NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, event, path, hour, type)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX payload_paths_by_hour ON sluice.payload_paths (hour);
  -- Up to which delivery each trigger was looked at, and what was found.
  CREATE TABLE sluice.payload_watches (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    last_id uuid NOT NULL,
    drifts text NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;

  -- Counts. A flow, trigger or reason that is null stands as ''. The slot belongs to one replica's connection, so that
  -- commits of different replicas never wait for each other's row; readers add the slots up.

  -- The ids are the first and the last of the minute: records are found by them.
  CREATE TABLE sluice.delivery_counts (
    minute bigint NOT NULL,
    reason text NOT NULL,
    rejected boolean NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    first_id uuid NOT NULL,
    last_id uuid NOT NULL,
    PRIMARY KEY (minute, reason, rejected, slot)
  ) /*sqlite: WITHOUT ROWID*/;

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
  ) /*sqlite: WITHOUT ROWID*/;

  -- Accepted deliveries by the key that verified them. Hour 0 is all that was counted before the hours that are kept.
  CREATE TABLE sluice.key_hours (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    key_name text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    last_at bigint NOT NULL,
    last_id uuid NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, key_name, hour, slot)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX key_hours_by_hour ON sluice.key_hours (hour);

  -- How many records there are: what a page's total is read from.
  CREATE TABLE sluice.delivery_totals (
    flow_id text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    rejected boolean NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (flow_id, reason, rejected, slot)
  ) /*sqlite: WITHOUT ROWID*/;

  -- Runs that ended, by the hour of their start and by that of their end.
  CREATE TABLE sluice.run_starts (
    hour bigint NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (hour, flow_id, status, slot)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE TABLE sluice.run_ends (
    hour bigint NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (hour, flow_id, status, slot)
  ) /*sqlite: WITHOUT ROWID*/;

  -- How long they took, by the hour of their start. The flow '' is all of them: a month of every flow would else be
  -- hundreds of thousands of rows.
  CREATE TABLE sluice.run_durations (
    flow_id text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    duration_ms bigint NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (flow_id, hour, duration_ms, slot)
  ) /*sqlite: WITHOUT ROWID*/;

  CREATE TABLE sluice.run_totals (
    flow_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    slot integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (flow_id, status, slot)
  ) /*sqlite: WITHOUT ROWID*/;
`;

const SQLITE_TYPES: Readonly<Record<string, string>> = {
  text: 'TEXT',
  uuid: 'TEXT',
  bigint: 'INTEGER',
  integer: 'INTEGER',
  boolean: 'BOOLEAN',
  bytea: 'BLOB',
  'double precision': 'REAL',
};

/**
 * The same in SQLite's words. The declared types say how values are decoded: a BOOLEAN is stored as 0 or 1. STRICT
 * tables would refuse that type. Counts have no slot: one process writes them.
 */
export function toSqlite(text: string): string {
  return text
    .replace(/\/\*sqlite: (.*?)\*\//g, '$1')
    .replace(/ *\bslot integer NOT NULL,\n/g, '')
    .replaceAll(', slot)', ')')
    .replace(/\bsluice\.| COLLATE "C"| GENERATED ALWAYS AS IDENTITY| WITH \(.*\)(?=;)/g, '')
    .replaceAll('strpos(', 'instr(')
    .replace(/\b(?:text|uuid|bigint|integer|boolean|bytea|double precision)\b/g, (type) => SQLITE_TYPES[type] ?? type)
    .replace(/\b(TEXT|INTEGER) PRIMARY KEY/g, '$1 NOT NULL PRIMARY KEY');
}
