import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type {
  Attempt,
  OrderKey,
  OrderState,
  Run,
  RunDelivery,
  RunTrigger,
  Step,
  StepError,
  WaitKind,
} from '../../model/run.ts';
import type { SearchKeys } from '../../model/search-keys.ts';

export type { NewRun, Pins, StartedRun } from '../../model/run.ts';

/**
 * Reads and counts runs, and removes those that ended long ago.
 *
 * Counts are kept by the hour as things happen, so a month costs no more to read than an hour, however much happened in
 * it. An instant means the whole hour around it.
 */
export interface RunStore extends StepStore {
  /** Newest first. */
  listRuns(query: RunQuery): Promise<Page<Run>>;
  findRun(runId: string): Promise<RunDetail | undefined>;
  /**
   * What runs in flight wait for, and which steps of ended runs failed. A step that was due by `dueBefore` waits for a
   * slot, whatever it waited for until then.
   */
  describeRuns(query: {
    running: readonly string[];
    ended: readonly string[];
    dueBefore: number;
  }): Promise<RunDescriptions>;
  /**
   * Reads the data of expressions and `forwardBody`: what started the run, and the ended steps among the named ones, or
   * all ended steps if none are named, by key. Reads nothing if that exceeds `maxBytes`; by default there is no limit.
   */
  readRunInput(query: RunInputQuery): Promise<RunInput | LargeRunInput | undefined>;
  /** Counts runs that ended since then, by flow and status. */
  countEndedRuns(since: number): Promise<RunCount[]>;
  /**
   * Removes one slice of the runs that ended before `before`, with everything of theirs except their deliveries: it
   * removes runs, or deletes at most `maxRows` rows of removed runs. Call it until it is done. A run in flight is never
   * removed, nor one that a step of a run in flight waited for; a removed run disappears from every list at once.
   */
  purgeRuns(purge: { before: number; maxRows: number }): Promise<PurgedSlice>;
}

export interface PageQuery {
  readonly skip: number;
  readonly take: number;
  /** Whether `total` is wanted: counting costs more than the page. */
  readonly includeTotal?: boolean | undefined;
}

/** A span of time, without a limit at an end that is left out. */
export interface TimeSpan {
  /** From this instant on. */
  readonly since?: number | undefined;
  /** Before this instant. */
  readonly until?: number | undefined;
}

export interface Page<T> {
  readonly items: T[];
  /**
   * Rows that match, on all pages; undefined unless asked for. Where counters do not know, because the filters are
   * finer, at most 10 000 are counted.
   */
  readonly total: number | undefined;
  /**
   * When the oldest row began that a search looked at, milliseconds since the Unix epoch: older rows were not searched.
   * Absent if all were, and without `includeTotal`.
   */
  readonly searchedUntil?: number;
}

/** Selects runs. `since` and `until` are times of the start. */
export interface RunFilter extends TimeSpan {
  readonly flowId?: string | undefined;
  /** Only runs of these flows. */
  readonly flowIds?: readonly string[] | undefined;
  /** Leaves out the runs of this flow. */
  readonly withoutFlow?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Part of a run id, flow name, trigger key or delivery id, or a search key; searched as for deliveries. */
  readonly search?: string | undefined;
  /** Flows that the search means: also finds their runs, the newest 10 000 of each at any age. */
  readonly searchedFlows?: readonly string[] | undefined;
  /** The same for keys of triggers. */
  readonly searchedTriggers?: readonly string[] | undefined;
  /** As for deliveries. */
  readonly searchKeys?: SearchKeys | undefined;
  /**
   * Only runs in flight with a step that waits for this, in the sense of `describeRuns`: at most the 10 000 newest, or
   * for a slot those with the 10 000 steps that fell due last.
   */
  readonly waiting?: { readonly kind: WaitKind; readonly dueBefore: number } | undefined;
  /**
   * Only runs with a step that failed like this: those with the newest 10 000 of these steps, by when their runs
   * started. For a host or a message, only the newest 30 000 steps that match the rest are searched.
   */
  readonly cause?: CauseFilter | undefined;
}

/** Why a step failed. Steps within loops do not count: the loop's own error describes them. */
export interface CauseFilter {
  readonly step?: string | undefined;
  readonly code?: string | undefined;
  /** The host that was called, as an origin or without its scheme. */
  readonly host?: string | undefined;
  /** Part of the message, in any case; "…" matches any text. */
  readonly error?: string | undefined;
}

export interface RunQuery extends RunFilter, PageQuery {
  /** Only runs after this one in the list. */
  readonly before?: { readonly startedAt: number; readonly id: string } | undefined;
}

export interface RunDetail extends Run {
  readonly trigger: RunTrigger;
  readonly timeoutAt: number | null;
  readonly timedOutAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly cancelReason: string | null;
  readonly idempotencyKey: string | null;
  /** How many deliveries share the run; null if its trigger does not coalesce. `trigger` is the newest of them. */
  readonly deliveries: number | null;
  /** Its place among the runs of its key; null if its flow lets runs overlap. */
  readonly order: RunOrderPlace | null;
}

interface RunOrderPlace extends OrderKey {
  /** Null once the run has ended and let the next one start. */
  readonly state: OrderState | null;
  readonly isTrusted: boolean;
}

interface RunDescriptions {
  /** At most one of each kind for each run. */
  readonly waits: readonly RunWait[];
  /** Without steps inside loops; for each run the 20 that failed first, in that order. */
  readonly failures: readonly RunFailure[];
}

