import { planRun, whyClosed } from '../../model/planner.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { closeHeldPlaces } from '../../store/decisions/delivery-places.ts';
import { lockFlows } from '../../store/decisions/flows.ts';
import { toSearchKeys } from '../../store/decisions/lists.ts';
import { insertRun } from '../../store/decisions/new-runs.ts';
import { storePart } from '../../store/decisions/part.ts';
import { pinRows, readyRun } from '../../store/decisions/pins.ts';
import { orderIn } from '../../store/decisions/placing.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { type RunnableRevision, revisionOf } from '../../store/decisions/revisions.ts';
import { addDelivery } from '../../store/decisions/run-deliveries.ts';
import type { FlowRecord, NewRun, StartedRun } from '../../store/store.ts';
import { holdPlacer } from './placer.ts';

interface ReleaseQuery {
  readonly flowId: string;
  readonly limit: number;
  readonly at: number;
}

interface Release {
  readonly runs: readonly StartedRun[];
  /** Deliveries of the flow that are still held. */
  readonly left: number;
}

interface DiscardQuery {
  readonly flowId: string;
  readonly heldBefore: number;
  readonly limit: number;
  readonly note: string;
}

interface Discard {
  readonly discarded: number;
  readonly left: number;
}

interface HeldOfFlow {
  readonly flowId: string;
  readonly held: number;
  readonly oldestAt: number;
}

/** A held delivery: the input for planning its run. */
interface HeldDelivery {
  readonly seq: number;
  readonly triggerKey: string;
  readonly runId: string;
  readonly idempotencyKey: string | null;
  readonly deliveryId: string | null;
  readonly traceparent: string | null;
  readonly contentType: string | null;
  /** JSON text, like the headers. */
  readonly searchKeys: string | null;
  readonly heldAt: number;
  readonly headers: string;
  readonly body: Uint8Array;
  readonly isTrusted: boolean;
}

/** A release stops after this many bytes of bodies, so that it does not block other writes for long. */
const RELEASED_BYTES = 4 * 1024 * 1024;

/** Starts runs of the newest revision for held deliveries, in the order of arrival. */
function* releaseHeld(port: Port, { flowId, limit, at }: ReleaseQuery): Decision<Release> {
  const flow = (yield* lockFlows(port, [flowId])).get(flowId);
  const runs: StartedRun[] = [];
  if (flow !== undefined && whyClosed(flow) === undefined) {
    const newest = yield* newestOf(port, flow);
    const rows = pinRows(port);
    const sizes = yield* port.all<{ seq: number; bytes: number }>(sql`
      SELECT seq, octet_length(body) AS bytes FROM sluice.held_deliveries
      WHERE flow_id = ${flowId} ORDER BY seq LIMIT ${limit}`);
    const first = firstOf(sizes);
    const seqs = [...first, ...(yield* joining(port, first))];
    const deliveries = yield* port.all<HeldDelivery>(sql`
      SELECT seq, trigger_key AS "triggerKey", run_id AS "runId", delivery_id AS "deliveryId",
        idempotency_key AS "idempotencyKey", traceparent, content_type AS "contentType", search_keys AS "searchKeys",
        held_at AS "heldAt", headers, body, is_verified AS "isTrusted"
      FROM sluice.held_deliveries WHERE seq = ANY (${seqs}) ORDER BY seq`);
    const byRun = new Map<string, HeldDelivery[]>();
    for (const held of deliveries) byRun.set(held.runId, [...(byRun.get(held.runId) ?? []), held]);
    for (const [held, ...joined] of byRun.values()) {
      if (held === undefined) continue;
      const run = yield* readyRun(rows, runOf(held, newest, at));
      insertRun(port, run, held.idempotencyKey);
      if (joined.length > 0) insertDeliveries(port, [held, ...joined]);
      const { trigger, ...started } = run;
      runs.push(started);
    }
    if (seqs.length > 0) yield* removeHeld(port, flowId, seqs);
    closeHeldPlaces(port, flowId);
  }
  return { runs, left: yield* holdPlacer.held.count(port, flowId) };
}

/** Held deliveries that join the runs of these: a run starts with all of its deliveries. */
function* joining(port: Port, seqs: readonly number[]): Decision<number[]> {
  const rows = yield* port.all<{ seq: number }>(sql`
    SELECT seq FROM sluice.held_deliveries
    WHERE joins /*sqlite: = 1 */ AND seq <> ALL (${seqs}) AND run_id = ANY (ARRAY(
      SELECT run_id FROM sluice.held_deliveries WHERE seq = ANY (${seqs})))`);
  return rows.map(({ seq }) => seq);
}

function insertDeliveries(port: Port, held: readonly HeldDelivery[]): void {
  for (const [index, delivery] of held.entries()) {
    const { runId: run_id, deliveryId: delivery_id, heldAt: received_at, idempotencyKey: idempotency_key } = delivery;
    const isOwn = index === 0;
    const values = isOwn ? { content_type: null, headers: null, body: null } : valuesOf(delivery);
    addDelivery(port, { run_id, place: index + 1, delivery_id, received_at, idempotency_key, ...values });
  }
  port.later(sql`UPDATE sluice.runs SET deliveries = ${held.length} WHERE id = ${held[0]?.runId ?? null}`);
}

