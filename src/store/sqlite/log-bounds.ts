import type { Database } from 'better-sqlite3';
import { gatheringsOf } from './counter.ts';
import type { LogOptions } from './messages.ts';
import type { SqlValue } from './sql-value.ts';

/** A turn of the writer at the start, and a page of rows to delete from. */
const chunkRows = 500;

interface Row {
  readonly id: string;
  readonly keptBytes: number;
}

/**
 * Keeps the delivery log within its bounds at every commit: what a batch adds beyond them pushes out the oldest records
 * in the same transaction. In the database only records that started no run are bounded, so that no flood can push out
 * what was accepted; in memory all are. Counts of what is gone stay in the stats.
 */
export function boundLog(db: Database, { inMemory, maxRows, maxBytes }: LogOptions): void {
  const measure = db.prepare<[], { rows: number; bytes: number }>('SELECT rows, bytes FROM refused_state');
  const bounded = inMemory ? '' : 'WHERE run_id IS NULL';
  const oldest = db.prepare<[number], Row>(
    `SELECT id, kept_bytes AS keptBytes FROM deliveries ${bounded} ORDER BY id LIMIT ?`,
  );
  const remove = db.prepare<SqlValue[]>('DELETE FROM deliveries WHERE id = ?');
  /** Yields whether more has to go. */
  const trimChunk = (): boolean => {
    let { rows, bytes } = measure.get() ?? { rows: 0, bytes: 0 };
    if (rows <= maxRows && bytes <= maxBytes) return false;
    const chunk = oldest.all(chunkRows);
    for (const { id, keptBytes } of chunk) {
      if (rows <= maxRows && bytes <= maxBytes) return false;
      remove.run(id);
      rows -= 1;
      bytes -= keptBytes;
    }
    return chunk.length === chunkRows;
  };
  // Lower bounds than the last process had are met before anything waits for the writer.
  const trimAtOnce = db.transaction(trimChunk);
  while (trimAtOnce.immediate());
  gatheringsOf(db).add({
    mark: () => 0,
    undo() {},
    write() {
      while (trimChunk());
    },
  });
}
