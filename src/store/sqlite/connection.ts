import { chmodSync, closeSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { inMemory } from './messages.ts';
import { type Migration, migrations } from './migrations/index.ts';

/** A connection, and how to release it. */
interface Connection {
  readonly db: Database;
  close(): void;
}

interface WriterConnection extends Connection {
  /** Absent where the database is in memory. */
  readonly watch?: FileWatch | undefined;
}

/**
 * Opens the database for writing, creates it or brings its schema up to date, and keeps other processes out until it is
 * closed or the process ends, however it ends. Throws an error that names the path.
 */
export function openWriter(path: string, { isCopied = false }: { isCopied?: boolean } = {}): WriterConnection {
  return explained(path, () => (path === inMemory ? openMemory() : openFile(path, isCopied)));
}

/** The table that an unfinished copy of another database has. */
export const COPY_MARK = 'copy_progress';

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

function openFile(path: string, isCopied: boolean): WriterConnection {
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
      if (!isCopied && tablesOf(db).includes(COPY_MARK)) {
        throw new Error('it is an unfinished copy of another one: finish it with `sluice copy`, or remove it');
      }
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

/** These files hold bodies, headers and keys, so only the account of the service may read them. */
function makePrivate(file: string): void {
  for (const suffix of ['', '-wal', '-shm', '.lock']) {
    try {
      chmodSync(`${file}${suffix}`, 0o600);
    } catch {
      // The file does not exist yet, or belongs to another account, which decides who may read it.
    }
  }
}

/**
 * A transaction left open on a database of its own: the operating system ends it with the process.
 *
 * A lock file that was removed under a running service and created again here proves nothing. So a lock file that is
 * not known to belong to this database counts only if no process has the database open.
 */
function lockFile(file: string): Database {
  const lock = new SqliteDatabase(`${file}.lock`, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    const mark = markOf(file);
    if (lock.pragma('user_version', { simple: true }) !== mark) {
      refuseWhereOpen(file);
      lock.pragma(`user_version = ${mark}`);
      // If another process takes the lock in between, it keeps the lock and this process is refused.
      lock.exec('COMMIT; BEGIN EXCLUSIVE');
    }
    return lock;
  } catch (error) {
    lock.close();
    throw sqliteCode(error) === 'SQLITE_BUSY'
      ? new Error('it is in use by another process; stop that one, or use another database', { cause: error })
      : error;
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
    // Both work only before the first table exists. 8 KiB pages: 15 % more acceptances than with 4 KiB.
    db.pragma('page_size = 8192');
    db.pragma('auto_vacuum = INCREMENTAL');
  }
  db.pragma('journal_mode = WAL');
  // Compiled in is NORMAL for a write-ahead log, which loses what was acknowledged just before a power cut.
  db.pragma('synchronous = FULL');
  db.pragma('wal_autocheckpoint = 0');
  // Half of what is compiled in: as fast, and the process keeps 30 MB less after a flood.
  db.pragma('cache_size = -8000');
  db.pragma(`journal_size_limit = ${64 * 1024 * 1024}`);
  defineFold(db);
}

/** SQLite's own LIKE ignores case for ASCII only. */
export function defineFold(db: Database): void {
  db.function('fold', { deterministic: true }, (text) => (typeof text === 'string' ? text.toLowerCase() : text));
}

/** What to do about an error of a code. */
const CURES = [
  {
    codes: /^(EACCES|EPERM|EROFS|SQLITE_CANTOPEN|SQLITE_PERM|SQLITE_READONLY)/,
    cure: 'the account that runs Sluice must be able to write this file and its folder',
  },
  { codes: /^(EEXIST|ENOTDIR)$/, cure: 'a file is where its folder should be' },
  { codes: /^(ENOSPC|EDQUOT|SQLITE_FULL)/, cure: 'make room on its disk' },
];

function explained<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const cure = CURES.find(({ codes }) => codes.test(sqliteCode(error) ?? ''))?.cure;
    const text = cure === undefined ? reason : `${reason}; ${cure}`;
    throw new Error(`the database ${path} cannot be opened: ${text}`, { cause: error });
  }
}

/** The code of an error of SQLite or of Node, such as SQLITE_FULL or EACCES. */
export function sqliteCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Throws where the database is newer than the list of migrations or belongs to another program. Reads only. */
function checkSchema(db: Database, migrations: readonly Migration[]): void {
  const newest = migrations.at(-1)?.version ?? 0;
  const current = schemaVersion(db);
  if (current <= newest) return;
  throw new Error(
    `its schema version is ${current} and the newest that this release knows is ${newest}; start a newer release, or use another database`,
  );
}

/** Migrates the schema to the newest version, each migration in its own transaction; applied migrations stay. */
export function migrate(db: Database, migrations: readonly Migration[]): void {
  const applied = appliedVersions(db);
  for (const migration of migrations.filter(({ version }) => !applied.has(version))) apply(db, migration);
}

