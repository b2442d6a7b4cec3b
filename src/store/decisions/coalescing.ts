import type { Arrival, Group } from '../../model/coalescing.ts';
import { digestOf, laneDigest } from '../digest.ts';
import type { CoalesceClaim, NewRun } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, Rows, sql } from './port.ts';

/** What a run keeps of each of its deliveries, in the words of its table. */
export interface RunDeliveryRow {
  readonly delivery_id: string | null;
  readonly received_at: number;
  readonly idempotency_key: string | null;
  readonly content_type: string | null;
  /** JSON text. */
  readonly headers: string;
  readonly body: Uint8Array;
}

/** A delivery that joins others of its key, or is joined by them. */
export interface Coalescing extends Arrival {
  readonly digest: string;
  readonly delivery: RunDeliveryRow;
}

/** An unverified delivery never shares a run with a verified one, nor one with another whose turn is among other runs. */
export function coalescingOf(
  { flowId, triggerKey, order }: Pick<NewRun, 'flowId' | 'triggerKey' | 'order'>,
  { key, isVerified, ...limits }: CoalesceClaim,
  { at, delivery }: { readonly at: number; readonly delivery: RunDeliveryRow },
): Coalescing {
  const lane = order === undefined ? [] : [laneDigest(flowId, { key: order.key, isVerified })];
  const digest = digestOf(flowId, triggerKey, isVerified ? 'verified' : 'unverified', 'coalesce', key, ...lane);
  const bytes = delivery.body.byteLength + Buffer.byteLength(delivery.headers);
  return { ...limits, digest, at, bytes, delivery };
}

interface GroupRow extends Omit<Group, 'isHeld'> {
  readonly digest: string;
  readonly heldBy: string | null;
}

/**
 * The groups that the deliveries of one transaction may join. Until it ends no other transaction joins one of them or
 * opens another in its place, and none starts or ends its run.
 */
export class Groups {
  readonly #open = new Map<string, Group>();
  readonly #changed = new Map<string, string>();
  /** Runs that wait for longer, or no more, with how much later they start than before. */
  readonly #moved = new Map<string, { readonly group: Group; readonly laterMs: number }>();
  readonly #joined: (RunDeliveryRow & { readonly run_id: string; readonly place: number })[] = [];
  readonly #opened = new Map<string, RunDeliveryRow>();

  /** To be asked after all names: locks are taken in this order everywhere. */
  static *take(port: Port, calls: readonly (Coalescing | undefined)[]): Decision<Groups> {
    const groups = new Groups();
    const wanted = calls.filter((call) => call !== undefined);
    if (wanted.length > 0) yield* groups.#read(port, wanted);
    return groups;
  }

  find({ digest }: Pick<Coalescing, 'digest'>): Group | undefined {
    return this.#open.get(digest);
  }

  /** Keeps a group with the delivery that has opened or joined it. */
  keep({ digest, delivery }: Coalescing, flowId: string, group: Group): void {
    const { runId, deliveries: place } = group;
    const before = this.#open.get(digest);
    this.#open.set(digest, group);
    this.#changed.set(digest, flowId);
    if (group.isHeld) return;
    if (before?.runId !== runId) {
      this.#opened.set(runId, delivery);
      return;
    }
    const laterMs = (this.#moved.get(runId)?.laterMs ?? 0) + group.dueAt - before.dueAt;
    this.#moved.set(runId, { group, laterMs });
    this.#joined.push({ ...delivery, run_id: runId, place });
  }

  /** Writes what became of them; the runs that were opened are stored before. */
  settle({ later }: Port): void {
    if (this.#changed.size === 0) return;
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

  *#read(port: Port, wanted: readonly Coalescing[]): Decision<void> {
    // In one order everywhere: a row that does not exist cannot be locked.
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
 * Those of the runs that have not begun and are not to end. What another transaction has locked is starting or ending
 * there. A step is only leased by who shares the row of its run, so that none is until this transaction ends.
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

/** Gives a run that repeats another one its deliveries: none lacks its body, since the run has that of the newest. */
export function copyDeliveries({ later }: Pick<Port, 'later'>, runId: string, from: string): void {
  later(sql`
    INSERT INTO sluice.run_deliveries (run_id, place, delivery_id, received_at, content_type, headers, body)
    SELECT ${runId}::uuid, j.place, j.delivery_id, j.received_at,
      CASE WHEN j.body IS NULL THEN i.content_type ELSE j.content_type END, coalesce(j.headers, i.headers),
      coalesce(j.body, i.body)
    FROM sluice.run_deliveries AS j JOIN sluice.run_inputs AS i ON i.run_id = j.run_id WHERE j.run_id = ${from}`);
  later(sql`
    UPDATE sluice.runs SET deliveries = (SELECT deliveries FROM sluice.runs WHERE id = ${from}) WHERE id = ${runId}`);
}

interface NewRunDelivery extends Omit<RunDeliveryRow, 'headers' | 'body'> {
  readonly run_id: string;
  /** From 1. */
  readonly place: number;
  /** Null where the run has them itself. */
  readonly headers: string | null;
  readonly body: Uint8Array | null;
}

const [stored, joined] = ['run_deliveries', 'consumers'].map(
  (table) => `coalesce((SELECT max(joined) FROM ${table}), 0)`,
);
/** Behind all that joined a run before: a consumer may have come further than what is kept. */
const NEXT_JOINED = fixed(`1 + max(${stored}, ${joined})`);

export function addDelivery({ later }: Pick<Port, 'later'>, row: NewRunDelivery): void {
  // PostgreSQL keeps the transaction.
  later(sql`
    INSERT INTO sluice.run_deliveries (run_id, place, delivery_id, received_at, idempotency_key, content_type, headers, body
      /*sqlite: , position, joined */)
    VALUES (${row.run_id}, ${row.place}, ${row.delivery_id}, ${row.received_at}, ${row.idempotency_key},
      ${row.content_type}, ${row.headers}, ${row.body}
      /*sqlite: , (SELECT coalesce(max(seq), 0) FROM runs), ${NEXT_JOINED} */)`);
}
