import { statSync } from 'node:fs';
import { basename } from 'node:path';

/** The files of an open database: its own and the two that SQLite keeps next to it. */
const SUFFIXES = ['', '-wal', '-shm'];

interface WatchedFile {
  readonly path: string;
  readonly device: bigint;
  readonly inode: bigint;
}

/**
 * Tells whether the path still names the files that a connection has open.
 *
 * Unix lets anyone remove or replace an open file: SQLite would go on writing to one that no later start can find, and
 * every acknowledgement would be a lie. Whoever asks after a commit and before the answers leave acknowledges nothing
 * that was lost before. Its size is not looked at: checkpoints on other threads shorten it too. A question costs a few microseconds, a commit a hundred times that.
 */
export class FileWatch {
  readonly #files: readonly WatchedFile[];
  #loss: Error | undefined;

  /** `path` is what the operator named, `file` where that leads. The connection has read already. */
  constructor(path: string, file: string) {
    this.#files = SUFFIXES.map((suffix) => {
      const watched = suffix === '' ? path : `${file}${suffix}`;
      const { dev: device, ino: inode } = statSync(watched, { bigint: true });
      return { path: watched, device, inode };
    });
  }

  /** Why nothing may be written or acknowledged. A loss stays one: what was written meanwhile is in the lost file. */
  check(): Error | undefined {
    try {
      this.#loss ??= this.#findLoss();
    } catch (error) {
      // The disk does not answer just now: nothing is known to be lost.
      return error instanceof Error ? error : new Error(String(error));
    }
    return this.#loss;
  }

  get isLost(): boolean {
    return this.#loss !== undefined;
  }

  #findLoss(): Error | undefined {
    for (const { path, device, inode } of this.#files) {
      const now = statSync(path, { bigint: true, throwIfNoEntry: false });
      if (now === undefined) return lossOf(path, 'was removed while it was in use');
      if (now.dev !== device || now.ino !== inode) return lossOf(path, 'was replaced while it was in use');
    }
    return undefined;
  }
}

function lossOf(path: string, what: string): Error {
  return new Error(`${basename(path)} ${what}: nothing is stored any more (${path})`);
}
