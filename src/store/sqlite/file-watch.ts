import { randomInt } from 'node:crypto';
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import type { Database } from 'better-sqlite3';

/** The files of an open database: the database and two files that SQLite keeps next to it. */
const SUFFIXES = ['', '-wal', '-shm'] as const;

/** When SQLite restarts the log, it cuts a longer file to this size, and leaves a shorter one. */
export const LOG_LIMIT_BYTES = 64 * 1024 * 1024;

interface WatchedFile {
  readonly path: string;
  readonly descriptor: number;
  readonly device: bigint;
  readonly inode: bigint;
  /** SQLite never makes the file shorter than this. */
  leastBytes: bigint;
}

/**
 * Checks that the path still names the files that a connection has open.
 *
 * On Unix an open file can be removed or replaced. SQLite would go on writing to a file that no later start can find,
 * and every acknowledgement would be a lie. A check between a commit and its answers prevents that. It knows only the
 * least size, because checkpoints on other threads shorten the database. It costs a few microseconds, a commit a
 * hundred times that.
 *
 * A file that is copied over an open one keeps its name and number. So the header of the database has a stamp, random
 * at a start and raised before each checkpoint: our checkpoints did not make a file with another stamp. A copy of the
 * file with the same stamp does no harm, because the log still has everything that was written since.
 */
export class FileWatch {
  readonly #db: Database;
  readonly #files: readonly WatchedFile[];
  /** The stamp in the file when it was last read. */
  #stamp: number;
  /** The oldest and the newest stamp of this start that the next checkpoint may bring. */
  #stamps: readonly [oldest: number, newest: number];
  #loss: Error | undefined;

  /** `path` is the operator's name for the database, `file` is the file that it leads to. */
  constructor(db: Database, path: string, file: string) {
    this.#db = db;
    const first = randomInt(2 ** 30);
    this.#stamps = [first, first];
    // Also the first write, after which the log exists.
    db.pragma(`user_version = ${first}`);
    const pageBytes = BigInt(Number(db.pragma('page_size', { simple: true })));
    this.#files = SUFFIXES.map((suffix) => {
      const watched = suffix === '' ? path : `${file}${suffix}`;
      const { dev: device, ino: inode } = statSync(watched, { bigint: true });
      const descriptor = openSync(watched, 'r');
      return { path: watched, descriptor, device, inode, leastBytes: suffix === '' ? pageBytes : 0n };
    });
    this.#stamp = this.#read('', STAMP_AT).readUInt32BE();
  }

  /** Call before a checkpoint, so that the file does not have the stamp of copies that were made earlier. */
  renewStamp(): void {
    const [oldest, newest] = this.#stamps;
    this.#stamps = [oldest, newest + 1];
    this.#db.pragma(`user_version = ${newest + 1}`);
  }

  /** Call after the connections are closed. */
  close(): void {
    for (const { descriptor } of this.#files) closeSync(descriptor);
  }

  get path(): string {
    return this.#files[0]?.path ?? '';
  }

  /** A connection found the file malformed. */
  lose(error: Error): void {
    this.#loss ??= error;
  }

  /** Why nothing may be written or acknowledged. A loss is final: later writes went to the lost file. */
  check(): Error | undefined {
    try {
      this.#loss ??= this.#findLoss();
    } catch (error) {
      // The disk does not answer now; that does not mean that the file is lost.
      return error instanceof Error ? error : new Error(String(error));
    }
    return this.#loss;
  }

  get isLost(): boolean {
    return this.#loss !== undefined;
  }

  #findLoss(): Error | undefined {
    for (const file of this.#files) {
      const { path, device, inode, leastBytes } = file;
      const now = statSync(path, { bigint: true, throwIfNoEntry: false });
      if (now === undefined) return lossOf(path, 'was removed while it was in use');
      if (now.dev !== device || now.ino !== inode) return lossOf(path, 'was replaced while it was in use');
      if (now.size < leastBytes) return lossOf(path, 'was cut short while it was in use');
      if (path.endsWith('-wal') && now.size > leastBytes) {
        file.leastBytes = now.size < LOG_LIMIT_BYTES ? now.size : BigInt(LOG_LIMIT_BYTES);
      }
    }
    // Read twice before it counts: a checkpoint may be writing the stamp.
    if (!this.#isStampOurs() && !this.#isStampOurs()) return lossOf(this.path, OVERWRITTEN);
    return this.#isLogIndexZero() ? lossOf(`${this.path}-shm`, OVERWRITTEN) : undefined;
  }

  #isStampOurs(): boolean {
    const stamp = this.#read('', STAMP_AT).readUInt32BE();
    if (stamp === this.#stamp) return true;
    const [oldest, newest] = this.#stamps;
    if (stamp < oldest || stamp > newest) return false;
    this.#stamp = stamp;
    this.#stamps = [stamp, newest];
    return true;
  }

  /** SQLite never empties the index of a log in use: the log has frames, but their places are lost. */
  #isLogIndexZero(): boolean {
    const start = this.#read('-shm', 0, INDEX_FRAMES_AT + 4);
    if (start.readUInt32LE(0) === 0) return true;
    return start.readUInt32LE(INDEX_FRAMES_AT) !== 0 && this.#read('-shm', INDEX_FIRST_PAGE_AT).readUInt32LE() === 0;
  }

  #read(suffix: (typeof SUFFIXES)[number], at: number, length = 4): Buffer {
    const descriptor = this.#files[SUFFIXES.indexOf(suffix)]?.descriptor;
    if (descriptor === undefined) throw new Error(`no file with ${suffix} is open`);
    const bytes = Buffer.alloc(length);
    readSync(descriptor, bytes, 0, length, at);
    return bytes;
  }
}

const OVERWRITTEN = 'was overwritten while it was in use';

/** The user version in the header of a database: sqlite.org/fileformat2.html, read 2026-11. */
const STAMP_AT = 60;
/** Places in the index of a log, which begins with its version: sqlite.org/walformat.html, read 2026-11. */
const INDEX_FRAMES_AT = 16;
const INDEX_FIRST_PAGE_AT = 136;

function lossOf(path: string, what: string): Error {
  return new Error(
    `${basename(path)} ${what}: nothing can be stored (${path}); stop Sluice and restore a backup, see docs/recovery.md`,
  );
}
