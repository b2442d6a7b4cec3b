import { chmodSync, closeSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Database } from 'better-sqlite3';
import SqliteDatabase from 'better-sqlite3';
import { FileWatch } from './file-watch.ts';
import { inMemory } from './messages.ts';
import { checkSchema, migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';

/** The connection that writes, and how to let go of it. */
export interface Connection {
  readonly db: Database;
  close(): void;
}

export interface WriterConnection extends Connection {
  /** Absent where the database is in memory. */
  readonly watch?: FileWatch | undefined;
}

/**
 * Opens the database for writing, creates it or brings its schema up to date, and keeps other processes out until it is
 * closed or the process ends, however it ends. Throws an error that names the path.
 */
export function openWriter(path: string): WriterConnection {
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

function openMemory(): WriterConnection {
  const db = new SqliteDatabase(inMemory);
  defineFold(db);
  migrate(db, migrations);
  return { db, close: () => db.close() };
}

function openFile(path: string): WriterConnection {
  const named = resolve(path);
  mkdirSync(dirname(named), { recursive: true, mode: 0o700 });
  createPrivately(named);
  const db = new SqliteDatabase(named);
  try {
    // Two names of one file, such as a symbolic link, have one lock.
    const file = realpathSync(named);
    const lock = lockFile(file);
    try {
      makePrivate(file);
      checkSchema(db, migrations);
      configure(db);
      migrate(db, migrations);
      makePrivate(file);
      const watch = new FileWatch(named, file);
      return {
        db,
        watch,
        close() {
          db.close();
          lock.close();
        },
      };
    } catch (error) {
      lock.close();
      throw error;
    }
  } catch (error) {
    db.close();
    throw error;
  }
}

/** SQLite makes the files next to a database with the rights of the database. */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    // An existing file is never opened here: closing it again would end the locks that this process has on it.
    if (sqliteCode(error) !== 'EEXIST') throw error;
  }
}

/** Bodies, headers and keys are in these files: they are for the account of the service alone. */
function makePrivate(file: string): void {
  for (const suffix of ['', '-wal', '-shm', '.lock']) {
    try {
      chmodSync(`${file}${suffix}`, 0o600);
    } catch {
      // It is not there yet, or belongs to another account, which decides who may read it.
    }
  }
}

/**
 * A transaction left open on a database of its own: the operating system ends it with the process.
 *
 * A lock file that was removed from under a running service, and made anew here, says nothing. So one that is not known
 * to belong to this very database is only believed where no process has the database open at all.
 */
function lockFile(file: string): Database {
  const lock = new SqliteDatabase(`${file}.lock`, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    const mark = markOf(file);
    if (lock.pragma('user_version', { simple: true }) !== mark) {
      refuseWhereOpen(file);
      lock.pragma(`user_version = ${mark}`);
      // Whoever takes the lock between these two keeps it, and this process is refused.
      lock.exec('COMMIT; BEGIN EXCLUSIVE');
    }
    return lock;
  } catch (error) {
    lock.close();
    throw sqliteCode(error) === 'SQLITE_BUSY' ? new Error('it is in use by another process', { cause: error }) : error;
  }
}

/** Never 0, which is what a new lock file has. */
function markOf(file: string): number {
  return Number(statSync(file, { bigint: true }).ino % 0x7fff_fffen) + 1;
}

/** Every connection shares a lock on the database file for as long as it is open. Throws SQLITE_BUSY. */
function refuseWhereOpen(file: string): void {
  const probe = new SqliteDatabase(file, { timeout: 0 });
  try {
    probe.pragma('locking_mode = EXCLUSIVE');
    probe.exec('BEGIN EXCLUSIVE; ROLLBACK');
  } finally {
    probe.close();
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
