import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import type { Acceptance, AcceptResult, NewRun, NonceClaim } from '../store.ts';
import { type DeliveryValues, deliveryValues, prepareInsertDelivery } from './deliveries.ts';
import { type KnownKey, prepareKnownKeys } from './former-keys.ts';
import { prepareClaimNonce } from './nonces.ts';
import type { WriterState } from './operations.ts';
import { prepareRunTallies } from './run-tallies.ts';
import type { SqlValue } from './sql-value.ts';

/**
 * An acceptance as the values of its rows, body apart. Made by the caller's thread: a flat list costs half as much to
 * send as the records, and a quarter to receive.
 */
export interface AcceptanceValues {
  readonly delivery: DeliveryValues | undefined;
  readonly nonce: NonceClaim | undefined;
  readonly receivedAt: number;
  readonly idempotencyKey: string | null;
  readonly run: RunValues;
}

export interface RunValues {
  readonly id: string;
  readonly flowId: string;
  readonly revision: number;
  readonly triggerKey: string;
  readonly startedAt: number;
  readonly status: RunStatus;
  readonly completedAt: number | null;
  /** The other columns, in the order of the statement that inserts them. */
  readonly rest: readonly SqlValue[];
  /** Step key, step type and due time of each entry step. */
  readonly steps: readonly (readonly [string, string, number])[];
}

export function acceptanceValues({ delivery, nonce, idempotencyKey, run }: Acceptance): AcceptanceValues {
  return {
    delivery: delivery && deliveryValues({ ...delivery, runId: run.id }),
    nonce,
    // The earlier of the two: a nonce that was alive when the delivery arrived must not expire while it waits here.
    receivedAt: Math.min(delivery?.receivedAt ?? run.startedAt, run.startedAt),
    idempotencyKey: idempotencyKey ?? null,
    run: runValues(run),
  };
}

export function runValues(run: NewRun): RunValues {
  return {
    id: run.id,
    flowId: run.flowId,
    revision: run.revision,
    triggerKey: run.triggerKey,
    startedAt: run.startedAt,
    status: run.status,
    completedAt: run.completedAt,
    rest: [
      run.flowName,
      run.flowVersion,
      run.triggerType,
      run.deliveryId,
      run.sourceRunId,
      run.timeoutAt,
      run.traceparent,
      run.trigger.contentType,
      JSON.stringify(run.trigger.headers),
    ],
    steps: run.steps.map(({ stepKey, stepType, dueAt }) => [stepKey, stepType, dueAt]),
  };
}

type KeepRun = (run: RunValues, idempotencyKey: string | null, body: Uint8Array) => void;

export function prepareAccept(
  db: Database,
  state: WriterState,
): (acceptance: AcceptanceValues, body: Uint8Array) => AcceptResult {
  const mayStart = prepareMayStart(db);
  const claim = prepareClaim(db, state);
  const insertRun = prepareInsertRun(db);
  return (acceptance, body) => (mayStart(acceptance.run) ? claim(acceptance, body, insertRun) : { kind: 'outdated' });
}

/**
 * Whether a run is of the newest revision of its flow and the flow starts runs now: both may have changed since the run was
 * planned, in this process or in another. A flow that was never deployed has nothing to differ from.
 */
export function prepareMayStart(db: Database): (run: Pick<RunValues, 'flowId' | 'revision'>) => boolean {
  const find = db.prepare<[string], { revision: number; isOpen: number }>(
    'SELECT revision, is_enabled = 1 AND draining_since IS NULL AS isOpen FROM flows WHERE id = ?',
  );
  return ({ flowId, revision }) => {
    const flow = find.get(flowId);
    return flow === undefined || (flow.revision === revision && flow.isOpen === 1);
  };
}

