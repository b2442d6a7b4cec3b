import type { StepStatus } from '../model/manifest.ts';
import type { Attempt, Step } from '../model/run.ts';
import type { StepDetail } from './store.ts';

/** Reading of a run what a picture of it needs, whatever its size: no values, and of loops only what is asked for. */
export interface OutlineStore {
  /** The named steps that have a row, in the order of their keys. */
  outlineSteps(runId: string, stepKeys: readonly string[]): Promise<StepOutline[]>;
  /** Whole where no limits are given. */
  findStep(runId: string, stepKey: string, limits?: ValueLimits): Promise<StepView | undefined>;
  /**
   * A page of the steps of a run: the planned ones in their order, those without a row included, each with the children
   * of its loop behind it, in the order of the iterations. Undefined for an unknown run.
   */
  pageSteps(query: {
    runId: string;
    planned: readonly string[];
    skip: number;
    take: number;
    limits: ValueLimits;
  }): Promise<StepPage | undefined>;
  /** A piece of what a step, or one attempt of it, was given or left; undefined where there is no such row. */
  readValue(query: {
    runId: string;
    stepKey: string;
    attempt: number | undefined;
    value: 'input' | 'output';
    offset: number;
    bytes: number;
  }): Promise<StoredText | undefined>;
  /** What happened to the steps of a run, the newest `limit` of it, oldest first. */
  listMoments(query: { runId: string; limit: number }): Promise<StepMoments>;
  /** Loops of a run that have begun, in the order of their keys. */
  listLoops(runId: string): Promise<LoopProgress[]>;
  /** Rows of loops' children by path and status; reads every one of them. */
  countChildren(runId: string): Promise<ChildCount[]>;
  /** Iterations of a loop, ascending, in which a step has the status; at most `limit` of them. */
  findIterations(query: { runId: string; loopKey: string; status: StepStatus; limit: number }): Promise<number[]>;
}

/** How much of the values a view has, in bytes of JSON. */
export interface ValueLimits {
  /** A value that is larger is cut. */
  readonly valueBytes: number;
  /** Once the values have so many together, the others are cut. */
  readonly answerBytes: number;
}

/** Stands for a value that was cut. */
export interface CutValue {
  readonly truncated: true;
  /** Bytes of the whole value as JSON. */
  readonly length: number;
  /** How its JSON begins. */
  readonly preview: string;
}

/** Where `truncated` is set, a `CutValue` stands for at least one of the step's values; so it is with an attempt. */
export interface StepView extends StepDetail {
  readonly truncated?: true | undefined;
  /** The newest hundred, oldest first. */
  readonly attempts: readonly (Attempt & { readonly truncated?: true | undefined })[];
}

export interface StepPage {
  /** A step that has no row has its key alone. */
  readonly items: readonly (StepView | { readonly stepKey: string; readonly runId?: undefined })[];
  readonly total: number;
}

export interface StoredText {
  /** Bytes of the whole value as JSON; null where there is none. */
  readonly totalBytes: number | null;
  /** Pieces of one value have the same. */
  readonly changes: string;
  /** UTF-8. */
  readonly piece: Uint8Array;
}

export interface StepOutline
  extends Pick<
    Step,
    'stepKey' | 'stepType' | 'status' | 'error' | 'skipReason' | 'dueAt' | 'startedAt' | 'completedAt'
  > {
  /** The signal that it waits for; null where it waits for none. */
  readonly signalName: string | null;
  /** Oldest first. */
  readonly attempts: readonly Pick<Attempt, 'attempt' | 'status' | 'slotWaitMs' | 'startedAt' | 'completedAt'>[];
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
