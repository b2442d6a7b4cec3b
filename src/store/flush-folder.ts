import { closeSync, fsyncSync, openSync } from 'node:fs';

/**
 * Makes the names in a folder durable. To flush a new file keeps its contents over a power cut, and says nothing of its name:
 * fsync(2).
 */
export function flushFolder(path: string): void {
  let folder: number | undefined;
  try {
    folder = openSync(path, 'r');
    fsyncSync(folder);
  } catch {
    // Windows opens no folders, and some network file systems do not flush them. SQLite goes on there too.
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}
