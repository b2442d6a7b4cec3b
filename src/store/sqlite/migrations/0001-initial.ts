import {
  EVENT_ID_COLUMNS,
  IDEMPOTENCY_KEY_COLUMNS,
  NONCE_COLUMNS,
  RUN_COLUMNS,
  tables,
  toSqlite,
} from '../../migrations/0001-tables.ts';

const before = `
  -- Appended to and found by hash; NonceIndex says why no index holds the nonce itself.
  CREATE TABLE nonces (
    seq INTEGER NOT NULL PRIMARY KEY,
    hash INTEGER NOT NULL,${NONCE_COLUMNS}
  );
  CREATE TABLE nonce_index (hash INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (hash, seq)) WITHOUT ROWID;
  CREATE TABLE nonce_index_state (id INTEGER PRIMARY KEY CHECK (id = 1), indexed_to INTEGER NOT NULL);
  INSERT INTO nonce_index_state (id, indexed_to) VALUES (1, 0);
  -- Apart from nonces: they live for weeks where nonces live for minutes, and the index is cleared out in order of age.
  CREATE TABLE event_ids (
    seq INTEGER NOT NULL PRIMARY KEY,
    hash INTEGER NOT NULL,${EVENT_ID_COLUMNS}
  );
  CREATE TABLE event_id_index (hash INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (hash, seq)) WITHOUT ROWID;
  CREATE TABLE event_id_index_state (id INTEGER PRIMARY KEY CHECK (id = 1), indexed_to INTEGER NOT NULL);
  INSERT INTO event_id_index_state (id, indexed_to) VALUES (1, 0);

  CREATE TABLE idempotency_keys (${IDEMPOTENCY_KEY_COLUMNS},
    PRIMARY KEY (flow_id, trigger_key, key)
  ) WITHOUT ROWID;

  -- What controls a run stands in its row: one table fewer per acceptance.
  CREATE TABLE runs (
    -- In the order of insertion; no VACUUM changes it.
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,${RUN_COLUMNS}
  );
  -- What runs were started by. Apart from them: a run's row changes as it ends, and is written anew with all that it has.
  CREATE TABLE run_input_rows (
    seq INTEGER PRIMARY KEY,
    content_type TEXT,
    -- What people look for it by, as JSON: a list of name, what is compared, and the value where that differs. A table
    -- would be three pages more of each commit.
    search_keys TEXT,
    headers TEXT NOT NULL,
    body BLOB NOT NULL
  );
  CREATE VIEW run_inputs AS SELECT r.id AS run_id, i.content_type, i.headers, i.body
    FROM runs r CROSS JOIN run_input_rows i ON i.seq = r.seq;
  CREATE TRIGGER run_input_added INSTEAD OF INSERT ON run_inputs BEGIN
    INSERT INTO run_input_rows (seq, content_type, headers, body)
    SELECT seq, new.content_type, new.headers, new.body FROM runs WHERE id = new.run_id;
  END;
  CREATE VIEW run_keys AS
    SELECT r.id AS run_id, CAST(k.value ->> 0 AS TEXT) AS name, CAST(k.value ->> 1 AS TEXT) AS folded,
      CAST(k.value ->> 2 AS TEXT) AS value
    FROM runs r CROSS JOIN run_input_rows i ON i.seq = r.seq CROSS JOIN json_each(i.search_keys) k;
  CREATE TRIGGER run_key_added INSTEAD OF INSERT ON run_keys BEGIN
    UPDATE run_input_rows
    SET search_keys = json_insert(coalesce(search_keys, '[]'), '$[#]', json_array(new.name, new.folded, new.value))
    WHERE seq = (SELECT seq FROM runs WHERE id = new.run_id);
  END;
  CREATE TRIGGER run_input_deleted AFTER DELETE ON runs BEGIN
    DELETE FROM run_input_rows WHERE seq = old.seq;
  END;
`;

const after = `
  -- What a filter asks for stands in the index, so that rows that are skipped are not read: a page after 900 000
  -- accepted deliveries took 360 ms and takes 15.
  CREATE INDEX deliveries_by_flow ON deliveries (flow_id, id, rejected);
  CREATE UNIQUE INDEX deliveries_redelivered ON deliveries (redelivered_from) WHERE redelivered_from IS NOT NULL;

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

  -- Steps that wait for the turn of a host, by queue. Its key holds no character that JSON escapes.
  CREATE INDEX steps_of_host ON steps (
    substr(wait, instr(wait, '"hostTurn":"') + 12, instr(substr(wait, instr(wait, '"hostTurn":"') + 12), '"') - 1),
    due_at
  ) WHERE status = 'Pending' AND instr(wait, '"hostTurn":"') > 0;

  -- What failed with a code: a code holds no character that JSON escapes.
  CREATE INDEX steps_failed_by_code ON steps (
    substr(error, instr(error, '"code":"') + 8, instr(substr(error, instr(error, '"code":"') + 8), '"') - 1),
    run_id, flow_id, step_key
  ) WHERE status = 'Failed' AND instr(step_key, '.') = 0;

  -- A trigger, so that no way to end a run can forget to tell.
  CREATE TRIGGER note_failed_run AFTER UPDATE OF status ON runs
  WHEN NEW.status IN ('Failed', 'TimedOut') AND OLD.status = 'Running' BEGIN
    INSERT INTO failed_run_notices (run_id) SELECT NEW.id WHERE EXISTS (SELECT 1 FROM alert_state);
  END;

  -- What batches counted, until it is added to the tables of counts.
  CREATE TABLE count_changes (seq INTEGER PRIMARY KEY, changes TEXT NOT NULL);

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

  -- One row whose number a ping raises: the only proof that the store can write is a write.
  CREATE TABLE pings (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL);
  INSERT INTO pings (id, count) VALUES (1, 0);
`;

export const initial = { version: 1, name: 'initial of 2026-11-27', sql: toSqlite(before + tables) + after };