const valuesOf = ({ contentType: content_type, headers, body }: HeldDelivery) => ({ content_type, headers, body });

function* removeHeld(port: Port, flowId: string, seqs: readonly number[]): Decision<void> {
  const removed = yield* port.all<{ bytes: number }>(
    sql`DELETE FROM sluice.held_deliveries WHERE seq = ANY (${seqs}) RETURNING kept_bytes AS bytes`,
  );
  const bytes = removed.reduce((sum, each) => sum + each.bytes, 0);
  port.count('kept_sizes', ['held'], { rows: -removed.length, bytes: -bytes });
  // Never below 0: a replica of an earlier release does not add to `held_bytes`.
  port.later(sql`
    UPDATE sluice.flows SET held_bytes = CASE WHEN held_bytes < ${bytes} THEN 0 ELSE held_bytes - ${bytes} END
    WHERE id = ${flowId}`);
}

/** Removes held deliveries whose runs shall not start; their names stay known, and their records get the reason. */
function* discardHeld(port: Port, { flowId, heldBefore, limit, note }: DiscardQuery): Decision<Discard> {
  yield* lockFlows(port, [flowId]);
  const found = yield* port.all<Pick<HeldDelivery, 'seq' | 'deliveryId' | 'runId'>>(sql`
    SELECT seq, delivery_id AS "deliveryId", run_id AS "runId" FROM sluice.held_deliveries
    WHERE flow_id = ${flowId} AND held_at < ${heldBefore} ORDER BY seq LIMIT ${limit}`);
  if (found.length > 0) {
    const deliveryIds = found.flatMap(({ deliveryId }) => deliveryId ?? []);
    const runIds = found.map(({ runId }) => runId);
    // Not if the record names a run of another flow.
    port.later(sql`
      UPDATE sluice.deliveries SET detail = ${note}
      WHERE id = ANY (${deliveryIds}::uuid[]) AND run_id = ANY (${runIds}::uuid[])`);
    // For deliveries of several flows, each flow's share records it.
    port.later(sql`
      UPDATE sluice.delivery_shares SET outcome = 'discarded'
      WHERE delivery_id = ANY (${deliveryIds}::uuid[]) AND run_id = ANY (${runIds}::uuid[])`);
    const seqs = found.map(({ seq }) => seq);
    yield* removeHeld(port, flowId, seqs);
    closeHeldPlaces(port, flowId);
  }
  return { discarded: found.length, left: yield* holdPlacer.held.count(port, flowId) };
}

function firstOf(sizes: readonly { readonly seq: number; readonly bytes: number }[]): number[] {
  const seqs: number[] = [];
  let before = 0;
  for (const { seq, bytes } of sizes) {
    if (before >= RELEASED_BYTES) break;
    seqs.push(seq);
    before += bytes;
  }
  return seqs;
}

interface Newest {
  readonly record: FlowRecord;
  readonly prepared: RunnableRevision;
}

function* newestOf(port: Port, record: FlowRecord): Decision<Newest> {
  return { record, prepared: yield* revisionOf(port, record.id, record.revision) };
}

function runOf(held: HeldDelivery, flow: Newest, at: number): NewRun {
  const { runId, deliveryId, traceparent, triggerKey: key, contentType, headers, body } = held;
  const trigger = { key, contentType, headers: JSON.parse(headers), body };
  return planRun({
    runId,
    flow,
    triggerType: 'webhook',
    trigger,
    deliveryId,
    sourceRunId: null,
    traceparent,
    // The search keys with which it arrived, whatever its flow defines now.
    searchKeys: toSearchKeys(held.searchKeys),
    order: orderIn(flow.prepared, trigger, held.isTrusted),
    at,
  });
}

export const holdStore = storePart({
  name: 'hold',
  verbs: {
    /**
     * Starts the runs of at most `limit` held deliveries, oldest first, each with the newest revision, and stops
     * holding these. Starts none while the flow is disabled or drained.
     */
    releaseHeld: {
      access: 'write',
      changes: ({ flowId }: ReleaseQuery, { runs }: Release) => (runs.length > 0 ? [{ kind: 'flow', flowId }] : []),
      decide: releaseHeld,
    },
    /**
     * Removes at most `limit` deliveries held before an instant, oldest first: their runs never start. Nonces and
     * idempotency keys stay known, and the records get `note` as their detail.
     */
    discardHeld: {
      access: 'write',
      changes: ({ flowId }: DiscardQuery, { discarded }: Discard) => (discarded > 0 ? [{ kind: 'flow', flowId }] : []),
      decide: discardHeld,
    },
    /** The number of held deliveries by flow, and the time of the oldest; flows without any are left out. */
    listHeld: {
      access: 'read',
      *decide(port: Port): Decision<HeldOfFlow[]> {
        return yield* port.all<HeldOfFlow>(sql`
          SELECT own.flow_id AS "flowId", own.held, h.held_at AS "oldestAt"
          FROM (
            SELECT flow_id, count(*) AS held, min(seq) AS first FROM sluice.held_deliveries GROUP BY flow_id
          ) AS own /*sqlite: CROSS */ JOIN sluice.held_deliveries AS h ON h.seq = own.first
          ORDER BY own.flow_id`);
      },
    },
  },
});
