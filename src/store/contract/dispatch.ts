import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import type { StartedRun } from './runs.ts';

/** The queue: a due step is claimed under a lease, tried, and advanced. */
export interface DispatchStore extends ControlStore {
  /**
   * Leases steps that are due and marks them Running. Flows take turns: the next step belongs to the flow that runs the
   * fewest steps, and among equals to the one whose last turn is longest ago; within a flow, the oldest step is next. A
   * flow, or a step type in it, that already runs `concurrency` steps gets no turn, nor does a flow that runs any while
   * only what is kept for idle flows is left. A step whose lease has expired is
   * due again, so the next caller resumes the step of a dead process. A step that ran in two processes when they died
   * is claimed before all others and alone; of several such steps the one begun last goes first, so that a step that
   * never ends cannot shield another.
   */
  claimDue(request: ClaimRequest): Promise<ClaimBatch>;
  /**
   * Tells the runs whose time is up to stop, and those that a step of a stopped run waited for; and leases the waiting
   * steps whose own time is up so that they can be ended, however many steps run.
   */
  claimOverdue(request: ClaimRequest): Promise<OverdueBatch>;
  /** Extends leases that are still held; yields the tokens of those that are not. */
  renewLeases(renewal: { tokens: readonly string[]; leasedUntil: number }): Promise<string[]>;
  /**
   * Makes the steps of leases that are still held due at `at`, for a process that stops in an orderly way: this counts
   * neither as an interruption nor as a try. A step that did not begin keeps its place among those that wait: it is due
   * since `dueAt`, where that is given, one time for each token.
   */
  returnLeases(returned: { tokens: readonly string[]; at: number; dueAt?: readonly number[] }): Promise<void>;
  /**
   * Ends an attempt, plans what follows with the pure planner, and makes it due, in one transaction. An outcome under a
   * lost lease changes nothing and yields undefined: the step now belongs to another holder. With `lease` the first
   * steps that it makes due, as many as its limit says, are leased to the caller instead.
   */
  advance(outcome: StepOutcome, lease?: BirthLease): Promise<Advance | undefined>;
  /**
   * Writes the attempts of steps that were leased as they became due and still run. From then on the death of this
   * process counts as an interruption of theirs. A step whose lease is lost, or whose attempt is written, stays as it is.
   */
  beginAttempts(begun: { attempts: readonly BegunAttempt[] }): Promise<void>;
  /** Keeps with a step that runs what it runs with, as JSON text. A step whose lease is lost stays as it is. */
  noteInput(noted: { token: string; input: string; inputsRevision: number | null }): Promise<void>;
  /**
   * Steps that have been due since `dueBefore` or longer and have no slot, flow by flow. Counts a thousand of one type
   * of a flow and ten thousand in all, and says where there are more.
   */
  listSlotWaits(query: { now: number; dueBefore: number }): Promise<SlotWaits>;
  /** Counts the steps that wait and are due; not beyond `most`. */
  measureBacklog(query: { now: number; most: number }): Promise<BacklogMeasure>;
  /**
   * Makes the steps that an owner leased due now and counts the death of the process that ran them; a step that was
   * given back is due now too, whatever the clock showed then. A step without a written attempt counts neither as
   * interrupted nor as tried, and its next claim writes one. Yields how many were leased. Only for a caller that knows
   * that no process of this owner runs steps.
   */
  recover(request: { owner: string; now: number }): Promise<number>;
  /**
   * From now on, and until the store closes, tells this process of work that another one made due or that fell due: each
   * notice goes to one process with a free slot. It may come late or twice or never, and names no step. Where one process at a
   * time has the store, there is none. To be called once.
   */
  onDue(wakeable: Wakeable): void;
}

/** Who takes up work that is due. */
export interface Wakeable {
  /** Resolves when it could take a step; it need not ever. */
  hasSlot(): Promise<void>;
  /** Claims due steps. Resolves with whether those were all; if not, the store wakes another process. */
  wake(): Promise<boolean>;
  /** A minute is over: of all processes one is told, as far as they can be told anything. */
  everyMinute(): void;
}

