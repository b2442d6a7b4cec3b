import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made = new Set<string>();

/** Makes a folder for the current test file; it is removed after the file, whether tests pass or fail. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`));
  made.add(folder);
  return folder;
}

export function removeTemporaryFolders(): void {
  // A process that was just killed may still write to one.
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  made.clear();
}

process.once('exit', removeTemporaryFolders);
