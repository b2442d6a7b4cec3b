import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import {
  type AcceptanceRows,
  accept,
  asReplay,
  type FirstUse,
  type FlowRows,
  type Member,
  type NonceUse,
} from '../decisions/acceptance.ts';
import { countRun } from '../decisions/counts.ts';
import { type Decision, decideNow, known } from '../decisions/decision.ts';
import { takePlaces } from '../decisions/delivery-places.ts';
import { hold } from '../decisions/held-acceptance.ts';
import {
  keepHeaders,
  listTriggerKeys,
  type NonceCall,
  type NonceName,
  newHeaders,
  nonceExpiry,
  otherNames,
  type TriggerKey,
} from '../decisions/nonce-names.ts';
import { insertPins, pinRows } from '../decisions/pins.ts';
import type { Held } from '../decisions/placer.ts';
import { answerBy } from '../decisions/port.ts';
import { copyDeliveries, LAST_RUN } from '../decisions/run-deliveries.ts';
import { acceptShared } from '../decisions/shared-acceptance.ts';
import { eventDigest } from '../digest.ts';
import { INPUT_COLUMNS, RUN_COLUMNS, type RunRow, type SentValue } from '../new-rows.ts';
import type { AcceptResult, HoldResult, Pins, SharedResult } from '../store.ts';
import { rememberInBatches } from './batch.ts';
import { DELIVERY, prepareInsertDelivery, type SentDelivery } from './deliveries.ts';
import type { StoreOptions } from './messages.ts';
import { hashOfDigest, type NameIndexes, type NonceIndex } from './nonce-index.ts';
import { portOf } from './port.ts';
import {
  ownStepColumns,
  RUN,
  type SentAcceptance,
  type SentEvent,
  type SentNonce,
  type SentRun,
  type SentShared,
} from './sent-acceptance.ts';

export const acceptanceOperations = {
  accept: { thread: 'writer', prepare: prepareAccept },
  acceptShared: { thread: 'writer', prepare: prepareAcceptShared },
  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
} as const;

/** An acceptance in the writer, with the rows to store. */
interface AcceptCall extends SentAcceptance {
  readonly body: Uint8Array;
}

/** Decides a call that may join others at a place, and writes the changes to that place. */
function withPlaces<Result>(
  db: Database,
  { rows, call }: { readonly rows: AcceptRows; readonly call: AcceptCall },
  decideBy: (rows: AcceptRows) => Decision<Result>,
): Result {
  if (call.joining === undefined) return decideNow(decideBy(rows));
  const places = decideNow(takePlaces(portOf(db), [call]));
  const result = decideNow(decideBy({ ...rows, places }));
  for (const place of places) place.settle();
  return result;
}

type AcceptRows = AcceptanceRows<AcceptCall>;

/** The state of the writer besides its database. Its statements are prepared once for each connection. */
export interface WriterState {
  readonly indexes: NameIndexes;
  readonly rows: AcceptRows;
  readonly held: StoreOptions['held'];
}

function prepareAccept(db: Database, { rows }: WriterState): (sent: SentAcceptance, body: Uint8Array) => AcceptResult {
  return (sent, body) => {
    const call = { ...sent, body };
    return withPlaces(db, { rows, call }, (placed) => accept(placed, call));
  };
}

function prepareHoldDelivery(
  db: Database,
  { rows, held: bounds }: WriterState,
): (sent: SentAcceptance, body: Uint8Array) => HoldResult | 'full' {
  return (sent, body) => {
    const call = { ...sent, body };
    return withPlaces(db, { rows, call }, (placed) =>
      hold(portOf(db), call, { held: heldOf(call), bounds, rowsOf: () => known(placed) }),
    );
  };
}

function heldOf({ run: [row, , keys], body, nonce }: AcceptCall): Held {
  const run = Object.fromEntries(RUN_COLUMNS.map((column, place) => [column, row[place]])) as RunRow;
  return { run, keys, body, isTrusted: nonce?.isTrusted === true };
}

