import { randomUUID } from 'node:crypto';
import Database from 'better-sqlite3';
import { DAY_MS } from '../../src/model/clock.ts';
import { nonceDigest } from '../../src/store/digest.ts';
import { hashOfDigest } from '../../src/store/sqlite/nonce-index.ts';

/** The nonces live long, because later benches use the filled database again. */
const LIFE_MS = 365 * DAY_MS;
const NONCES_A_TRANSACTION = 100_000;

/** Puts many live nonces of one trigger into a stopped service's database. Ten million, indexed, take two minutes. */
export function fillNonces(
  file: string,
  trigger: { flowId: string; triggerKey: string },
  count: number,
  { isIndexed = true } = {},
): void {
  const db = new Database(file);
  db.pragma('synchronous = OFF');
  db.pragma('cache_size = -400000');
  const insert = db.prepare(`
    INSERT INTO nonces (hash, flow_id, trigger_key, is_verified, header, nonce, body_sha256, run_id, expires_at)
    VALUES (?, ?, ?, 1, '', ?, ?, ?, ?)`);
  const expiresAt = Date.now() + LIFE_MS;
  const { flowId, triggerKey } = trigger;
  const body = '0'.repeat(64);
  const insertAll = db.transaction((left: number) => {
    for (; left > 0; left -= 1) {
      const nonce = randomUUID();
      const digest = nonceDigest(trigger, { header: '', value: nonce, isTrusted: true });
      insert.run(hashOfDigest(digest), flowId, triggerKey, nonce, body, nonce, expiresAt);
    }
  });
  for (let left = count; left > 0; left -= NONCES_A_TRANSACTION) insertAll(Math.min(left, NONCES_A_TRANSACTION));
  const index = db.transaction(() => {
    db.exec('INSERT INTO nonce_index (hash, seq) SELECT hash, seq FROM nonces ORDER BY hash, seq');
    db.exec('UPDATE nonce_index_state SET indexed_to = (SELECT max(seq) FROM nonces)');
  });
  if (isIndexed) index();
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
}
