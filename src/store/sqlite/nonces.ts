import type { Database } from 'better-sqlite3';
import type { NonceClaim } from '../store.ts';
import type { KnownKey } from './former-keys.ts';
import { hashOfNonce, type NonceIndex } from './nonce-index.ts';

/** The first use of a nonce that is still alive. */
export interface KnownNonce {
  readonly runId: string;
  readonly bodySha256: string;
}

/** Where a nonce must be new, the run that its row is to name, and when. */
export interface NonceScope {
  readonly flowId: string;
  readonly triggerKey: string;
  /** Where it is looked for: the trigger's own key and those that it had. */
  readonly keys: readonly KnownKey[];
  readonly runId: string;
  readonly now: number;
}

type ClaimNonce = (nonce: NonceClaim, scope: NonceScope) => KnownNonce | undefined;

/** Keeps the nonce and yields nothing where it is new or expired; else yields what is known of it and changes nothing. */
export function prepareClaimNonce(db: Database, index: NonceIndex): ClaimNonce {
  const find = db.prepare<unknown[], KnownNonce>(`
    SELECT run_id AS runId, body_sha256 AS bodySha256 FROM nonces
    WHERE seq = ? AND nonce = ? AND trigger_key = ? AND flow_id = ? AND expires_at > ?`);
  const insert = db.prepare<unknown[]>(`
    INSERT INTO nonces (seq, hash, flow_id, trigger_key, nonce, body_sha256, run_id, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);

  return ({ value, bodySha256, expiresAt }, { flowId, keys, triggerKey, runId, now }) => {
    for (const key of keys) {
      for (const seq of index.find(hashOfNonce(flowId, key.triggerKey, value))) {
        const known = seq <= key.lastSeq ? find.get(seq, value, key.triggerKey, flowId, now) : undefined;
        if (known !== undefined) return known;
      }
    }
    const nonceHash = hashOfNonce(flowId, triggerKey, value);
    insert.run(index.add(nonceHash), nonceHash, flowId, triggerKey, value, bodySha256, runId, expiresAt);
    return undefined;
  };
}

export function preparePurgeNonces(db: Database): (purge: { now: number; limit: number }) => number {
  const purge = db.prepare(`
    DELETE FROM nonces WHERE seq IN (SELECT seq FROM nonces WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`);
  return ({ now, limit }) => purge.run(now, limit).changes;
}
