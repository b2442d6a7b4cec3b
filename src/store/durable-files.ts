import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

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

/** Writes a private file, which is durable afterwards. A power cut or a kill leaves the whole file or none. */
export function writeWhole(path: string, text: string): void {
  const unfinished = `${path}.new`;
  // Of a process that was killed.
  rmSync(unfinished, { force: true });
  writeFileSync(unfinished, text, { flag: 'wx', mode: 0o600, flush: true });
  renameSync(unfinished, path);
  flushFolder(dirname(path));
}
