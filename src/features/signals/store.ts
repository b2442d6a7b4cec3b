import { DAY_MS } from '../../model/clock.ts';
import { isJsonArray, isJsonObject, type Json, own } from '../../model/json.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Answering, type Port, Rows, type Signalled, sql } from '../../store/decisions/port.ts';
import { digestOf } from '../../store/digest.ts';
import { fromJson } from '../../store/json-columns.ts';
import type { AwaitingStep } from '../../store/store.ts';
import { uuidOf } from '../../store/uuids.ts';

/** Limits of one delivery: steps answered, those of the oldest runs first, and bytes written for them. */
const MAX_ANSWERED = 100;
const MAX_ANSWERED_BYTES = 8 * 1024 * 1024;

/** Number of kept deliveries of its key that a step searches. */
const MAX_LOOKED_AT = 100;

/** How long before its run a delivery may come: publishers repeat failed deliveries for this long. */
const EARLY_MS = 3 * DAY_MS;

/** Identifies what steps wait for; the same for a step in all iterations of its loops. Step keys have no dots. */
function awaitedBy(flowId: string, stepPath: string, key: string): string {
  return digestOf(flowId, 'awaited', stepPath, key);
}

/** `l.c` for `l.2.c`. */
const pathOf = (stepKey: string) => stepKey.replace(/\.\d+\./g, '.');

const digestsOf = (calls: readonly Signalled[]) =>
  calls.flatMap(({ flowId, signal }) =>
    signal?.key === undefined ? [] : [awaitedBy(flowId, signal.step, signal.key)],
  );

/** In one order everywhere. The last lock of an acceptance: waiting steps are locked only if nobody else has them. */
function lock({ later }: Port, digests: readonly string[]): void {
  if (digests.length === 0) return;
  later(sql`
    SELECT pg_advisory_xact_lock(hashtextextended('sluice awaited ' || digest, sluice_lock_scope))
    FROM unnest(${[...new Set(digests)].sort()}::text[]) AS given (digest)`);
}

interface WaitingStep {
  readonly runId: string;
  readonly stepKey: string;
  readonly name: string;
  readonly input: string | null;
}

/** Skips steps locked by another transaction: their wait is ending. Locks no run: its decisions do not read this. */
function* answer(port: Port, call: Signalled): Decision<number> {
  const [awaited] = digestsOf([call]);
  if (awaited === undefined || call.signal === undefined || call.signal.deliveryId === null) return 0;
  const { body, choice = null, deliveryId, at } = call.signal;
  port.later(sql`
    INSERT INTO sluice.kept_signals (digest, delivery_id, came_at, choice, body)
    VALUES (${awaited}, ${deliveryId}, ${at}, ${choice}, ${body})`);
  const most = Math.max(1, Math.min(MAX_ANSWERED, Math.floor(MAX_ANSWERED_BYTES / Buffer.byteLength(body))));
  const waiting = yield* port.all<WaitingStep>(sql`
    SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.signal_name AS name, s.input
    FROM sluice.steps AS s JOIN /*sqlite instead: CROSS JOIN */ sluice.runs AS r ON r.id = s.run_id
    WHERE s.awaited = ${awaited} AND s.signal_name IS NOT NULL AND r.status = 'Running'
      AND r.cancel_requested_at IS NULL AND r.timed_out_at IS NULL AND (r.timeout_at IS NULL OR r.timeout_at > ${at})
    ORDER BY s.run_id, s.step_key LIMIT ${most} FOR NO KEY UPDATE OF s SKIP LOCKED`);
  const answered = waiting.filter(({ input }) => fits(fromJson(input), choice));
  if (answered.length === 0) return 0;
  const steps = new Rows(answered.map(({ runId, stepKey, name }) => ({ run_id: runId, step_key: stepKey, name })));
  port.later(sql`
    INSERT INTO sluice.signals (run_id, name, body, delivered_at, step_key, delivery_id)
    SELECT run_id, name, ${body}::text, ${at}::bigint, step_key, ${deliveryId}::uuid
    FROM jsonb_to_recordset(${steps}) AS given (run_id uuid, step_key text, name text)`);
  port.later(sql`
    UPDATE sluice.steps SET due_at = ${at}, signal_name = NULL, limit_at = NULL WHERE (run_id, step_key) IN (
      SELECT run_id, step_key FROM jsonb_to_recordset(${steps}) AS given (run_id uuid, step_key text))`);
  return answered.length;
}

