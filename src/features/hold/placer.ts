import { whyClosed } from '../../model/planner.ts';
import type { SearchKeyRow } from '../../model/text.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { lockFlows } from '../../store/decisions/flows.ts';
import { type Bounds, measureKept } from '../../store/decisions/kept-sizes.ts';
import type { Held, HoldingPlacer, Placer } from '../../store/decisions/placer.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { ROW_BYTES } from '../../store/new-rows.ts';
import type { NewRun } from '../../store/store.ts';

function* admit(
  port: Port,
  { flowId, revision }: Pick<NewRun, 'flowId' | 'revision'>,
): Decision<'held' | 'open' | 'outdated'> {
  const flow = (yield* lockFlows(port, [flowId])).get(flowId);
  if (flow?.deletedAt !== undefined) return 'outdated';
  if (whyClosed(flow) === undefined) {
    // While some deliveries are held, the next one has to queue behind them.
    const held = yield* port.get(sql`SELECT 1 AS one FROM sluice.held_deliveries WHERE flow_id = ${flowId} LIMIT 1`);
    if (held === undefined) return 'open';
  }
  return flow !== undefined && flow.revision !== revision ? 'outdated' : 'held';
}

/** Whether a delivery fits within the bounds, half of which one flow can use. */
function* fits(port: Port, held: Held, { maxRows, maxBytes }: Bounds): Decision<boolean> {
  if (maxRows === Number.POSITIVE_INFINITY && maxBytes === Number.POSITIVE_INFINITY) return true;
  // One check at a time, for all flows: otherwise several deliveries could fit in the room of one.
  yield* port.run(sql`SELECT pg_advisory_xact_lock(hashtextextended('sluice holds', sluice_lock_scope))`);
  const { rows, bytes } = yield* measureKept(port, 'held');
  const more = bytesOf(held);
  if (rows + 1 > maxRows || bytes + more > maxBytes) return false;
  if (bytes + more <= maxBytes / 2) return true;
  // The other half stays free for other flows, however much is sent to this one.
  const own = yield* port.get<{ bytes: number }>(
    sql`SELECT held_bytes AS bytes FROM sluice.flows WHERE id = ${held.run.flow_id}`,
  );
  return (own?.bytes ?? 0) + more <= maxBytes / 2;
}

function keep(port: Port, held: Held, joins: boolean): void {
  const { run, keys, body } = held;
  const bytes = bytesOf(held);
  const searchKeys = keys.length === 0 ? null : JSON.stringify(keysIn(keys));
  port.count('kept_sizes', ['held'], { rows: 1, bytes });
  port.later(sql`UPDATE sluice.flows SET held_bytes = held_bytes + ${bytes} WHERE id = ${run.flow_id}`);
  port.later(sql`
    INSERT INTO sluice.held_deliveries (flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent,
      content_type, search_keys, headers, body, kept_bytes, held_at, is_verified, joins)
    VALUES (${run.flow_id}, ${run.trigger_key}, ${run.id}, ${run.delivery_id}, ${run.idempotency_key},
      ${run.traceparent}, ${run.trigger_content_type}, ${searchKeys}, ${run.trigger_headers}, ${body}, ${bytes}, ${run.started_at},
      ${held.isTrusted}, ${joins})`);
}

const keysIn = (keys: readonly SearchKeyRow[]) =>
  Object.fromEntries(keys.map(([name, folded, value]) => [name, value ?? folded]));

const bytesOf = ({ run, body }: Held) => ROW_BYTES + Buffer.byteLength(String(run.trigger_headers)) + body.byteLength;

function* count(port: Port, flowId: string): Decision<number> {
  const left = yield* port.get<{ count: number }>(
    sql`SELECT count(*) AS count FROM sluice.held_deliveries WHERE flow_id = ${flowId}`,
  );
  return left?.count ?? 0;
}

const held: HoldingPlacer = { admit, fits, keep, count };

export const holdPlacer = { name: 'hold', held } satisfies Placer;
