import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { decideNow } from '../decisions/decision.ts';
import { inspectionOf } from '../decisions/inspection.ts';
import { checkHistory } from '../schema-history.ts';
import type { ChainKey } from '../sealed-body.ts';
import type { Inspection } from '../store.ts';
import {
  appliedMigrations,
  defineFunctions,
  newestOf,
  refuseOtherThanFile,
  sqliteCode,
  whoMayNot,
} from './connection.ts';
import { migrations } from './migrations/index.ts';
import { openPort, portOf } from './port.ts';

/**
 * Opens a database read-only, whether a service is writing to it or not. It writes nothing, so it refuses a database of
 * another release instead of migrating it. Throws an error that names the path.
 */
export function inspectDatabase(path: string, chainKey?: ChainKey): Inspection {
  const opened = openInspected(path, chainKey);
  try {
    // One read transaction: all answers are from the same instant, and no writer waits for it.
    opened.exec('BEGIN');
    return { ...inspectionOf(portOf(opened), decideNow), close: async () => void opened.close() };
  } catch (error) {
    opened.close();
    throw unreadable(path, error);
  }
}

/** A connection that only reads, to a database of this release. */
export function openInspected(path: string, chainKey?: ChainKey): Database {
  const file = resolve(path);
  if (!existsSync(file)) throw new Error(`the database ${path} cannot be read: there is no such file`);
  let db: Database | undefined;
  try {
    refuseOtherThanFile(file);
    db = new SqliteDatabase(file, { readonly: true, fileMustExist: true });
    requireSchema(db);
    defineFunctions(db);
    openPort(db, chainKey);
    return db;
  } catch (error) {
    db?.close();
    throw unreadable(path, error);
  }
}

const unreadable = (path: string, error: unknown) =>
  new Error(`the database ${path} cannot be read: ${reasonOf(error, path)}`, { cause: error });

function requireSchema(db: Database): void {
  const newest = migrations.at(-1)?.version ?? 0;
  const applied = appliedMigrations(db);
  const version = newestOf(applied);
  if (version === 0) throw new Error('no service has written to it yet');
  checkHistory(applied, migrations);
  if (version > newest) {
    throw new Error(`its schema version is ${version} and the newest that this release knows is ${newest}`);
  }
  if (version < newest) {
    throw new Error(
      `its schema version is ${version} and this release reads ${newest}; start this release once on it, or use the older one`,
    );
  }
}

function reasonOf(error: unknown, path: string): string {
  const code = sqliteCode(error) ?? '';
  // A database in write-ahead mode has two more files, which even a reader creates if they are missing.
  if (/^SQLITE_(CANTOPEN|READONLY)/.test(code)) return `the file or its folder is not accessible: ${whoMayNot(path)}`;
  if (code === 'SQLITE_NOTADB') return 'it is not a database';
  return error instanceof Error ? error.message : String(error);
}
