import { hash } from 'node:crypto';
import type { DeliveryRecord, DeliveryShare, GateResult } from '../model/delivery.ts';
import { ownerOf } from '../model/runtime-keys.ts';
import type { Acceptance, BirthLease, Candidate, Joining, NewRun } from './store.ts';
import { columnsOf, type FieldOf } from './tables.ts';

/** Bytes of a row and its entries in the indexes, not counting the texts and bytes, which are counted one by one. */
export const ROW_BYTES = 1024;

export type Value = string | number | boolean | null;

/** The columns of a new delivery except its body and its size, in the order in which their values are sent. */
export const DELIVERY_COLUMNS = columnsOf('deliveries', { without: ['body', 'kept_bytes'] });

/** Fields of a delivery that are stored outside of its row, or in no column. */
type Elsewhere = 'body' | 'isHeld' | 'runStatus' | 'searchKeys' | 'shares';
type Unstored = Exclude<keyof DeliveryRecord, FieldOf<(typeof DELIVERY_COLUMNS)[number]> | Elsewhere>;

type DeliveryRow = Readonly<Record<(typeof DELIVERY_COLUMNS)[number], Value>>;

/**
 * Does not compile while a field of a delivery has no column. Leaves out headers that are those of its run (`ofRun`),
 * which stores them.
 */
export function deliveryRow(
  record: [Unstored] extends [never] ? DeliveryRecord : Unstored,
  ofRun?: NewRun['trigger']['headers'],
): DeliveryRow {
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
    headers: record.headers === ofRun ? null : JSON.stringify(record.headers),
    gate_results: record.gateResults === undefined ? null : JSON.stringify(record.gateResults.map(shortResult)),
    request_url: record.requestUrl ?? null,
    body_key: record.bodyKey ?? null,
    redelivered_from: record.redeliveredFrom ?? null,
    outcome: record.outcome ?? null,
  };
}

export const SHARE_COLUMNS = ['delivery_id', 'place', 'flow_id', 'trigger_key', 'run_id', 'outcome'] as const;

/** The rows of the triggers that share a delivery. */
export function shareRows(
  deliveryId: string,
  shares: readonly DeliveryShare[] = [],
): Readonly<Record<(typeof SHARE_COLUMNS)[number], SentValue>>[] {
  return shares.map(({ flowId, triggerKey, runId, outcome }, place) => ({
    delivery_id: deliveryId,
    place,
    flow_id: flowId,
    trigger_key: triggerKey,
    run_id: runId,
    outcome,
  }));
}

/** A gate's result as stored, without empty fields at its end: few have all fields, and a delivery has four or more. */
type ShortResult = readonly [
  gate: GateResult['gate'],
  outcome: GateResult['outcome'],
  facts?: GateResult['facts'],
  reason?: GateResult['reason'],
  detail?: GateResult['detail'],
];

function shortResult({ gate, outcome, facts, reason, detail }: GateResult): ShortResult {
  if (reason !== null || detail !== null) return [gate, outcome, facts, reason, detail];
  return Object.keys(facts).length === 0 ? [gate, outcome] : [gate, outcome, facts];
}

export function readGateResults(text: string): GateResult[] {
  return (JSON.parse(text) as ShortResult[]).map(([gate, outcome, facts = {}, reason = null, detail = null]) => ({
    gate,
    outcome,
    reason,
    detail,
    facts,
  }));
}

/** The columns of what started a run, without its body. */
export const INPUT_COLUMNS = ['trigger_content_type', 'trigger_headers'] as const;

const LATER = ['cancel_requested_at', 'cancel_reason', 'timed_out_at', 'deliveries'] as const;

/** The columns of a new run, then those of what started it. */
export const RUN_COLUMNS = [...columnsOf('runs', { without: LATER }), ...INPUT_COLUMNS] as const;

export type RunRow = Readonly<Record<(typeof RUN_COLUMNS)[number], Value>>;

