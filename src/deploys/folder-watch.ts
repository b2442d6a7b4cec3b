import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { ENV_FILE } from '../config/env-file.ts';
import { stampOf } from '../manifest/read-file.ts';
import { codeOf } from '../model/error-kind.ts';

/** What a reload reads: the manifests of a folder, the files that they name, and the variables file. */
interface WatchedFiles {
  readonly folder: string;
  /** By their paths, with the stamps from before they were first read; may grow with each reload. */
  readonly namedFiles: ReadonlyMap<string, string>;
}

/** Paths with their stamps. */
type Stamps = ReadonlyMap<string, string>;

/** Pause between two looks. */
const LOOK_EVERY_MS = 500;
/** An editor or a checkout writes files in several steps: they are read after this time without changes. */
const QUIET_MS = 200;
/** A look at 1 000 files takes 13 ms of CPU: a pause this many times as long keeps the share of a core at 2 %. */
const PAUSE_PER_LOOK = 50;
/** A machine that is busy for a moment must not put off the next look for long. */
const LONGEST_PAUSE_MS = 2000;

/**
 * Calls back when something changed that a reload reads; resolves with the function that stops it, once later changes
 * are found. It looks again and again, because the system reports no changes behind links, of folders that were
 * replaced, and on many network and container mounts.
 */
export async function watchFiles(files: WatchedFiles, onChange: () => Promise<void>): Promise<() => void> {
  const look = await findChanges(files);
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const pause = (ms: number) => {
    if (!isStopped) timer = setTimeout(() => void lookAgain(), ms).unref();
  };
  const lookAgain = async () => {
    const began = performance.now();
    const found = await look();
    const took = performance.now() - began;
    if (found === 'changed' && !isStopped) await onChange();
    const idle = Math.min(Math.max(LOOK_EVERY_MS, took * PAUSE_PER_LOOK), LONGEST_PAUSE_MS);
    pause(found === 'changing' ? QUIET_MS : idle);
  };
  pause(LOOK_EVERY_MS);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

/**
 * Compares each look with the files as they were at this call, or when a look last found `changed`. A change is
 * `changing` until two looks in a row find the same. A folder that is away is a change too, and then stays the same.
 */
export async function findChanges({ folder, namedFiles }: WatchedFiles): Promise<() => Promise<Look>> {
  let read = await stampsOf(folder, []);
  let last: Stamps | undefined;
  const isChanged = (now: Stamps) =>
    [...read.keys()].some((path) => !now.has(path)) ||
    [...now].some(([path, stamp]) => (read.get(path) ?? namedFiles.get(path)) !== stamp);
  return async () => {
    const now = await stampsOf(folder, [...namedFiles.keys()]);
    const before = last;
    last = undefined;
    if (!isChanged(now)) return 'same';
    if (before === undefined || !areSame(before, now)) {
      last = now;
      return 'changing';
    }
    // The files are read after this: what changes from now on is found by the next look.
    read = now;
    return 'changed';
  };
}

type Look = 'same' | 'changing' | 'changed';

/** One after the other: at once, they would keep deliveries from the threads that they need. */
async function stampsOf(folder: string, named: readonly string[]): Promise<Stamps> {
  const stamps = new Map<string, string>();
  const names = await readdir(folder).catch((error: unknown) => {
    stamps.set(folder, codeOf(error));
    return [];
  });
  const manifests = names.filter((name) => name.endsWith('.json')).map((name) => join(folder, name));
  for (const path of [ENV_FILE, ...named, ...manifests]) stamps.set(path, await stampOf(path));
  return stamps;
}

function areSame(one: Stamps, other: Stamps): boolean {
  return one.size === other.size && [...one].every(([path, stamp]) => other.get(path) === stamp);
}
