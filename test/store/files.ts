import { join } from 'node:path';
import { putEmptyDatabase } from '../database.ts';
import { temporaryFolder } from '../temporary.ts';

/** Makes paths for databases that do not exist yet, in folders that are removed after the test file. */
export function newPaths(): () => string {
  const folder = temporaryFolder('store');
  let count = 0;
  return () => {
    count += 1;
    return join(folder, String(count), 'sluice.db');
  };
}

/** The same, with an empty database at each path: for tests that are not about creating one. */
export function newDatabases(): () => string {
  const newPath = newPaths();
  return () => {
    const path = newPath();
    putEmptyDatabase(path);
    return path;
  };
}
