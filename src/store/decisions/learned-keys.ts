import type { LearnedKey } from '../store.ts';
import { lockFlowIds } from './flows.ts';
import { fixed, sql } from './port.ts';
import type { Verbs } from './verb.ts';

interface LearnedKeyRow extends Omit<LearnedKey, 'sealedWith'> {
  readonly sealedWith: string | null;
}

const columns = fixed(`flow_id AS "flowId", trigger_key AS "triggerKey", scheme, secret, sealed_with AS "sealedWith",
  learned_at AS "learnedAt"`);

/** A condition for the key of a trigger, and for its keys before deploys renamed it. */
const ofTrigger = ({ flowId, triggerKey }: Pick<LearnedKey, 'flowId' | 'triggerKey'>) => sql`
  flow_id = ${flowId} AND (trigger_key = ${triggerKey} OR trigger_key IN (
    SELECT former_key FROM sluice.former_trigger_keys
    WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND former_flow_id = flow_id AND last_seq IS NULL))`;

function toKey({ sealedWith, secret, ...row }: LearnedKeyRow): LearnedKey {
  const key = { ...row, secret: secret === null ? null : new Uint8Array(secret) };
  return sealedWith === null ? key : { ...key, sealedWith };
}

export const learnedKeyVerbs: Verbs<'learnKey' | 'listLearnedKeys' | 'forgetKey'> = {
  learnKey: {
    access: 'write',
    changes: ({ flowId }) => [{ kind: 'key', flowId }],
    /** Stores only the first key. After a rename it yields the former key: no stranger's handshake can be first. */
    *decide(port, key) {
      const { flowId, triggerKey, scheme, secret, sealedWith, learnedAt } = key;
      // Another key of the same flow may belong to the trigger before its rename, so one transaction at a time looks.
      yield* lockFlowIds(port, [flowId]);
      const known = yield* port.get<LearnedKeyRow>(sql`
        SELECT ${columns} FROM sluice.learned_keys WHERE ${ofTrigger(key)}
        ORDER BY trigger_key = ${triggerKey} DESC, learned_at LIMIT 1`);
      if (known !== undefined) return toKey(known);
      port.later(sql`
        INSERT INTO sluice.learned_keys (flow_id, trigger_key, scheme, secret, sealed_with, learned_at)
        VALUES (${flowId}, ${triggerKey}, ${scheme}, ${secret}, ${sealedWith ?? null}, ${learnedAt})`);
      return toKey({ flowId, triggerKey, scheme, secret, sealedWith: sealedWith ?? null, learnedAt });
    },
  },
  listLearnedKeys: {
    access: 'read',
    *decide(port) {
      return (yield* port.all<LearnedKeyRow>(sql`SELECT ${columns} FROM sluice.learned_keys`)).map(toKey);
    },
  },
  forgetKey: {
    access: 'write',
    changes: ({ flowId }) => [{ kind: 'key', flowId }],
    *decide(port, trigger) {
      return (yield* port.run(sql`DELETE FROM sluice.learned_keys WHERE ${ofTrigger(trigger)}`)) > 0;
    },
  },
};
