import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { codeOf } from '../model/error-kind.ts';

/** The path leads to something that cannot be read whole, such as a pipe, to a file that is far too large, or to bytes that are not text. */
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

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Undefined for bytes that are not UTF-8. Text in UTF-16 can be valid UTF-8, but it contains NUL. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    const text = UTF_8.decode(bytes);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

export const NOT_UTF8 = 'is not UTF-8 text';

/** Reads a regular file of text; also throws `NotAFileError` if it is not UTF-8. */
export async function readTextFile(path: string, maxBytes: number): Promise<string> {
  const text = utf8Text(await readRegularFile(path, maxBytes));
  if (text === undefined) throw new NotAFileError(NOT_UTF8);
  return text;
}

/** Why a file could not be read, in words. */
export function whyUnread(error: unknown): string {
  return error instanceof NotAFileError ? error.message : `cannot be read: ${codeOf(error)}`;
}

/**
 * Differs before and after a change of a file or of the links to it: also if a new file of the same size gets the
 * former times, because nobody can set the time of the last change of the inode. Without a file, the reason.
 */
export async function stampOf(path: string): Promise<string> {
  return stat(path).then(stampIn, codeOf);
}

/** Synchronous `stampOf`. */
export function stampOfSync(path: string): string {
  try {
    return stampIn(statSync(path));
  } catch (error) {
    return codeOf(error);
  }
}

function stampIn({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string {
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
}