export interface ClaimRequest {
  /** The process that leases them, by a name that no other process on the store has: see `recover`. */
  readonly owner: string;
  readonly now: number;
  readonly leasedUntil: number;
  readonly limit: number;
  /** The last so many of them are only for flows that run no step, in any process; none where not given. */
  readonly keptForIdle?: number | undefined;
  /**
   * Whether first attempts may be written with their outcomes, or by `beginAttempts`, as those of steps that are leased as
   * they become due. `isUnwritten` says so of each. A backend whose claims are cheap writes them all.
   */
  readonly mayWriteLater?: boolean | undefined;
}

export interface StepAddress {
  readonly runId: string;
  /** Runtime key. */
  readonly stepKey: string;
}

/**
 * Leases steps in the transaction that makes them due, so that no claim is needed. Such a step is Running without an attempt:
 * the row of its attempt is written with its outcome, or by `beginAttempts`. Only for a caller with a free slot for each
 * of them, while no other due step waits and neither the flow nor the step type limits its concurrency.
 */
export interface BirthLease {
  /** Made by `holderOf`, for one call only; `tokenOf` makes the token of each step from it. */
  readonly holder: string;
  readonly leasedUntil: number;
  /** Steps that are leased at most; the others are due. */
  readonly limit: number;
}

export interface BegunAttempt {
  readonly token: string;
  /** When the step fell due, and when its handler was called. */
  readonly dueAt: number;
  readonly startedAt: number;
}

export interface ClaimBatch {
  readonly claims: Claim[];
  /** When the next step falls due that this batch did not take and that may run; null where there is none. */
  readonly nextDueAt: number | null;
  /** Whether due steps were left to their flows' other steps, since only what is kept for idle flows was left to take. */
  readonly isKept: boolean;
}

interface OverdueBatch {
  /** Runs whose time is up: their steps that run are to be stopped; ended already where none did. */
  readonly timedOut: readonly StoppedRun[];
  /** Runs that steps of stopped runs waited for: they are cancelled, as `timedOut` are timed out. */
  readonly orphaned: readonly StoppedRun[];
  readonly claims: readonly Claim[];
  /** When the next time limit is up; null where there is none. */
  readonly nextAt: number | null;
}

/** A worker's lease on one attempt of a step. */
export interface Claim {
  /** Names this lease; an outcome is only taken from its holder. */
  readonly token: string;
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  readonly stepKey: string;
  readonly stepType: string;
  /** From 1. */
  readonly attempt: number;
  /** Attempts that were interrupted since the step last had an outcome. */
  readonly interruptions: number;
  /** Those of them that nothing else can have caused, because this was the only step that ran. */
  readonly loneDeaths: number;
  /** How long nothing else may be started, because the step ran in two or more processes when they died. */
  readonly aloneMs: number | null;
  readonly triggerKey: string;
  readonly traceparent: string | null;
  /** When it fell due, to measure the queue. */
  readonly dueAt: number;
  readonly startedAt: number;
  /** Attempts before the last retry by hand: the retry policy counts from there. */
  readonly attemptBase: number;
  /** When the attempt began: before `startedAt` where the step has waited. */
  readonly attemptStartedAt: number;
  /** Set if the attempt began earlier and has waited: its stored state, and the signal that arrived. */
  readonly resumed: { readonly state: Json; readonly signal: ReceivedSignal | null } | null;
  /** The item of a loop that this child runs for. */
  readonly loop: { readonly item: Json; readonly index: number } | null;
  /** Why the run has to end: the step must be ended, not tried. */
  readonly stop: RunStop | null;
  /**
   * The row of the attempt is written with its outcome, or by `beginAttempts`, as that of a step that was leased when it
   * became due. Only of a step that no process can have begun before.
   */
  readonly isUnwritten?: true | undefined;
}

/** Why a run ends early. */
export type RunStop = 'cancelled' | 'timedOut';

export interface ReceivedSignal {
  readonly body: Json;
  readonly deliveredAt: number;
}

