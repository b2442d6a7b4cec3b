import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** CPU seconds of a process, by the thread that used them; from the kernel's own counters, on Linux alone. */
export interface CpuSeconds {
  /** The main thread: HTTP, gates, the dispatcher. */
  readonly loop: number;
  /** The thread that writes to the database. */
  readonly writer: number;
  /** Everything else: garbage collection, compilers, the reader, the pool. */
  readonly rest: number;
  readonly all: number;
}

/** How much each thread of a process has used since it started; null where the kernel does not say. */
export function cpuOf(pid: number): CpuSeconds | null {
  try {
    const used = { loop: 0, writer: 0, rest: 0 };
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const name = readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').trim();
      // The first field is nanoseconds on a CPU: docs.kernel.org/scheduler/sched-stats.html, read 2026-11.
      const [nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      const kind = Number(thread) === pid ? 'loop' : name === 'sqlite-writer' ? 'writer' : 'rest';
      used[kind] += Number(nanoseconds) / 1e9;
    }
    return { ...used, all: used.loop + used.writer + used.rest };
  } catch {
    return null;
  }
}

export function cpuBetween(before: CpuSeconds, after: CpuSeconds): CpuSeconds {
  return {
    loop: after.loop - before.loop,
    writer: after.writer - before.writer,
    rest: after.rest - before.rest,
    all: after.all - before.all,
  };
}

const TICKS_A_SECOND = 100;

/** CPU seconds that the whole machine has used since it started, waiting for disks not counted. */
export function machineCpu(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (
    readFileSync('/proc/stat', 'utf8').split('\n')[0]?.split(/\s+/).slice(1) ?? []
  ).map(Number);
  return (user + nice + system + irq + softirq) / TICKS_A_SECOND;
}

/** CPU seconds of this process and of the children that it has waited for. */
export function ownCpu(): number {
  return ticksOf(process.pid).withWaited;
}

/** CPU seconds of a process, and with those of the children that it has waited for. */
export function ticksOf(pid: number): { readonly own: number; readonly withWaited: number } {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11, 15);
  const own = (utime + stime) / TICKS_A_SECOND;
  return { own, withWaited: own + (cutime + cstime) / TICKS_A_SECOND };
}

/** Keeps a process and all its threads on some cores, named as taskset names them, such as `0-2`. */
export function keepOn(cores: string, pid: number): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}
