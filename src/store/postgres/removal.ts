import type { Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const removalOperations: Operations<'purgeNonces' | 'releaseSpace'> = {
  purgeNonces: { lane: 'write', run: purgeNonces },
  releaseSpace: { lane: 'read', run: releaseSpace },
};

async function purgeNonces(sql: Sql, { now, limit }: Given<'purgeNonces'>): Promise<number> {
  // One that an acceptance takes over at this moment is new again; waiting for it could end in a deadlock.
  return sql.run(
    `DELETE FROM sluice.nonces WHERE key IN (
      SELECT key FROM sluice.nonces WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )`,
    [now, limit],
  );
}

/** PostgreSQL's autovacuum finds free pages, and uses them again. */
async function releaseSpace(): Promise<number> {
  return 0;
}
