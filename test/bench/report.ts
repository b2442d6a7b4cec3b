import { writeFileSync } from 'node:fs';
import { type CpuSeconds, sumOf } from './counters.ts';
import type { Measured, Row } from './measure.ts';

/** The medians of one row; null if a figure does not exist. */
export type Summary = Readonly<Record<keyof typeof FIGURES | 'ratio' | 'timesBase', number | null>> & {
  readonly name: string;
  /** The row that the ratio refers to. */
  readonly base: string;
};

/** Loads by row, in the order of the rows. */
export type Results = ReadonlyMap<Row, readonly Measured[]>;

type Figure = (one: Measured) => number | null | undefined;

/** Microseconds of CPU per delivery. */
const micros =
  (of: (one: Measured) => number | null): Figure =>
  (one) => {
    const seconds = of(one);
    return seconds === null ? null : (seconds * 1e6) / one.requests;
  };
const thread = (name: keyof CpuSeconds) => micros(({ cpu }) => (cpu === null ? null : cpu[name]));

const FIGURES = {
  requestsPerSecond: (one) => one.requestsPerSecond,
  p50Ms: (one) => one.p50Ms,
  p99Ms: (one) => one.p99Ms,
  p999Ms: (one) => one.p999Ms,
  loopMicros: thread('loop'),
  writerMicros: thread('writer'),
  restMicros: thread('rest'),
  helperMicros: micros((one) => one.helperCpu),
  allMicros: micros(({ cpu, helperCpu }) => cpu && sumOf(cpu) + (helperCpu ?? 0)),
  executedShare: (one) => (one.executed === null ? null : one.executed / one.requests),
  oldestDueMs: (one) => one.oldestDueMs,
  firstStepP99Ms: (one) => one.firstStepP99Ms,
  writtenKb: (one) => (one.writtenBytes === null ? null : one.writtenBytes / 1000 / one.requests),
  pages: (one) => (one.pages === null ? null : one.pages / one.requests),
  firstAnswerMs: (one) => one.firstAnswerMs,
  idleMb: (one) => one.idleMb,
  loadedMb: (one) => one.loadedMb,
  foreignCores: (one) => one.foreignCores,
} satisfies Record<string, Figure>;

export function summarise(results: Results): Summary[] {
  const summaries = new Map<string, Summary>();
  // Base rows come before the rows that refer to them.
  for (const [{ name, base }, all] of results) {
    const medians = Object.fromEntries(
      Object.entries(FIGURES).map(([figure, of]: [string, Figure]) => [figure, median(all.map(of))]),
    ) as Record<keyof typeof FIGURES, number | null>;
    const of = name === base ? medians : summaries.get(base);
    summaries.set(name, {
      name,
      base,
      ...medians,
      ratio: quotient(medians.requestsPerSecond, of?.requestsPerSecond),
      timesBase: quotient(medians.allMicros, of?.allMicros),
    });
  }
  return [...summaries.values()];
}

function quotient(one: number | null, other: number | null | undefined): number | null {
  return one === null || !other ? null : one / other;
}

function median(numbers: readonly (number | null | undefined)[]): number | null {
  const sorted = numbers
    .filter((number) => typeof number === 'number' && !Number.isNaN(number))
    .toSorted((one, other) => Number(one) - Number(other));
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}

type Column = readonly [title: string, figure: Exclude<keyof Summary, 'name' | 'base'>, digits: number];

const SPEED: readonly Column[] = [
  ['requests/s', 'requestsPerSecond', 0],
  ['ratio', 'ratio', 2],
  ['p50 ms', 'p50Ms', 1],
  ['p99 ms', 'p99Ms', 1],
  ['p99.9 ms', 'p999Ms', 1],
  ['loop µs', 'loopMicros', 0],
  ['writer µs', 'writerMicros', 0],
  ['rest µs', 'restMicros', 0],
  ['helpers µs', 'helperMicros', 0],
  ['all µs', 'allMicros', 0],
  ['× base', 'timesBase', 1],
  ['foreign', 'foreignCores', 2],
];
const REST: readonly Column[] = [
  ['executed', 'executedShare', 2],
  ['due ms', 'oldestDueMs', 0],
  ['first step ms', 'firstStepP99Ms', 0],
  ['KB written', 'writtenKb', 1],
  ['pages', 'pages', 2],
  ['first 200 ms', 'firstAnswerMs', 0],
  ['idle MB', 'idleMb', 0],
  ['load MB', 'loadedMb', 0],
];

/** Two Markdown tables: first the publisher's view and the CPU, then the disk and the memory. */
export function tablesOf(summaries: readonly Summary[]): string {
  return [SPEED, REST].map((columns) => tableOf(summaries, columns)).join('\n');
}

function tableOf(summaries: readonly Summary[], columns: readonly Column[]): string {
  const shown = columns.filter(([, figure]) => summaries.some((summary) => summary[figure] !== null));
  const head = ['row', ...shown.map(([title]) => title)];
  const lines = summaries.map((summary) => [
    summary.name,
    ...shown.map(([, figure, digits]) => summary[figure]?.toFixed(digits) ?? '–'),
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...lines.map((line) => line[at]?.length ?? 0)));
  const padded = (cells: readonly string[]) =>
    cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)));
  return [padded(head), widths.map((width) => '-'.repeat(width)), ...lines.map(padded)]
    .map((cells) => `| ${cells.join(' | ')} |\n`)
    .join('');
}

/** Writes the figures, with the conditions they were measured under. */
export function writeJson(path: string, conditions: object, results: Results): void {
  const loads = [...results].map(([{ name }, all]) => ({ name, loads: all }));
  const kept = { at: new Date().toISOString(), ...conditions, medians: summarise(results), rows: loads };
  writeFileSync(path, `${JSON.stringify(kept, null, 2)}\n`);
}
