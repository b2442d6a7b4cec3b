import type { Database } from 'better-sqlite3';

/** 4 MiB of pages: small steps that never hold the disk for long. */
const checkpointFrames = 512;
/** 16 MiB of pages: see `watchLog`. */
const restartFrames = 2048;

interface LogState {
  /** Pages in the log. */
  readonly log: number;
  /** How many of them are in the database file too. */
  readonly checkpointed: number;
}

export interface LogWatch {
  /** After each commit. */
  committed(): void;
  /** After the checkpoint that was asked for. */
  checkpointed(): void;
}

/**
 * Keeps the write-ahead log short without making a commit wait for it.
 *
 * A thread of its own copies the log into the database file while commits go on. The log can only start over at its
 * beginning when all of it is copied, though, which never happens while commits go on: so once it is long, what
 * little the copy has missed is copied here, between two transactions.
 */
export function watchLog(db: Database, askForCheckpoint: () => void): LogWatch {
  const measure = db.prepare<[], LogState>('PRAGMA wal_checkpoint(NOOP)');
  let isAsked = false;
  return {
    committed() {
      const state = isAsked ? undefined : measure.get();
      if (state === undefined || state.log - state.checkpointed < checkpointFrames) return;
      isAsked = true;
      askForCheckpoint();
    },
    checkpointed() {
      isAsked = false;
      if ((measure.get()?.log ?? 0) >= restartFrames) checkpoint(db);
    },
  };
}

/** Copies what no reader holds back and waits for nobody. */
export function checkpoint(db: Database): void {
  try {
    db.pragma('wal_checkpoint(PASSIVE)');
  } catch {
    // The log holds everything and is complete without its copy; its growth asks again.
  }
}
