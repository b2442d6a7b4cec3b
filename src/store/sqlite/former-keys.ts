import type { Database } from 'better-sqlite3';
import type { SqlValue } from './sql-value.ts';

/** A key under which a trigger's deliveries may have been accepted. */
export interface KnownKey {
  readonly triggerKey: string;
  /** The newest nonce that counts. */
  readonly lastSeq: number;
  /** Idempotency keys count that were kept before. */
  readonly reusedAt: number;
}

const NEVER = Number.MAX_SAFE_INTEGER;

/**
 * Yields the key of a trigger and those that it had before it was renamed. And the one that it has since then, for a
 * delivery that came before the rename may be accepted after it.
 */
export function prepareKnownKeys(db: Database): (flowId: string, triggerKey: string) => readonly KnownKey[] {
  const find = db.prepare<SqlValue[], KnownKey>(`
    SELECT former_key AS triggerKey, coalesce(last_seq, ${NEVER}) AS lastSeq, coalesce(reused_at, ${NEVER}) AS reusedAt
    FROM former_trigger_keys WHERE flow_id = ? AND trigger_key = ?
    UNION ALL
    SELECT trigger_key, ${NEVER}, ${NEVER} FROM former_trigger_keys
    WHERE flow_id = ? AND former_key = ? AND last_seq IS NULL`);
  return (flowId, triggerKey) => [
    { triggerKey, lastSeq: NEVER, reusedAt: NEVER },
    ...find.all(flowId, triggerKey, flowId, triggerKey),
  ];
}

/** What a deploy says about the keys of triggers. */
export interface KeyChange {
  readonly flowId: string;
  /** All that the flow has now. */
  readonly triggerKeys: readonly string[];
  readonly renamed: readonly { readonly from: string; readonly to: string }[];
  readonly at: number;
}

export function prepareKeepFormerKeys(db: Database): (change: KeyChange) => void {
  const reuse = db.prepare<SqlValue[]>(`
    UPDATE former_trigger_keys
    SET last_seq = (SELECT coalesce(max(seq), 0) FROM nonces), reused_at = ?
    WHERE flow_id = ? AND former_key = ? AND last_seq IS NULL`);
  const rename = db.prepare<SqlValue[]>(`
    INSERT INTO former_trigger_keys (flow_id, trigger_key, former_key) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET last_seq = NULL, reused_at = NULL`);
  const inherit = db.prepare<SqlValue[]>(`
    INSERT OR IGNORE INTO former_trigger_keys (flow_id, trigger_key, former_key, last_seq, reused_at)
    SELECT flow_id, ?, former_key, last_seq, reused_at FROM former_trigger_keys
    WHERE flow_id = ? AND trigger_key = ? AND former_key <> ?`);
  return ({ flowId, triggerKeys, renamed, at }) => {
    for (const key of triggerKeys) reuse.run(at, flowId, key);
    for (const { from, to } of renamed) {
      rename.run(flowId, to, from);
      inherit.run(to, flowId, from, to);
    }
  };
}
