import type { Database } from 'better-sqlite3';
import { hold } from '../decisions/acceptance.ts';
import { decideNow, known } from '../decisions/decision.ts';
import { RUN_COLUMNS, type RunRow } from '../new-rows.ts';
import type { HoldResult } from '../store.ts';
import { callOf, prepareAcceptanceRows, type SentAcceptance, type WriterState } from './acceptance.ts';
import { portOf } from './port.ts';

export const holdOperations = {
  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
} as const;

function prepareHoldDelivery(
  db: Database,
  state: WriterState,
): (sent: SentAcceptance, body: Uint8Array) => HoldResult | 'full' {
  const rows = prepareAcceptanceRows(db, state);
  return (sent, body) => {
    const call = callOf(sent, body);
    const [row, , keys] = call.run;
    const run = Object.fromEntries(RUN_COLUMNS.map((column, place) => [column, row[place]])) as RunRow;
    return decideNow(
      hold(portOf(db), call, { held: { run, keys, body }, bounds: state.held, rowsOf: () => known(rows) }),
    );
  };
}