/**
 * A run gets deliveries that came since it started. It gets earlier ones only if no other run ever waited for that key,
 * so an answer that comes too late, or twice, never answers a later run.
 */
function* awaitKey(port: Port, waiting: AwaitingStep): Decision<boolean> {
  const { flowId, runId, stepKey, name, key, input, at, startedAt, isAnswered } = waiting;
  const awaited = awaitedBy(flowId, pathOf(stepKey), key);
  lock(port, [awaited]);
  port.later(sql`UPDATE sluice.steps SET awaited = ${awaited} WHERE run_id = ${runId} AND step_key = ${stepKey}`);
  if (isAnswered) return false;
  const kept = yield* port.all<{ deliveryId: string; choice: string | null }>(sql`
    SELECT k.delivery_id AS "deliveryId", k.choice FROM sluice.kept_signals AS k
    WHERE k.digest = ${awaited} AND (k.came_at >= ${startedAt} OR (k.came_at > ${at - EARLY_MS} AND NOT EXISTS (
        SELECT 1 FROM sluice.steps AS o WHERE o.awaited = ${awaited} AND o.run_id <> ${runId})))
      AND NOT EXISTS (
        SELECT 1 FROM sluice.signals AS g WHERE g.delivery_id = k.delivery_id AND g.run_id = ${runId})
    ORDER BY k.delivery_id LIMIT ${MAX_LOOKED_AT}`);
  const first = kept.find(({ choice }) => fits(input, choice));
  if (first === undefined) return false;
  port.later(sql`
    INSERT INTO sluice.signals (run_id, name, body, delivered_at, step_key, delivery_id)
    SELECT ${runId}::uuid, ${name}::text, body, came_at, ${stepKey}::text, delivery_id FROM sluice.kept_signals
    WHERE digest = ${awaited} AND delivery_id = ${first.deliveryId}`);
  return true;
}

/** A delivery with a choice does not answer a step with other choices. */
function fits(input: Json, choice: string | null): boolean {
  const choices = isJsonObject(input) ? own(input, 'choices') : undefined;
  return choice === null || choices === undefined || !isJsonArray(choices) || choices.includes(choice);
}

const answering: Answering = { lock: (port, calls) => lock(port, digestsOf(calls)), answer, await: awaitKey };

/** A step that a delivery answered. */
interface AnsweredStep {
  readonly runId: string;
  readonly stepKey: string;
  readonly flowId: string;
  readonly flowName: string;
}

interface Bounds {
  readonly before: number;
  readonly maxRows: number;
  readonly maxBytes: number;
  /** The most rows to delete. */
  readonly limit: number;
}

export const signalsStore = storePart({
  name: 'signals',
  answering,
  verbs: {
    /** The steps answered by a delivery so far, as long as their runs are kept. */
    listAnswered: {
      access: 'read',
      *decide(port: Port, deliveryId: string): Decision<AnsweredStep[]> {
        return yield* port.all<AnsweredStep>(sql`
          SELECT g.run_id AS "runId", g.step_key AS "stepKey", r.flow_id AS "flowId", r.flow_name AS "flowName"
          FROM sluice.signals AS g JOIN /*sqlite instead: CROSS JOIN */ sluice.runs AS r ON r.id = g.run_id
          WHERE g.delivery_id = ${uuidOf(deliveryId)} ORDER BY g.run_id, g.step_key LIMIT ${MAX_ANSWERED}`);
      },
    },
    /** Deletes kept deliveries from before `before`, and the oldest beyond the limits; yields if more may remain. */
    purgeKeptSignals: {
      access: 'write',
      changes: null,
      *decide(port: Port, { before, maxRows, maxBytes, limit }: Bounds): Decision<boolean> {
        const deleted = yield* port.run(sql`
          DELETE FROM sluice.kept_signals WHERE (digest, delivery_id) IN (
            SELECT digest, delivery_id FROM (
              SELECT digest, delivery_id, came_at, row_number() OVER newest AS place, sum(octet_length(body)) OVER newest AS bytes
              FROM sluice.kept_signals WINDOW newest AS (ORDER BY came_at DESC, delivery_id DESC)
            ) AS weighed
            WHERE came_at < ${before} OR place > ${maxRows} OR bytes > ${maxBytes}
            ORDER BY came_at LIMIT ${limit})`);
        return deleted === limit;
      },
    },
  },
});
