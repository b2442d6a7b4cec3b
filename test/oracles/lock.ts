import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Holds the hash of the lock file that was installed last. */
const INSTALLED = join(import.meta.dirname, 'node_modules/.installed');

const hashOfLock = () =>
  createHash('sha256')
    .update(readFileSync(join(import.meta.dirname, 'package-lock.json')))
    .digest('hex');

/** Whether the packages of this folder are installed and match the lock file. */
export function isInstalled(): boolean {
  try {
    return readFileSync(INSTALLED, 'utf8') === hashOfLock();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

export function markInstalled(): void {
  mkdirSync(join(INSTALLED, '..'), { recursive: true });
  writeFileSync(INSTALLED, hashOfLock());
}
