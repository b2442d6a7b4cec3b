import type { SharedMigration } from './migration.ts';

const order: SharedMigration = {
  version: 2,
  name: 'order',
  compatibleFrom: 2,
  locks: ['held_deliveries'],
  sql: `
  -- Runs of flows that run one at a time. Those that have a state are in their lane, in the order of their numbers: the
  -- first may run, or has failed and holds the lane, and the others wait. What has left keeps its key for a retry.
  CREATE TABLE sluice.ordered_runs (
    run_id uuid NOT NULL PRIMARY KEY,
    flow_id text COLLATE "C" NOT NULL,
    -- A digest of flow, key, and whether what started the run was verified.
    lane uuid NOT NULL,
    seq bigint NOT NULL,
    state text,
    is_verified boolean NOT NULL,
    key text,
    -- Why it has no key.
    problem text
  ) /*sqlite: WITHOUT ROWID*/;
  -- Lanes are random: only runs in flight are in it.
  CREATE UNIQUE INDEX ordered_runs_by_lane ON sluice.ordered_runs (lane, seq) WHERE state IS NOT NULL;
  CREATE INDEX ordered_runs_waiting ON sluice.ordered_runs (run_id, flow_id) WHERE state = 'waiting';
  CREATE INDEX ordered_runs_stopped ON sluice.ordered_runs (run_id) WHERE state = 'stopped';
  CREATE INDEX ordered_runs_keyless ON sluice.ordered_runs (run_id, flow_id) WHERE problem IS NOT NULL;

  -- Of what was held before, nobody knows: it does not count as verified.
  ALTER TABLE sluice.held_deliveries ADD COLUMN is_verified boolean NOT NULL DEFAULT false;
`,
};

/** Outcomes of a delivery at the triggers of one slug. */
const sharedDeliveries: SharedMigration = {
  version: 3,
  name: 'delivery shares',
  compatibleFrom: 1,
  sql: `
  CREATE TABLE sluice.delivery_shares (
    delivery_id uuid NOT NULL,
    place bigint NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    run_id uuid,
    outcome text,
    PRIMARY KEY (delivery_id, place)
  ) /*sqlite: WITHOUT ROWID*/;
  -- The first place is that of the record itself, which is found by its own flow.
  CREATE INDEX delivery_shares_by_flow ON sluice.delivery_shares (flow_id, delivery_id) WHERE place > 0;
`,
};

/** Deliveries that share a run. Writes nothing here unless a trigger coalesces. */
const coalescing: SharedMigration = {
  version: 4,
  name: 'coalescing',
  // Earlier releases refuse the manifests that lead to such rows.
  compatibleFrom: 1,
  locks: ['runs', 'held_deliveries'],
  sql: `
  -- How many deliveries a run that waits for more has, or had; null where its trigger does not coalesce.
  ALTER TABLE sluice.runs ADD COLUMN deliveries integer;

  -- The deliveries of such a run in order of arrival, the one that started it first. A body that is null is the run's own.
  CREATE TABLE sluice.run_deliveries (
    run_id uuid NOT NULL,
    place integer NOT NULL,
    delivery_id uuid,
    received_at bigint NOT NULL,
    idempotency_key text,
    content_type text,
    headers text,
    body bytea,
    PRIMARY KEY (run_id, place)
  );

  -- The run that the next delivery of a key joins, unless it has started or ended since. The digest names flow, trigger,
  -- key, and whether the deliveries are verified.
  CREATE TABLE sluice.coalesce_groups (
    digest uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    revision integer NOT NULL,
    deliveries integer NOT NULL,
    bytes bigint NOT NULL,
    due_at bigint NOT NULL,
    until_at bigint NOT NULL,
    -- The flow, while its deliveries are held.
    held_by text COLLATE "C"
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX coalesce_groups_by_run ON sluice.coalesce_groups (run_id);
  CREATE INDEX coalesce_groups_by_end ON sluice.coalesce_groups (until_at);
  CREATE INDEX coalesce_groups_held ON sluice.coalesce_groups (held_by) WHERE held_by IS NOT NULL;

  -- Whether a held delivery joins the run of one that was held before it.
  ALTER TABLE sluice.held_deliveries ADD COLUMN joins boolean NOT NULL DEFAULT false;
  CREATE INDEX held_that_join ON sluice.held_deliveries (run_id) WHERE joins /*sqlite: = 1 */;
`,
};