function prepareAcceptShared(
  db: Database,
  { rows, held: bounds }: WriterState,
): (sent: SentShared, body: Uint8Array) => SharedResult | 'full' {
  return (sent, body) => {
    const members = sent.map(([acceptance, start]): Member<AcceptCall> => {
      const call = { ...acceptance, body };
      return { call, start, held: start === 'later' ? heldOf(call) : undefined };
    });
    const port = portOf(db);
    return decideNow(acceptShared(members, { port, flows: rows, bounds, rowsOf: () => known(rows) }));
  };
}

function prepareFlowRows(db: Database): FlowRows {
  const find = db.prepare<
    [string],
    { revision: number; isEnabled: number; draining: number | null; deleted: number | null }
  >(
    'SELECT revision, is_enabled AS isEnabled, draining_since AS draining, deleted_at AS deleted FROM flows WHERE id = ?',
  );
  const flowOf = rememberInBatches(db, {
    tables: ['flows'],
    find: (flowId) => {
      const row = find.get(flowId);
      if (row === undefined) return null;
      const [drainingSince, deletedAt] = [row.draining ?? undefined, row.deleted ?? undefined];
      return { revision: row.revision, isEnabled: row.isEnabled === 1, drainingSince, deletedAt };
    },
  });
  return { shareFlow: (flowId) => known(flowOf(flowId) ?? undefined) };
}

export function prepareAcceptanceRows(db: Database, indexes: NameIndexes): AcceptRows {
  const triggerKeys = rememberInBatches(db, {
    tables: ['former_trigger_keys', 'nonce_headers'],
    find: (flowId, triggerKey) => decideNow(listTriggerKeys(portOf(db), [{ flowId, triggerKey }]))[0] ?? [],
  });
  const findRedelivery = db
    .prepare<[string | null], string | null>('SELECT run_id FROM deliveries WHERE redelivered_from = ?')
    .pluck();
  const nonces = prepareNonces(db, indexes.nonces);
  const events = prepareEvents(db, indexes.events);
  const findKey = db.prepare<SentValue[], FirstUse>(`
    SELECT run_id AS runId, body_sha256 AS bodySha256 FROM idempotency_keys
    WHERE flow_id = ? AND trigger_key = ? AND key = ? AND created_at < ?`);
  const insertKey = db.prepare<SentValue[]>(`
    INSERT INTO idempotency_keys (flow_id, trigger_key, key, body_sha256, run_id, created_at)
    VALUES (?, ?, ?, ?, ?, ?)`);
  const insertDelivery = prepareInsertDelivery(db);
  const insertRun = prepareInsertRunRows(db);
  return {
    ...prepareFlowRows(db),
    ...pinRows(portOf(db)),
    count: portOf(db).count,
    places: [],
    findRedelivery: ({ redeliveredFrom }) => known(findRedelivery.get(redeliveredFrom)),
    findNonce: (call) => known(nonces.find(call, triggerKeys(call.flowId, call.triggerKey))),
    findKey({ flowId, triggerKey, idempotencyKey }) {
      for (const key of triggerKeys(flowId, triggerKey)) {
        const found = findKey.get(key.flowId, key.triggerKey, idempotencyKey, key.reusedAt ?? NEVER);
        if (found !== undefined) return known(found);
      }
      return known(undefined);
    },
    findEvent: (call) => known(events.find(call, triggerKeys(call.flowId, call.triggerKey))),
    answer: (call) => known(decideNow(answerBy(portOf(db), call))),
    keepRedelivery() {
      // The delivery itself names the delivery that it repeats and the run that it belongs to.
    },
    keepNonce: (call, runId) => nonces.keep(call, runId, triggerKeys(call.flowId, call.triggerKey)),
    keepKey: ({ flowId, triggerKey, idempotencyKey, bodySha256, startedAt }, runId) =>
      insertKey.run(flowId, triggerKey, idempotencyKey, bodySha256, runId, startedAt),
    keepEvent: (call, runId) => events.keep(call, runId),
    keepDelivery({ delivery, runId: ownRunId, run: [run], body }, { runId, isReplay, outcome, shares }) {
      if (delivery === undefined) return;
      const [row, keys] = delivery;
      const sentAs = (sent: readonly SentValue[], own: typeof keys): SentDelivery =>
        shares === undefined ? [sent, own] : [sent, own, shares];
      const judged = isReplay ? replayed(row) : row;
      const kept = outcome === undefined ? judged : judged.with(DELIVERY.outcome, outcome);
      if (runId === ownRunId) insertDelivery(sentAs(kept, []), null);
      else {
        const headers = kept[DELIVERY.headers] ?? run[RUN.trigger_headers] ?? null;
        const sent = sentAs(kept.with(DELIVERY.run_id, runId).with(DELIVERY.headers, headers), keys);
        insertDelivery(sent, outcome === 'coalesced' ? null : body);
      }
    },
    keepRun({ run, body }, { pins, isWaiting }) {
      const [row, steps, ...rest] = run;
      insertRun(isWaiting ? [row.with(RUN.timeout_at, null), [], ...rest] : [row, steps, ...rest], pins, body);
    },
  };
}