export function runRow(run: NewRun, idempotencyKey: string | null): RunRow {
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
    idempotency_key: idempotencyKey,
    timeout_at: run.timeoutAt,
    traceparent: run.traceparent,
    trigger_content_type: run.trigger.contentType,
    trigger_headers: JSON.stringify(run.trigger.headers),
  };
}

/** The columns of the first steps of a run. */
export const STEP_COLUMNS = [
  'run_id',
  'flow_id',
  'step_key',
  'step_type',
  'status',
  'due_at',
  'lease_token',
  'lease_owner',
  'started_at',
] as const;

type StepRow = Readonly<Record<(typeof STEP_COLUMNS)[number], Value>>;

/** With a lease, the first steps, up to its limit, are leased to its holder instead of becoming due. */
export function stepRows(run: NewRun, lease: BirthLease | undefined): StepRow[] {
  return run.steps.map(({ stepKey, stepType, dueAt }, index) => {
    const holder = lease === undefined || index >= lease.limit ? null : lease.holder;
    return {
      run_id: run.id,
      flow_id: run.flowId,
      step_key: stepKey,
      step_type: stepType,
      status: holder === null ? 'Pending' : 'Running',
      due_at: holder === null || lease === undefined ? dueAt : lease.leasedUntil,
      lease_token: holder,
      lease_owner: holder === null ? null : ownerOf(holder),
      started_at: holder === null ? null : dueAt,
    };
  });
}

/** A value as SQLite's threads send and bind it, which have no boolean. */
export type SentValue = Exclude<Value, boolean>;

/**
 * Makes a list that crosses threads. To V8 the result of `map` is a sparse list once that code is optimised, and it is
 * cloned entry by entry with its index: 22 values took 9 µs instead of 6.
 */
export function listOf<Given, Value>(given: readonly Given[], make: (one: Given) => Value): Value[] {
  const values: Value[] = [];
  for (const one of given) values.push(make(one));
  return values;
}

/** The values of a row as a list, the form in which they cross threads and are bound. */
export function valuesOf<Column extends string>(
  columns: readonly Column[],
  row: Readonly<Record<Column, Value>>,
): SentValue[] {
  const values: SentValue[] = [];
  for (const column of columns) {
    const value: Value = row[column];
    values.push(typeof value === 'boolean' ? Number(value) : value);
  }
  return values;
}

/** The place of each column in a list of values. */
export function placesOf<Column extends string>(columns: readonly Column[]): Readonly<Record<Column, number>> {
  return Object.fromEntries(columns.map((column, place) => [column, place])) as Record<Column, number>;
}

/** The part of an acceptance that decides about it. */
export function candidateOf(acceptance: Acceptance): Candidate {
  const { delivery, nonce, idempotencyKey = null, event, verifiedBy = null, isFiltered, signal, run } = acceptance;
  const { flowId, triggerKey, revision, subFlows, pins, order, sourceRunId, startedAt } = run;
  return {
    runId: run.id,
    flowId,
    triggerKey,
    revision,
    subFlows,
    pins,
    order,
    sourceRunId,
    startedAt,
    body: run.trigger.body,
    record: delivery && { id: delivery.id, receivedAt: delivery.receivedAt, outcome: delivery.outcome },
    redeliveredFrom: delivery?.redeliveredFrom ?? null,
    bodySha256: bodyDigestOf(acceptance),
    isFiltered: isFiltered === true,
    joining: joiningOf(acceptance),
    nonce,
    idempotencyKey,
    event,
    verifiedBy,
    signal,
  };
}

function joiningOf({ coalesce: claim, delivery, run }: Acceptance): Joining | undefined {
  if (claim === undefined) return undefined;
  const { startedAt, deliveryId, trigger } = run;
  const { contentType, headers } = trigger;
  return {
    ...{ claim, deliveryId, receivedAt: delivery?.receivedAt ?? startedAt, contentType },
    headers: JSON.stringify(headers),
  };
}

/** Hex SHA-256 of the body that the idempotency key belongs to; an empty string without a key. */
function bodyDigestOf({ idempotencyKey, run }: Acceptance): string {
  return idempotencyKey === undefined ? '' : hash('sha256', run.trigger.body);
}
