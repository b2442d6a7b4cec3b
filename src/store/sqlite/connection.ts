import { mkdirSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Database } from 'better-sqlite3';
import SqliteDatabase from 'better-sqlite3';
import { inMemory } from './messages.ts';
import { checkSchema, migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';

/** The connection that writes, and how to let go of it. */
export interface Connection {
  readonly db: Database;
  close(): void;
}

/**
 * Opens the database for writing, creates it or brings its schema up to date, and keeps other processes out until it is
 * closed or the process ends, however it ends. Throws an error that names the path.
 */
export function openWriter(path: string): Connection {
  return explained(path, () => (path === inMemory ? openMemory() : openFile(path)));
}

/** Opens a database that a writer of this process holds. It reads, and it may move the log into the database file. */
export function openReader(path: string): Connection {
  return explained(path, () => {
    const db = new SqliteDatabase(resolve(path), { fileMustExist: true });
    db.pragma('query_only = ON');
    db.pragma('synchronous = FULL');
    db.pragma('wal_autocheckpoint = 0');
    defineFold(db);
    return { db, close: () => db.close() };
  });
}

function openMemory(): Connection {
  const db = new SqliteDatabase(inMemory);
  defineFold(db);
  migrate(db, migrations);
  return { db, close: () => db.close() };
}

function openFile(path: string): Connection {
  const file = resolve(path);
  mkdirSync(dirname(file), { recursive: true });
  const db = new SqliteDatabase(file);
  try {
    // Two names of one file, such as a symbolic link, have one lock.
    const lock = lockFile(`${realpathSync(file)}.lock`);
    try {
      checkSchema(db, migrations);
      configure(db);
      migrate(db, migrations);
    } catch (error) {
      lock.close();
      throw error;
    }
    return {
      db,
      close() {
        db.close();
        lock.close();
      },
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** A transaction left open on a database of its own: the operating system ends it with the process. */
function lockFile(path: string): Database {
  const lock = new SqliteDatabase(path, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw sqliteCode(error) === 'SQLITE_BUSY' ? new Error('it is in use by another process', { cause: error }) : error;
  }
}

function configure(db: Database): void {
  if (db.pragma('page_count', { simple: true }) === 0) {
    // These take before the first table alone. 8 KiB pages: 15 % more acceptances than with 4 KiB.
    db.pragma('page_size = 8192');
    db.pragma('auto_vacuum = INCREMENTAL');
  }
  db.pragma('journal_mode = WAL');
  // Compiled in is NORMAL for a write-ahead log, which loses what was acknowledged just before a power cut.
  db.pragma('synchronous = FULL');
  db.pragma('wal_autocheckpoint = 0');
  db.pragma(`journal_size_limit = ${64 * 1024 * 1024}`);
  defineFold(db);
}

/** SQLite's own LIKE knows the cases of ASCII alone. */
export function defineFold(db: Database): void {
  db.function('fold', { deterministic: true }, (text) => (typeof text === 'string' ? text.toLowerCase() : text));
}

function explained<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`the database ${path} cannot be opened: ${reason}`, { cause: error });
  }
}

/** The code of an error of SQLite or of Node, such as SQLITE_FULL or EACCES. */
export function sqliteCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
