import type { RunStatus } from '../model/manifest.ts';
import type { Run } from '../model/run.ts';

/** Figures over many runs, and how runs belong together. */
export interface InsightStore {
  /** Runs in flight, and runs that ended at or after `since`, by status. */
  runStats(since: number): Promise<RunStats>;
  /** The runs started in `[since, until)`, oldest first, as far as figures need them; at most `limit`. */
  listRunTimes(query: { since: number; until: number; flowId: string | undefined; limit: number }): Promise<RunTime[]>;
  /** The run that this one repeats and those that repeat it, oldest first; undefined for an unknown run. */
  findLineage(runId: string): Promise<Lineage | undefined>;
  /** Signals that were sent to a run, oldest first. */
  listSignals(runId: string): Promise<SignalRecord[]>;
  /**
   * Deletes at most `limit` runs that ended before `before`, with all that belongs to them but their deliveries; yields
   * how many. A run in flight is never deleted.
   */
  purgeRuns(purge: { before: number; limit: number }): Promise<number>;
}

export interface RunStats {
  readonly active: number;
  readonly ended: Readonly<Partial<Record<RunStatus, number>>>;
}

export interface RunTime {
  readonly startedAt: number;
  readonly completedAt: number | null;
  readonly status: RunStatus;
}

export interface Lineage {
  readonly source: Run | undefined;
  readonly derived: readonly Run[];
}

export interface SignalRecord {
  readonly name: string;
  readonly deliveredAt: number;
  readonly stepKey: string | null;
}
