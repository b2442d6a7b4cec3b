import type { Database } from 'better-sqlite3';
import { entryOf, planRun } from '../../flows/planner.ts';
import type { RunnableManifest } from '../../model/manifest.ts';
import type { FlowRecord, HoldResult, NewRun, StartedRun } from '../store.ts';
import { type AcceptanceValues, prepareClaim, prepareInsertRun, runValues, type WriterState } from './acceptance.ts';
import { ROW_BYTES } from './deliveries.ts';
import { prepareFindFlow } from './flows.ts';
import type { Member } from './messages.ts';

export const holdOperations = {
  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
  releaseHeld: { thread: 'writer', prepare: prepareReleaseHeld },
  countHeld: { thread: 'reader', prepare: prepareCountHeld },
} as const;

/** A release ends after so many bytes of bodies, so that it does not hold the writer for long. */
const releasedBytes = 4 * 1024 * 1024;

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

interface HeldRow extends HeldValues {
  readonly triggerKey: string;
  readonly runId: string;
  readonly idempotencyKey: string | null;
  readonly body: Buffer;
}

function prepareHoldDelivery(
  db: Database,
  state: WriterState,
): (acceptance: AcceptanceValues, held: HeldValues, body: Uint8Array) => HoldResult | 'full' {
  const find = prepareFindFlow(db);
  const isAnyHeld = db.prepare('SELECT 1 FROM held_deliveries WHERE flow_id = ? LIMIT 1');
  const insert = db.prepare(`
    INSERT INTO held_deliveries (
      flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent, content_type, headers, body
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const claim = prepareClaim(db, state);
  const isFull = prepareIsFull(db, state.held);
  return (acceptance, { deliveryId, traceparent, contentType, headers }, body) => {
    const { id, flowId, revision, triggerKey } = acceptance.run;
    const flow = find(flowId);
    // While some are held, the next one has to queue behind them.
    if (!isClosed(flow) && isAnyHeld.get(flowId) === undefined) return { kind: 'open' };
    if (flow !== undefined && flow.revision !== revision) return { kind: 'outdated' };
    if (isFull(headers, body)) return 'full';
    const result = claim(acceptance, body, (_run, key) =>
      insert.run(flowId, triggerKey, id, deliveryId, key, traceparent, contentType, headers, body),
    );
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
  const find = prepareFindFlow(db);
  const newest = prepareNewest(db);
  const listSizes = db.prepare<[string, number], { seq: number; bytes: number }>(
    'SELECT seq, length(body) AS bytes FROM held_deliveries WHERE flow_id = ? ORDER BY seq LIMIT ?',
  );
  const findHeld = db.prepare<[number], HeldRow>(`
    SELECT trigger_key AS triggerKey, run_id AS runId, delivery_id AS deliveryId, idempotency_key AS idempotencyKey,
      traceparent, content_type AS contentType, headers, body
    FROM held_deliveries WHERE seq = ?`);
  const remove = db.prepare('DELETE FROM held_deliveries WHERE seq = ?');
  const count = db.prepare<[string], { left: number }>(
    'SELECT count(*) AS left FROM held_deliveries WHERE flow_id = ?',
  );
  const insertRun = prepareInsertRun(db);
  return ({ flowId, limit, at }) => {
    const runs: StartedRun[] = [];
    const release = (seq: number, flow: Newest) => {
      const held = findHeld.get(seq);
      if (held === undefined) throw new Error(`The held delivery ${seq} is not in the database.`);
      const run = heldRun(held, flow, at);
      insertRun(runValues(run), held.idempotencyKey, held.body);
      remove.run(seq);
      const { trigger, ...started } = run;
      runs.push(started);
    };
    if (!isClosed(find(flowId))) {
      const flow = newest(flowId);
      let before = 0;
      for (const { seq, bytes } of listSizes.all(flowId, limit)) {
        if (before >= releasedBytes) break;
        release(seq, flow);
        before += bytes;
      }
    }
    return { runs, left: count.get(flowId)?.left ?? 0 };
  };
}

function prepareCountHeld(db: Database): Member<'countHeld'> {
  const count = db.prepare<[], { flowId: string; held: number }>(
    'SELECT flow_id AS flowId, count(*) AS held FROM held_deliveries GROUP BY flow_id',
  );
  return () => Object.fromEntries(count.all().map(({ flowId, held }) => [flowId, held]));
}

/** Whether the flow starts no runs now; one that was never deployed starts none. */
function isClosed(flow: FlowRecord | undefined): boolean {
  return flow === undefined || !flow.isEnabled || flow.drainingSince !== undefined;
}

function heldRun(held: HeldRow, flow: Newest, at: number): NewRun {
  const { triggerKey: key, contentType, headers, body } = held;
  return planRun({
    runId: held.runId,
    flow,
    triggerType: 'webhook',
    trigger: { key, contentType, headers: JSON.parse(headers), body },
    deliveryId: held.deliveryId,
    sourceRunId: null,
    traceparent: held.traceparent,
    at,
  });
}

type Newest = Parameters<typeof planRun>[0]['flow'];

function prepareNewest(db: Database): (flowId: string) => Newest {
  const find = prepareFindFlow(db);
  const findSnapshot = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  return (flowId) => {
    const record = find(flowId);
    const row = record && findSnapshot.get(flowId, record.revision);
    if (record === undefined || row === undefined) throw new Error(`The flow ${flowId} is not in the database.`);
    return { record, prepared: { entry: entryOf(JSON.parse(row.snapshot) as RunnableManifest) } };
  };
}
