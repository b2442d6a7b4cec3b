import type { TriggerName } from '../../model/trigger-name.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { lockFlowIds } from '../../store/decisions/flows.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';

export interface LearnedKey {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The scheme whose handshake brought the key; the key is valid only for that scheme. */
  readonly scheme: string;
  /** Null if it is sealed with a key that this process does not have. */
  readonly secret: Uint8Array | null;
  /** Names the key that the stored secret is sealed with; absent if it is plain, as callers of the store see it. */
  readonly sealedWith?: string | undefined;
  readonly learnedAt: number;
}

interface LearnedKeyRow extends Omit<LearnedKey, 'sealedWith'> {
  readonly sealedWith: string | null;
}

const columns = fixed(`flow_id AS "flowId", trigger_key AS "triggerKey", scheme, secret, sealed_with AS "sealedWith",
  learned_at AS "learnedAt"`);

/** A condition for the key of a trigger, and for its keys before deploys renamed it. */
const ofTrigger = ({ flowId, triggerKey }: TriggerName) => sql`
  flow_id = ${flowId} AND (trigger_key = ${triggerKey} OR trigger_key IN (
    SELECT former_key FROM sluice.former_trigger_keys
    WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND former_flow_id = flow_id AND last_seq IS NULL))`;

function toKey({ sealedWith, secret, ...row }: LearnedKeyRow): LearnedKey {
  const key = { ...row, secret: secret === null ? null : new Uint8Array(secret) };
  return sealedWith === null ? key : { ...key, sealedWith };
}

export const learnedKeysStore = storePart({
  name: 'learned-keys',
  verbs: {
    learnKey: {
      access: 'write',
      changes: ({ flowId }: LearnedKey) => [{ kind: 'key', flowId }],
      /** Stores only the first key. After a rename it yields the former key: no stranger's handshake can be first. */
      *decide(port: Port, key: LearnedKey): Decision<LearnedKey> {
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
      *decide(port: Port): Decision<LearnedKey[]> {
        return (yield* port.all<LearnedKeyRow>(sql`SELECT ${columns} FROM sluice.learned_keys`)).map(toKey);
      },
    },
    forgetKey: {
      access: 'write',
      changes: ({ flowId }: TriggerName) => [{ kind: 'key', flowId }],
      *decide(port: Port, trigger: TriggerName): Decision<boolean> {
        return (yield* port.run(sql`DELETE FROM sluice.learned_keys WHERE ${ofTrigger(trigger)}`)) > 0;
      },
    },
  },
});
