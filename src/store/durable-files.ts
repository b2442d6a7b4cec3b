import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes the names in a folder durable. Flushing a new file makes its contents survive a power cut, but not its name:
 * fsync(2).
 */
export function flushFolder(path: string): void {
  let folder: number | undefined;
  try {
    folder = openSync(path, 'r');
    fsyncSync(folder);
  } catch {
    // Windows cannot open folders, and some network file systems do not flush them. SQLite goes on there too.
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

/** Writes a private, durable file. A power cut or a kill leaves the whole file or none. */
export function writeWhole(path: string, text: string): void {
  const unfinished = `${path}.new`;
  // Left by a process that was killed.
  rmSync(unfinished, { force: true });
  writeFileSync(unfinished, text, { flag: 'wx', mode: 0o600, flush: true });
  renameSync(unfinished, path);
  flushFolder(dirname(path));
}

const { R_OK, W_OK, X_OK } = constants;

/** Why this account cannot read and write a file or folder, and what to do; undefined if it can, or none is there. */
export function accessProblem(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  try {
    accessSync(path, found.isDirectory() ? R_OK | W_OK | X_OK : R_OK | W_OK);
    return undefined;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'EROFS') return `${path} is on a file system that is mounted read-only`;
  }
  const [uid, gid] = [process.geteuid?.(), process.getegid?.()];
  const cure = found.uid === uid ? `chmod u+rwX ${path}` : `chown ${uid}:${gid} ${path}`;
  return `${path} belongs to ${account(found.uid)} and Sluice runs as ${account(uid)}, which may not read and write it: ${cure}`;
}

const account = (uid: number | undefined) => (uid === 0 ? 'root' : `the account ${uid}`);
