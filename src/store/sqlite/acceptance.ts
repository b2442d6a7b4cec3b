import type { Database } from 'better-sqlite3';
import { tokenOf } from '../../flows/runtime-keys.ts';
import type { RunStatus } from '../../model/manifest.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { decideNow } from '../decisions/decision.ts';
import { withPins } from '../decisions/sub-runs.ts';
import type { Acceptance, AcceptResult, BirthLease, NewRun, NonceClaim } from '../store.ts';
import { rememberInBatch } from './batch.ts';
import type { SqlValue } from './columns.ts';
import {
  type DeliveryValues,
  deliveryValues,
  packDelivery,
  prepareInsertDelivery,
  prepareInsertKeys,
  unpackDelivery,
} from './deliveries.ts';
import { prepareRunTallies } from './figures.ts';
import { prepareCountKey } from './keys.ts';
import type { Member, StoreOptions } from './messages.ts';
import { hashOfNonce, type NonceIndex } from './nonce-index.ts';
import { prepareInsertPins, preparePinRows } from './sub-runs.ts';

export const acceptanceOperations = {
  accept: { thread: 'writer', prepare: prepareAccept },
  findAcceptedNonce: { thread: 'reader', readsLog: true, prepare: prepareFindAcceptedNonce },
} as const;

/** An acceptance as the values of its rows, body apart. Made by the caller's thread, which has more time. */
export interface AcceptanceValues {
  readonly delivery: DeliveryValues | undefined;
  readonly nonce: NonceClaim | undefined;
  readonly receivedAt: number;
  readonly idempotencyKey: string | null;
  readonly verifiedBy: string | null;
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
  readonly steps: readonly StepValues[];
  readonly keys: readonly SearchKeyRow[];
  /** Flows that its steps run, and the revisions of those already pinned; both absent if it runs no flows. */
  readonly flows?: Pick<NewRun, 'subFlows' | 'pins'> | undefined;
}

/** Step key, step type, status, due time, token of its lease and start of each entry step. */
type StepValues = readonly [string, string, 'Pending' | 'Running', number, string | null, number | null];

export function acceptanceValues(
  { delivery, nonce, verifiedBy, idempotencyKey, run }: Acceptance,
  lease?: BirthLease,
): AcceptanceValues {
  return {
    delivery: delivery && deliveryValues({ ...delivery, runId: run.id }),
    nonce,
    // The earlier of the two: a nonce that was alive when the delivery arrived must not expire while it waits here.
    receivedAt: Math.min(delivery?.receivedAt ?? run.startedAt, run.startedAt),
    idempotencyKey: idempotencyKey ?? null,
    verifiedBy: verifiedBy ?? null,
    run: runValues(run, lease),
  };
}

export function runValues(run: NewRun, lease?: BirthLease): RunValues {
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
    steps: run.steps.map(({ stepKey, stepType, dueAt }, index) =>
      lease === undefined || index >= lease.limit
        ? [stepKey, stepType, 'Pending', dueAt, null, null]
        : [stepKey, stepType, 'Running', lease.leasedUntil, tokenOf(run.id, stepKey, lease.holder), dueAt],
    ),
    keys: searchKeyRows(run.searchKeys),
    ...(run.subFlows && { flows: { subFlows: run.subFlows, pins: run.pins } }),
  };
}

type PackedAcceptance = ReturnType<typeof packAcceptance>;

/** The same as nested lists, to cross threads. */
export function packAcceptance({ delivery, nonce, receivedAt, idempotencyKey, verifiedBy, run }: AcceptanceValues) {
  const { id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps, keys, flows } = run;
  return [
    delivery && packDelivery(delivery),
    nonce && ([nonce.value, nonce.bodySha256, nonce.expiresAt, nonce.isEnforced] as const),
    receivedAt,
    idempotencyKey,
    verifiedBy,
    [id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps, keys, flows] as const,
  ] as const;
}

function unpackAcceptance([
  delivery,
  nonce,
  receivedAt,
  idempotencyKey,
  verifiedBy,
  run,
]: PackedAcceptance): AcceptanceValues {
  const [id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps, keys, flows] = run;
  return {
    delivery: delivery && unpackDelivery(delivery),
    nonce: nonce && { value: nonce[0], bodySha256: nonce[1], expiresAt: nonce[2], isEnforced: nonce[3] },
    receivedAt,
    idempotencyKey,
    verifiedBy,
    run: { id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps, keys, flows },
  };
}

/** What the writer has besides its database. */
export interface WriterState {
  readonly index: NonceIndex;
  readonly held: StoreOptions['held'];
}

type KeepRun = (run: RunValues, idempotencyKey: string | null, body: Uint8Array) => void;

