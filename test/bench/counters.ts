import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { PAGE_BYTES } from '../../src/store/sqlite/connection.ts';

// The kernel's counters of processes and of the machine: from /proc, on Linux only.

/** CPU seconds of a process, by thread. */
export interface CpuSeconds {
  /** The main thread: HTTP, gates, the dispatcher. */
  readonly loop: number;
  /** The thread that writes to the database. */
  readonly writer: number;
  /** Everything else: garbage collection, compilers, the reader, the pool. */
  readonly rest: number;
}

const WRITER = 'sqlite-writer';

/** CPU seconds of each thread since the process started; null if the kernel does not say. */
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

/** Bytes that a process and its children have written so far. */
export interface Io {
  /** Bytes that they passed to write calls, including those for sockets. */
  readonly passed: number;
  /** Bytes of the system's cache that they marked to be written to a disk. */
  readonly dirtied: number;
}

/** Null if the kernel does not say. */
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
 * Upper bound of the bytes written to disks. The cache counts whole folios: for a page of 8 KB in a file that was made
 * by large writes, as PostgreSQL makes its log, Linux 6.18 counts 1 MiB on ext4.
 */
export const writtenBetween = (before: Io, after: Io) =>
  Math.min(after.passed - before.passed, after.dirtied - before.dirtied);

/** A frame of the write-ahead log: a header and a page. */
const FRAME_BYTES = 24 + PAGE_BYTES;

/** Pages that the writing thread has appended to its log; null for a process without such a thread. */
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

/** CPU seconds of the whole machine since it started, without waiting for disks. */
export function machineCpu(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (
    readFileSync('/proc/stat', 'utf8').split('\n')[0]?.split(/\s+/).slice(1) ?? []
  ).map(Number);
  return (user + nice + system + irq + softirq) / TICKS_A_SECOND;
}

/** CPU seconds of a process and its children, including ended ones. */
export function cpuOfFamily(pid: number): number {
  return familyOf(pid).reduce((sum, one) => sum + cpuWithWaited(one), 0);
}

/** CPU seconds of a process and of the children it has waited for; 0 if it has ended. */
export function cpuWithWaited(pid: number): number {
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = (statOf(pid)?.slice(11, 15) ?? []).map(Number);
  return (utime + stime + cutime + cstime) / TICKS_A_SECOND;
}

function familyOf(parent: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return [parent, ...all.map(Number).filter((pid) => Number(statOf(pid)?.[1]) === parent)];
}

/** The fields of /proc/PID/stat after the name, which may contain blanks: state, parent and so on. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** Pins a process with all its threads to cores, in the notation of taskset, such as `0-2`. */
export function keepOn(cores: string, pid: number): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}
