import type { Database } from 'better-sqlite3';

/** Raises a number: on a full or read-only disk a transaction without a change would commit all the same. */
export function preparePing(db: Database): () => void {
  const write = db.prepare('UPDATE pings SET count = count + 1');
  return () => {
    write.run();
  };
}
