/** The type of a column, independent of the database; an id is a UUID. */
export type ColumnType = 'text' | 'id' | 'integer' | 'real' | 'boolean' | 'bytes';

export interface Table<Type = ColumnType> {
  readonly columns: Readonly<Record<string, Type>>;
  /** The primary key; if each store has a primary key of its own, other columns that identify a row. */
  readonly key: readonly string[];
}

const trigger = { flow_id: 'text', trigger_key: 'text' } as const;
const step = { run_id: 'id', step_key: 'text' } as const;
const value = { inputs_revision: 'integer', error: 'text', input: 'text', output: 'text' } as const;
const searchKey = { name: 'text', folded: 'text', value: 'text' } as const;

/**
 * The tables of every store, with the columns that they have everywhere: `sluice copy` copies these, in this order. A
 * test compares the schemas that the migrations make with these tables and the additions of each store below.
 */
export const TABLES = {
  flows: {
    key: ['id'],
    columns: {
      id: 'text',
      name: 'text',
      version: 'text',
      revision: 'integer',
      is_enabled: 'boolean',
      draining_since: 'integer',
      holds_deliveries: 'boolean',
      held_bytes: 'integer',
      deleted_at: 'integer',
      created_at: 'integer',
      updated_at: 'integer',
    },
  },
  revisions: {
    key: ['flow_id', 'revision'],
    columns: {
      flow_id: 'text',
      revision: 'integer',
      name: 'text',
      version: 'text',
      hash: 'text',
      digest: 'id',
      created_at: 'integer',
      source: 'text',
      acting_steps: 'text',
      snapshot: 'text',
      actor: 'text',
      reason: 'text',
      access: 'text',
      findings: 'text',
      overrides: 'text',
      needs: 'text',
    },
  },
  former_trigger_keys: {
    key: ['flow_id', 'trigger_key', 'former_flow_id', 'former_key'],
    columns: {
      ...trigger,
      former_flow_id: 'text',
      former_key: 'text',
      last_seq: 'integer',
      reused_at: 'integer',
    },
  },
  routes: { key: ['slug'], columns: { slug: 'text', ...trigger, revision: 'integer' } },
  slugs: { key: ['slug', 'flow_id'], columns: { slug: 'text', flow_id: 'text' } },
  nonce_headers: {
    key: ['flow_id', 'trigger_key', 'header'],
    columns: { ...trigger, header: 'text', lasts_until: 'integer' },
  },
  ledger_time: { key: ['id'], columns: { id: 'integer', at: 'integer' } },
  flow_schedules: {
    key: ['flow_id', 'trigger_key'],
    columns: {
      ...trigger,
      cron: 'text',
      time_zone: 'text',
      cron_override: 'text',
      paused: 'boolean',
      next_at: 'integer',
      last_at: 'integer',
      revision: 'integer',
    },
  },
  learned_keys: {
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, scheme: 'text', secret: 'bytes', sealed_with: 'text', learned_at: 'integer' },
  },
  nonces: {
    key: ['seq'],
    columns: {
      seq: 'integer',
      ...trigger,
      is_verified: 'boolean',
      header: 'text',
      nonce: 'text',
      alias: 'id',
      body_sha256: 'text',
      run_id: 'id',
      expires_at: 'integer',
    },
  },
  event_ids: {
    key: ['seq'],
    columns: {
      seq: 'integer',
      ...trigger,
      event_id: 'text',
      run_id: 'id',
      created_at: 'integer',
      expires_at: 'integer',
    },
  },
  idempotency_keys: {
    key: ['flow_id', 'trigger_key', 'key'],
    columns: { ...trigger, key: 'text', body_sha256: 'text', run_id: 'id', created_at: 'integer' },
  },
  held_deliveries: {
    key: ['seq'],
    columns: {
      seq: 'integer',
      ...trigger,
      run_id: 'id',
      delivery_id: 'id',
      idempotency_key: 'text',
      traceparent: 'text',
      content_type: 'text',
      held_at: 'integer',
      kept_bytes: 'integer',
      search_keys: 'text',
      headers: 'text',
      body: 'bytes',
      is_verified: 'boolean',
      joins: 'boolean',
    },
  },
  runs: {
    key: ['id'],
    columns: {
      id: 'id',
      flow_id: 'text',
      flow_name: 'text',
      flow_version: 'text',
      revision: 'integer',
      status: 'text',
      trigger_key: 'text',
      trigger_type: 'text',
      delivery_id: 'id',
      source_run_id: 'id',
      started_at: 'integer',
      completed_at: 'integer',
      idempotency_key: 'text',
      timeout_at: 'integer',
      cancel_requested_at: 'integer',
      cancel_reason: 'text',
      timed_out_at: 'integer',
      traceparent: 'text',
      deliveries: 'integer',
    },
  },
  run_inputs: {
    key: ['run_id'],
    columns: { run_id: 'id', content_type: 'text', headers: 'text', body: 'bytes' },
  },
  run_deliveries: {
    key: ['run_id', 'place'],
    columns: {
      run_id: 'id',
      place: 'integer',
      delivery_id: 'id',
      received_at: 'integer',
      idempotency_key: 'text',
      content_type: 'text',
      headers: 'text',
      body: 'bytes',
    },
  },
  coalesce_groups: {
    key: ['digest'],
    columns: {
      digest: 'id',
      run_id: 'id',
      revision: 'integer',
      deliveries: 'integer',
      bytes: 'integer',
      due_at: 'integer',
      until_at: 'integer',
      held_by: 'text',
    },
  },
  run_keys: { key: ['run_id', 'name'], columns: { run_id: 'id', ...searchKey } },
  removed_runs: { key: ['run_id'], columns: { run_id: 'id' } },
  run_pins: {
    key: ['run_id', 'flow_id'],
    columns: { run_id: 'id', flow_id: 'text', revision: 'integer' },
  },
  sub_runs: {
    key: ['run_id'],
    columns: {
      run_id: 'id',
      parent_run_id: 'id',
      step_key: 'text',
      is_awaited: 'boolean',
      depth: 'integer',
      root_started_at: 'integer',
      is_of_failure: 'boolean',
    },
  },
  ordered_runs: {
    key: ['run_id'],
    columns: {
      run_id: 'id',
      flow_id: 'text',
      lane: 'id',
      seq: 'integer',
      state: 'text',
      is_verified: 'boolean',
      key: 'text',
      problem: 'text',
    },
  },
  orphaned_runs: { key: ['seq'], columns: { seq: 'integer', run_id: 'id' } },
  unordered_flows: { key: ['flow_id'], columns: { flow_id: 'text' } },
  steps: {
    key: ['run_id', 'step_key'],
    columns: {
      ...step,
      step_type: 'text',
      status: 'text',
      due_at: 'integer',
      lease_token: 'text',
      flow_id: 'text',
      limit_at: 'integer',
      interruptions: 'integer',
      deaths: 'integer',
      lone_deaths: 'integer',
      attempt_count: 'integer',
      attempt_base: 'integer',
      signal_name: 'text',
      awaited: 'id',
      skip_reason: 'text',
      started_at: 'integer',
      completed_at: 'integer',
      wait: 'text',
      evaluation_trace: 'text',
      ...value,
    },
  },
  attempts: {
    key: ['run_id', 'step_key', 'attempt'],
    columns: {
      ...step,
      attempt: 'integer',
      status: 'text',
      due_at: 'integer',
      started_at: 'integer',
      completed_at: 'integer',
      ...value,
    },
  },
  signals: {
    key: ['id'],
    columns: {
      id: 'integer',
      run_id: 'id',
      name: 'text',
      body: 'text',
      delivered_at: 'integer',
      step_key: 'text',
      delivery_id: 'id',
    },
  },
  kept_signals: {
    key: ['digest', 'delivery_id'],
    columns: { digest: 'id', delivery_id: 'id', came_at: 'integer', choice: 'text', body: 'text' },
  },
  loops: {
    key: ['run_id', 'step_key'],
    columns: {
      ...step,
      total: 'integer',
      concurrency: 'integer',
      started: 'integer',
      ended: 'integer',
      failed: 'integer',
    },
  },
  loop_items: {
    key: ['run_id', 'step_key', 'first_index'],
    columns: { ...step, first_index: 'integer', items: 'text' },
  },
  deliveries: {
    key: ['id'],
    columns: {
      id: 'id',
      ...trigger,
      received_at: 'integer',
      client_ip: 'text',
      mode: 'text',
      scheme: 'text',
      rejected: 'boolean',
      enforced: 'boolean',
      status_code: 'integer',
      reason: 'text',
      violations: 'text',
      detail: 'text',
      body_bytes: 'integer',
      processing_ms: 'real',
      run_id: 'id',
      used_previous_key: 'boolean',
      headers: 'text',
      gate_results: 'text',
      request_url: 'text',
      body_key: 'text',
      redelivered_from: 'id',
      outcome: 'text',
      kept_bytes: 'integer',
      body: 'bytes',
    },
  },
  delivery_keys: { key: ['delivery_id', 'name'], columns: { delivery_id: 'id', ...searchKey } },
  delivery_shares: {
    key: ['delivery_id', 'place'],
    columns: { delivery_id: 'id', place: 'integer', ...trigger, run_id: 'id', outcome: 'text' },
  },
  interventions: {
    key: ['seq'],
    columns: {
      seq: 'integer',
      id: 'id',
      at: 'integer',
      actor: 'text',
      client_ip: 'text',
      action: 'text',
      target_type: 'text',
      target_id: 'text',
      details: 'text',
      reason: 'text',
      status_code: 'integer',
      key_id: 'text',
      previous_hash: 'text',
      hash: 'text',
    },
  },
  intervention_ends: {
    key: ['id'],
    columns: {
      id: 'integer',
      removed_seq: 'integer',
      removed_hash: 'text',
      newest_seq: 'integer',
      newest_hash: 'text',
      key_id: 'text',
      seal: 'text',
    },
  },
  credentials_in_force: { key: ['id'], columns: { id: 'text', mark: 'text', since: 'integer' } },
  ended_sessions: { key: ['id'], columns: { id: 'id', lasts_until: 'integer' } },
  service_secrets: { key: ['name'], columns: { name: 'text', secret: 'bytes' } },
  payload_paths: {
    key: ['flow_id', 'trigger_key', 'event', 'path', 'hour', 'type'],
    columns: {
      ...trigger,
      event: 'text',
      path: 'text',
      hour: 'integer',
      type: 'text',
      count: 'integer',
      first_id: 'id',
      last_id: 'id',
    },
  },
  payload_watches: {
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, version: 'integer', last_id: 'id', drifts: 'text' },
  },
  arrival_hours: {
    key: ['flow_id', 'trigger_key', 'event', 'hour'],
    columns: {
      ...trigger,
      event: 'text',
      hour: 'integer',
      count: 'integer',
      first_at: 'integer',
      last_at: 'integer',
      longest_gap_ms: 'integer',
    },
  },
  rhythms: {
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, version: 'integer', last_id: 'id', last_at: 'integer', state: 'text', found: 'text' },
  },
  reconciliations: {
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, owner: 'text', leased_until: 'integer', last_at: 'integer', state: 'text' },
  },
  downtimes: {
    key: ['ended_at'],
    columns: { ended_at: 'integer', started_at: 'integer', offset_ms: 'integer' },
  },
  delivery_counts: {
    key: ['minute', 'reason', 'rejected'],
    columns: {
      minute: 'integer',
      reason: 'text',
      rejected: 'boolean',
      count: 'integer',
      first_id: 'id',
      last_id: 'id',
    },
  },
  delivery_hours: {
    key: ['hour', 'flow_id', 'trigger_key', 'mode', 'reason', 'violations', 'rejected', 'redelivered'],
    columns: {
      hour: 'integer',
      ...trigger,
      mode: 'text',
      reason: 'text',
      violations: 'text',
      rejected: 'boolean',
      redelivered: 'boolean',
      count: 'integer',
      previous_key: 'integer',
      first_at: 'integer',
      first_id: 'id',
      last_id: 'id',
    },
  },
  consumers: {
    key: ['name'],
    columns: {
      name: 'text',
      ...trigger,
      delivery_id: 'id',
      created_at: 'integer',
      used_at: 'integer',
    },
  },
  host_circuits: { key: ['queue'], columns: { queue: 'text', version: 'integer', circuit: 'text' } },
  alert_state: { key: ['id'], columns: { id: 'integer', version: 'integer', state: 'text' } },
  failed_run_notices: { key: ['seq'], columns: { seq: 'integer', run_id: 'id' } },
  trigger_keys: {
    key: ['flow_id', 'trigger_key', 'key_name'],
    columns: {
      ...trigger,
      key_name: 'text',
      role: 'text',
      role_since: 'integer',
      first_noted_at: 'integer',
      noted_at: 'integer',
    },
  },
  key_hours: {
    key: ['flow_id', 'trigger_key', 'key_name', 'hour'],
    columns: { ...trigger, key_name: 'text', hour: 'integer', count: 'integer', last_at: 'integer', last_id: 'id' },
  },
  delivery_totals: {
    key: ['flow_id', 'reason', 'rejected'],
    columns: { flow_id: 'text', reason: 'text', rejected: 'boolean', count: 'integer' },
  },
  run_starts: {
    key: ['hour', 'flow_id', 'status'],
    columns: { hour: 'integer', flow_id: 'text', status: 'text', count: 'integer' },
  },
  run_ends: {
    key: ['hour', 'flow_id', 'status'],
    columns: { hour: 'integer', flow_id: 'text', status: 'text', count: 'integer' },
  },
  run_durations: {
    key: ['flow_id', 'hour', 'duration_ms'],
    columns: { flow_id: 'text', hour: 'integer', duration_ms: 'integer', count: 'integer' },
  },
  run_totals: {
    key: ['flow_id', 'status'],
    columns: { flow_id: 'text', status: 'text', count: 'integer' },
  },
} as const satisfies Readonly<Record<string, Table>>;

