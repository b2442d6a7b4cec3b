import { join } from 'node:path';
import { putEmptyDatabase } from '../database.ts';
import { temporaryFolder } from '../temporary.ts';

/** Makes paths of databases that do not exist yet, in folders that are gone when the test file has run. */
export function newPaths(): () => string {
  const folder = temporaryFolder('store');
  let count = 0;
  return () => {
    count += 1;
    return join(folder, String(count), 'sluice.db');
  };
}

/** The same, but each has an empty database already: for tests that are not about how one is made. */
export function newDatabases(): () => string {
  const newPath = newPaths();
  return () => {
    const path = newPath();
    putEmptyDatabase(path);
    return path;
  };
}
