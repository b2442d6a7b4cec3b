/** What a column holds, whatever the database makes of it. */
export type ColumnType = 'text' | 'id' | 'integer' | 'real' | 'boolean' | 'bytes';

export type CopiedValue = string | number | boolean | Uint8Array | null;

/** Values in the order of the columns. */
export type CopiedRow = readonly CopiedValue[];

/** Rows that both databases have; what one of them keeps besides follows from these. */
export interface CopiedTable {
  readonly name: string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** Columns that name a row, and order the rows. */
  readonly key: readonly string[];
}

const trigger = { flow_id: 'text', trigger_key: 'text' } as const;
const step = { run_id: 'id', step_key: 'text' } as const;
const value = { error: 'text', input: 'text', output: 'text' } as const;
const searchKey = { name: 'text', folded: 'text', value: 'text' } as const;

/** In the order in which they are copied. */
export const COPIED_TABLES = [
  {
    name: 'flows',
    key: ['id'],
    columns: {
      id: 'text',
      name: 'text',
      version: 'text',
      revision: 'integer',
      is_enabled: 'boolean',
      draining_since: 'integer',
      created_at: 'integer',
      updated_at: 'integer',
    },
  },
  {
    name: 'revisions',
    key: ['flow_id', 'revision'],
    columns: {
      flow_id: 'text',
      revision: 'integer',
      version: 'text',
      hash: 'text',
      snapshot: 'text',
      created_at: 'integer',
      source: 'text',
      findings: 'text',
      overrides: 'text',
    },
  },
  {
    name: 'former_trigger_keys',
    key: ['flow_id', 'trigger_key', 'former_key'],
    columns: { ...trigger, former_key: 'text', last_seq: 'integer', reused_at: 'integer' },
  },
  {
    name: 'flow_schedules',
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
  {
    name: 'learned_keys',
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, scheme: 'text', secret: 'bytes', sealed_with: 'text', learned_at: 'integer' },
  },
  {
    name: 'nonces',
    key: ['seq'],
    columns: {
      seq: 'integer',
      ...trigger,
      nonce: 'text',
      body_sha256: 'text',
      run_id: 'id',
      expires_at: 'integer',
    },
  },
  {
    name: 'idempotency_keys',
    key: ['run_id'],
    columns: { ...trigger, key: 'text', run_id: 'id', created_at: 'integer' },
  },
  {
    name: 'held_deliveries',
    key: ['seq'],
    columns: {
      seq: 'integer',
      ...trigger,
      run_id: 'id',
      delivery_id: 'id',
      idempotency_key: 'text',
      traceparent: 'text',
      content_type: 'text',
      headers: 'text',
      body: 'bytes',
    },
  },
  {
    name: 'runs',
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
      trigger_content_type: 'text',
      trigger_headers: 'text',
      trigger_body: 'bytes',
    },
  },
  { name: 'run_keys', key: ['run_id', 'name'], columns: { run_id: 'id', ...searchKey } },
  { name: 'removed_runs', key: ['run_id'], columns: { run_id: 'id' } },
  {
    name: 'steps',
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
      skip_reason: 'text',
      started_at: 'integer',
      completed_at: 'integer',
      wait: 'text',
      evaluation_trace: 'text',
      ...value,
    },
  },
  {
    name: 'attempts',
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
  {
    name: 'signals',
    key: ['id'],
    columns: { id: 'integer', run_id: 'id', name: 'text', body: 'text', delivered_at: 'integer', step_key: 'text' },
  },
  {
    name: 'loops',
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
  {
    name: 'loop_items',
    key: ['run_id', 'step_key', 'first_index'],
    columns: { ...step, first_index: 'integer', items: 'text' },
  },
  {
    name: 'deliveries',
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
      story: 'text',
      request_url: 'text',
      body_key: 'text',
      redelivered_from: 'id',
      kept_bytes: 'integer',
      body: 'bytes',
    },
  },
  { name: 'delivery_keys', key: ['delivery_id', 'name'], columns: { delivery_id: 'id', ...searchKey } },
  {
    name: 'interventions',
    key: ['id'],
    columns: {
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
    },
  },
  {
    name: 'payload_paths',
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
  {
    name: 'payload_watches',
    key: ['flow_id', 'trigger_key'],
    columns: { ...trigger, version: 'integer', last_id: 'id', drifts: 'text' },
  },
  {
    name: 'delivery_counts',
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
  {
    name: 'delivery_hours',
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
  { name: 'host_circuits', key: ['origin'], columns: { origin: 'text', version: 'integer', circuit: 'text' } },
  { name: 'alert_state', key: ['id'], columns: { id: 'integer', version: 'integer', state: 'text' } },
  { name: 'failed_run_notices', key: ['seq'], columns: { seq: 'integer', run_id: 'id' } },
  {
    name: 'trigger_keys',
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
  {
    name: 'key_hours',
    key: ['flow_id', 'trigger_key', 'key_name', 'hour'],
    columns: { ...trigger, key_name: 'text', hour: 'integer', count: 'integer', last_at: 'integer', last_id: 'id' },
  },
  {
    name: 'delivery_totals',
    key: ['flow_id', 'reason', 'rejected'],
    columns: { flow_id: 'text', reason: 'text', rejected: 'boolean', count: 'integer' },
  },
  {
    name: 'run_starts',
    key: ['hour', 'flow_id', 'status'],
    columns: { hour: 'integer', flow_id: 'text', status: 'text', count: 'integer' },
  },
  {
    name: 'run_ends',
    key: ['hour', 'flow_id', 'status'],
    columns: { hour: 'integer', flow_id: 'text', status: 'text', count: 'integer' },
  },
  {
    name: 'run_durations',
    key: ['flow_id', 'hour', 'duration_ms'],
    columns: { flow_id: 'text', hour: 'integer', duration_ms: 'integer', count: 'integer' },
  },
  {
    name: 'run_totals',
    key: ['flow_id', 'status'],
    columns: { flow_id: 'text', status: 'text', count: 'integer' },
  },
] as const satisfies readonly CopiedTable[];

export type CopiedTableName = (typeof COPIED_TABLES)[number]['name'];

/** A database that rows are copied from or to, under a lock that keeps services out until it is closed. */
export interface CopiedDatabase {
  /** What a person calls it; without a password. */
  readonly name: string;
  /** The rows of a table from the n-th on, in an order that does not change, in slices of bounded size. */
  read(table: CopiedTable, skip: number): AsyncIterable<readonly CopiedRow[]>;
  /** How far an unfinished copy into this database has come; undefined where there is none. */
  findProgress(): Promise<CopyProgress | undefined>;
  isEmpty(): Promise<boolean>;
  /** Marks the database as an unfinished copy, which no service opens. */
  begin(source: string): Promise<void>;
  /** Adds rows, and keeps how many the table has with them, in one transaction. */
  write(table: CopiedTable, slice: { readonly rows: readonly CopiedRow[]; readonly total: number }): Promise<void>;
  /** Makes what follows from the rows that were copied. */
  derive(): Promise<void>;
  /** Lets services open the database. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

export interface CopyProgress {
  readonly source: string;
  /** Rows that are copied, by table. */
  readonly rows: ReadonlyMap<string, number>;
}

/** What is opened to copy rows from it or to it. */
export interface CopyEnd {
  /** Whether rows are copied from it: then it must exist. */
  readonly isSource: boolean;
}

/** Rows of a slice at most, and bytes of texts after which it ends. */
export const SLICE_ROWS = 1000;
export const SLICE_BYTES = 4 * 1024 * 1024;

/** What a row takes in memory, about. */
export function bytesOfRow(row: CopiedRow): number {
  return row.reduce<number>(
    (sum, value) =>
      sum + (typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.byteLength : 8),
    0,
  );
}

/** Stands for an id that a count of an early release does not have. */
export const NO_ID = '00000000-0000-0000-0000-000000000000';

/** Tables of which each writer of PostgreSQL has rows of its own. */
export const COUNTS: ReadonlySet<string> = new Set([
  'delivery_counts',
  'delivery_hours',
  'key_hours',
  'delivery_totals',
  'run_starts',
  'run_ends',
  'run_durations',
  'run_totals',
]);
