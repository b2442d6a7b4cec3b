import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import type { Inspection } from '../store.ts';
import { defineFold, schemaVersion, sqliteCode } from './connection.ts';
import { deployOperations } from './deploys.ts';
import { flowOperations } from './flows.ts';
import { keyOperations } from './keys.ts';
import { migrations } from './migrations/index.ts';
import { payloadOperations } from './payloads.ts';

/**
 * Opens a database read-only, whether a service is writing to it or not. It writes nothing, so it refuses a database of
 * another release instead of migrating it. Throws an error that names the path.
 */
export function inspectDatabase(path: string): Inspection {
  const file = resolve(path);
  if (!existsSync(file)) throw new Error(`the database ${path} cannot be read: there is no such file`);
  let db: Database | undefined;
  try {
    db = new SqliteDatabase(file, { readonly: true, fileMustExist: true });
    requireSchema(db);
    defineFold(db);
    // One read transaction: all answers are from one instant, and no writer waits for it.
    db.exec('BEGIN');
    const opened = db;
    const listDeployed = deployOperations.listDeployed.prepare(opened);
    const findFlow = flowOperations.findFlow.prepare(opened);
    const findRevision = flowOperations.findRevision.prepare(opened);
    const readLiveFlow = deployOperations.readLiveFlow.prepare(opened);
    const findSuperseded = deployOperations.findSuperseded.prepare(opened);
    const listKeyFigures = keyOperations.listKeyFigures.prepare(opened);
    const listKeyUsers = keyOperations.listKeyUsers.prepare(opened);
    const sampleDeliveries = payloadOperations.sampleDeliveries.prepare(opened);
    return {
      sampleDeliveries: async (query) => sampleDeliveries(query),
      listDeployed: async () => listDeployed(),
      findFlow: async (flowId) => findFlow(flowId),
      findRevision: async (flowId, revision) => findRevision(flowId, revision),
      readLiveFlow: async (flowId) => readLiveFlow(flowId),
      findSuperseded: async (manifest) => findSuperseded(manifest),
      listKeyFigures: async (query) => listKeyFigures(query),
      listKeyUsers: async (query) => listKeyUsers(query),
      close: async () => void opened.close(),
    };
  } catch (error) {
    db?.close();
    throw new Error(`the database ${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
}

function requireSchema(db: Database): void {
  const newest = migrations.at(-1)?.version ?? 0;
  const version = schemaVersion(db);
  if (version === 0) throw new Error('no service has written to it yet');
  if (version > newest) {
    throw new Error(`its schema version is ${version} and the newest that this release knows is ${newest}`);
  }
  if (version < newest) {
    throw new Error(
      `its schema version is ${version} and this release reads ${newest}; start this release once on it, or use the older one`,
    );
  }
}

function reasonOf(error: unknown): string {
  // A database in write-ahead mode has two more files, which even a reader creates if they are missing.
  if (sqliteCode(error) === 'SQLITE_CANTOPEN') return 'the file or its folder is not accessible';
  if (sqliteCode(error) === 'SQLITE_NOTADB') return 'it is not a database';
  return error instanceof Error ? error.message : String(error);
}