type ColumnsOf<Name extends keyof typeof TABLES> = keyof (typeof TABLES)[Name]['columns'] & string;

/** The columns of a table in their order, without some. */
export function columnsOf<Name extends keyof typeof TABLES, Left extends ColumnsOf<Name>>(
  table: Name,
  { without }: { readonly without: readonly Left[] },
): readonly Exclude<ColumnsOf<Name>, Left>[] {
  const left: readonly string[] = without;
  return Object.keys(TABLES[table].columns).filter(
    (name): name is Exclude<ColumnsOf<Name>, Left> => !left.includes(name),
  );
}

/** The name that a column has outside of the store. */
export type FieldOf<Column extends string> = Column extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<FieldOf<Rest>>}`
  : Column;

/** Selects columns under the names that they have outside of the store: `own.flow_id AS "flowId"`. */
export function selectedAs(row: string, columns: readonly string[]): string {
  return columns
    .map((column) => `${row}.${column} AS "${column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())}"`)
    .join(', ');
}

/** Tables of counts. In PostgreSQL each writer has its own rows there, so that commits never wait for each other. */
const COUNT_NAMES = [
  'delivery_counts',
  'delivery_hours',
  'key_hours',
  'delivery_totals',
  'run_starts',
  'run_ends',
  'run_durations',
  'run_totals',
] as const satisfies readonly (keyof typeof TABLES)[];
export type CountName = (typeof COUNT_NAMES)[number];
export const COUNTS: ReadonlySet<string> = new Set(COUNT_NAMES);

const one = { id: 'integer' } as const;
const size = { rows: 'integer', bytes: 'integer' } as const;

/** Not copied: the process that leased a step has no lease in another database. */
const leaseOwner = { lease_owner: 'text' } as const;

/** Not copied: each database has its own order of commits. */
const consumers = { position: 'integer', joined: 'integer' } as const;

/** Not copied: a process that holds a place of a host calls that host for this database only. */
const places = {
  host_places: {
    key: ['queue', 'place'],
    columns: { queue: 'text', place: 'integer', owner: 'text', held_until: 'integer' },
  },
} as const;

/** Columns, keys and tables that only SQLite has. */
export const SQLITE_ADDS = {
  /** Nonces and event ids are found by their hashes, which are indexed later. */
  columns: {
    nonces: { hash: 'integer' },
    event_ids: { hash: 'integer' },
    runs: { seq: 'integer' },
    run_deliveries: { position: 'integer', joined: 'integer' },
    steps: leaseOwner,
    consumers,
  },
  keys: { runs: ['seq'], run_inputs: [], run_keys: [] },
  tables: {
    ...places,
    nonce_index: { key: ['hash', 'seq'], columns: { hash: 'integer', seq: 'integer' } },
    nonce_index_state: { key: ['id'], columns: { ...one, indexed_to: 'integer' } },
    event_id_index: { key: ['hash', 'seq'], columns: { hash: 'integer', seq: 'integer' } },
    event_id_index_state: { key: ['id'], columns: { ...one, indexed_to: 'integer' } },
    run_input_rows: {
      key: ['seq'],
      columns: { seq: 'integer', content_type: 'text', search_keys: 'text', headers: 'text', body: 'bytes' },
    },
    run_key_index: {
      key: ['segment', 'folded', 'run', 'name'],
      columns: { segment: 'integer', folded: 'text', run: 'integer', name: 'text' },
    },
    run_key_segments: { key: ['segment'], columns: { segment: 'integer', last_run: 'integer' } },
    run_numbers: { key: ['id'], columns: { ...one, run: 'integer', joined: 'integer' } },
    count_changes: { key: ['seq'], columns: { seq: 'integer', changes: 'text' } },
    // Two tables, since the delivery log may be in memory, but held deliveries never are.
    refused_state: { key: ['id'], columns: { ...one, ...size } },
    held_state: { key: ['id'], columns: { ...one, ...size } },
    pings: { key: ['id'], columns: { ...one, count: 'integer' } },
    schema_migrations: { key: ['version'], columns: { version: 'integer', name: 'text', applied_at: 'integer' } },
  },
} as const satisfies StoreAdds;

const slot = { slot: 'integer' } as const;

/** Columns, keys and tables that only PostgreSQL has. */
export const POSTGRES_ADDS = {
  columns: {
    ...Object.fromEntries([...COUNTS].map((name) => [name, slot])),
    // Texts from outside may be too long for an index.
    nonces: { digest: 'id' },
    event_ids: { digest: 'id' },
    idempotency_keys: { digest: 'id' },
    // `run_inputs` is a view of the first three.
    runs: { trigger_content_type: 'text', trigger_headers: 'text', trigger_body: 'bytes', xid: 'integer' },
    run_deliveries: { xid: 'integer' },
    steps: leaseOwner,
    consumers,
  },
  keys: { nonces: ['digest'], event_ids: ['digest'], idempotency_keys: ['digest'], run_inputs: [] },
  tables: {
    ...places,
    // Claimed by insert, so that one of two replicas wins; SQLite has an index of `redelivered_from` instead.
    redeliveries: { key: ['source'], columns: { source: 'id', delivery_id: 'id', run_id: 'id' } },
    kept_sizes: { key: ['kind', 'slot'], columns: { kind: 'text', ...slot, ...size } },
    replicas: {
      key: ['name'],
      columns: {
        name: 'text',
        instance: 'text',
        ...slot,
        version: 'text',
        started_at: 'integer',
        seen_at: 'integer',
        clock_offset_ms: 'integer',
        fingerprint: 'text',
      },
    },
    dead_replicas: { key: ['name'], columns: { name: 'text', died_at: 'integer', steps: 'integer' } },
    changes: { key: ['flow_id', 'kind'], columns: { flow_id: 'text', kind: 'text', xid: 'transaction' } },
    housekeeping: { key: ['is_only'], columns: { is_only: 'boolean', began_at: 'instant' } },
    pings: { key: ['slot'], columns: { ...slot, count: 'integer' } },
    schema_migrations: {
      key: ['version'],
      columns: { version: 'integer', name: 'text', compatible_from: 'integer', at: 'instant' },
    },
  },
} as const satisfies StoreAdds;

/** Additional columns of the tables above, keys that differ, and further tables. Two types are PostgreSQL's alone. */
interface StoreAdds {
  readonly columns: Readonly<Record<string, Readonly<Record<string, ColumnType>>>>;
  readonly keys: Readonly<Record<string, readonly string[]>>;
  readonly tables: Readonly<Record<string, Table<ColumnType | 'instant' | 'transaction'>>>;
}

export const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  id: 'uuid',
  integer: 'bigint',
  real: 'double precision',
  boolean: 'boolean',
  bytes: 'bytea',
};

/** Names the columns of rows passed as one parameter: `jsonb_to_recordset(…) AS given (id uuid, name text)`. */
export function givenRows(
  types: Readonly<Record<string, ColumnType>>,
  names: readonly string[] = Object.keys(types),
): string {
  return `AS given (${names.map((name) => `${name} ${SQL_TYPES[types[name] ?? 'text']}`).join(', ')})`;
}