const rhythms: SharedMigration = {
  version: 5,
  name: 'rhythms',
  compatibleFrom: 1,
  sql: `
  -- When verified deliveries came, by the hour. An event of '' is all of them; others begin with '='.
  CREATE TABLE sluice.arrival_hours (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    count bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    longest_gap_ms bigint NOT NULL,
    PRIMARY KEY (flow_id, trigger_key, event, hour)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX arrival_hours_by_hour ON sluice.arrival_hours (hour);
  -- Up to which delivery each trigger was counted, and what was found.
  CREATE TABLE sluice.rhythms (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    last_id uuid NOT NULL,
    last_at bigint,
    state text NOT NULL,
    found text NOT NULL,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;
  -- Times in which no process had the database.
  CREATE TABLE sluice.downtimes (
    ended_at bigint NOT NULL PRIMARY KEY,
    started_at bigint NOT NULL,
    offset_ms bigint NOT NULL
  );
`,
};

const consumersOfDeliveries: SharedMigration = {
  version: 6,
  name: 'consumers',
  compatibleFrom: 1,
  locks: ['runs'],
  sql: `
  -- Who has deliveries forwarded, and how far they have come.
  CREATE TABLE sluice.consumers (
    name text COLLATE "C" PRIMARY KEY,
    -- What is forwarded; null for the deliveries of all flows, or of all triggers of the flow.
    flow_id text COLLATE "C",
    trigger_key text COLLATE "C",
    -- The last delivery that was forwarded, or an id of the time to begin at.
    delivery_id uuid NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL,
    -- Where the run of that delivery stands in the order of commits; null where no one knows, as in a copy.
    position bigint
  ) /*sqlite: WITHOUT ROWID*/;
`,
  ofPostgres: `
  -- The transaction that inserted it: the order in which runs can be seen. An id is made before its run is committed, so
  -- that one behind it may be seen first.
  ALTER TABLE sluice.runs ADD COLUMN xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX runs_by_commit ON sluice.runs (xid, delivery_id) WHERE delivery_id IS NOT NULL;
`,
};

const joinedDeliveries: SharedMigration = {
  version: 7,
  name: 'joined deliveries',
  compatibleFrom: 1,
  locks: ['run_deliveries', 'consumers'],
  sql: `
  -- The last delivery that joined the run of another and was forwarded, where those have numbers of their own.
  ALTER TABLE sluice.consumers ADD COLUMN joined bigint NOT NULL DEFAULT 0;
  CREATE INDEX run_deliveries_that_joined ON sluice.run_deliveries (delivery_id) WHERE place > 1;
`,
  ofPostgres: `
  -- The transaction that inserted it, as of a run. What has joined before is not forwarded.
  ALTER TABLE sluice.run_deliveries ADD COLUMN xid bigint;
  ALTER TABLE sluice.run_deliveries ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint;
  CREATE INDEX run_deliveries_by_commit ON sluice.run_deliveries (xid, delivery_id) WHERE place > 1;
`,
  ofSqlite: `
  -- The newest run as it joined, and a number that grows. What has joined before has neither, and is not forwarded.
  ALTER TABLE run_deliveries ADD COLUMN position INTEGER;
  ALTER TABLE run_deliveries ADD COLUMN joined INTEGER;
  CREATE INDEX run_deliveries_by_commit ON run_deliveries (joined);
  CREATE INDEX consumers_by_joined ON consumers (joined);
`,
};

