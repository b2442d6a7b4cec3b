import { randomUUID } from 'node:crypto';
import Database from 'better-sqlite3';
import { hashOfNonce } from '../../src/store/sqlite/nonce-index.ts';

const DAY_MS = 86_400_000;

/** Puts so many live, indexed nonces of one trigger into the database of a stopped service. */
export function fillNonces(file: string, trigger: { flowId: string; triggerKey: string }, count: number): void {
  const db = new Database(file);
  const insert = db.prepare(`
    INSERT INTO nonces (hash, flow_id, trigger_key, nonce, body_sha256, run_id, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`);
  const expiresAt = Date.now() + DAY_MS;
  const { flowId, triggerKey } = trigger;
  const body = '0'.repeat(64);
  db.transaction(() => {
    for (let left = count; left > 0; left -= 1) {
      const nonce = randomUUID();
      insert.run(hashOfNonce(flowId, triggerKey, nonce), flowId, triggerKey, nonce, body, nonce, expiresAt);
    }
    db.exec('INSERT INTO nonce_index (hash, seq) SELECT hash, seq FROM nonces ORDER BY hash, seq');
    db.exec('UPDATE nonce_index_state SET indexed_to = (SELECT max(seq) FROM nonces)');
  })();
  db.close();
}
