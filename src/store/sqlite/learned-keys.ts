import type { Database } from 'better-sqlite3';
import type { LearnedKey } from '../store.ts';

interface Row extends Omit<LearnedKey, 'sealedWith'> {
  readonly secret: Buffer;
  readonly sealedWith: string | null;
}

const columns =
  'flow_id AS flowId, trigger_key AS triggerKey, scheme, secret, sealed_with AS sealedWith, learned_at AS learnedAt';

export function prepareLearnKey(db: Database): (key: LearnedKey) => LearnedKey {
  const insert = db.prepare(`
    INSERT INTO learned_keys (flow_id, trigger_key, scheme, secret, sealed_with, learned_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (flow_id, trigger_key) DO NOTHING`);
  const find = db.prepare<[string, string], Row>(
    `SELECT ${columns} FROM learned_keys WHERE flow_id = ? AND trigger_key = ?`,
  );
  return ({ flowId, triggerKey, scheme, secret, sealedWith, learnedAt }) => {
    insert.run(flowId, triggerKey, scheme, secret, sealedWith ?? null, learnedAt);
    const row = find.get(flowId, triggerKey);
    if (row === undefined) throw new Error(`The key of ${triggerKey} was not stored.`);
    return toKey(row);
  };
}

export function prepareListLearnedKeys(db: Database): () => LearnedKey[] {
  const list = db.prepare<[], Row>(`SELECT ${columns} FROM learned_keys`);
  return () => list.all().map(toKey);
}

export function prepareForgetKey(db: Database): (trigger: { flowId: string; triggerKey: string }) => boolean {
  const forget = db.prepare('DELETE FROM learned_keys WHERE flow_id = ? AND trigger_key = ?');
  return ({ flowId, triggerKey }) => forget.run(flowId, triggerKey).changes > 0;
}

function toKey({ sealedWith, secret, ...row }: Row): LearnedKey {
  const key = { ...row, secret: new Uint8Array(secret) };
  return sealedWith === null ? key : { ...key, sealedWith };
}
