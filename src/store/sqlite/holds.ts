import type { Database } from 'better-sqlite3';
import { hold } from '../decisions/acceptance.ts';
import { decideNow, known } from '../decisions/decision.ts';
import { findFlow } from '../decisions/flows.ts';
import type { HoldRows } from '../decisions/release.ts';
import { ROW_BYTES, type RUN_COLUMNS } from '../new-rows.ts';
import type { HoldResult } from '../store.ts';
import {
  type AcceptCall,
  callOf,
  prepareAcceptanceRows,
  RUN,
  type SentAcceptance,
  type WriterState,
} from './acceptance.ts';
import { prepareInsertKeys } from './deliveries.ts';
import { portOf } from './port.ts';

export const holdOperations = {
  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
} as const;

function prepareHoldDelivery(
  db: Database,
  state: WriterState,
): (sent: SentAcceptance, body: Uint8Array) => HoldResult | 'full' {
  const rows = { ...prepareAcceptanceRows(db, state), ...prepareHoldRows(db, state.held) };
  return (sent, body) => decideNow(hold(rows, callOf(sent, body)));
}

/** The columns that a held delivery has of its run. */
const HELD_COLUMNS = [
  'flow_id',
  'trigger_key',
  'id',
  'delivery_id',
  'idempotency_key',
  'traceparent',
  'trigger_content_type',
  'trigger_headers',
  'started_at',
] as const satisfies readonly (typeof RUN_COLUMNS)[number][];

function prepareHoldRows(db: Database, bounds: WriterState['held']): HoldRows<AcceptCall> {
  const measure = db.prepare<[], { rows: number; bytes: number }>('SELECT rows, bytes FROM held_state');
  const insert = db.prepare<unknown[]>(`
    INSERT INTO held_deliveries (
      flow_id, trigger_key, run_id, delivery_id, idempotency_key, traceparent, content_type, headers, held_at, body,
      kept_bytes, search_keys
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertDeliveryKeys = prepareInsertKeys(db);
  const port = portOf(db);
  return {
    port,
    lockFlow: (flowId) => known(decideNow(findFlow(port, flowId))),
    fits(call) {
      const { rows, bytes } = measure.get() ?? { rows: 0, bytes: 0 };
      return known(rows + 1 <= bounds.maxRows && bytes + bytesOf(call) <= bounds.maxBytes);
    },
    keepHeld(call) {
      const {
        run: [row, , keys],
        body,
      } = call;
      insert.run(
        HELD_COLUMNS.map((column) => row[RUN[column]]),
        body,
        bytesOf(call),
        keys.length === 0
          ? null
          : JSON.stringify(Object.fromEntries(keys.map(([name, folded, value]) => [name, value ?? folded]))),
      );
      const deliveryId = row[RUN.delivery_id] as string | null;
      if (deliveryId !== null) insertDeliveryKeys(deliveryId, keys);
    },
  };
}

function bytesOf({ run: [row], body }: AcceptCall): number {
  return ROW_BYTES + Buffer.byteLength(row[RUN.trigger_headers] as string) + body.byteLength;
}
