import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type { Attempt, Run, RunTrigger, Step, StepError } from '../../model/run.ts';

/**
 * Reading runs and counting them, and removing those that ended long ago.
 *
 * Counts are kept by the hour as things happen, so a month costs no more to read than an hour, however much happened in
 * it. An instant stands for the whole hour around it.
 */
export interface RunStore {
  /** Newest first. */
  listRuns(query: RunQuery): Promise<Page<Run>>;
  findRun(runId: string): Promise<RunDetail | undefined>;
  /** The run that this one repeats and the newest 500 that repeat it, oldest first; undefined for an unknown run. */
  findLineage(runId: string): Promise<Lineage | undefined>;
  /** Signals that were sent to a run, oldest first. */
  listSignals(runId: string): Promise<SignalRecord[]>;
  /**
   * What expressions and `forwardBody` read: what started the run, and those of the named steps that have ended, or all
   * that have where none are named. Nothing is read where that is more than `maxBytes`; there is no limit by default.
   */
  readRunInput(query: RunInputQuery): Promise<RunInput | LargeRunInput | undefined>;
  /** Every run that is kept, by flow and status. */
  countRuns(): Promise<RunCount[]>;
  /** Runs that ended since, by flow and status. */
  countEndedRuns(since: number): Promise<RunCount[]>;
  /** Runs by buckets of whole hours in which they started, oldest first; an empty bucket is absent. */
  runTimeseries(range: BucketRange): Promise<RunBucket[]>;
  /**
   * Does a slice of the removal of runs that ended before `before`, with all that belongs to them but their deliveries:
   * removes runs, or deletes at most `maxRows` rows of runs that were removed. Call it until it is done. A run in flight
   * is never removed; one that is removed is gone from every list at once.
   */
  purgeRuns(purge: { before: number; maxRows: number }): Promise<PurgedSlice>;
}

/** A run and its entry steps, as the engine planned them. */
export interface NewRun extends Omit<Run, 'status' | 'completedAt'> {
  /** `Running`, or the end of a flow without steps. */
  readonly status: RunStatus;
  readonly completedAt: number | null;
  readonly trigger: RunTrigger;
  readonly timeoutAt: number | null;
  /** W3C trace context of what started the run, so that its steps join the same trace. */
  readonly traceparent: string | null;
  readonly steps: readonly NewStep[];
}

export interface NewStep {
  readonly stepKey: string;
  readonly stepType: string;
  readonly dueAt: number;
}

export interface PageQuery {
  readonly skip: number;
  readonly take: number;
  /** Whether `total` is wanted: counting costs more than the page. */
  readonly includeTotal?: boolean | undefined;
}

export interface Page<T> {
  readonly items: T[];
  /** Rows that match, paging aside; undefined unless asked for. */
  readonly total: number | undefined;
}

export interface RunQuery extends PageQuery {
  readonly flowId?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Part of a run id, flow name, trigger key or delivery id, any case; looked for as in deliveries. */
  readonly search?: string | undefined;
  /** Those that stand behind this run in the list. */
  readonly before?: { readonly startedAt: number; readonly id: string } | undefined;
}

export interface RunDetail extends Run {
  readonly trigger: RunTrigger;
  readonly timeoutAt: number | null;
  readonly timedOutAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly cancelReason: string | null;
  readonly idempotencyKey: string | null;
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

export interface RunInputQuery {
  readonly runId: string;
  readonly stepKeys?: readonly string[] | undefined;
  readonly maxBytes?: number | undefined;
}

export interface RunInput {
  readonly kind?: undefined;
  readonly trigger: RunTrigger;
  readonly steps: Readonly<Record<string, { status: StepStatus; output: Json; error: StepError | null }>>;
}

/** How much there is to be read: bytes of the trigger's body, and of the outputs of the steps as JSON. */
export interface LargeRunInput {
  readonly kind: 'tooLarge';
  readonly bodyBytes: number;
  readonly outputBytes: number;
}

/** `[since, until)` in buckets, both multiples of `bucketMs`, which is one of an hour. */
export interface BucketRange {
  readonly since: number;
  readonly until: number;
  readonly bucketMs: number;
  readonly flowId: string | undefined;
}

export interface RunCount {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly count: number;
}

export interface RunBucket {
  readonly at: number;
  readonly counts: Readonly<Partial<Record<RunStatus, number>>>;
  /** Of runs that ended, nearest rank, within five per cent; null where none has. */
  readonly p50DurationMs: number | null;
  readonly p95DurationMs: number | null;
}

export interface PurgedSlice {
  /** Runs that this slice removed. */
  readonly runs: number;
  /** Rows that it deleted. */
  readonly rows: number;
  /** Nothing was left to do. */
  readonly isDone: boolean;
}

/**
 * Reading the steps of a run. All but `listSteps` are bounded, however large the run is: values are cut, and only the
 * children of loops that the caller asks for are read.
 */
export interface StepStore {
  /**
   * Steps that have a row, whole: started, due or skipped; undefined for an unknown run. For runs that are known to be
   * small, as those of tests are: `pageSteps` is bounded.
   */
  listSteps(runId: string): Promise<StepDetail[] | undefined>;
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

export interface StepDetail extends Step {
  /** Oldest first. */
  readonly attempts: readonly Attempt[];
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