/** Keeps nonce, idempotency key and delivery, and hands the run on to be kept where it is to be started. */
export function prepareClaim(
  db: Database,
  state: WriterState,
): (acceptance: AcceptanceValues, body: Uint8Array, keepRun: KeepRun) => AcceptResult {
  const claimNonce = prepareClaimNonce(db, state.index);
  const insertDelivery = prepareInsertDelivery(db);
  const findKey = db.prepare<SqlValue[], { runId: string }>(
    'SELECT run_id AS runId FROM idempotency_keys WHERE flow_id = ? AND trigger_key = ? AND key = ? AND created_at < ?',
  );
  const insertKey = db.prepare<SqlValue[]>(
    'INSERT INTO idempotency_keys (flow_id, trigger_key, key, run_id, created_at) VALUES (?, ?, ?, ?, ?)',
  );

  const knownKeys = prepareKnownKeys(db);
  const findFirst = (flowId: string, keys: readonly KnownKey[], idempotencyKey: string) => {
    for (const { triggerKey, reusedAt } of keys) {
      const found = findKey.get(flowId, triggerKey, idempotencyKey, reusedAt);
      if (found !== undefined) return found.runId;
    }
    return undefined;
  };
  const findRedelivery = db.prepare<SqlValue[], { runId: string }>(
    'SELECT run_id AS runId FROM deliveries WHERE redelivered_from = ?',
  );

  return ({ delivery, nonce, receivedAt, idempotencyKey, run }, body, keepRun) => {
    const { flowId, triggerKey } = run;
    const redelivered = delivery?.redeliveredFrom && findRedelivery.get(delivery.redeliveredFrom);
    if (redelivered) return { kind: 'duplicate', runId: redelivered.runId, isReplay: false };

    const keys = nonce === undefined && idempotencyKey === null ? [] : knownKeys(flowId, triggerKey);
    // Looked up before the nonce is kept, for the nonce's row names the run that the answer names.
    const first = idempotencyKey === null ? undefined : findFirst(flowId, keys, idempotencyKey);
    const runId = first ?? run.id;

    const known = nonce && claimNonce(nonce, { flowId, triggerKey, keys, runId, now: receivedAt });
    if (known !== undefined && nonce?.isEnforced === true) {
      return { kind: 'replayed', runId: known.runId, hasSameBody: known.bodySha256 === nonce.bodySha256 };
    }
    const isReplay = known !== undefined;

    if (delivery !== undefined) {
      const kept = isReplay ? withReplay(delivery) : delivery;
      // The bytes are stored once: with the run, or here where the delivery starts none.
      if (first === undefined) insertDelivery(kept);
      else insertDelivery({ ...kept, runId }, body);
    }
    if (first !== undefined) return { kind: 'duplicate', runId, isReplay };

    keepRun(run, idempotencyKey, body);
    if (idempotencyKey !== null) insertKey.run(flowId, triggerKey, idempotencyKey, runId, run.startedAt);
    return { kind: 'accepted', runId, isReplay };
  };
}

function withReplay(delivery: DeliveryValues): DeliveryValues {
  return {
    ...delivery,
    rejected: 1,
    reason: delivery.reason ?? 'nonce_replayed',
    violations: [...delivery.violations, 'nonce_replayed'],
  };
}

export function prepareInsertRun(db: Database): KeepRun {
  const insertRun = db.prepare<unknown[]>(`
    INSERT INTO runs (
      id, flow_id, trigger_key, started_at, status, completed_at, revision, flow_name, flow_version, trigger_type,
      delivery_id, source_run_id, timeout_at, traceparent, trigger_content_type, trigger_headers, idempotency_key,
      trigger_body
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertStep = db.prepare<unknown[]>(
    "INSERT INTO steps (run_id, flow_id, step_key, step_type, due_at, status) VALUES (?, ?, ?, ?, ?, 'Pending')",
  );
  const tallies = prepareRunTallies(db);
  return (run, idempotencyKey, body) => {
    const { id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps } = run;
    insertRun.run(id, flowId, triggerKey, startedAt, status, completedAt, revision, rest, idempotencyKey, body);
    tallies.added(run);
    for (const step of steps) insertStep.run(id, flowId, step);
  };
}
