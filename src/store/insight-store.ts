import type { Run } from '../model/run.ts';

/** How runs belong together, and for how long they are kept. */
export interface InsightStore {
  /** The run that this one repeats and the newest 500 that repeat it, oldest first; undefined for an unknown run. */
  findLineage(runId: string): Promise<Lineage | undefined>;
  /** Signals that were sent to a run, oldest first. */
  listSignals(runId: string): Promise<SignalRecord[]>;
  /**
   * Does a slice of the removal of runs that ended before `before`, with all that belongs to them but their deliveries:
   * removes runs, or deletes at most `maxRows` rows of runs that were removed. Call it until it is done. A run in flight
   * is never removed; one that is removed is gone from every list at once.
   */
  purgeRuns(purge: { before: number; maxRows: number }): Promise<PurgedSlice>;
}

export interface PurgedSlice {
  /** Runs that this slice removed. */
  readonly runs: number;
  /** Rows that it deleted. */
  readonly rows: number;
  /** Nothing was left to do. */
  readonly isDone: boolean;
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
