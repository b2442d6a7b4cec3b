import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { PAGE_BYTES } from '../../src/store/sqlite/connection.ts';

// What the kernel counts of processes and of the machine: /proc, on Linux alone.

/** CPU seconds of a process, by the thread that used them. */
export interface CpuSeconds {
  /** The main thread: HTTP, gates, the dispatcher. */
  readonly loop: number;
  /** The thread that writes to the database. */
  readonly writer: number;
  /** Everything else: garbage collection, compilers, the reader, the pool. */
  readonly rest: number;
}

const WRITER = 'sqlite-writer';

/** How much each thread of a process has used since it started; null where the kernel does not say. */
export function cpuOf(pid: number): CpuSeconds | null {
  try {
    const used = { loop: 0, writer: 0, rest: 0 };
    for (const { id, name } of threadsOf(pid)) {
      // The first field is nanoseconds on a CPU: docs.kernel.org/scheduler/sched-stats.html, read 2026-11.
      const [nanoseconds] = readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ');
      const kind = id === pid ? 'loop' : name === WRITER ? 'writer' : 'rest';
      used[kind] += Number(nanoseconds) / 1e9;
    }
    return used;
  } catch {
    return null;
  }
}

export const sumOf = ({ loop, writer, rest }: CpuSeconds) => loop + writer + rest;

function threadsOf(pid: number): { id: number; name: string }[] {
  return readdirSync(`/proc/${pid}/task`).map((id) => ({
    id: Number(id),
    name: readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim(),
  }));
}

/** What a process and its children have written so far. */
export interface Io {
  /** Bytes that they passed to write calls, those for sockets included. */
  readonly passed: number;
  /** Bytes of the system's cache that were to be written to a disk because of them. */
  readonly dirtied: number;
}

/** Null where the kernel does not say. */
export function ioOf(pid: number): Io | null {
  try {
    const all = familyOf(pid).map((one) => `/proc/${one}/io`);
    const sum = (name: string) => all.reduce((bytes, file) => bytes + ioCount(file, name), 0);
    return { passed: sum('wchar'), dirtied: sum('write_bytes') };
  } catch {
    return null;
  }
}

/**
 * Bytes that were written to disks, at most. The cache counts whole folios: for a page of 8 KB in a file that was made by
 * large writes, as PostgreSQL makes its log, Linux 6.18 counts 1 MiB on ext4.
 */
export const writtenBetween = (before: Io, after: Io) =>
  Math.min(after.passed - before.passed, after.dirtied - before.dirtied);

/** A frame of the write-ahead log: its header and a page. */
const FRAME_BYTES = 24 + PAGE_BYTES;

/** Pages that the thread that writes to the database has appended to its log; null for a process without one. */
export function pagesLogged(pid: number): number | null {
  try {
    const writer = threadsOf(pid).find(({ name }) => name === WRITER);
    return writer === undefined ? null : ioCount(`/proc/${pid}/task/${writer.id}/io`, 'wchar') / FRAME_BYTES;
  } catch {
    return null;
  }
}

function ioCount(file: string, name: string): number {
  return Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(readFileSync(file, 'utf8'))?.[1]);
}

/** The memory of a process that is in RAM, in MB. */
export function residentMb(pid: number): number {
  try {
    const [, kibibytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kibibytes) / 1024;
  } catch {
    return Number.NaN;
  }
}

const TICKS_A_SECOND = 100;

/** CPU seconds that the whole machine has used since it started, waiting for disks not counted. */
export function machineCpu(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (
    readFileSync('/proc/stat', 'utf8').split('\n')[0]?.split(/\s+/).slice(1) ?? []
  ).map(Number);
  return (user + nice + system + irq + softirq) / TICKS_A_SECOND;
}

/** CPU seconds of a process, of its children, and of those of them that have ended. */
export function cpuOfFamily(pid: number): number {
  return familyOf(pid).reduce((sum, one) => sum + cpuWithWaited(one), 0);
}

/** CPU seconds of a process and of the children that it has waited for; 0 if it has ended. */
export function cpuWithWaited(pid: number): number {
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = (statOf(pid)?.slice(11, 15) ?? []).map(Number);
  return (utime + stime + cutime + cstime) / TICKS_A_SECOND;
}

function familyOf(parent: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return [parent, ...all.map(Number).filter((pid) => Number(statOf(pid)?.[1]) === parent)];
}

/** What /proc says of a process after its name, which may have blanks: state, parent and so on. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Keeps a process and all its threads on some cores, named as taskset names them, such as `0-2`. */
export function keepOn(cores: string, pid: number): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}
