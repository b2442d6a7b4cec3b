import { ownerOf, tokenOf } from '../../flows/runtime-keys.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import type { BirthLease, NewRun } from '../store.ts';
import { Counters } from './counters.ts';
import { jsonRows, type Part, type Row, type Sql, sendTogether } from './sql.ts';

/** What one row takes with its entries in the indexes, beyond the texts and bytes that are counted one by one. */
export const ROW_BYTES = 1024;

/** Collects the deliveries and runs that one transaction inserts, and inserts all of them at once. */
export class NewRows {
  /** What else the transaction counts may be counted here. */
  readonly counters = new Counters();
  readonly #deliveries = new Rows();
  readonly #runs = new Rows();
  readonly #steps: Row[] = [];
  readonly #pins: Row[] = [];
  readonly #keys = { delivery: [] as Row[], run: [] as Row[] };

  /** The body is null where the run has it, or a held delivery, or where none was read. */
  addDelivery(delivery: DeliveryRecord, body: Uint8Array | null): void {
    const row = deliveryRow(delivery);
    const keys = searchKeyRows(delivery.searchKeys);
    const keptBytes = bytesOf(row) + bytesOfKeys(keys) + (body?.byteLength ?? 0) + ROW_BYTES;
    this.#deliveries.add({ ...row, kept_bytes: keptBytes }, body);
    this.addKeys('delivery', delivery.id, delivery.searchKeys);
    this.counters.deliveryAdded(delivery, keptBytes);
  }

  /** With the revisions that it pins: see `pinned`. */
  addRun(
    run: NewRun,
    { idempotencyKey, lease }: { idempotencyKey?: string | undefined; lease?: BirthLease | undefined },
  ) {
    this.#runs.add(runRow(run, idempotencyKey), run.trigger.body);
    this.#steps.push(...stepRows(run, lease));
    this.addKeys('run', run.id, run.searchKeys);
    for (const [flowId, revision] of Object.entries(run.pins ?? {})) {
      this.#pins.push({ run_id: run.id, flow_id: flowId, revision });
    }
    this.counters.runAdded(run);
  }

  addKeys(owner: 'run' | 'delivery', ownerId: string, keys: SearchKeys | undefined): void {
    for (const [name, folded, value] of searchKeyRows(keys)) {
      this.#keys[owner].push({ [`${owner}_id`]: ownerId, name, folded, value });
    }
  }

