import type { Json } from '../../model/json.ts';
import type { RunStatus, RunTriggerType, StepStatus } from '../../model/manifest.ts';
import type { WiredGraph } from '../../model/planner.ts';
import type { Run, StepError } from '../../model/run.ts';
import type {
  AwaitingStep,
  BegunAttempt,
  Claim,
  FlowRecord,
  NewRun,
  Pins,
  ReceivedSignal,
  StepAddress,
  StoppedRun,
} from '../store.ts';
import type { Asks } from './decision.ts';
import type { Port } from './port.ts';
import type { RunnableRevision } from './revisions.ts';

/**
 * The rows of runs in one transaction. A backend only provides the answers to `RunReads` and the writes; the decisions
 * are made in this folder.
 *
 * Reads see the earlier writes of the transaction, in call order. No other transaction changes the steps, loops and
 * signals of a run between the first read of a decision and the commit: a backend that runs transactions side by side
 * locks the run's row in `findHeld`, `findRun` and `listOverdueRuns`. Two decisions of one run never interleave; those of
 * different runs may share a transaction.
 */
export type RunRows = Asks<RunReads> & RunWrites;

/** When a run was told to stop, and by what. */
export interface StopTimes {
  readonly cancelRequestedAt: number | null;
  readonly timedOutAt: number | null;
}

export interface FoundRun extends StopTimes {
  readonly flowId: string;
  readonly revision: number;
  readonly status: RunStatus;
  readonly triggerType: RunTriggerType;
  readonly startedAt: number;
  readonly timeoutAt: number | null;
  /** That of its flow; null where this process knows all deploys. */
  readonly newestRevision?: number | null;
}

/** A run that ends now, with what its end is counted by. */
export interface EndingRun extends Pick<FoundRun, 'flowId' | 'startedAt'> {
  readonly runId: string;
}

/** A step whose lease is held, with its run. */
interface HeldStep {
  /** Number of the attempt that is written; 0 where the step was leased as it became due, and none is. */
  readonly attempt: number;
  readonly run: FoundRun;
}

/** What a waiting step stores while it waits, as JSON text. */
export interface Wait {
  readonly state: Json;
  /** The signal that it waits for, null if it waits for a time only. */
  readonly name: string | null;
  /** Signals that this attempt has gone on with, by id. */
  readonly used: readonly number[];
}

export interface SignalRow extends ReceivedSignal {
  readonly id: number;
}

/** Questions to the rows. Those that change rows say so: a decision has to know what they found. */
export interface RunReads {
  /** What features read their own rows from. */
  port(): Port;
  /** The step, if the token still leases it. */
  findHeld(step: StepAddress & { readonly token: string }): HeldStep | undefined;
  findRun(runId: string): FoundRun | undefined;
  /** A revision; rejects where the database has no such revision. A `RevisionCache` answers most calls. */
  revisionOf(flowId: string, revision: number): RunnableRevision;
  /** The graph of a revision, as `revisionOf`. */
  graphOf(flowId: string, revision: number): WiredGraph;
  /** Statuses of the steps of one scope that have been reached, by their keys in the graph of the scope. */
  statesIn(runId: string, scope: string, graph: WiredGraph): ReadonlyMap<string, StepStatus>;
  /** As `statesIn`, of some steps. */
  statesOf(runId: string, scope: string, keys: readonly string[]): ReadonlyMap<string, StepStatus>;
  /** Whether a step of the scope, or of one in it, has been reached and has not ended. */
  hasOpenStep(runId: string, scope: string): boolean;
  findStep(
    runId: string,
    stepKey: string,
  ): { readonly status: StepStatus; readonly error: StepError | null } | undefined;
  /** The `Wait` of a step as JSON text; null where it has none. */
  findWait(runId: string, stepKey: string): string | null;

  /** The item of an iteration; null where there is none. */
  findItem(runId: string, loopKey: string, index: number): Json;

  /** Whether a step of the run is under a lease. */
  hasLease(runId: string): boolean;
  /** Running runs whose time is up and that were not told to stop by it, the longest overdue first. */
  listOverdueRuns(now: number, limit: number): readonly Omit<StoppedRun, 'completedAt'>[];

  /** The first signal of that name that the step took and that is not among `used`. */
  findSignal(step: StepAddress, name: string, used: readonly number[]): SignalRow | undefined;
  /** Gives the step the first signal of that name that no step took; false where there is none. Writes. */
  takeSignal(step: StepAddress, name: string): boolean;
  /** As `Answering.await`. Writes. */
  awaitKey(step: AwaitingStep): boolean;
  /** Whether a signal of that name was ever sent to the run. */
  hasSignal(runId: string, name: string): boolean;
  /** Key of the step that has waited the longest for a signal of that name. */
  findWaiting(runId: string, name: string): string | undefined;

  findAttemptStart(runId: string, stepKey: string, attempt: number): number | undefined;

  /** What a run is and came from. */
  findOrigin(runId: string): RunOrigin | undefined;
  /** A flow whose run is about to start; it stays as it is until the commit. */
  findFlow(flowId: string): FlowRecord | undefined;
  /** UUID v7. */
  newId(): string;

