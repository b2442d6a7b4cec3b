import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A library that delays each flush of a file, as a slow disk would. */
export interface FlushDelay {
  /** The environment of the delayed process. */
  readonly env: Readonly<Record<string, string>>;
  /** Throws if the process runs without the library, because the linker only warns if it cannot load it. */
  check(pid: number): void;
  remove(): Promise<void>;
}

const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int slowly(const char *name, int file) {
  struct timespec delay = {.tv_sec = DELAY_US / 1000000, .tv_nsec = DELAY_US % 1000000 * 1000};
  nanosleep(&delay, 0);
  return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
`;

/** Compiles the library with `cc`. Throws without a compiler, and on other systems than Linux, which cannot preload. */
export async function buildFlushDelay(milliseconds: number): Promise<FlushDelay> {
  if (process.platform !== 'linux') throw new Error('--flush-delay works on Linux only');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-flush-'));
  const library = join(folder, 'flush-delay.so');
  await writeFile(join(folder, 'flush-delay.c'), SOURCE);
  const args = ['-shared', '-fPIC', '-O2', `-DDELAY_US=${Math.round(milliseconds * 1000)}L`, '-o', library];
  const { error, status, stderr } = spawnSync('cc', [...args, 'flush-delay.c', '-ldl'], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (error !== undefined || status !== 0) {
    await rm(folder, { recursive: true, force: true });
    throw new Error(
      error === undefined ? `cc failed:\n${stderr}` : '--flush-delay needs a C compiler named cc; none was found',
    );
  }
  return {
    env: { LD_PRELOAD: library },
    check(pid) {
      if (!readFileSync(`/proc/${pid}/maps`, 'utf8').includes(library))
        throw new Error('the service does not load the library that delays flushes');
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
