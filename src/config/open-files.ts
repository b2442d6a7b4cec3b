import { readFileSync } from 'node:fs';

/** Every connection is a file: with less, a busy hour can refuse publishers. */
const FEW_FILES = 4096;

/**
 * The limit of open files of this process, as `ulimit -n` shows it; null if there is none, or if it is unknown. Node
 * raises the soft limit to the hard limit.
 */
export function openFileLimit(): number | null {
  try {
    return limitIn(readFileSync('/proc/self/limits', 'utf8'));
  } catch {
    return reportedLimit();
  }
}

/** Parses Linux's list of limits; its columns are soft and hard limit. */
export function limitIn(limits: string): number | null {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? null : Number(soft);
}

/** On other systems Node may know the limit. */
function reportedLimit(): number | null {
  try {
    // Resolving addresses to names would delay the start.
    (process.report as { excludeNetwork?: boolean }).excludeNetwork = true;
    const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
    const soft = report.userLimits?.open_files?.soft;
    return typeof soft === 'number' ? soft : null;
  } catch {
    return null;
  }
}

/** A warning about the limit; undefined if it is high enough. */
export function fewOpenFiles(limit: number | null): string | undefined {
  if (limit === null || limit >= FEW_FILES) return undefined;
  return `ulimit -n is ${limit}: with about so many connections open, no more are accepted and files cannot be opened; raise it to ${FEW_FILES} or more (LimitNOFILE= of systemd, --ulimit nofile= of Docker)`;
}
