import type { Advance, StepOutcome, StepResult } from '../store.ts';
import type { Ask, Decision } from './decision.ts';
import type { EndedRun } from './placer.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A run that ended in this transaction. */
export type FollowedRun = EndedRun & Pick<FoundRun, 'triggerType'>;

/** What the end of a run led to in others. */
export type Led = Pick<Advance, 'failure' | 'woken' | 'next'>;

/** Has other runs follow from a run. `features/follower.ts` lists the followers, in the order in which they are asked. */
export interface Follower {
  readonly name: string;
  end(rows: RunRows, ended: FollowedRun): Decision<Led>;
  /** Of one follower alone. */
  readonly subRuns?: SubRuns;
}

/** What became of a step that asked for a run. */
export type SubRun = NonNullable<Advance['subRun']>;

/** A step's request for a run, and the run that the step is of. */
export interface AskedRun {
  readonly asked: Extract<StepResult, { kind: 'runFlow' }>;
  readonly parent: FoundRun;
}

/** Starts the runs that steps ask for, and gives up those that nothing needs any more. */
export interface SubRuns {
  start(rows: RunRows, outcome: StepOutcome, asked: AskedRun): Ask<SubRun>;
  /** A run was told to stop: notes the runs in flight that its steps wait for. */
  orphan(rows: RunRows, runId: string): Ask<void>;
  /**
   * Takes runs that were noted, and forgets that: to be cancelled for the reason. May leave some that other transactions
   * have, and may give one twice, or one that has ended.
   */
  takeOrphans(rows: RunRows, limit: number): Ask<readonly Orphan[]>;
}

export interface Orphan {
  readonly run: FoundRun & { readonly runId: string };
  readonly reason: string;
}
