import { chmodSync, closeSync, existsSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { accessProblem, flushFolder } from '../durable-files.ts';
import { checkHistory } from '../schema-history.ts';
import { refuseIncomplete } from '../schema-objects.ts';
import { CountTables, defineCountedViews } from './count-tables.ts';
import { FileWatch, LOG_LIMIT_BYTES } from './file-watch.ts';
import { inMemory, type Opened } from './messages.ts';
import { type Migration, migrations } from './migrations/index.ts';
import { schemaDifferenceOf } from './schema.ts';

/** A connection, and how to release it. */
interface Connection {
  readonly db: Database;
  close(): void;
}

interface WriterConnection extends Connection, Opened {
  /** Absent if the database is in memory. */
  readonly watch?: FileWatch | undefined;
}

interface WriterOptions {
  /** Whether this can be an unfinished copy of another database, which lacks rows. */
  readonly isCopied?: boolean;
  /** Called before each change to the schema of an existing database, with the names of the missing migrations. */
  readonly onMigrating?: (names: readonly string[]) => void;
}

/**
 * Opens the database for writing, creating it or bringing its schema up to date, and keeps other processes out until it
 * is closed or the process ends in any way. Throws an error that names the path.
 */
export function openWriter(path: string, options: WriterOptions = {}): WriterConnection {
  return explained(path, () => (path === inMemory ? openMemory() : openFile(path, options)));
}

/** The table that an unfinished copy of another database has. */
export const COPY_MARK = 'copy_progress';

/** Opens a database that a writer of this process holds, to read it and to copy the log into the database file. */
export function openReader(path: string): Connection {
  return explained(path, () => {
    const db = new SqliteDatabase(resolve(path), { fileMustExist: true });
    defineFunctions(db);
    db.pragma('query_only = ON');
    db.pragma('synchronous = FULL');
    db.pragma('wal_autocheckpoint = 0');
    return { db, close: () => db.close() };
  });
}

/** A database with all tables and no rows: later stores of this thread begin with a copy, for a tenth of the CPU. */
let emptyDatabase: Buffer | undefined;

function openMemory(): WriterConnection {
  const db = new SqliteDatabase(emptyDatabase ?? inMemory);
  defineFunctions(db);
  migrate(db, migrations);
  emptyDatabase ??= db.serialize();
  // A database in memory is new by nature, so its owner is not told.
  return { db, isNew: false, foreign: [], close: () => db.close() };
}

function openFile(path: string, { isCopied = false, onMigrating }: WriterOptions): WriterConnection {
  const named = resolve(path);
  makeFolder(dirname(named));
  refuseOtherThanFile(named);
  refuseLostContents(named);
  createPrivately(named);
  makePrivate(realpathSync(named));
  const db = new SqliteDatabase(named);
  try {
    // Two names of one file, such as a symbolic link, have one lock.
    const file = realpathSync(named);
    const lock = lockFile(file);
    try {
      checkSchema(db, migrations);
      if (!isCopied && tablesOf(db).includes(COPY_MARK)) {
        throw new Error('it is an unfinished copy of another one: finish it with `sluice copy`, or remove it');
      }
      const isNew = schemaVersion(db) === 0;
      configure(db);
      migrate(db, migrations, isNew ? undefined : onMigrating);
      const difference = schemaDifferenceOf(db, openMemory);
      refuseIncomplete(difference);
      markUsed(lock);
      makePrivate(file);
      const watch = new FileWatch(db, named, file);
      return {
        db,
        isNew,
        foreign: difference.foreign,
        watch,
        close() {
          db.close();
          // Only now: closing these files earlier would end the locks that the connection has on them.
          watch.close();
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

/** Makes folders one by one: where none can be made, as in /proc, Node's recursive mkdir never ends (22 to 26). */
function makeFolder(folder: string): void {
  if (existsSync(folder) || dirname(folder) === folder) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
    // SQLite flushes the names in this folder, but not the name of the folder.
    flushFolder(dirname(folder));
  } catch (error) {
    // Another process was faster.
    if (sqliteCode(error) !== 'EEXIST') throw error;
  }
}

/** Called before the file is opened, which may block for ever, and before anything is written next to it. */
export function refuseOtherThanFile(named: string): void {
  const found = statSync(named, { throwIfNoEntry: false });
  if (found === undefined || found.isFile()) return;
  throw new Error(`it is ${found.isDirectory() ? 'a folder' : 'a device, a pipe or a socket'}; name a file`);
}

/**
 * Throws if the file is empty or missing and a file next to it shows that it held a database: an operator's slip, or a
 * disk that lost it. SQLite would delete the log and begin a new one, and publishers would be told that all is well.
 */
function refuseLostContents(named: string): void {
  const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (sizeOf(named) > 0) return;
  const exists = existsSync(named);
  const file = exists ? realpathSync(named) : named;
  // Without the database its lock proves nothing: an operator who wants an empty database removes just that.
  const isLockUsed = exists && isMarkedUsed(`${file}.lock`);
  const witness = sizeOf(`${file}-wal`) > 0 ? '-wal' : isLockUsed ? '.lock' : undefined;
  if (witness === undefined) return;
  const name = basename(file);
  throw new Error(
    `it is ${exists ? 'empty' : 'missing'}, but ${name}${witness} shows that it held data; restore a backup, see docs/recovery.md, or remove ${name}, ${name}-wal, ${name}-shm and ${name}.lock for an empty database`,
  );
}

/** Mark in the lock file: its database has had tables. A first start that was killed early did not set it. */
const USED_MARK = 1;

function isMarkedUsed(path: string): boolean {
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return false;
  // Not read-only: a power cut may have left a journal, which the next process to open the file has to roll back.
  const lock = new SqliteDatabase(path, { fileMustExist: true, timeout: 0 });
  try {
    return lock.pragma('application_id', { simple: true }) === USED_MARK;
  } finally {
    lock.close();
  }
}

/** Done once for each database. Releases the lock for an instant, in which another process may take it and keep it. */
function markUsed(lock: Database): void {
  if (lock.pragma('application_id', { simple: true }) === USED_MARK) return;
  lock.pragma(`application_id = ${USED_MARK}`);
  lock.exec('COMMIT; BEGIN EXCLUSIVE');
}

/** SQLite gives the files next to a database the rights of the database. */
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
 * An open transaction on a database of its own, which the operating system ends with the process.
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

/** Never 0, the mark of a new lock file. */
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

/** For a new database; an existing one keeps its page size. */
export const PAGE_BYTES = 2048;

function configure(db: Database): void {
  if (db.pragma('page_count', { simple: true }) === 0) {
    // Both work only before the first table exists. A commit of one delivery of 2 KB logs 47 KB with pages of 2 KiB and
    // 87 with 4 KiB, of 14 deliveries 154 and 221. Pages of 1 KiB log less still, for 5 % more of the writer's CPU.
    db.pragma(`page_size = ${PAGE_BYTES}`);
    db.pragma('auto_vacuum = INCREMENTAL');
  }
  db.pragma('journal_mode = WAL');
  // The compiled-in NORMAL for a write-ahead log loses commits that were acknowledged just before a power cut.
  db.pragma('synchronous = FULL');
  db.pragma('wal_autocheckpoint = 0');
  // Half the compiled-in size: as fast, and the process keeps 30 MB less after a flood.
  db.pragma('cache_size = -8000');
  db.pragma(`journal_size_limit = ${LOG_LIMIT_BYTES}`);
  defineFunctions(db);
}

/** Adds the views and functions that our statements use. */
export function defineFunctions(db: Database): void {
  defineCountedViews(db);
  // SQLite's own LIKE ignores case for ASCII only.
  db.function('fold', { deterministic: true }, (text) => (typeof text === 'string' ? text.toLowerCase() : text));
  db.function('regexp_replace', { deterministic: true, varargs: true }, (...[text, pattern, by, flags]) =>
    String(text).replace(new RegExp(String(pattern), String(flags)), String(by)),
  );
}

/** SQLite did not write the file like this. Nothing that is read from it or written to it can be relied on. */
const MALFORMED = /^SQLITE_(CORRUPT|NOTADB|IOERR_SHORT_READ)/;

/** Explains an error about a malformed file; undefined for other errors. */
export function damageOf(error: unknown, path: string): Error | undefined {
  if (!MALFORMED.test(sqliteCode(error) ?? '')) return undefined;
  const reason = error instanceof Error ? error.message : String(error);
  return new Error(
    `${basename(path)} is damaged (${reason}): nothing can be stored (${path}); stop Sluice, keep the file for a rescue and restore a backup, see docs/recovery.md`,
    { cause: error },
  );
}

/** Remedies by error code. */
const CURES: readonly { codes: RegExp; cure: string | ((path: string) => string) }[] = [
  { codes: MALFORMED, cure: 'keep the file for a rescue and restore a backup, see docs/recovery.md' },
  { codes: /^(EACCES|ENOENT|EPERM|EROFS|SQLITE_(CANTOPEN|IOERR|PERM|READONLY))/, cure: whoMayNot },
  { codes: /^(EEXIST|ENOTDIR)$/, cure: 'a file is where its folder should be' },
  { codes: /^(ENOSPC|EDQUOT|SQLITE_FULL)/, cure: (path) => `make room on the disk of ${path}` },
];

/** Which file this account may not read and write, for causes such as a restore by root. */
export function whoMayNot(path: string): string {
  // The folder first: if it is not accessible, neither are the files in it.
  for (const file of [dirname(path), ...['', '-wal', '-shm', '.lock'].map((suffix) => `${path}${suffix}`)]) {
    const problem = accessProblem(file);
    if (problem !== undefined) return problem;
  }
  return 'the account that runs Sluice must be able to write this file and its folder, and their disk must work';
}

function explained<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    throw new Error(`the database ${path} cannot be opened: ${reasonOf(error, path)}`, { cause: error });
  }
}

/** The message of an error of the database at a path, with what to do about it. */
export function reasonOf(error: unknown, path: string): string {
  const reason = error instanceof Error ? error.message : String(error);
  const cure = CURES.find(({ codes }) => codes.test(sqliteCode(error) ?? ''))?.cure;
  if (cure === undefined) return reason;
  return `${reason}; ${typeof cure === 'string' ? cure : cure(existsSync(path) ? realpathSync(path) : resolve(path))}`;
}

/** The code of an error of SQLite or of Node, such as SQLITE_FULL or EACCES. */
export function sqliteCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Throws if the database has another schema than migrations make, or belongs to another program. Reads only. */
function checkSchema(db: Database, migrations: readonly Migration[]): void {
  const newest = migrations.at(-1)?.version ?? 0;
  const applied = appliedMigrations(db);
  checkHistory(applied, migrations);
  const current = newestOf(applied);
  if (current <= newest) return;
  throw new Error(
    `its schema version is ${current} and the newest that this release knows is ${newest}; start a newer release, or use another database`,
  );
}

/** Migrates the schema to the newest version, each migration in its own transaction; applied migrations stay. */
export function migrate(
  db: Database,
  migrations: readonly Migration[],
  onMigrating?: (names: readonly string[]) => void,
): void {
  const applied = new Set(appliedMigrations(db).map(({ version }) => version));
  const missing = migrations.filter(({ version }) => !applied.has(version));
  for (const [at, migration] of missing.entries()) {
    onMigrating?.(missing.slice(at).map(({ name }) => name));
    apply(db, migration);
  }
}

export function schemaVersion(db: Database): number {
  return newestOf(appliedMigrations(db));
}

export const newestOf = (applied: readonly Pick<Migration, 'version'>[]) =>
  Math.max(0, ...applied.map(({ version }) => version));

export function appliedMigrations(db: Database): Pick<Migration, 'version' | 'name'>[] {
  const tables = tablesOf(db);
  if (tables.includes('schema_migrations')) {
    const columns = db.prepare<[], string>("SELECT name FROM pragma_table_info('schema_migrations')").pluck().all();
    if (!['version', 'name'].every((name) => columns.includes(name)))
      throw new Error('it is a database of another program (it has another table "schema_migrations")');
    return db.prepare<[], { version: number; name: string }>('SELECT version, name FROM schema_migrations').all();
  }
  if (tables.length > 0) throw new Error(`it is a database of another program (it has a table "${tables[0]}")`);
  return [];
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
  'delivery_shares',
  'delivery_counts',
  'delivery_hours',
  'delivery_totals',
  'refused_state',
];

/**
 * Hides the tables of the delivery log behind tables in this connection's memory, which end with it. They have the same
 * definitions and names, so every statement works on them unchanged, and an acceptance stays one transaction. Call it
 * before preparing any statement.
 */
export function keepLogInMemory(db: Database): void {
  db.transaction(() => new CountTables(db).addAppended()).immediate();
  db.pragma('temp_store = MEMORY');
  const objects = db
    .prepare<string[], string>(`
      SELECT sql FROM main.sqlite_schema
      WHERE sql IS NOT NULL AND tbl_name IN (${LOG_TABLES.map(() => '?').join(', ')})
      ORDER BY type <> 'table'`)
    .pluck()
    .all(...LOG_TABLES);
  for (const sql of objects) db.exec(asTemporary(sql));
  // Changing the storage dropped all temporary views.
  defineCountedViews(db);
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
    .replace(/^CREATE TABLE /, 'CREATE TEMP TABLE ')
    .replace(/^CREATE (UNIQUE )?INDEX /, (_, unique = '') => `CREATE ${unique}INDEX temp.`);
}