function prepareAccept(db: Database, state: WriterState): (packed: PackedAcceptance, body: Uint8Array) => AcceptResult {
  const mayStart = prepareMayStart(db);
  const claim = prepareClaim(db, state);
  const insertRun = prepareInsertRun(db);
  return (packed, body) => {
    const acceptance = unpackAcceptance(packed);
    return mayStart(acceptance.run) ? claim(acceptance, body, insertRun) : { kind: 'outdated' };
  };
}

/**
 * Whether a run is of the newest revision of its flow and the flow starts runs now: both may have changed since the run
 * was planned, in this process or in another. A flow that was never deployed cannot differ.
 */
export function prepareMayStart(db: Database): (run: Pick<RunValues, 'flowId' | 'revision'>) => boolean {
  const find = db.prepare<[string], { revision: number; isOpen: number }>(
    'SELECT revision, is_enabled = 1 AND draining_since IS NULL AS isOpen FROM flows WHERE id = ?',
  );
  const flowOf = rememberInBatch(db, { table: 'flows', find: (flowId) => find.get(flowId) ?? null });
  return ({ flowId, revision }) => {
    const flow = flowOf(flowId);
    return flow === null || (flow.revision === revision && flow.isOpen === 1);
  };
}

/** Stores nonce, idempotency key and delivery, and calls `keepRun` with a run that has to start. */
export function prepareClaim(
  db: Database,
  state: WriterState,
): (acceptance: AcceptanceValues, body: Uint8Array, keepRun: KeepRun) => AcceptResult {
  const claimNonce = prepareClaimNonce(db, state.index);
  const insertDelivery = prepareInsertDelivery(db);
  const countKey = prepareCountKey(db);
  const findKey = db.prepare<SqlValue[], { runId: string }>(
    'SELECT run_id AS runId FROM idempotency_keys WHERE flow_id = ? AND trigger_key = ? AND key = ? AND created_at < ?',
  );
  const insertKey = db.prepare<SqlValue[]>(
    'INSERT INTO idempotency_keys (flow_id, trigger_key, key, run_id, created_at) VALUES (?, ?, ?, ?, ?)',
  );

  const knownKeys = rememberInBatch(db, { table: 'former_trigger_keys', find: prepareKnownKeys(db) });
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

  return ({ delivery, nonce, receivedAt, idempotencyKey, verifiedBy, run }, body, keepRun) => {
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
      // Bytes and search keys are stored once: with the run, or here where the delivery starts none.
      if (first === undefined) insertDelivery({ ...kept, keys: [] });
      else insertDelivery({ ...kept, runId }, body);
      if (verifiedBy !== null && !isReplay && delivery.redeliveredFrom === null) {
        countKey({ flowId, triggerKey, keyName: verifiedBy, at: delivery.receivedAt, id: delivery.counted.id });
      }
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
  const insertStep = db.prepare<unknown[]>(`
    INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token, started_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertKeys = prepareInsertKeys(db, 'run');
  const tallies = prepareRunTallies(db);
  const pinRows = preparePinRows(db);
  const insertPins = prepareInsertPins(db);
  return (run, idempotencyKey, body) => {
    const { id, flowId, revision, triggerKey, startedAt, status, completedAt, rest, steps, keys, flows } = run;
    insertRun.run(id, flowId, triggerKey, startedAt, status, completedAt, revision, rest, idempotencyKey, body);
    tallies.added(run);
    for (const step of steps) insertStep.run(id, flowId, step);
    insertKeys(id, keys);
    const { pins } = flows === undefined ? {} : decideNow(withPins(pinRows, flows));
    if (pins !== undefined) insertPins(id, pins);
  };
}

/** The first use of a nonce that has not expired. */
interface KnownNonce {
  readonly runId: string;
  readonly bodySha256: string;
}

/** Where a nonce must be new, which run its row will name, and when. */
interface NonceScope {
  readonly flowId: string;
  readonly triggerKey: string;
  /** Where to look for it: the trigger's own key and its former ones. */
  readonly keys: readonly KnownKey[];
  readonly runId: string;
  readonly now: number;
}

type ClaimNonce = (nonce: NonceClaim, scope: NonceScope) => KnownNonce | undefined;

/** Stores a nonce that is new or expired and yields undefined; otherwise changes nothing and yields its first use. */
export function prepareClaimNonce(db: Database, index: NonceIndex): ClaimNonce {
  const find = db.prepare<unknown[], KnownNonce>(`
    SELECT run_id AS runId, body_sha256 AS bodySha256 FROM nonces
    WHERE seq = ? AND nonce = ? AND trigger_key = ? AND flow_id = ? AND expires_at > ?`);
  const insert = db.prepare<unknown[]>(`
    INSERT INTO nonces (seq, hash, flow_id, trigger_key, nonce, body_sha256, run_id, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);

  return ({ value, bodySha256, expiresAt }, { flowId, keys, triggerKey, runId, now }) => {
    const nonceHash = hashOfNonce(flowId, triggerKey, value);
    for (const key of keys) {
      const hash = key.triggerKey === triggerKey ? nonceHash : hashOfNonce(flowId, key.triggerKey, value);
      for (const seq of index.find(hash)) {
        const known = seq <= key.lastSeq ? find.get(seq, value, key.triggerKey, flowId, now) : undefined;
        if (known !== undefined) return known;
      }
    }
    insert.run(index.add(nonceHash), nonceHash, flowId, triggerKey, value, bodySha256, runId, expiresAt);
    return undefined;
  };
}

function prepareFindAcceptedNonce(db: Database): Member<'findAcceptedNonce'> {
  const find = db.prepare<SqlValue[], { runId: string }>(`
    SELECT run_id AS runId FROM deliveries
    WHERE flow_id = ? AND trigger_key = ? AND received_at >= ? AND received_at < ? AND run_id IS NOT NULL AND instr(facts, ?) > 0
      AND EXISTS (SELECT 1 FROM json_each(facts) gate WHERE json_extract(gate.value, '$.facts.nonce') = ?)
    ORDER BY id LIMIT 1`);
  const knownKeys = prepareKnownKeys(db);
  return ({ flowId, triggerKey, nonce, since }) => {
    for (const key of knownKeys(flowId, triggerKey)) {
      const found = find.get(flowId, key.triggerKey, since, key.reusedAt, JSON.stringify(nonce), nonce);
      if (found !== undefined) return found.runId;
    }
    return undefined;
  };
}

/** A key under which a trigger's deliveries may have been accepted. */
interface KnownKey {
  readonly triggerKey: string;
  /** The newest nonce that counts. */
  readonly lastSeq: number;
  /** Idempotency keys stored before this instant count. */
  readonly reusedAt: number;
}

const NEVER = Number.MAX_SAFE_INTEGER;

/**
 * Yields the key of a trigger and the keys it had before it was renamed. Also its later key, because a delivery that
 * came before the rename may be accepted after it.
 */
function prepareKnownKeys(db: Database): (flowId: string, triggerKey: string) => readonly KnownKey[] {
  const find = db.prepare<SqlValue[], KnownKey>(`
    SELECT former_key AS triggerKey, coalesce(last_seq, ${NEVER}) AS lastSeq, coalesce(reused_at, ${NEVER}) AS reusedAt
    FROM former_trigger_keys WHERE flow_id = ? AND trigger_key = ?
    UNION ALL
    SELECT trigger_key, ${NEVER}, ${NEVER} FROM former_trigger_keys
    WHERE flow_id = ? AND former_key = ? AND last_seq IS NULL`);
  return (flowId, triggerKey) => [
    { triggerKey, lastSeq: NEVER, reusedAt: NEVER },
    ...find.all(flowId, triggerKey, flowId, triggerKey),
  ];
}

/** How a deploy changes the keys of triggers. */
interface KeyChange {
  readonly flowId: string;
  /** All triggers that the flow has now. */
  readonly triggerKeys: readonly string[];
  readonly renamed: readonly { readonly from: string; readonly to: string }[];
  readonly at: number;
}

export function prepareKeepFormerKeys(db: Database): (change: KeyChange) => void {
  const reuse = db.prepare<SqlValue[]>(`
    UPDATE former_trigger_keys
    SET last_seq = (SELECT coalesce(max(seq), 0) FROM nonces), reused_at = ?
    WHERE flow_id = ? AND former_key = ? AND last_seq IS NULL`);
  const rename = db.prepare<SqlValue[]>(`
    INSERT INTO former_trigger_keys (flow_id, trigger_key, former_key) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET last_seq = NULL, reused_at = NULL`);
  const inherit = db.prepare<SqlValue[]>(`
    INSERT OR IGNORE INTO former_trigger_keys (flow_id, trigger_key, former_key, last_seq, reused_at)
    SELECT flow_id, ?, former_key, last_seq, reused_at FROM former_trigger_keys
    WHERE flow_id = ? AND trigger_key = ? AND former_key <> ?`);
  return ({ flowId, triggerKeys, renamed, at }) => {
    for (const key of triggerKeys) reuse.run(at, flowId, key);
    for (const { from, to } of renamed) {
      rename.run(flowId, to, from);
      inherit.run(to, flowId, from, to);
    }
  };
}
