import type { StepStatus } from '../model/manifest.ts';
import type { Attempt, Step } from '../model/run.ts';
import type { StepDetail } from './store.ts';

/** Reading of a run what a picture of it needs, whatever its size: no values, and of loops only what is asked for. */
export interface OutlineStore {
  /** The named steps that have a row, in the order of their keys. */
  outlineSteps(runId: string, stepKeys: readonly string[]): Promise<StepOutline[]>;
  findStep(runId: string, stepKey: string): Promise<StepDetail | undefined>;
  /** What happened to the steps of a run, the newest `limit` of it, oldest first. */
  listMoments(query: { runId: string; limit: number }): Promise<StepMoments>;
  /** Loops of a run that have begun, in the order of their keys. */
  listLoops(runId: string): Promise<LoopProgress[]>;
  /** Rows of loops' children by path and status; reads every one of them. */
  countChildren(runId: string): Promise<ChildCount[]>;
  /** Iterations of a loop, ascending, in which a step has the status; at most `limit` of them. */
  findIterations(query: { runId: string; loopKey: string; status: StepStatus; limit: number }): Promise<number[]>;
}

export interface StepOutline
  extends Pick<
    Step,
    'stepKey' | 'stepType' | 'status' | 'error' | 'skipReason' | 'dueAt' | 'startedAt' | 'completedAt'
  > {
  /** The signal that it waits for; null where it waits for none. */
  readonly signalName: string | null;
  /** Oldest first. */
  readonly attempts: readonly Pick<Attempt, 'attempt' | 'status' | 'startedAt' | 'completedAt'>[];
}

export interface StepMoments {
  readonly items: readonly StepMoment[];
  /** With those that are not among the items. */
  readonly total: number;
}

export interface StepMoment {
  readonly stepKey: string;
  /** 0 where the step was skipped before it was tried. */
  readonly attempt: number;
  /** `retried`: the attempt failed and the step was not given up. */
  readonly kind: 'started' | 'completed' | 'failed' | 'retried' | 'skipped';
  readonly at: number;
  /** Why the attempt failed, or the step was skipped. */
  readonly reason: string | null;
}

export interface LoopProgress {
  /** Runtime key. */
  readonly stepKey: string;
  /** Iterations, and how many of them have begun, ended and failed. */
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

export interface ChildCount {
  /** In the graph: `lines.price` stands for `lines.0.price`, `lines.1.price`, … */
  readonly path: string;
  readonly status: StepStatus;
  readonly count: number;
}
