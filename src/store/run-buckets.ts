import { HOUR_MS } from '../model/clock.ts';
import type { RunStatus } from '../model/manifest.ts';
import { roundDuration } from './durations.ts';
import type { RunBucket } from './store.ts';

export interface DurationRow {
  readonly hour: number;
  readonly durationMs: number;
  readonly count: number;
}

/** A run where no counts have buckets so small. */
export interface TimedRun {
  /** Begin of its bucket. */
  readonly at: number;
  readonly status: RunStatus;
  /** Null while it is in flight. */
  readonly tookMs: number | null;
}

export interface StatusRow {
  readonly at: number;
  readonly status: RunStatus;
  readonly count: number;
}

/** Collects the counts of runs by bucket. */
export class Tallies {
  readonly #bucketMs: number;
  readonly #statuses = new Map<number, Partial<Record<RunStatus, number>>>();
  readonly #durations = new Map<number, Map<number, number>>();

  constructor(bucketMs: number) {
    this.#bucketMs = bucketMs;
  }

  addStatus({ at, status, count }: StatusRow): void {
    this.#statuses.set(at, { ...this.#statuses.get(at), [status]: count });
  }

  addRun({ at, status, tookMs }: TimedRun): void {
    const counts = this.#statuses.get(at) ?? {};
    this.#statuses.set(at, counts);
    counts[status] = (counts[status] ?? 0) + 1;
    if (tookMs !== null) this.#addDuration(at, roundDuration(tookMs), 1);
  }

  addDuration({ hour, durationMs, count }: DurationRow): void {
    this.#addDuration(Math.floor((hour * HOUR_MS) / this.#bucketMs) * this.#bucketMs, durationMs, count);
  }

  #addDuration(at: number, durationMs: number, count: number): void {
    const counts = this.#durations.get(at) ?? new Map<number, number>();
    this.#durations.set(at, counts.set(durationMs, (counts.get(durationMs) ?? 0) + count));
  }

  buckets(): RunBucket[] {
    const entries = [...this.#statuses].sort(([a], [b]) => a - b);
    return entries.map(([at, counts]) => {
      const durations = [...(this.#durations.get(at) ?? [])].sort(([a], [b]) => a - b);
      return { at, counts, p50DurationMs: percentile(durations, 0.5), p95DurationMs: percentile(durations, 0.95) };
    });
  }
}

/** Nearest rank over ordered durations and how often each occurred. */
function percentile(durations: readonly (readonly [ms: number, count: number])[], share: number): number | null {
  const rank = Math.ceil(durations.reduce((sum, [, count]) => sum + count, 0) * share);
  let passed = 0;
  for (const [ms, count] of durations) {
    passed += count;
    if (passed >= rank) return ms;
  }
  return null;
}
