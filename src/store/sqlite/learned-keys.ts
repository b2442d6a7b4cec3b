import type { Database } from 'better-sqlite3';
import type { LearnedKey } from '../store.ts';

interface Row extends Omit<LearnedKey, 'sealedWith'> {
  readonly secret: Buffer;
  readonly sealedWith: string | null;
}

const columns =
  'flow_id AS flowId, trigger_key AS triggerKey, scheme, secret, sealed_with AS sealedWith, learned_at AS learnedAt';

/** The key of a trigger itself, and those that it had before a deploy renamed it. */
const OWN_OR_FORMER = `flow_id = :flowId AND (trigger_key = :triggerKey OR trigger_key IN (
  SELECT former_key FROM former_trigger_keys
  WHERE flow_id = :flowId AND trigger_key = :triggerKey AND last_seq IS NULL))`;

/** Keeps the first key only. A rename must not make a stranger's handshake the first: it yields the key from before. */
export function prepareLearnKey(db: Database): (key: LearnedKey) => LearnedKey {
  const insert = db.prepare(`
    INSERT INTO learned_keys (flow_id, trigger_key, scheme, secret, sealed_with, learned_at) VALUES (?, ?, ?, ?, ?, ?)`);
  const find = db.prepare<[{ flowId: string; triggerKey: string }], Row>(
    `SELECT ${columns} FROM learned_keys WHERE ${OWN_OR_FORMER} ORDER BY trigger_key = :triggerKey DESC, learned_at LIMIT 1`,
  );
  return ({ flowId, triggerKey, scheme, secret, sealedWith, learnedAt }) => {
    const known = find.get({ flowId, triggerKey });
    if (known !== undefined) return toKey(known);
    insert.run(flowId, triggerKey, scheme, secret, sealedWith ?? null, learnedAt);
    const row = find.get({ flowId, triggerKey });
    if (row === undefined) throw new Error(`The key of ${triggerKey} was not stored.`);
    return toKey(row);
  };
}

export function prepareListLearnedKeys(db: Database): () => LearnedKey[] {
  const list = db.prepare<[], Row>(`SELECT ${columns} FROM learned_keys`);
  return () => list.all().map(toKey);
}

export function prepareForgetKey(db: Database): (trigger: { flowId: string; triggerKey: string }) => boolean {
  const forget = db.prepare<[{ flowId: string; triggerKey: string }]>(
    `DELETE FROM learned_keys WHERE ${OWN_OR_FORMER}`,
  );
  return ({ flowId, triggerKey }) => forget.run({ flowId, triggerKey }).changes > 0;
}

function toKey({ sealedWith, secret, ...row }: Row): LearnedKey {
  const key = { ...row, secret: new Uint8Array(secret) };
  return sealedWith === null ? key : { ...key, sealedWith };
}
