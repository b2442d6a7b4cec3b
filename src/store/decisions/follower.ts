import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type { WiredGraph } from '../../model/planner.ts';
import type { Iteration } from '../../model/runtime-keys.ts';
import type { Advance, EndedLoop, StepOutcome, StepResult } from '../store.ts';
import type { Ask, Decision } from './decision.ts';
import type { EndedRun } from './placer.ts';
import type { Port } from './port.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A run that ended in this transaction. */
export type FollowedRun = EndedRun & Pick<FoundRun, 'triggerType'>;

/** What the end of a run led to in other runs. */
export type Led = Pick<Advance, 'failure' | 'woken' | 'next'>;

/**
 * Makes more follow from a step or from the end of a run than the next steps of its graph. `features/follower.ts` lists the
 * followers, in the order of their calls.
 */
export interface Follower {
  readonly name: string;
  end?(rows: RunRows, ended: FollowedRun): Decision<Led>;
  /** Only one follower has this. */
  readonly subRuns?: SubRuns;
  /** Only one follower has this. */
  readonly scopes?: Scopes;
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

export type AskedLoop = Extract<StepResult, { kind: 'loop' }>;

/** A run whose next steps are planned. */
export interface PlannedRun {
  readonly rows: RunRows;
  readonly runId: string;
  readonly at: number;
  /** Loops that ended with their last iteration; `Scopes` adds them. */
  readonly loops: EndedLoop[];
  /** The graph of a scope. */
  graphIn(scope: string): Decision<WiredGraph>;
  /** Plans what follows in a scope, and in the scopes around it where this one ends. */
  plan(changed: ChangedScope): Decision<void>;
}

/** A scope, and the step of its graph that has ended there, with its status; no step if the scope begins. */
export interface ChangedScope {
  readonly scope: string;
  readonly localKey?: string;
  readonly status?: StepStatus;
  /** Statuses of its steps; read if not given. */
  readonly states?: Ask<ReadonlyMap<string, StepStatus>>;
  /** The item of its iteration; read if not given. */
  readonly item?: Json | undefined;
}

/** A run with a step that is retried. */
export interface RetriedRun extends Pick<PlannedRun, 'rows' | 'runId'> {
  readonly graph: WiredGraph;
}

/** Runs a loop's own graph once for each item, each time in a scope of its own: an iteration. */
export interface Scopes {
  /** Starts the first iterations. */
  begin(run: PlannedRun, loop: StepOutcome, asked: AskedLoop): Decision<void>;
  /** After the end of an iteration: starts the next one, or ends the loop and plans what follows. */
  ended(run: PlannedRun, iteration: Iteration, status: RunStatus): Decision<void>;
  /** Reads the items of iterations; one that has none reads as null. Reads nothing where nothing is asked for. */
  items(port: Port, iterations: readonly RunIteration[]): Decision<(iteration: RunIteration) => Json>;
  /** The steps to retry in place of a loop. */
  causes(run: RetriedRun, stepKey: string): Ask<readonly string[]>;
  /** Before a step of the iteration is retried: opens the loops around it again; yields those that had ended. */
  reopen(run: RetriedRun, iteration: Iteration): Ask<readonly string[]>;
}

export interface RunIteration extends Iteration {
  readonly runId: string;
}
