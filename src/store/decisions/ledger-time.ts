import type { Downtime } from '../store.ts';
import type { Decision } from './decision.ts';
import { type Port, sql } from './port.ts';
import type { Given, Verbs } from './verb.ts';

/** Keeps how far the time of the nonce ledger has come, and yields the latest that any process gave. */
export function* keepLedgerTime(port: Port, { now, ledgerAt = 0 }: Given<'keepTime'>): Decision<number> {
  const row = yield* port.get<{ at: number }>(sql`
    INSERT INTO sluice.ledger_time (id, at) VALUES (1, ${now})
    ON CONFLICT (id) DO UPDATE SET at = greatest(ledger_time.at, ${ledgerAt}) RETURNING at`);
  return row?.at ?? now;
}

export const downtimeVerbs: Verbs<'listDowntimes' | 'noteDowntime'> = {
  listDowntimes: {
    access: 'read',
    *decide(port) {
      return yield* port.all<Downtime>(sql`
        SELECT started_at AS "startedAt", ended_at AS "endedAt", offset_ms AS "offsetMs" FROM sluice.downtimes
        ORDER BY ended_at`);
    },
  },
  noteDowntime: {
    access: 'write',
    changes: null,
    *decide(port, { startedAt, endedAt, offsetMs, keptSince }) {
      // The newest one tells by how much the clock was ahead.
      yield* port.run(sql`DELETE FROM sluice.downtimes WHERE ended_at < ${keptSince} AND started_at < ended_at`);
      yield* port.run(sql`
        INSERT INTO sluice.downtimes (ended_at, started_at, offset_ms) VALUES (${endedAt}, ${startedAt}, ${offsetMs})
        ON CONFLICT DO NOTHING`);
    },
  },
};
