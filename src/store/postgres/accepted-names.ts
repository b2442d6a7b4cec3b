import { askedNonce } from '../decisions/accepted-names.ts';
import type { Decision } from '../decisions/decision.ts';
import { listTriggerKeys, otherNames } from '../decisions/nonce-names.ts';
import { type Port, sql } from '../decisions/port.ts';
import { eventDigest, nonceDigest } from '../digest.ts';
import type { AcceptedQuery } from '../store.ts';

/** Finds names by the digests of their indexes. */
export function* areAccepted(port: Port, { names, ...query }: AcceptedQuery): Decision<readonly boolean[]> {
  const { flowId, triggerKey, at } = query;
  const [keys = []] = yield* listTriggerKeys(port, [{ flowId, triggerKey }]);
  const digests = names.map((name) => {
    const { eventId } = name;
    const events =
      eventId === undefined ? [] : keys.map((key) => ({ digest: eventDigest(key, eventId), reusedAt: key.reusedAt }));
    const asked = askedNonce(query, name);
    const others = asked === undefined ? [] : otherNames(asked, keys).filter(({ nonce }) => nonce !== null);
    const own = asked === undefined ? [] : [{ digest: nonceDigest(query, asked.nonce), lastSeq: null }];
    return { events, nonces: [...own, ...others] };
  });
  const events = yield* port.all<{ digest: string; createdAt: number }>(sql`
    SELECT digest, created_at AS "createdAt" FROM sluice.event_ids
    WHERE digest = ANY (${digests.flatMap((each) => each.events.map(({ digest }) => digest))}::uuid[]) AND expires_at > ${at}`);
  const nonces = yield* port.all<{ digest: string; seq: number }>(sql`
    SELECT digest, seq FROM sluice.nonces
    WHERE digest = ANY (${digests.flatMap((each) => each.nonces.map(({ digest }) => digest))}::uuid[]) AND expires_at > ${at}`);
  const createdAt = new Map(events.map((row) => [row.digest, row.createdAt]));
  const seqs = new Map(nonces.map((row) => [row.digest, row.seq]));
  return digests.map(
    (each) =>
      each.events.some(({ digest, reusedAt }) => {
        const at = createdAt.get(digest);
        return at !== undefined && (reusedAt === null || at < reusedAt);
      }) ||
      each.nonces.some(({ digest, lastSeq }) => {
        const seq = seqs.get(digest);
        return seq !== undefined && (lastSeq === null || seq <= lastSeq);
      }),
  );
}