const reconciliations: SharedMigration = {
  version: 8,
  name: 'reconciliations',
  compatibleFrom: 1,
  sql: `
  -- Who asks the publisher of a trigger what it sent, until when, and what came of it.
  CREATE TABLE sluice.reconciliations (
    flow_id text COLLATE "C" NOT NULL,
    trigger_key text COLLATE "C" NOT NULL,
    -- Null where nobody asks now.
    owner text COLLATE "C",
    leased_until bigint NOT NULL,
    last_at bigint,
    state text,
    PRIMARY KEY (flow_id, trigger_key)
  ) /*sqlite: WITHOUT ROWID*/;
`,
};

const slugs: SharedMigration = {
  version: 9,
  name: 'slugs',
  compatibleFrom: 1,
  sql: `
  -- Flows that had a slug, in lower case, in any revision deployed since: one that shares it has no row in routes.
  CREATE TABLE sluice.slugs (
    slug text COLLATE "C" NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (slug, flow_id)
  ) /*sqlite: WITHOUT ROWID*/;
`,
};

const heldShares: SharedMigration = {
  version: 10,
  name: 'held shares',
  compatibleFrom: 1,
  locks: ['flows'],
  sql: `
  -- What the deliveries take that are held of the flow: no flow takes the room of all.
  ALTER TABLE sluice.flows ADD COLUMN held_bytes bigint NOT NULL DEFAULT 0;
  UPDATE sluice.flows SET held_bytes = (
    SELECT coalesce(sum(kept_bytes), 0) FROM sluice.held_deliveries WHERE flow_id = flows.id);
`,
};

/** Deliveries that answer steps. */
const signals: SharedMigration = {
  version: 11,
  name: 'signals',
  // Earlier releases refuse the manifests that lead to such rows.
  compatibleFrom: 1,
  locks: ['steps', 'signals'],
  sql: `
  -- Of a step that waits or waited for deliveries of a key: the digest names flow, step and key.
  ALTER TABLE sluice.steps ADD COLUMN awaited uuid;
  CREATE INDEX steps_awaited ON sluice.steps (awaited, signal_name) WHERE awaited IS NOT NULL;

  -- The delivery that a signal came by.
  ALTER TABLE sluice.signals ADD COLUMN delivery_id uuid;
  CREATE INDEX signals_by_delivery ON sluice.signals (delivery_id) WHERE delivery_id IS NOT NULL;

  -- Such deliveries, for steps that begin to wait later.
  CREATE TABLE sluice.kept_signals (
    digest uuid NOT NULL,
    delivery_id uuid NOT NULL,
    came_at bigint NOT NULL,
    choice text,
    body text NOT NULL,
    PRIMARY KEY (digest, delivery_id)
  ) /*sqlite: WITHOUT ROWID*/;
  CREATE INDEX kept_signals_by_time ON sluice.kept_signals (came_at);
`,
};

/** Numbers of runs that consumers go by. */
const runNumbers: SharedMigration = {
  version: 12,
  name: 'run numbers',
  compatibleFrom: 1,
  sql: '',
  ofSqlite: `
  -- The last numbers of runs, and of deliveries that joined one, before the newest were removed: none is given out again.
  CREATE TABLE run_numbers (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    run INTEGER NOT NULL,
    joined INTEGER NOT NULL
  );
  -- Consumers can be beyond the deliveries that are kept. Until now each new number asked them.
  INSERT INTO run_numbers (id, run, joined) SELECT 1, 0, coalesce(max(joined), 0) FROM consumers;
  DROP INDEX consumers_by_joined;
`,
};

/** All migrations but the first, in order; append only. They import only migrations, so no later code changes them. */
export const sharedMigrations: readonly SharedMigration[] = [
  order,
  sharedDeliveries,
  coalescing,
  rhythms,
  consumersOfDeliveries,
  joinedDeliveries,
  reconciliations,
  slugs,
  heldShares,
  signals,
  runNumbers,
];
