import type { LearnedKey } from '../store.ts';
import { lockFlowIds } from './flows.ts';
import type { Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const learnedKeyOperations: Operations<'learnKey' | 'listLearnedKeys' | 'forgetKey'> = {
  learnKey: { lane: 'write', run: learnKey },
  listLearnedKeys: { lane: 'read', run: listLearnedKeys },
  forgetKey: { lane: 'write', run: forgetKey },
};

interface LearnedKeyRow extends Omit<LearnedKey, 'sealedWith'> {
  readonly secret: Uint8Array;
  readonly sealedWith: string | null;
}

const columns = `flow_id AS "flowId", trigger_key AS "triggerKey", scheme, secret, sealed_with AS "sealedWith",
  learned_at AS "learnedAt"`;

/** The key of trigger $2 of flow $1, and its keys before deploys renamed it. */
const OWN_OR_FORMER = `flow_id = $1 AND (trigger_key = $2 OR trigger_key IN (
  SELECT former_key FROM sluice.former_trigger_keys WHERE flow_id = $1 AND trigger_key = $2 AND last_seq IS NULL))`;

/**
 * Stores only the first key. After a rename it yields the former key, so that a stranger's handshake cannot be first.
 */
async function learnKey(sql: Sql, key: LearnedKey): Promise<LearnedKey> {
  const { flowId, triggerKey, scheme, secret, sealedWith, learnedAt } = key;
  // Another key of the same flow may be one of the trigger before its rename, so one transaction at a time looks.
  await lockFlowIds(sql, [flowId]);
  const known = await sql.get<LearnedKeyRow>(
    `SELECT ${columns} FROM sluice.learned_keys WHERE ${OWN_OR_FORMER}
    ORDER BY trigger_key = $2 DESC, learned_at LIMIT 1`,
    [flowId, triggerKey],
  );
  if (known !== undefined) return toKey(known);
  const row = await sql.get<LearnedKeyRow>(
    `INSERT INTO sluice.learned_keys (flow_id, trigger_key, scheme, secret, sealed_with, learned_at)
    VALUES ($1, $2, $3, $4, $5, $6) RETURNING ${columns}`,
    [flowId, triggerKey, scheme, secret, sealedWith ?? null, learnedAt],
  );
  if (row === undefined) throw new Error(`The key of ${triggerKey} was not stored.`);
  return toKey(row);
}

async function listLearnedKeys(sql: Sql): Promise<LearnedKey[]> {
  const rows = await sql.all<LearnedKeyRow>(`SELECT ${columns} FROM sluice.learned_keys`);
  return rows.map(toKey);
}

async function forgetKey(sql: Sql, { flowId, triggerKey }: Given<'forgetKey'>): Promise<boolean> {
  return (await sql.run(`DELETE FROM sluice.learned_keys WHERE ${OWN_OR_FORMER}`, [flowId, triggerKey])) > 0;
}

function toKey({ sealedWith, ...row }: LearnedKeyRow): LearnedKey {
  return sealedWith === null ? row : { ...row, sealedWith };
}