/** Finds event ids as nonces are found, and under former keys of the trigger as idempotency keys are. */
export function prepareEvents(db: Database, index: NonceIndex) {
  const find = db
    .prepare<unknown[], string>(`
      SELECT run_id FROM event_ids
      WHERE seq = ? AND event_id = ? AND trigger_key = ? AND flow_id = ? AND expires_at > ? AND created_at < ?`)
    .pluck();
  const insert = db.prepare<unknown[]>(`
    INSERT INTO event_ids (seq, hash, flow_id, trigger_key, event_id, run_id, created_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  return {
    find(
      { event }: { event: Pick<SentEvent, 'id' | 'name' | 'arrivedAt'> | undefined },
      keys: readonly TriggerKey[],
    ): string | undefined {
      if (event === undefined) return undefined;
      const { id, name, arrivedAt } = event;
      for (const [place, key] of keys.entries()) {
        const { flowId, triggerKey, reusedAt } = key;
        const digest = place === 0 ? name : eventDigest(key, id);
        for (const seq of index.find(hashOfDigest(digest))) {
          const found = find.get(seq, id, triggerKey, flowId, arrivedAt, reusedAt ?? NEVER);
          if (found !== undefined) return found;
        }
      }
      return undefined;
    },
    keep({ event, flowId, triggerKey, startedAt }: AcceptCall, runId: string): void {
      if (event === undefined) return;
      const hash = hashOfDigest(event.name);
      const names = [index.add(hash), hash, flowId, triggerKey, event.id];
      insert.run(names, runId, startedAt, event.expiresAt);
    },
  };
}

function replayed(row: readonly SentValue[]): SentValue[] {
  const { rejected, reason, violations } = asReplay({
    reason: row[DELIVERY.reason] as Parameters<typeof asReplay>[0]['reason'],
    violations: JSON.parse(row[DELIVERY.violations] as string),
  });
  return row
    .with(DELIVERY.rejected, Number(rejected))
    .with(DELIVERY.reason, reason)
    .with(DELIVERY.violations, JSON.stringify(violations));
}

function prepareInsertRunRows(db: Database): (run: SentRun, pins: Pins | undefined, body: Uint8Array) => void {
  const places = (columns: readonly string[]) => columns.map(() => '?').join(', ');
  const columns = RUN_COLUMNS.slice(0, -INPUT_COLUMNS.length);
  const insertRun = db.prepare<unknown[]>(
    `INSERT INTO runs (seq, ${columns.join(', ')}) VALUES (1 + ${LAST_RUN}, ${places(columns)})`,
  );
  const insertInput = db.prepare<unknown[]>(
    'INSERT INTO run_input_rows (seq, search_keys, content_type, headers, body) VALUES (?, ?, ?, ?, ?)',
  );
  const insertStep = db.prepare<unknown[]>(
    `INSERT INTO steps (${ownStepColumns.join(', ')}) VALUES (${places(ownStepColumns)})`,
  );
  const port = portOf(db);
  return ([row, steps, keys, deliveriesOf], pins, body) => {
    const id = row[RUN.id] as string;
    const { lastInsertRowid: seq } = insertRun.run(row.slice(0, columns.length));
    insertInput.run(seq, keys.length === 0 ? null : JSON.stringify(keys), row.slice(columns.length), body);
    countRun(port.count, {
      flowId: row[RUN.flow_id] as string,
      status: row[RUN.status] as RunStatus,
      startedAt: row[RUN.started_at] as number,
      completedAt: row[RUN.completed_at] as number | null,
    });
    for (const step of steps) insertStep.run(step);
    if (pins !== undefined) insertPins(port, id, pins);
    if (deliveriesOf !== undefined) copyDeliveries(port, id, deliveriesOf);
  };
}

const NEVER = Number.MAX_SAFE_INTEGER;

interface LedgerCall extends NonceCall {
  readonly nonce: SentNonce | undefined;
}

interface Nonces {
  find(call: LedgerCall, keys: readonly TriggerKey[]): NonceUse | undefined;
  keep(call: LedgerCall, runId: string | null, keys: readonly TriggerKey[]): void;
}

export function prepareNonces(db: Database, index: NonceIndex): Nonces {
  const port = portOf(db);
  const find = db.prepare<unknown[], FirstUse<string | null>>(`
    SELECT run_id AS runId, body_sha256 AS bodySha256 FROM nonces
    WHERE seq = ? AND (nonce = ? OR alias = ?) AND header = ? AND is_verified = ? AND trigger_key = ? AND flow_id = ?
      AND expires_at > ?`);
  const insert = db.prepare<unknown[]>(`
    INSERT INTO nonces (
      seq, hash, flow_id, trigger_key, is_verified, header, nonce, alias, body_sha256, run_id, expires_at
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const findUnder = (
    arrivedAt: number,
    { flowId, triggerKey, lastSeq, isTrusted, header, nonce, digest }: Omit<NonceName, 'until'>,
  ) => {
    const alias = nonce === null ? digest : null;
    for (const seq of index.find(hashOfDigest(digest))) {
      if (lastSeq !== null && seq > lastSeq) continue;
      const first = find.get(seq, nonce, alias, header, Number(isTrusted), triggerKey, flowId, arrivedAt);
      if (first !== undefined) return first;
    }
    return undefined;
  };
  return {
    find(call, keys) {
      const { flowId, triggerKey, nonce } = call;
      if (nonce === undefined) return undefined;
      const { header, isTrusted, value, name: digest, arrivedAt } = nonce;
      const own = findUnder(arrivedAt, { flowId, triggerKey, lastSeq: null, isTrusted, header, nonce: value, digest });
      if (own !== undefined) return { ...own, isOwn: true };
      for (const other of otherNames(call, keys)) {
        const first = findUnder(arrivedAt, other);
        if (first !== undefined) return { ...first, isOwn: false };
      }
      return undefined;
    },
    keep(call, runId, keys) {
      const { flowId, triggerKey, nonce } = call;
      if (nonce === undefined) return;
      const { value, header, isTrusted, bodySha256, name, alias } = nonce;
      const hash = hashOfDigest(name);
      const seq = alias === null ? index.add(hash) : index.add(hash, hashOfDigest(alias));
      const names = [seq, hash, flowId, triggerKey, Number(isTrusted), header, value, alias];
      insert.run(names, bodySha256, runId, nonceExpiry(nonce));
      const used = newHeaders(call, keys);
      if (used.length > 0)
        keepHeaders(
          port,
          used.map((each) => ({ flowId, triggerKey, ...each })),
        );
    },
  };
}
