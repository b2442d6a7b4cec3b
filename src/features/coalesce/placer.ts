import { HOUR_MS } from '../../model/clock.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { Place, PlacedDelivery, Placer, Places } from '../../store/decisions/placer.ts';
import { type Port, Rows, sql } from '../../store/decisions/port.ts';
import { addDelivery, type RunDeliveryRow } from '../../store/decisions/run-deliveries.ts';
import { digestOf, laneDigest } from '../../store/digest.ts';
import { type Arrival, type Group, joinGroup, openGroup } from './group.ts';

/** A delivery's part in its group, with the digest that names the group. */
interface Coalescing extends Arrival {
  readonly digest: string;
}

/** Unverified deliveries never share a run with verified ones, nor deliveries of different keys of `serialize`. */
function coalescingOf({ flowId, triggerKey, order, startedAt: at, body, joining }: PlacedDelivery): Coalescing {
  const { claim, headers } = joining;
  const { key, isTrusted, ...limits } = claim;
  const lane = order === undefined ? [] : [laneDigest(flowId, { key: order.key, isTrusted })];
  const digest = digestOf(flowId, triggerKey, isTrusted ? 'verified' : 'unverified', 'coalesce', key, ...lane);
  return { ...limits, digest, at, bytes: body.byteLength + Buffer.byteLength(headers) };
}

interface GroupRow extends Omit<Group, 'isHeld'> {
  readonly digest: string;
  readonly heldBy: string | null;
}

/**
 * The groups that the deliveries of one transaction can join. Until it ends, no other transaction joins or replaces one
 * of them, or starts or ends its run.
 */
class Groups implements Places {
  readonly #port: Port;
  readonly #coalescing: ReadonlyMap<PlacedDelivery, Coalescing>;
  readonly #open = new Map<string, Group>();
  readonly #changed = new Map<string, string>();
  /** Runs that wait longer, or no longer, with the milliseconds by which their start moves back. */
  readonly #moved = new Map<string, { readonly group: Group; readonly laterMs: number }>();
  readonly #joined: (RunDeliveryRow & { readonly run_id: string; readonly place: number })[] = [];
  readonly #opened = new Map<string, Omit<RunDeliveryRow, 'body'>>();

  private constructor(port: Port, deliveries: readonly PlacedDelivery[]) {
    this.#port = port;
    this.#coalescing = new Map(deliveries.map((delivery) => [delivery, coalescingOf(delivery)]));
  }

  static *take(port: Port, deliveries: readonly PlacedDelivery[]): Decision<Groups> {
    const groups = new Groups(port, deliveries);
    yield* groups.#read();
    return groups;
  }