export interface StepOutcome {
  readonly token: string;
  readonly runId: string;
  readonly stepKey: string;
  readonly at: number;
  /** Of the claim; what the attempt's row takes where it is not written yet. `at` where not given. */
  readonly dueAt?: number | undefined;
  readonly startedAt?: number | undefined;
  /** Resolved inputs with secrets masked. */
  readonly input: Json;
  /** The revision that the inputs came from; absent where there are none. */
  readonly inputsRevision?: number | undefined;
  /** Results of the conditions on the step's edges; absent to keep the earlier ones. */
  readonly evaluationTrace?: Json | undefined;
  readonly result: StepResult;
  /**
   * Nothing follows it, so that nothing waits for it: a backend may store it some milliseconds later, to share a commit
   * with other calls. If the process dies before, the step runs again, as after any outcome that was not stored.
   */
  readonly mayShareCommit?: boolean | undefined;
}

/** A step that begins to wait for the deliveries of a key. */
export interface AwaitingStep extends StepAddress {
  readonly flowId: string;
  /** When its run did. */
  readonly startedAt: number;
  readonly key: string;
  /** Of its signal. */
  readonly name: string;
  readonly input: Json;
  readonly at: number;
  /** Another signal ends its wait at once. */
  readonly isAnswered: boolean;
}

export type StepResult =
  | { readonly kind: 'succeeded'; readonly output: Json }
  | { readonly kind: 'failed'; readonly error: StepError; readonly output?: Json }
  /** A condition was false before the handler was called: there was no attempt. */
  | { readonly kind: 'skipped'; readonly reason: string }
  /** The attempt goes on later: at `dueAt`, or as soon as the signal is there; with neither it never does. */
  | {
      readonly kind: 'waiting';
      readonly state: Json;
      readonly dueAt: number | null;
      readonly signalName: string | null;
      /** Deliveries of this key to a trigger that signals the step are such a signal. */
      readonly signalKey?: string | undefined;
      /** When the step's own time limit is up. */
      readonly limitAt?: number | undefined;
    }
  /** The step is a loop: its children run for each item, and their outputs become its own. */
  | { readonly kind: 'loop'; readonly items: readonly Json[]; readonly concurrency: number }
  /** The attempt failed and another is due. One that is uncounted is no try of the step's retry policy. */
  | {
      readonly kind: 'retry';
      readonly error: StepError;
      readonly output?: Json;
      readonly dueAt: number;
      readonly isUncounted?: boolean;
    }
  /**
   * The step starts a run of another flow, of the revision that its own run has pinned, and waits for its end or succeeds
   * at once. Both are one transaction. A step whose flow cannot be started fails.
   */
  | {
      readonly kind: 'runFlow';
      readonly flowId: string;
      /** What the run is started with. */
      readonly body: Json;
      readonly isAwaited: boolean;
      /** When the step's own time limit is up: the run that it waits for takes no longer, nor longer than the step's run. */
      readonly limitAt?: number | undefined;
      /** When to try again if the flow starts no runs now; null if the step fails because of that. */
      readonly retryAt: number | null;
    };

/** What an outcome led to. */
export interface Advance {
  readonly runStatus: RunStatus;
  /** Set when this outcome ended the run. */
  readonly endedRun: { readonly flowId: string; readonly startedAt: number; readonly completedAt: number } | null;
  /** Keys of steps made due, a step that is to be tried again included. */
  readonly dispatched: readonly string[];
  /** Those of them that the caller leases; absent where it leases none. */
  readonly leased?: readonly LeasedStep[] | undefined;
  readonly skipped: readonly { readonly stepKey: string; readonly reason: string }[];
  /** Loops that ended with their last iteration. */
  readonly loops: readonly EndedLoop[];
  /** Set when this outcome made a run fail or time out whose manifest names a flow for that. */
  readonly failure?: FailureStart | undefined;
  /** What a step that runs a flow led to: the result that the outcome was taken for, and the run where one was started. */
  readonly subRun?:
    | { readonly result: Exclude<StepResult, { kind: 'runFlow' }>; readonly run: StartedRun | null }
    | undefined;
  /** Set when the end of this run made a step due: the one that waited for it. */
  readonly woken?: StepAddress | undefined;
  /** Set when the end of this run let the next one of its key start. */
  readonly next?: NextRun | undefined;
}

/** A run that has waited for its turn and runs now: its first steps are due. */
export interface NextRun extends Pick<StartedRun, 'flowId' | 'timeoutAt'> {
  readonly runId: string;
}

