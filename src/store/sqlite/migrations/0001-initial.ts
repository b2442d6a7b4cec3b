export const initial = {
  version: 1,
  name: 'initial',
  sql: `
    CREATE TABLE flows (
      id TEXT NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      version TEXT NOT NULL,
      revision INTEGER NOT NULL,
      is_enabled INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE revisions (
      flow_id TEXT NOT NULL,
      revision INTEGER NOT NULL,
      version TEXT NOT NULL,
      hash TEXT NOT NULL,
      snapshot TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      PRIMARY KEY (flow_id, revision)
    );

    -- Ids are UUID v7: they grow, so that a new row dirties the last page of each index and no other.
    CREATE TABLE deliveries (
      id TEXT NOT NULL PRIMARY KEY,
      flow_id TEXT,
      trigger_key TEXT,
      received_at INTEGER NOT NULL,
      client_ip TEXT NOT NULL,
      mode TEXT NOT NULL,
      scheme TEXT,
      rejected INTEGER NOT NULL,
      enforced INTEGER NOT NULL,
      status_code INTEGER NOT NULL,
      reason TEXT,
      violations TEXT NOT NULL,
      detail TEXT,
      body_bytes INTEGER NOT NULL,
      processing_ms REAL NOT NULL,
      run_id TEXT,
      used_previous_key INTEGER NOT NULL,
      headers TEXT NOT NULL,
      body BLOB
    );
    CREATE INDEX deliveries_by_flow ON deliveries (flow_id, id);
    CREATE INDEX deliveries_by_reason ON deliveries (reason, id) WHERE reason IS NOT NULL;
    CREATE INDEX deliveries_rejected ON deliveries (id) WHERE rejected = 1;
    CREATE INDEX deliveries_by_time ON deliveries (received_at, rejected, reason);

    -- Appended to and found by hash; NonceIndex says why no index holds the nonce itself.
    CREATE TABLE nonces (
      seq INTEGER NOT NULL PRIMARY KEY,
      hash INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      nonce TEXT NOT NULL,
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
      run_id TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      PRIMARY KEY (flow_id, trigger_key, key)
    ) WITHOUT ROWID;

    -- What controls a run stands in its row: one table fewer per acceptance. The body comes last, so that lists never
    -- read its pages.
    CREATE TABLE runs (
      id TEXT NOT NULL PRIMARY KEY,
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
      traceparent TEXT,
      trigger_content_type TEXT,
      trigger_headers TEXT NOT NULL,
      trigger_body BLOB NOT NULL
    );
    CREATE INDEX runs_by_time ON runs (started_at);
    CREATE INDEX runs_by_flow ON runs (flow_id, started_at);
    -- Most runs succeed: those are found by time, the others here.
    CREATE INDEX runs_by_status ON runs (status, started_at) WHERE status <> 'Succeeded';

    CREATE TABLE steps (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      step_type TEXT NOT NULL,
      status TEXT NOT NULL,
      due_at INTEGER,
      lease_token TEXT,
      interruptions INTEGER NOT NULL DEFAULT 0,
      attempt_count INTEGER NOT NULL DEFAULT 0,
      input TEXT,
      output TEXT,
      error TEXT,
      skip_reason TEXT,
      evaluation_trace TEXT,
      started_at INTEGER,
      completed_at INTEGER,
      PRIMARY KEY (run_id, step_key)
    ) WITHOUT ROWID;
    CREATE INDEX steps_due ON steps (due_at) WHERE due_at IS NOT NULL;

    CREATE TABLE attempts (
      run_id TEXT NOT NULL,
      step_key TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      status TEXT NOT NULL,
      input TEXT,
      output TEXT,
      error TEXT,
      started_at INTEGER NOT NULL,
      completed_at INTEGER,
      PRIMARY KEY (run_id, step_key, attempt)
    ) WITHOUT ROWID;

    -- One row whose number a ping raises: the only proof that the store can write is a write.
    CREATE TABLE pings (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL);
    INSERT INTO pings (id, count) VALUES (1, 0);
  `,
};