  find(delivery: PlacedDelivery, isHeld: boolean): Place | undefined {
    const coalescing = this.#coalescing.get(delivery);
    if (coalescing === undefined) return undefined;
    const { runId, revision } = delivery;
    const own = { runId, revision, isHeld };
    const open = this.#open.get(coalescing.digest);
    const group = (open && joinGroup(open, coalescing, own)) ?? openGroup(coalescing, own);
    const startsNow = group.dueAt <= coalescing.at;
    if (startsNow && group.runId === runId) return undefined;
    return { runId: group.runId, startsNow, keep: () => this.#keep(delivery, coalescing.digest, group) };
  }

  /** Keeps a group with the delivery that opened or joined it. */
  #keep({ flowId, body, idempotencyKey, joining }: PlacedDelivery, digest: string, group: Group): void {
    const { runId, deliveries: place } = group;
    const { deliveryId, receivedAt, contentType, headers } = joining;
    const of = { delivery_id: deliveryId, received_at: receivedAt, idempotency_key: idempotencyKey };
    const row = { ...of, content_type: contentType, headers };
    const before = this.#open.get(digest);
    this.#open.set(digest, group);
    this.#changed.set(digest, flowId);
    if (group.isHeld) return;
    if (before?.runId !== runId) {
      this.#opened.set(runId, row);
      return;
    }
    const laterMs = (this.#moved.get(runId)?.laterMs ?? 0) + group.dueAt - before.dueAt;
    this.#moved.set(runId, { group, laterMs });
    this.#joined.push({ ...row, body, run_id: runId, place });
  }

  settle(): void {
    if (this.#changed.size === 0) return;
    const { later } = this.#port;
    const changed = [...this.#changed].flatMap(([digest, flowId]) => {
      const group = this.#open.get(digest);
      if (group === undefined) return [];
      const { runId, revision, deliveries, bytes, dueAt, untilAt, isHeld } = group;
      const times = { due_at: dueAt, until_at: untilAt, held_by: isHeld ? flowId : null };
      return [{ digest, run_id: runId, revision, deliveries, bytes, ...times }];
    });
    later(sql`
      INSERT INTO sluice.coalesce_groups (digest, run_id, revision, deliveries, bytes, due_at, until_at, held_by)
      SELECT digest, run_id, revision, deliveries, bytes, due_at, until_at, held_by
      FROM jsonb_to_recordset(${new Rows(changed)}) AS given (digest uuid, run_id uuid, revision integer,
        deliveries integer, bytes bigint, due_at bigint, until_at bigint, held_by text)
      WHERE true
      ON CONFLICT (digest) DO UPDATE SET run_id = excluded.run_id, revision = excluded.revision,
        deliveries = excluded.deliveries, bytes = excluded.bytes, due_at = excluded.due_at,
        until_at = excluded.until_at, held_by = excluded.held_by`);
    for (const [runId, { delivery_id, received_at, idempotency_key }] of this.#opened) {
      const own = { run_id: runId, place: 1, delivery_id, received_at, idempotency_key };
      addDelivery({ later }, { ...own, content_type: null, headers: null, body: null });
      if (!this.#moved.has(runId)) later(sql`UPDATE sluice.runs SET deliveries = 1 WHERE id = ${runId}`);
    }
    for (const [runId, { group, laterMs }] of this.#moved) {
      later(sql`
        UPDATE sluice.runs SET deliveries = ${group.deliveries}, timeout_at = timeout_at + ${laterMs}
        WHERE id = ${runId}`);
      later(sql`UPDATE sluice.steps SET due_at = ${group.dueAt} WHERE run_id = ${runId} AND status = 'Pending'`);
    }
    for (const row of this.#joined) addDelivery({ later }, row);
  }

  *#read(): Decision<void> {
    const port = this.#port;
    const wanted = [...this.#coalescing.values()];
    // Always locked in the same order. Advisory locks, because a row that does not exist cannot be locked.
    const digests = [...new Set(wanted.map(({ digest }) => digest))].sort();
    const from = Math.min(...wanted.map(({ at }) => at));
    port.later(sql`
      SELECT pg_advisory_xact_lock(hashtextextended('sluice coalesce ' || digest, sluice_lock_scope))
      FROM unnest(${digests}::text[]) AS given (digest)`);
    const rows = yield* port.all<GroupRow>(sql`
      SELECT digest, run_id AS "runId", revision, deliveries, bytes, due_at AS "dueAt", until_at AS "untilAt",
        held_by AS "heldBy"
      FROM sluice.coalesce_groups WHERE digest = ANY (${digests}::uuid[]) AND due_at > ${from}`);
    const waiting = rows.filter(({ heldBy }) => heldBy === null).map(({ runId }) => runId);
    const open = waiting.length === 0 ? new Set() : yield* stillWaiting(port, waiting);
    for (const { digest, heldBy, ...group } of rows) {
      if (heldBy !== null || open.has(group.runId)) this.#open.set(digest, { ...group, isHeld: heldBy !== null });
    }
  }
}

/**
 * The runs that have not begun and will not end: a run that another transaction has locked is starting or ending there.
 * Leasing a step locks the row of its run, so no step of these is leased until this transaction ends.
 */
function* stillWaiting(port: Port, runIds: readonly string[]): Decision<ReadonlySet<string>> {
  const runs = yield* port.all<{ id: string }>(sql`
    SELECT id FROM sluice.runs
    WHERE id = ANY (${runIds}::uuid[]) AND status = 'Running' AND cancel_requested_at IS NULL AND timed_out_at IS NULL
    FOR UPDATE SKIP LOCKED`);
  const ids = runs.map(({ id }) => id);
  if (ids.length === 0) return new Set();
  const begun = yield* port.all<{ runId: string }>(sql`
    SELECT run_id AS "runId" FROM sluice.steps
    WHERE run_id = ANY (${ids}::uuid[]) AND (status <> 'Pending' OR attempt_count > 0)`);
  const started = new Set(begun.map(({ runId }) => runId));
  return new Set(ids.filter((id) => !started.has(id)));
}

/** Deliveries that opened or joined a group before its end may still be under way. */
const ENDED_GROUPS_MS = HOUR_MS;

export const coalescePlacer: Placer = {
  name: 'coalesce',
  deliveries: {
    take: Groups.take,
    closeHeld: ({ later }, flowId) => later(sql`DELETE FROM sluice.coalesce_groups WHERE held_by = ${flowId}`),
    purge: function* (port, { now, limit }) {
      return yield* port.run(sql`
        DELETE FROM sluice.coalesce_groups WHERE digest = ANY (ARRAY(
          SELECT digest FROM sluice.coalesce_groups WHERE until_at < ${now - ENDED_GROUPS_MS} AND held_by IS NULL
          ORDER BY until_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`);
    },
  },
};
