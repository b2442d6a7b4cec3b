import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';

/** The path leads to something that cannot be read whole, such as a pipe, or to a file that is far too large. */
export class NotAFileError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'NotAFileError';
  }
}

// If the file becomes a pipe after the check, opening it must not block until a writer comes.
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Reads a regular file. Nothing else is even opened: reading a pipe or a terminal could wait for ever, and opening a
 * device can have effects. Throws `NotAFileError`, or the system's error.
 */
export async function readRegularFile(path: string, maxBytes: number): Promise<Buffer> {
  refuseOthers(await stat(path), maxBytes);
  const file = await open(path, READ);
  try {
    refuseOthers(await file.stat(), maxBytes);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** Synchronous `readRegularFile`. */
export function readRegularFileSync(path: string, maxBytes: number): Buffer {
  refuseOthers(statSync(path), maxBytes);
  const descriptor = openSync(path, READ);
  try {
    refuseOthers(fstatSync(descriptor), maxBytes);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** The kind of a path's target, in words; undefined for a regular file. */
export function otherKindOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

function refuseOthers(stats: Stats, maxBytes: number): void {
  const kind = otherKindOf(stats);
  if (kind !== undefined) throw new NotAFileError(`is ${kind}, not a file`);
  if (stats.size > maxBytes) throw new NotAFileError(`has more than ${maxBytes} bytes`);
}
