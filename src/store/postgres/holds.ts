import { StoreUnavailableError } from '../../errors.ts';
import { asking, decide } from '../decisions/decision.ts';
import { type HeldDelivery, type HeldReads, holdOf, releaseHeld } from '../decisions/release.ts';
import type { Acceptance, HoldResult } from '../store.ts';
import { claim } from './acceptance.ts';
import { lockFlows } from './flows.ts';
import { NewRows, ROW_BYTES } from './new-rows.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';
import { type PinReads, pinReads } from './sub-runs.ts';

export const holdOperations: Operations<'holdDelivery' | 'releaseHeld' | 'countHeld'> = {
  holdDelivery: { lane: 'write', run: holdDelivery },
  releaseHeld: { lane: 'write', run: releaseHeldRuns },
  countHeld: { lane: 'read', run: countHeld },
};

/** Holds the flow alone, so that deliveries are held in the order of their arrival, and none while a release ends. */
async function holdDelivery(sql: Sql, acceptance: Acceptance): Promise<HoldResult> {
  const { run, idempotencyKey } = acceptance;
  const noneRemoved = { insertRun() {}, removeHeld() {} };
  const kind = await decide(holdOf({ ...heldReads(sql, async () => {}), ...noneRemoved }, run));
  if (kind !== 'held') return { kind };
  const headers = JSON.stringify(run.trigger.headers);
  const bytes = ROW_BYTES + Buffer.byteLength(headers) + run.trigger.body.byteLength;
  await checkBounds(sql, bytes);
  const rows = new NewRows();
  const result = await claim(sql, acceptance, rows);
  if (result.kind === 'accepted') {
    rows.counters.sized('held', { rows: 1, bytes });
    // The run keeps them from now on, whatever its flow names when it is released.
    rows.addKeys('run', run.id, run.searchKeys);
    if (run.deliveryId !== null) rows.addKeys('delivery', run.deliveryId, run.searchKeys);
    await sql.run(
      `INSERT INTO sluice.held_deliveries (
        flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent, content_type, headers, body, kept_bytes
      ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
      [
        run.flowId,
        run.triggerKey,
        run.id,
        run.deliveryId,
        idempotencyKey ?? null,
        run.traceparent,
        run.trigger.contentType,
        headers,
        run.trigger.body,
        bytes,
      ],
    );
  }
  rows.write(sql);
  return result.kind === 'accepted' ? { ...result, kind: 'held' } : result;
}

/** Throws where another delivery of that size would exceed the bounds. */
async function checkBounds(sql: Sql, added: number): Promise<void> {
  const { maxRows, maxBytes } = sql.bounds.held;
  if (maxRows === Number.POSITIVE_INFINITY && maxBytes === Number.POSITIVE_INFINITY) return;
  // One after the other, whatever the flow: else several could find room for one.
  await sql.run("SELECT pg_advisory_xact_lock(hashtextextended('sluice holds', sluice_lock_scope))");
  const size = await sql.get<{ rows: number; bytes: number }>(
    `SELECT coalesce(sum(rows), 0) AS rows, coalesce(sum(bytes), 0) AS bytes
    FROM sluice.kept_sizes WHERE kind = 'held'`,
  );
  const { rows, bytes } = size ?? { rows: 0, bytes: 0 };
  if (rows + 1 > maxRows || bytes + added > maxBytes) {
    throw new StoreUnavailableError('the limit of held deliveries is reached');
  }
}

async function releaseHeldRuns(sql: Sql, release: Given<'releaseHeld'>): Promise<Answer<'releaseHeld'>> {
  const rows = new NewRows();
  const removed: number[] = [];
  const flush = async () => {
    if (removed.length > 0) rows.counters.sized('held', await removeHeld(sql, removed.splice(0)));
  };
  const released = await decide(
    releaseHeld(
      {
        ...heldReads(sql, flush),
        insertRun: (run, idempotencyKey) => rows.addRun(run, { idempotencyKey: idempotencyKey ?? undefined }),
        removeHeld: (seq) => void removed.push(seq),
      },
      release,
    ),
  );
  rows.write(sql);
  return released;
}

/** `flush` deletes what the decision has removed so far. */
function heldReads(sql: Sql, flush: () => Promise<void>) {
  return asking<HeldReads & PinReads>({
    ...pinReads(sql),
    findFlow: async (flowId) => (await lockFlows(sql, [flowId])).get(flowId),
    async findSnapshot(flowId, revision) {
      const row = await sql.get<{ snapshot: string }>(
        'SELECT snapshot FROM sluice.revisions WHERE flow_id = $1 AND revision = $2',
        [flowId, revision],
      );
      return row?.snapshot;
    },
    async hasHeld(flowId) {
      const held = await sql.get('SELECT FROM sluice.held_deliveries WHERE flow_id = $1 LIMIT 1', [flowId]);
      return held !== undefined;
    },
    async countHeld(flowId) {
      await flush();
      const row = await sql.get<{ held: number }>(
        'SELECT count(*) AS held FROM sluice.held_deliveries WHERE flow_id = $1',
        [flowId],
      );
      return row?.held ?? 0;
    },
    listSizes: (flowId, limit) =>
      sql.all<{ seq: number; bytes: number }>(
        `SELECT seq, octet_length(body) AS bytes FROM sluice.held_deliveries WHERE flow_id = $1 ORDER BY seq LIMIT $2`,
        [flowId, limit],
      ),
    listHeld: (seqs) =>
      sql.all<HeldDelivery>(
        `SELECT seq, trigger_key AS "triggerKey", run_id AS "runId", delivery_id AS "deliveryId",
          idempotency_key AS "idempotencyKey", traceparent, content_type AS "contentType", headers, body
        FROM sluice.held_deliveries WHERE seq = ANY($1) ORDER BY seq`,
        [seqs],
      ),
  });
}

/** Yields what the held deliveries are fewer by. */
async function removeHeld(sql: Sql, seqs: readonly number[]): Promise<{ rows: number; bytes: number }> {
  const row = await sql.get<{ rows: number; bytes: number }>(
    `WITH removed AS (DELETE FROM sluice.held_deliveries WHERE seq = ANY($1) RETURNING kept_bytes)
    SELECT -count(*) AS rows, -coalesce(sum(kept_bytes), 0) AS bytes FROM removed`,
    [seqs],
  );
  return row ?? { rows: 0, bytes: 0 };
}

async function countHeld(sql: Sql): Promise<Readonly<Record<string, number>>> {
  const rows = await sql.all<{ flowId: string; held: number }>(
    'SELECT flow_id AS "flowId", count(*) AS held FROM sluice.held_deliveries GROUP BY flow_id',
  );
  return Object.fromEntries(rows.map(({ flowId, held }) => [flowId, held]));
}