export interface RunWait {
  readonly runId: string;
  readonly kind: WaitKind;
  /** The waiting step that continues first; null if the whole run waits for its turn. */
  readonly stepKey: string | null;
  readonly signalName: string | null;
  /** Origin of the host whose turn it waits for. */
  readonly host: string | null;
  /** The run that its step waits for, or that precedes it in the order of its key; null if it waits for no run. */
  readonly awaitedRunId: string | null;
  /** Why the secret that it waits for cannot be read; null if it waits for none. */
  readonly lacking: string | null;
  /** When it goes on, or stops waiting for its signal; null if no time is set, as for a slot. */
  readonly until: number | null;
  /** How many steps wait for it; at most 100 are counted. */
  readonly steps: number;
}

export interface RunFailure {
  readonly runId: string;
  readonly stepKey: string;
  readonly error: StepError | null;
}

interface RunInputQuery {
  readonly runId: string;
  readonly stepKeys?: readonly string[] | undefined;
  readonly maxBytes?: number | undefined;
}

export interface RunInput extends Pick<Run, 'startedAt' | 'triggerType'> {
  readonly kind?: undefined;
  /** The newest delivery. */
  readonly trigger: RunTrigger;
  /** All deliveries of the run in the order of their arrival, or its only one. */
  readonly deliveries: readonly RunDelivery[];
  readonly steps: Readonly<Record<string, { status: StepStatus; output: Json; error: StepError | null }>>;
}

/** The sizes of the trigger's body, and of the outputs of the steps as JSON, in bytes. */
export interface LargeRunInput {
  readonly kind: 'tooLarge';
  readonly bodyBytes: number;
  readonly outputBytes: number;
}

/**
 * `[since, until)` in buckets, both multiples of `bucketMs`, which is a multiple of an hour, or divides it into whole
 * minutes. Counts exist for whole hours, for the deliveries of all flows also for minutes; anything finer is counted
 * from the kept rows, so its span has to be short.
 */
export interface BucketRange {
  readonly since: number;
  readonly until: number;
  readonly bucketMs: number;
}

/** A span of time in equal parts. */
export interface TrendRange {
  readonly since: number;
  readonly until: number;
  readonly parts: number;
}

/** Runs of a flow in which the same step failed in the same way. */
export interface FailureGroup {
  readonly flowId: string;
  readonly step: string;
  readonly code: string;
  /** Origin of the host that was called; null if none was. */
  readonly host: string | null;
  /** The message without the parts that differ from run to run. */
  readonly error: string;
  readonly count: number;
  /** When the step failed first and last. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** Failures in each part of the trend's time. */
  readonly trend: readonly number[];
}

export interface FailureGroups {
  /** At most 500. */
  readonly groups: readonly FailureGroup[];
  /** As in `Page`, for failed steps. */
  readonly searchedUntil?: number;
}

export interface RunCount {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly count: number;
}

interface PurgedSlice {
  /** Runs that this slice removed. */
  readonly runs: number;
  /** Rows that it deleted. */
  readonly rows: number;
  /** Nothing is left to do. */
  readonly isDone: boolean;
}

/**
 * Reads the steps of a run. All but `listSteps` are bounded, however large the run is: values are cut, and only those
 * children of loops are read that the caller asks for.
 */
interface StepStore {
  /**
   * All steps that have a row, with whole values: started, due or skipped. Undefined for an unknown run. Only for runs
   * known to be small, such as those of tests: `pageSteps` is bounded.
   */
  listSteps(runId: string): Promise<StepDetail[] | undefined>;
  /** The named steps that have a row, in the order of their keys. */
  outlineSteps(runId: string, stepKeys: readonly string[]): Promise<StepOutline[]>;
  /** Values are whole if no limits are given. */
  findStep(runId: string, stepKey: string, limits?: ValueLimits): Promise<StepView | undefined>;
  /**
   * A page of the steps of a run: the planned steps in their order, including those without a row. The children of a
   * loop follow it in the order of the iterations. Undefined for an unknown run.
   */
  pageSteps(query: {
    runId: string;
    planned: readonly string[];
    skip: number;
    take: number;
    limits: ValueLimits;
  }): Promise<StepPage | undefined>;
}

export interface StepDetail extends Step {
  /** Oldest first. */
  readonly attempts: readonly Attempt[];
}

/** How much of the values a view shows, in bytes of JSON. */
export interface ValueLimits {
  /** Larger values are cut. */
  readonly valueBytes: number;
  /** Once all values together reach this size, the others are cut. */
  readonly answerBytes: number;
}

/** Replaces a value that was cut. */
export interface CutValue {
  readonly truncated: true;
  /** Length of the whole value as JSON, in bytes. */
  readonly length: number;
  /** The beginning of its JSON. */
  readonly preview: string;
}

/** If `truncated` is set, a `CutValue` replaces at least one value of the step, or of the attempt. */
export interface StepView extends StepDetail {
  readonly truncated?: true | undefined;
  /** The newest hundred, oldest first. */
  readonly attempts: readonly (Attempt & { readonly truncated?: true | undefined })[];
}

interface StepPage {
  /** A step without a row has only its key. */
  readonly items: readonly (StepView | { readonly stepKey: string; readonly runId?: undefined })[];
  readonly total: number;
}

export interface StepOutline
  extends Pick<
    Step,
    'stepKey' | 'stepType' | 'status' | 'error' | 'skipReason' | 'dueAt' | 'startedAt' | 'completedAt'
  > {
  /** The signal that it waits for, or null. */
  readonly signalName: string | null;
  /** What a polling handler recorded of its last poll, under this name in its state; null for other handlers. */
  readonly lastPoll: Json;
  /** The last run that the step started; null if it started none. */
  readonly subRunId: string | null;
  /** Oldest first. */
  readonly attempts: readonly (Pick<Attempt, 'attempt' | 'status' | 'slotWaitMs' | 'startedAt' | 'completedAt'> & {
    /** Code of its error, or null. */
    readonly errorCode: string | null;
  })[];
}
