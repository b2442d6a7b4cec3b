import type { Database } from 'better-sqlite3';
import { askedNonce } from '../decisions/accepted-names.ts';
import { decideNow } from '../decisions/decision.ts';
import { listTriggerKeys } from '../decisions/nonce-names.ts';
import { eventDigest } from '../digest.ts';
import type { AcceptedQuery } from '../store.ts';
import { prepareEvents, prepareNonces, type WriterState } from './acceptance.ts';
import { portOf } from './port.ts';
import { sentNonce } from './sent-acceptance.ts';

/** Runs in the writer, whose memory has the newest names. */
export function prepareAreAccepted(
  db: Database,
  { indexes }: WriterState,
): (query: AcceptedQuery) => readonly boolean[] {
  const nonces = prepareNonces(db, indexes.nonces);
  const events = prepareEvents(db, indexes.events);
  return ({ names, ...query }) => {
    const { flowId, triggerKey, at } = query;
    const [keys = []] = decideNow(listTriggerKeys(portOf(db), [{ flowId, triggerKey }]));
    return names.map((name) => {
      const { eventId: id } = name;
      const event = id === undefined ? undefined : { id, name: eventDigest(query, id), arrivedAt: at };
      if (events.find({ event }, keys) !== undefined) return true;
      const asked = askedNonce(query, name);
      return asked !== undefined && nonces.find({ ...asked, nonce: sentNonce(query, asked.nonce) }, keys) !== undefined;
    });
  };
}
