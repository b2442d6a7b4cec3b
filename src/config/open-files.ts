import { readFileSync } from 'node:fs';

/** Every connection is a file: below this a busy hour may refuse publishers. */
const FEW_FILES = 4096;

/**
 * How many files this process may have open at once, as `ulimit -n` says it; null where there is no limit or it cannot be
 * found out. Node raises the limit as far as it may, so it is the hard one.
 */
export function openFileLimit(): number | null {
  try {
    return limitIn(readFileSync('/proc/self/limits', 'utf8'));
  } catch {
    return reportedLimit();
  }
}

/** What Linux says of a process; its columns are soft and hard limit. */
export function limitIn(limits: string): number | null {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? null : Number(soft);
}

/** Elsewhere Node knows it, where it knows it at all. */
function reportedLimit(): number | null {
  try {
    // Looking up the names of addresses would hold the start.
    (process.report as { excludeNetwork?: boolean }).excludeNetwork = true;
    const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
    const soft = report.userLimits?.open_files?.soft;
    return typeof soft === 'number' ? soft : null;
  } catch {
    return null;
  }
}

/** What to say of a limit; undefined where it is high enough. */
export function fewOpenFiles(limit: number | null): string | undefined {
  if (limit === null || limit >= FEW_FILES) return undefined;
  return `ulimit -n is ${limit}: with about so many connections open, no more are accepted and files cannot be opened; raise it to ${FEW_FILES} or more (LimitNOFILE= of systemd, --ulimit nofile= of Docker)`;
}
