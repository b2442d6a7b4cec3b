import { writeFileSync } from 'node:fs';
import type { CpuSeconds } from './cpu.ts';
import type { Measured, Row } from './measure.ts';

/** The medians of one row; null where a figure does not exist. */
export interface Summary {
  readonly name: string;
  /** The row that the ratio is of. */
  readonly base: string;
  readonly requestsPerSecond: number;
  readonly ratio: number | null;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU microseconds a request, by thread. */
  readonly cpuMicroseconds: CpuSeconds | null;
  /** CPU of all threads as a multiple of the base's. */
  readonly timesBase: number | null;
  /** Runs that ended for each request. */
  readonly executedShare: number | null;
  readonly oldestDueMs: number | null;
  readonly firstStepP99Ms: number | null;
  /** CPU microseconds a request of the database server. */
  readonly databaseMicroseconds: number | null;
  readonly foreignCores: number;
}

/** Loads by row, in the order of the rows. */
export type Results = ReadonlyMap<Row, readonly Measured[]>;

export function summarise(results: Results): Summary[] {
  const summaries = new Map<string, Summary>();
  // Bases come before the rows that refer to them.
  for (const [{ name, base }, all] of results) {
    const of = (pick: (one: Measured) => number | null) => median(all.map(pick));
    const cpu = (thread: keyof CpuSeconds) => of((one) => one.cpu && (one.cpu[thread] * 1e6) / one.requests) ?? 0;
    const requestsPerSecond = of((one) => one.requestsPerSecond) ?? 0;
    const cpuMicroseconds = all.some((one) => one.cpu === null)
      ? null
      : { loop: cpu('loop'), writer: cpu('writer'), rest: cpu('rest'), all: cpu('all') };
    const of0 = name === base ? { requestsPerSecond, cpuMicroseconds } : summaries.get(base);
    summaries.set(name, {
      name,
      base,
      requestsPerSecond,
      ratio: of0 === undefined ? null : requestsPerSecond / of0.requestsPerSecond,
      p50Ms: of((one) => one.p50Ms) ?? 0,
      p99Ms: of((one) => one.p99Ms) ?? 0,
      cpuMicroseconds,
      timesBase: of0?.cpuMicroseconds && cpuMicroseconds ? cpuMicroseconds.all / of0.cpuMicroseconds.all : null,
      executedShare: of((one) => one.executed && one.executed / one.requests),
      oldestDueMs: of((one) => one.oldestDueMs),
      firstStepP99Ms: of((one) => one.firstStepP99Ms ?? null),
      databaseMicroseconds: of((one) => (one.databaseCpu ? (one.databaseCpu * 1e6) / one.requests : null)),
      foreignCores: of((one) => one.foreignCores) ?? 0,
    });
  }
  return [...summaries.values()];
}

function median(numbers: readonly (number | null)[]): number | null {
  const sorted = numbers.filter((number) => number !== null).toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}

interface Column {
  readonly title: string;
  readonly digits: number;
  readonly of: (summary: Summary) => number | null | undefined;
}

const COLUMNS: readonly Column[] = [
  { title: 'req/s', digits: 0, of: (row) => row.requestsPerSecond },
  { title: 'ratio', digits: 2, of: (row) => row.ratio },
  { title: 'p50 ms', digits: 1, of: (row) => row.p50Ms },
  { title: 'p99 ms', digits: 1, of: (row) => row.p99Ms },
  { title: 'loop µs', digits: 0, of: (row) => row.cpuMicroseconds?.loop },
  { title: 'writer', digits: 0, of: (row) => row.cpuMicroseconds?.writer },
  { title: 'rest', digits: 0, of: (row) => row.cpuMicroseconds?.rest },
  { title: 'all µs', digits: 0, of: (row) => row.cpuMicroseconds?.all },
  { title: '× base', digits: 1, of: (row) => row.timesBase },
  { title: 'executed', digits: 2, of: (row) => row.executedShare },
  { title: 'due ms', digits: 0, of: (row) => row.oldestDueMs },
  { title: 'first ms', digits: 0, of: (row) => row.firstStepP99Ms },
  { title: 'db µs', digits: 0, of: (row) => row.databaseMicroseconds },
  { title: 'foreign', digits: 2, of: (row) => row.foreignCores },
];

export function tableOf(summaries: readonly Summary[]): string {
  const width = Math.max(...summaries.map(({ name }) => name.length)) + 1;
  const lines = summaries.map((summary) => [
    summary.name.padEnd(width),
    ...COLUMNS.map(({ of, digits }) => (of(summary)?.toFixed(digits) ?? '-').padStart(9)),
  ]);
  const head = [' '.repeat(width), ...COLUMNS.map(({ title }) => title.padStart(9))];
  return [head, ...lines].map((cells) => `${cells.join('')}\n`).join('');
}

/** Keeps the figures and what they were measured on. */
export function writeJson(path: string, conditions: object, results: Results): void {
  const loads = [...results].map(([{ name }, all]) => ({ name, loads: all }));
  const kept = { at: new Date().toISOString(), ...conditions, medians: summarise(results), rows: loads };
  writeFileSync(path, `${JSON.stringify(kept, null, 2)}\n`);
}
