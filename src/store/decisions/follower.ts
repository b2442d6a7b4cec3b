import type { Advance, StepOutcome, StepResult } from '../store.ts';
import type { Ask, Decision } from './decision.ts';
import type { EndedRun } from './placer.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A run that ended in this transaction. */
export type FollowedRun = EndedRun & Pick<FoundRun, 'triggerType'>;

/** What the end of a run led to in other runs. */
export type Led = Pick<Advance, 'failure' | 'woken' | 'next'>;

/** Makes other runs follow from a run. `features/follower.ts` lists the followers, in the order of their calls. */
export interface Follower {
  readonly name: string;
  end(rows: RunRows, ended: FollowedRun): Decision<Led>;
  /** Only one follower has this. */
  readonly subRuns?: SubRuns;
}

/** The result of a step's request for a run. */
export type SubRun = NonNullable<Advance['subRun']>;

/** A step's request for a run, and the run of the step. */
export interface AskedRun {
  readonly asked: Extract<StepResult, { kind: 'runFlow' }>;
  readonly parent: FoundRun;
}

/** Starts the runs that steps request, and gives up runs that are no longer needed. */
export interface SubRuns {
  start(rows: RunRows, outcome: StepOutcome, asked: AskedRun): Ask<SubRun>;
  /** Called when a run was told to stop: notes the runs in flight that its steps wait for. */
  orphan(rows: RunRows, runId: string): Ask<void>;
  /**
   * Takes noted runs, to be cancelled for the reason, and deletes the notes. May leave runs that other transactions
   * hold, and may yield a run twice, or one that has ended.
   */
  takeOrphans(rows: RunRows, limit: number): Ask<readonly Orphan[]>;
}

export interface Orphan {
  readonly run: FoundRun & { readonly runId: string };
  readonly reason: string;
}
