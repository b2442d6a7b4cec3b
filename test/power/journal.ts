import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The same numbers as in layer.c. */
const KINDS = ['opened', 'made folder', 'written', 'cut', 'flushing', 'flushed', 'removed', 'renamed'] as const;
const HEAD_BYTES = 24;

/** One operation of the journaled process on its files; `inode` is the number of the file or folder. */
export type Change =
  | { readonly kind: 'opened'; readonly inode: number; readonly path: string; readonly isFolder: boolean }
  | { readonly kind: 'made folder' | 'removed'; readonly path: string }
  | { readonly kind: 'renamed'; readonly path: string; readonly to: string }
  | { readonly kind: 'written'; readonly inode: number; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'cut'; readonly inode: number; readonly size: number }
  | { readonly kind: 'flushing' | 'flushed'; readonly inode: number; readonly flush: number };

/** A change, with the length of the journal after it. */
export type Entry = Change & { readonly end: number };

/** Reads the journal that layer.c wrote. */
export function readJournal(path: string): readonly Entry[] {
  const journal = readFileSync(path);
  const entries: Entry[] = [];
  for (let start = 0; start < journal.length; ) {
    const [kind, length] = [KINDS[journal.readUInt32LE(start) - 1], journal.readUInt32LE(start + 4)];
    const end = start + HEAD_BYTES + length;
    const inode = Number(journal.readBigUInt64LE(start + 8));
    const at = Number(journal.readBigUInt64LE(start + 16));
    entries.push({ ...changeOf(kind, { inode, at, bytes: journal.subarray(start + HEAD_BYTES, end) }), end });
    start = end;
  }
  return entries;
}

interface Told {
  readonly inode: number;
  readonly at: number;
  readonly bytes: Buffer;
}

function changeOf(kind: (typeof KINDS)[number] | undefined, { inode, at, bytes }: Told): Change {
  switch (kind) {
    case 'opened':
      return { kind, inode, path: bytes.toString(), isFolder: at === 1 };
    case 'made folder':
    case 'removed':
      return { kind, path: bytes.toString() };
    case 'renamed':
      return { kind, path: bytes.toString('utf8', 0, at), to: bytes.toString('utf8', at) };
    case 'written':
      return { kind, inode, at, bytes };
    case 'cut':
      return { kind, inode, size: at };
    case 'flushing':
    case 'flushed':
      return { kind, inode, flush: at };
    case undefined:
      throw new Error('the journal has a record of an unknown kind');
  }
}

/** Compiles layer.c into a folder; returns a function that makes the environment of a journaled process. */
export function buildLayer(folder: string): (recording: {
  readonly journal: string;
  readonly of: string;
  /** Whether flushes do nothing. */
  readonly swallowsFlushes?: boolean;
}) => Record<string, string> {
  if (process.platform !== 'linux') throw new Error('the layer under a process works on Linux only');
  const library = join(folder, 'layer.so');
  const source = join(import.meta.dirname, 'layer.c');
  const { error, status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'], {
    encoding: 'utf8',
  });
  if (error !== undefined) throw new Error('this proof needs a C compiler named cc; none was found', { cause: error });
  if (status !== 0) throw new Error(`cc failed:\n${stderr}`);
  return ({ journal, of, swallowsFlushes = false }) => ({
    LD_PRELOAD: library,
    JOURNAL: journal,
    JOURNALED_FOLDER: of,
    ...(swallowsFlushes && { JOURNAL_SWALLOWS_FLUSHES: '1' }),
  });
}
