import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { StoreUnavailableError } from '../../errors.ts';
import type { DeployedState } from '../../model/finding.ts';
import { defineFold } from './connection.ts';
import { prepareFindRevision, prepareListFlows } from './flows.ts';
import { prepareReadLiveFlow } from './live-flow.ts';
import { checkSchema, isCurrent } from './migrate.ts';
import { migrations } from './migrations/index.ts';

/**
 * Every flow of a database with its newest revision and what is live of it, by name. Reads only, also beside a service
 * that has the database open. Rejects with an error that names the path, also where a release before this one made the
 * database: that has to be started once, which brings it up to date.
 */
export async function readDeployed(path: string): Promise<DeployedState[]> {
  try {
    return read(resolve(path));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StoreUnavailableError(`the database ${path} cannot be read: ${reason}`, { cause: error });
  }
}

function read(file: string): DeployedState[] {
  if (!existsSync(file)) throw new Error('there is no such file');
  const db = new SqliteDatabase(file, { readonly: true, fileMustExist: true });
  try {
    checkSchema(db, migrations);
    if (!isCurrent(db, migrations)) throw new Error('an earlier release made it; start this release on it once');
    defineFold(db);
    const listFlows = prepareListFlows(db);
    const findRevision = prepareFindRevision(db);
    const readLive = prepareReadLiveFlow(db);
    // One snapshot of the database for all of it.
    return db.transaction(() =>
      listFlows().flatMap(({ id: flowId, name, revision }) => {
        const found = findRevision(flowId, revision);
        return found === undefined
          ? []
          : [{ flowId, name, revision, snapshot: found.snapshot, live: readLive(flowId) }];
      }),
    )();
  } finally {
    db.close();
  }
}