  /** Sends all that was collected; what is sent later sees it. */
  write(sql: Sql): void {
    const parts = [
      ...(this.#deliveries.isEmpty ? [] : [insertDeliveries(this.#deliveries)]),
      ...(this.#runs.isEmpty ? [] : [insertRuns(this.#runs)]),
      ...(this.#steps.length === 0 ? [] : [insertSteps(this.#steps)]),
      ...(this.#pins.length === 0 ? [] : [insertPins(this.#pins)]),
      ...(this.#keys.delivery.length === 0 ? [] : [insertKeys('delivery', this.#keys.delivery)]),
      ...(this.#keys.run.length === 0 ? [] : [insertKeys('run', this.#keys.run)]),
      ...this.counters.takeParts(sql.slot),
    ];
    sendTogether(sql, parts);
  }
}

/** Rows that travel as JSON, and their bodies as one string of bytes in which each row names its own. */
class Rows {
  readonly #rows: Row[] = [];
  readonly #bodies: Uint8Array[] = [];
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  add(row: Row, body: Uint8Array | null): void {
    this.#rows.push({ ...row, body_at: body === null ? null : this.#bytes + 1, body_length: body?.byteLength ?? null });
    if (body === null) return;
    this.#bodies.push(body);
    this.#bytes += body.byteLength;
  }

  get json(): string {
    return jsonRows(this.#rows);
  }

  get bodies(): Uint8Array {
    return Buffer.concat(this.#bodies);
  }
}

const bodyOfRow = (bodies: string) => `substring(${bodies}::bytea FROM body_at FOR body_length)`;

function deliveryRow(record: DeliveryRecord): Row {
  return {
    id: record.id,
    flow_id: record.flowId,
    trigger_key: record.triggerKey,
    received_at: record.receivedAt,
    client_ip: record.clientIp,
    mode: record.mode,
    scheme: record.scheme,
    rejected: record.rejected,
    enforced: record.enforced,
    status_code: record.statusCode,
    reason: record.reason,
    violations: JSON.stringify(record.violations),
    detail: record.detail,
    body_bytes: record.bodyBytes,
    processing_ms: record.processingMs,
    run_id: record.runId,
    used_previous_key: record.usedPreviousKey,
    headers: JSON.stringify(record.headers),
    story: record.story === undefined ? null : JSON.stringify(record.story),
    request_url: record.requestUrl ?? null,
    body_key: record.bodyKey ?? null,
    redelivered_from: record.redeliveredFrom ?? null,
  };
}

function bytesOf(row: Row): number {
  return Object.values(row).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? Buffer.byteLength(value) : 0),
    0,
  );
}

function bytesOfKeys(keys: readonly SearchKeyRow[]): number {
  return keys.flat().reduce<number>((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
}

const insertKeys =
  (owner: 'run' | 'delivery', rows: readonly Row[]): Part =>
  (bind) =>
    `
    INSERT INTO sluice.${owner}_keys (${owner}_id, name, folded, value)
    SELECT ${owner}_id, name, folded, value
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (${owner}_id uuid, name text, folded text, value text)`;

const deliveryColumns = `id, flow_id, trigger_key, received_at, client_ip, mode, scheme, rejected, enforced, status_code,
  reason, violations, detail, body_bytes, processing_ms, run_id, used_previous_key, headers, story, request_url, body_key,
  redelivered_from, kept_bytes`;

const insertDeliveries =
  (rows: Rows): Part =>
  (bind) =>
    `
    INSERT INTO sluice.deliveries (${deliveryColumns}, body)
    SELECT ${deliveryColumns}, ${bodyOfRow(bind(rows.bodies))}
    FROM jsonb_to_recordset(${bind(rows.json)}) AS given (
      id uuid, flow_id text, trigger_key text, received_at bigint, client_ip text, mode text, scheme text,
      rejected boolean, enforced boolean, status_code integer, reason text, violations text, detail text,
      body_bytes bigint, processing_ms double precision, run_id uuid, used_previous_key boolean, headers text,
      story text, request_url text, body_key text, redelivered_from uuid, kept_bytes bigint, body_at integer,
      body_length integer
    )`;

function runRow(run: NewRun, idempotencyKey: string | undefined): Row {
  return {
    id: run.id,
    flow_id: run.flowId,
    flow_name: run.flowName,
    flow_version: run.flowVersion,
    revision: run.revision,
    status: run.status,
    trigger_key: run.triggerKey,
    trigger_type: run.triggerType,
    delivery_id: run.deliveryId,
    source_run_id: run.sourceRunId,
    started_at: run.startedAt,
    completed_at: run.completedAt,
    idempotency_key: idempotencyKey ?? null,
    timeout_at: run.timeoutAt,
    traceparent: run.traceparent,
    trigger_content_type: run.trigger.contentType,
    trigger_headers: JSON.stringify(run.trigger.headers),
  };
}

const runColumns = `id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, delivery_id,
  source_run_id, started_at, completed_at, idempotency_key, timeout_at, traceparent, trigger_content_type,
  trigger_headers`;

const insertRuns =
  (rows: Rows): Part =>
  (bind) =>
    `
    INSERT INTO sluice.runs (${runColumns}, trigger_body)
    SELECT ${runColumns}, ${bodyOfRow(bind(rows.bodies))}
    FROM jsonb_to_recordset(${bind(rows.json)}) AS given (
      id uuid, flow_id text, flow_name text, flow_version text, revision integer, status text, trigger_key text,
      trigger_type text, delivery_id uuid, source_run_id uuid, started_at bigint, completed_at bigint,
      idempotency_key text, timeout_at bigint, traceparent text, trigger_content_type text, trigger_headers text,
      body_at integer, body_length integer
    )`;

function stepRows(run: NewRun, lease: BirthLease | undefined): Row[] {
  return run.steps.map(({ stepKey, stepType, dueAt }, index) => {
    const step = { run_id: run.id, flow_id: run.flowId, step_key: stepKey, step_type: stepType };
    if (lease === undefined || index >= lease.limit) return { ...step, status: 'Pending', due_at: dueAt };
    const token = tokenOf(run.id, stepKey, lease.holder);
    return {
      ...step,
      status: 'Running',
      due_at: lease.leasedUntil,
      lease_token: token,
      lease_owner: ownerOf(token) ?? null,
      started_at: dueAt,
    };
  });
}

const stepColumns = 'run_id, flow_id, step_key, step_type, status, due_at, lease_token, lease_owner, started_at';

const insertSteps =
  (rows: readonly Row[]): Part =>
  (bind) =>
    `
    INSERT INTO sluice.steps (${stepColumns})
    SELECT ${stepColumns}
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (
      run_id uuid, flow_id text, step_key text, step_type text, status text, due_at bigint, lease_token text,
      lease_owner text, started_at bigint
    )`;

const insertPins =
  (rows: readonly Row[]): Part =>
  (bind) =>
    `
    INSERT INTO sluice.run_pins (run_id, flow_id, revision)
    SELECT run_id, flow_id, revision
    FROM json_to_recordset(${bind(jsonRows(rows))}) AS given (run_id uuid, flow_id text, revision integer)`;
