import type { Run } from '../model/run.ts';

/** How runs belong together, and for how long they are kept. */
export interface InsightStore {
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

export interface Lineage {
  readonly source: Run | undefined;
  readonly derived: readonly Run[];
}

export interface SignalRecord {
  readonly name: string;
  readonly deliveredAt: number;
  readonly stepKey: string | null;
}