  /** The newest revisions of those of the flows that are deployed and not drained, as of one time. */
  findNewest(flowIds: readonly string[]): Pins;
  /** Sets the run to Running; one that had ended loses its deadline. */
  reopenRun(runId: string): void;
}

export interface RunOrigin
  extends Pick<
    Run,
    | 'flowId'
    | 'flowName'
    | 'flowVersion'
    | 'revision'
    | 'triggerKey'
    | 'triggerType'
    | 'deliveryId'
    | 'sourceRunId'
    | 'startedAt'
  > {
  readonly traceparent: string | null;
}

/** An attempt that ends, and what its step becomes. */
interface EndedAttempt extends StepAddress {
  /** Number of the written attempt; 0 where none is. */
  readonly written: number;
  /** Of the attempt that is not written. */
  readonly dueAt: number;
  readonly startedAt: number;
  readonly status: 'Succeeded' | 'Failed';
  readonly input: Json;
  readonly inputsRevision: number | null;
  readonly output: Json | undefined;
  readonly error: StepError | null;
  readonly at: number;
  /** When the step is due again; null where it ends with the attempt. */
  readonly retryAt: number | null;
  /** 1 if the attempt does not count as a try, else 0. */
  readonly uncounted: number;
  /** Whether an attempt that is not written gets a row, because that of its step cannot tell all of it. */
  readonly needsRow: boolean;
}

/** A step that begins to wait, or waits on, with its attempt open. */
interface WaitingStep extends StepAddress {
  readonly attempt: number;
  readonly input: Json;
  readonly inputsRevision: number | null;
  /** A `Wait` as JSON text. */
  readonly wait: string;
  readonly dueAt: number | null;
  readonly signalName: string | null;
  readonly limitAt: number | null;
}

/** A step that a plan starts. */
interface NextStep extends StepAddress {
  readonly flowId: string;
  readonly stepType: string;
  /** Pending and due at `dueAt`; or Running under a lease that ends then, without a written attempt. */
  readonly status: 'Pending' | 'Running';
  readonly dueAt: number;
  readonly holder: string | null;
  readonly startedAt: number | null;
}

interface SkippedStep extends StepAddress {
  readonly stepType: string | undefined;
  readonly reason: string;
  readonly at: number;
}

/**
 * Writes. None yields anything, so that a backend may send them without waiting, together with its next question or
 * with the commit. A write that fails makes the transaction fail.
 */
export interface RunWrites {
  keepTrace(step: StepAddress, evaluationTrace: Json): void;
  /** Writes the first attempt of a step that is leased without one; else changes nothing. */
  beginAttempt(begun: BegunAttempt): void;
  /**
   * Ends an attempt, and the step unless it is due again. An attempt that is not written gets no row where the step
   * ends with it: the step's own row says all of an only attempt. The step's interruptions no longer count as tries.
   */
  endAttempt(ended: EndedAttempt): void;
  /** Ends a step that its condition skipped, and deletes the attempt that was claimed for it. */
  skipStep(skip: Omit<SkippedStep, 'stepType'>, attempt: number): void;
  /** Lets a step wait without a lease. Its interruptions no longer count as tries. */
  keepWait(waiting: WaitingStep): void;
  insertNext(step: NextStep): void;
  insertSkipped(skip: SkippedStep): void;
  endRun(run: EndingRun, status: RunStatus, at: number): void;

  /** Keeps the first request to cancel. */
  markCancelled(runId: string, reason: string | null, at: number): void;
  markTimedOut(runId: string, at: number): void;
  /** Ends the steps and attempts that have not: steps without an attempt are skipped, the others fail. */
  closeSteps(runId: string, error: StepError, at: number): void;

  /**
   * Makes a failed step due again, or leaves it to `makeDue` where no time is given: its attempts are kept, its deaths
   * forgotten, and retries count from here.
   */
  retryStep(step: StepAddress, at: number | null): void;
  /** Deletes the row of a step that was skipped; leaves others. */
  forgetSkipped(runId: string, stepKey: string): void;

  insertRun(run: NewRun): void;
  setDeadline(runId: string, timeoutAt: number | null): void;
  /** Makes the steps due that were retried while their run waited for its turn. */
  makeDue(runId: string, at: number): void;
  insertSignal(signal: { runId: string; name: string; body: Json; at: number; stepKey: string | null }): void;
  /** Makes a step that waits for a signal due; its own time limit is gone. */
  wakeStep(step: StepAddress, at: number): void;

  /** Ends an attempt that was interrupted. */
  interruptAttempt(
    attempt: StepAddress & { readonly attempt: number; readonly error: StepError; readonly at: number },
  ): void;
  /** Leases a step to the holder of the claim; it waits for no signal and no time limit from here on. */
  leaseStep(claim: Claim, leasedUntil: number): void;
  insertAttempt(
    attempt: StepAddress & { readonly attempt: number; readonly dueAt: number; readonly startedAt: number },
  ): void;
}

/** An event as its column has it; no event is called as none is. */
export const writtenEvent = (event: string | null) => (event === null ? '' : `=${event}`);
export const readEvent = (written: string) => (written === '' ? null : written.slice(1));