/**
 * What the failure of a run started, in the transaction that ended it: a run of the flow that its own revision names, or
 * nothing because that flow starts no runs now. A run starts one such run at most, however often it fails, and one that
 * was started like this starts none.
 */
export type FailureStart =
  | { readonly kind: 'started'; readonly run: StartedRun }
  | { readonly kind: 'closed'; readonly flowId: string; readonly why: 'unknown' | 'deleted' | 'disabled' | 'draining' };

export interface LeasedStep extends Pick<Claim, 'stepKey' | 'stepType' | 'loop'> {}

export interface EndedLoop {
  readonly stepKey: string;
  readonly status: 'Succeeded' | 'Failed';
  readonly error: StepError | null;
}

interface BacklogMeasure {
  readonly dueSteps: number;
  /** When the oldest of those fell due that no limit in a manifest holds back; null where there is none. */
  readonly oldestDueAt: number | null;
}

export interface SlotWaits {
  /** Steps that hold a slot. */
  readonly running: number;
  /** The step that runs alone because it ran when processes died. */
  readonly alone: { readonly runId: string; readonly stepKey: string } | null;
  readonly waits: readonly SlotWait[];
}

/** Steps of one flow that wait for the same reason. */
export interface SlotWait {
  readonly flowId: string;
  /** The limit in the manifest that holds them back; null where only the slots of the process do. */
  readonly limit: SlotLimit | null;
  readonly count: number;
  /** There are more than were counted. */
  readonly isMore: boolean;
  readonly oldestDueAt: number;
}

interface SlotLimit {
  readonly concurrency: number;
  /** Null where it limits all steps of the flow. */
  readonly stepType: string | null;
}

/** What operators and other systems do to a run. */
interface ControlStore {
  /**
   * Ends the run at once if none of its steps runs, otherwise as soon as those have ended. No further step starts. The
   * next `claimOverdue` cancels the runs that its steps wait for.
   */
  cancelRun(cancel: { runId: string; reason: string | null; at: number }): Promise<CancelResult>;
  /**
   * Makes a failed step due again; the loops around it and the run go on. Its attempts are kept. Skipped steps after it
   * are forgotten, so that they are planned again. Of a loop that ran, the steps that made its iterations fail are due
   * again. A run that had ended has no deadline any more.
   */
  retryStep(retry: { runId: string; stepKey: string; at: number }): Promise<RetryResult>;
  /** Hands a signal to the step that waits for it, or keeps it for the first step that will. */
  deliverSignal(signal: { runId: string; name: string; body: Json; at: number }): Promise<SignalResult>;
}

type CancelResult =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly status: RunStatus }
  | { readonly kind: 'accepted'; readonly run: StoppedRun };

/** A run that was told to stop. */
export interface StoppedRun {
  readonly runId: string;
  readonly flowId: string;
  readonly startedAt: number;
  /** Null while a step still runs: the run ends with it. */
  readonly completedAt: number | null;
  /** Set when it ended as TimedOut and its manifest names a flow for that. */
  readonly failure?: FailureStart | undefined;
  /** The step that waited for it, where it has ended; due now. */
  readonly woken?: StepAddress | undefined;
  /** The next run of its key, where it has ended and another waited for it. */
  readonly next?: NextRun | undefined;
}

type RetryResult =
  | { readonly kind: 'unknownRun' }
  | { readonly kind: 'unknownStep' }
  /** Only a failed step of a run that was not stopped can be tried again. */
  | { readonly kind: 'notFailed'; readonly stepStatus: StepStatus }
  /** The run was told to stop, and has ended or is about to. */
  | { readonly kind: 'stopped'; readonly runStatus: RunStatus }
  /** No other attempt could change the failure: every iteration of the loop succeeded. */
  | { readonly kind: 'nothingToRetry'; readonly error: StepError | null }
  /** The run would have to wait for that run, which waits for it. */
  | { readonly kind: 'orderDeadlock'; readonly runId: string }
  | { readonly kind: 'accepted'; readonly steps: readonly string[] };

type SignalResult =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly status: RunStatus }
  /** A signal of that name was sent before and is still kept, or was taken and no step waits for another. */
  | { readonly kind: 'duplicate' }
  /** `stepKey` is null where no step waits for it yet. */
  | { readonly kind: 'accepted'; readonly stepKey: string | null };
