import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { uuidOf } from '../../store/uuids.ts';

/** Sessions that were ended early. Times are those of the nonce ledger. */
export const loginStore = storePart({
  name: 'login',
  verbs: {
    endSession: {
      access: 'write',
      changes: null,
      /** A later call deletes this note once the session would have ended by itself. */
      *decide(port: Port, { id, lastsUntil, now }: { id: string; lastsUntil: number; now: number }): Decision<void> {
        port.later(sql`DELETE FROM sluice.ended_sessions WHERE lasts_until <= ${now}`);
        yield* port.run(sql`
        INSERT INTO sluice.ended_sessions (id, lasts_until) VALUES (${uuidOf(id)}, ${lastsUntil}) ON CONFLICT DO NOTHING`);
      },
    },
    isSessionEnded: {
      access: 'read',
      /** Also true if its credential was removed after the session began, even if it came back. */
      *decide(
        port: Port,
        { id, credential, begunAt }: { id: string; credential: string; begunAt: number },
      ): Decision<boolean> {
        const found = yield* port.get(sql`
        SELECT 1 FROM sluice.ended_sessions WHERE id = ${uuidOf(id)}
        UNION ALL SELECT 1 FROM sluice.credentials_in_force WHERE id = ${credential} AND since > ${begunAt}`);
        return found !== undefined;
      },
    },
  },
});
