import { StoreUnavailableError } from '../../errors.ts';
import { hold } from '../decisions/acceptance.ts';
import { awaited, decide, known } from '../decisions/decision.ts';
import { lockFlows } from '../decisions/flows.ts';
import type { HoldRows } from '../decisions/release.ts';
import { ROW_BYTES } from '../new-rows.ts';
import type { Acceptance, HoldResult } from '../store.ts';
import { type AcceptCall, acceptanceRows, ClaimedNames, callOf, flowRowsOf } from './acceptance.ts';
import { NewRows } from './new-rows.ts';
import type { Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const holdOperations: Operations<'holdDelivery'> = {
  holdDelivery: { purpose: 'write', run: holdDelivery },
};

/** Holds the flow alone, so that deliveries are held in the order of their arrival, and none while a release ends. */
async function holdDelivery(sql: Sql, acceptance: Acceptance): Promise<HoldResult> {
  const call = callOf({ acceptance });
  const flows = await decide(lockFlows(sql.port, [call.flowId]));
  const names = await ClaimedNames.take(sql, [call]);
  const written = new NewRows(sql);
  const result = await decide(
    hold(
      {
        ...acceptanceRows(sql, { flows: flowRowsOf(flows), names, written }),
        ...holdRows(sql, written),
        lockFlow: (flowId) => known(flows.get(flowId)),
      },
      call,
    ),
  );
  if (result === 'full') throw new StoreUnavailableError('the limit of held deliveries is reached');
  names.settle(sql);
  written.write();
  return result;
}

function holdRows(sql: Sql, written: NewRows): Omit<HoldRows<AcceptCall>, 'lockFlow'> {
  const sizeOf = ({ acceptance: { run } }: AcceptCall) =>
    ROW_BYTES + Buffer.byteLength(JSON.stringify(run.trigger.headers)) + run.trigger.body.byteLength;
  return {
    port: sql.port,
    fits: (call) => awaited(fits(sql, sizeOf(call))),
    keepHeld(call) {
      const { acceptance, idempotencyKey } = call;
      const { run } = acceptance;
      const bytes = sizeOf(call);
      sql.port.count('kept_sizes', ['held'], { rows: 1, bytes });
      if (run.deliveryId !== null) written.addKeys('delivery', run.deliveryId, run.searchKeys);
      sql.later(
        `INSERT INTO sluice.held_deliveries (
          flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent, content_type, headers, body, kept_bytes,
          held_at, search_keys
        ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
        [
          run.flowId,
          run.triggerKey,
          run.id,
          run.deliveryId,
          idempotencyKey,
          run.traceparent,
          run.trigger.contentType,
          JSON.stringify(run.trigger.headers),
          run.trigger.body,
          bytes,
          run.startedAt,
          run.searchKeys === undefined ? null : JSON.stringify(run.searchKeys),
        ],
      );
    },
  };
}

async function fits(sql: Sql, added: number): Promise<boolean> {
  const { maxRows, maxBytes } = sql.bounds.held;
  if (maxRows === Number.POSITIVE_INFINITY && maxBytes === Number.POSITIVE_INFINITY) return true;
  // One after the other, whatever the flow: else several could fit where one does.
  await sql.run("SELECT pg_advisory_xact_lock(hashtextextended('sluice holds', sluice_lock_scope))");
  const size = await sql.get<{ rows: number; bytes: number }>(
    `SELECT coalesce(sum(rows), 0) AS rows, coalesce(sum(bytes), 0) AS bytes
    FROM sluice.kept_sizes WHERE kind = 'held'`,
  );
  const { rows, bytes } = size ?? { rows: 0, bytes: 0 };
  return rows + 1 <= maxRows && bytes + added <= maxBytes;
}
