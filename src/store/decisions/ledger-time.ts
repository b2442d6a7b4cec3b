import type { Decision } from './decision.ts';
import { type Port, sql } from './port.ts';
import type { Given } from './verb.ts';

/** Stores how far the time of the nonce ledger has come, and yields the latest time that any process gave. */
export function* keepLedgerTime(port: Port, { now, ledgerAt = 0 }: Given<'keepTime'>): Decision<number> {
  const row = yield* port.get<{ at: number }>(sql`
    INSERT INTO sluice.ledger_time (id, at) VALUES (1, ${now})
    ON CONFLICT (id) DO UPDATE SET at = greatest(ledger_time.at, ${ledgerAt}) RETURNING at`);
  return row?.at ?? now;
}