export function schemaVersion(db: Database): number {
  return Math.max(0, ...appliedVersions(db));
}

function appliedVersions(db: Database): Set<number> {
  const tables = tablesOf(db);
  if (tables.includes('schema_migrations')) {
    const rows = db.prepare<[], { version: number }>('SELECT version FROM schema_migrations').all();
    return new Set(rows.map(({ version }) => version));
  }
  if (tables.length > 0) throw new Error(`it is a database of another program (it has a table "${tables[0]}")`);
  return new Set();
}

function tablesOf(db: Database): string[] {
  return db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all();
}

function apply(db: Database, { version, name, sql }: Migration): void {
  db.transaction(() => {
    db.exec(`CREATE TABLE IF NOT EXISTS schema_migrations (
      version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)`);
    db.exec(sql);
    db.prepare('INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)').run(
      version,
      name,
      Date.now(),
    );
  }).immediate();
}

/** The tables of the delivery log. */
const LOG_TABLES = [
  'deliveries',
  'delivery_keys',
  'delivery_counts',
  'delivery_hours',
  'delivery_totals',
  'refused_state',
];

interface SchemaObject {
  readonly type: string;
  readonly sql: string;
}

/**
 * Hides the tables of the delivery log behind tables in this connection's memory, which are gone with it. They have the
 * same definitions and names, so every statement works on them unchanged, and an acceptance stays one transaction. Call
 * it before preparing any statement.
 */
export function keepLogInMemory(db: Database): void {
  db.pragma('temp_store = MEMORY');
  const objects = db
    .prepare<string[], SchemaObject>(`
      SELECT type, sql FROM main.sqlite_schema
      WHERE sql IS NOT NULL AND tbl_name IN (${LOG_TABLES.map(() => '?').join(', ')})
      ORDER BY type <> 'table', type <> 'index'`)
    .all(...LOG_TABLES);
  for (const { sql } of objects) db.exec(asTemporary(sql));
  // In memory all records are bounded, not only those that started no run.
  db.exec(`
    INSERT INTO temp.refused_state (id, rows, bytes) VALUES (1, 0, 0);
    CREATE TEMP TRIGGER started_added AFTER INSERT ON deliveries WHEN new.run_id IS NOT NULL BEGIN
      UPDATE refused_state SET rows = rows + 1, bytes = bytes + new.kept_bytes;
    END;
    CREATE TEMP TRIGGER started_deleted AFTER DELETE ON deliveries WHEN old.run_id IS NOT NULL BEGIN
      UPDATE refused_state SET rows = rows - 1, bytes = bytes - old.kept_bytes;
    END;`);
}

function asTemporary(sql: string): string {
  return sql
    .replace(/^CREATE (TABLE|TRIGGER) /, 'CREATE TEMP $1 ')
    .replace(/^CREATE (UNIQUE )?INDEX /, (_, unique = '') => `CREATE ${unique}INDEX temp.`);
}

/** The files of an open database: its own and the two that SQLite keeps next to it. */
const SUFFIXES = ['', '-wal', '-shm'];

interface WatchedFile {
  readonly path: string;
  readonly device: bigint;
  readonly inode: bigint;
}

/**
 * Checks that the path still names the files that a connection has open.
 *
 * On Unix an open file can be removed or replaced. SQLite would go on writing to a file that no later start can find,
 * and every acknowledgement would be a lie. A check between a commit and its answers prevents that. It ignores the
 * size, because checkpoints on other threads shorten the files too. It costs a few microseconds, a commit a hundred
 * times that.
 */
export class FileWatch {
  readonly #files: readonly WatchedFile[];
  #loss: Error | undefined;

  /** `path` is what the operator named, `file` where that leads. The connection has read already. */
  constructor(path: string, file: string) {
    this.#files = SUFFIXES.map((suffix) => {
      const watched = suffix === '' ? path : `${file}${suffix}`;
      const { dev: device, ino: inode } = statSync(watched, { bigint: true });
      return { path: watched, device, inode };
    });
  }

  /** Why nothing may be written or acknowledged. A loss is final: later writes went to the lost file. */
  check(): Error | undefined {
    try {
      this.#loss ??= this.#findLoss();
    } catch (error) {
      // The disk does not answer right now; that does not mean that the file is lost.
      return error instanceof Error ? error : new Error(String(error));
    }
    return this.#loss;
  }

  get isLost(): boolean {
    return this.#loss !== undefined;
  }

  #findLoss(): Error | undefined {
    for (const { path, device, inode } of this.#files) {
      const now = statSync(path, { bigint: true, throwIfNoEntry: false });
      if (now === undefined) return lossOf(path, 'was removed while it was in use');
      if (now.dev !== device || now.ino !== inode) return lossOf(path, 'was replaced while it was in use');
    }
    return undefined;
  }
}

function lossOf(path: string, what: string): Error {
  return new Error(`${basename(path)} ${what}: nothing can be stored (${path})`);
}
