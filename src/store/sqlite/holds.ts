import type { Database } from 'better-sqlite3';
import { asking, decideNow } from '../decisions/decision.ts';
import { type HeldDelivery, type HeldReads, type HeldRows, holdOf, releaseHeld } from '../decisions/release.ts';
import type { HoldResult, NewRun } from '../store.ts';
import { type AcceptanceValues, prepareClaim, prepareInsertRun, runValues, type WriterState } from './acceptance.ts';
import { prepareInsertKeys, ROW_BYTES } from './deliveries.ts';
import { prepareFindFlow } from './flows.ts';
import type { Member } from './messages.ts';
import { preparePinRows } from './sub-runs.ts';

export const holdOperations = {
  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
  releaseHeld: { thread: 'writer', prepare: prepareReleaseHeld },
  countHeld: { thread: 'reader', prepare: prepareCountHeld },
} as const;

/** What is needed to start a held run later, without its body. */
interface HeldValues {
  readonly deliveryId: string | null;
  readonly traceparent: string | null;
  readonly contentType: string | null;
  readonly headers: string;
}

export function heldValues({ deliveryId, traceparent, trigger }: NewRun): HeldValues {
  return { deliveryId, traceparent, contentType: trigger.contentType, headers: JSON.stringify(trigger.headers) };
}

function prepareHoldDelivery(
  db: Database,
  state: WriterState,
): (acceptance: AcceptanceValues, held: HeldValues, body: Uint8Array) => HoldResult | 'full' {
  const rows = prepareHeldRows(db);
  const insert = db.prepare(`
    INSERT INTO held_deliveries (
      flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent, content_type, headers, body
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const claim = prepareClaim(db, state);
  const isFull = prepareIsFull(db, state.held);
  const insertRunKeys = prepareInsertKeys(db, 'run');
  const insertDeliveryKeys = prepareInsertKeys(db, 'delivery');
  return (acceptance, { deliveryId, traceparent, contentType, headers }, body) => {
    const { id, flowId, triggerKey, keys } = acceptance.run;
    const kind = decideNow(holdOf(rows, acceptance.run));
    if (kind !== 'held') return { kind };
    if (isFull(headers, body)) return 'full';
    const result = claim(acceptance, body, (_run, key) => {
      insert.run(flowId, triggerKey, id, deliveryId, key, traceparent, contentType, headers, body);
      // The run keeps them from now on, whatever its flow names when it is released.
      insertRunKeys(id, keys);
      if (deliveryId !== null) insertDeliveryKeys(deliveryId, keys);
    });
    return result.kind === 'accepted' ? { ...result, kind: 'held' } : result;
  };
}

/** Whether another delivery would exceed the bounds. */
function prepareIsFull(db: Database, bounds: WriterState['held']): (headers: string, body: Uint8Array) => boolean {
  const measure = db.prepare<[], { rows: number; bytes: number }>('SELECT rows, bytes FROM held_state');
  return (headers, body) => {
    const { rows, bytes } = measure.get() ?? { rows: 0, bytes: 0 };
    const added = ROW_BYTES + Buffer.byteLength(headers) + body.byteLength;
    return rows + 1 > bounds.maxRows || bytes + added > bounds.maxBytes;
  };
}

function prepareReleaseHeld(db: Database): Member<'releaseHeld'> {
  const rows = prepareHeldRows(db);
  return (release) => decideNow(releaseHeld(rows, release));
}

function prepareHeldRows(db: Database): HeldRows {
  const findSnapshot = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const findAny = db.prepare('SELECT 1 FROM held_deliveries WHERE flow_id = ? LIMIT 1');
  const count = db.prepare<[string], { left: number }>(
    'SELECT count(*) AS left FROM held_deliveries WHERE flow_id = ?',
  );
  const listSizes = db.prepare<[string, number], { seq: number; bytes: number }>(
    'SELECT seq, length(body) AS bytes FROM held_deliveries WHERE flow_id = ? ORDER BY seq LIMIT ?',
  );
  const find = db.prepare<[number], HeldDelivery>(`
    SELECT seq, trigger_key AS triggerKey, run_id AS runId, delivery_id AS deliveryId,
      idempotency_key AS idempotencyKey, traceparent, content_type AS contentType, headers, body
    FROM held_deliveries WHERE seq = ?`);
  const remove = db.prepare('DELETE FROM held_deliveries WHERE seq = ?');
  const insertRun = prepareInsertRun(db);
  const reads = asking<HeldReads>({
    findFlow: prepareFindFlow(db),
    findSnapshot: (flowId, revision) => findSnapshot.get(flowId, revision)?.snapshot,
    hasHeld: (flowId) => findAny.get(flowId) !== undefined,
    countHeld: (flowId) => count.get(flowId)?.left ?? 0,
    listSizes: (flowId, limit) => listSizes.all(flowId, limit),
    *listHeld(seqs) {
      for (const seq of seqs) {
        const held = find.get(seq);
        if (held === undefined) throw new Error(`The held delivery ${seq} is not in the database.`);
        yield held;
      }
    },
  });
  return {
    ...reads,
    ...preparePinRows(db),
    insertRun: (run, idempotencyKey) => insertRun(runValues(run), idempotencyKey, run.trigger.body),
    removeHeld: (seq) => remove.run(seq),
  };
}

function prepareCountHeld(db: Database): Member<'countHeld'> {
  const count = db.prepare<[], { flowId: string; held: number }>(
    'SELECT flow_id AS flowId, count(*) AS held FROM held_deliveries GROUP BY flow_id',
  );
  return () => Object.fromEntries(count.all().map(({ flowId, held }) => [flowId, held]));
}
