import type { NewRun, RunOrder } from '../../model/run.ts';
import type { NextRun } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Port } from './port.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A new run that may have to wait. */
export interface PlacedRun extends Pick<NewRun, 'id' | 'flowId' | 'sourceRunId'> {
  readonly order: RunOrder;
}

export interface EndedRun extends Pick<FoundRun, 'flowId' | 'revision' | 'status'> {
  readonly runId: string;
  readonly at: number;
}

/**
 * Has runs of a flow wait for others, if the manifest says so: it is asked about no other run. `features/placer.ts` lists
 * the placers, and the first that has a run wait decides.
 */
export interface Placer {
  readonly name: string;
  /** Locks what new runs are to join, in one order: else two transactions that join the same could block each other. */
  lock(port: Port, runs: readonly PlacedRun[]): Decision<void>;
  /**
   * Takes a new run; yields whether it has to wait. With the id of a run whose step is to wait for the new one: the id of a
   * run that would wait for itself then, and takes it not.
   */
  join(port: Port, run: PlacedRun, parentRunId: string | undefined): Decision<boolean | string>;
  /** The same of a run that is retried, whose step may still be waited for. */
  rejoin(rows: RunRows, run: Pick<EndedRun, 'runId' | 'flowId' | 'revision'>): Decision<boolean | string>;
  /** A run has ended; yields the one that goes on because of that. `mayStop`: the manifest lets a failure hold up others. */
  leave(rows: RunRows, run: EndedRun, mayStop: boolean): Decision<NextRun | undefined>;
}
