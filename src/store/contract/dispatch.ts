import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import type { StartedRun } from './runs.ts';

/** The queue: a due step is claimed under a lease, tried, and advanced. */
export interface DispatchStore extends ControlStore {
  /**
   * Leases steps that are due and marks them Running. Flows take turns: the next step belongs to the flow that runs the
   * fewest steps, and among equals to the one whose last turn is longest ago; within a flow, the oldest step is next. A
   * flow, or a step type in it, that already runs `concurrency` steps gets no turn; nor does a flow that runs any step,
   * when only the slots kept for idle flows are left. A step whose lease has expired is due again, so the next caller
   * resumes the step of a dead process. A step that ran in two processes when they died is claimed before all others
   * and alone; of several such steps the one begun last goes first, so that a step that never ends cannot shield
   * another.
   */
  claimDue(request: ClaimRequest): Promise<ClaimBatch>;
  /**
   * Tells runs to stop whose time is up, and runs that a step of a stopped run waited for. Leases the waiting steps
   * whose own time is up so that they can be ended, however many steps run.
   */
  claimOverdue(request: ClaimRequest): Promise<OverdueBatch>;
  /** Extends leases that are still held; yields the tokens of the lost ones. */
  renewLeases(renewal: { tokens: readonly string[]; leasedUntil: number }): Promise<string[]>;
  /**
   * Makes the steps of leases that are still held due at `at`, for a process that stops in an orderly way: this counts
   * neither as an interruption nor as a try. A step that did not begin keeps its place in the queue: it is due since
   * `dueAt`, where that is given, one time for each token.
   */
  returnLeases(returned: { tokens: readonly string[]; at: number; dueAt?: readonly number[] }): Promise<void>;
  /**
   * Ends an attempt, plans the next steps with the pure planner, and makes them due, in one transaction. An outcome
   * under a lost lease changes nothing and yields undefined: the step now belongs to another holder. With `lease`, the
   * first steps that it makes due, up to the limit of the lease, are leased to the caller instead.
   */
  advance(outcome: StepOutcome, lease?: BirthLease): Promise<Advance | undefined>;
  /**
   * Writes the attempts of steps that were leased as they became due and still run. From then on the death of this
   * process counts as an interruption of them. A step whose lease is lost, or whose attempt is written, stays as it is.
   */
  beginAttempts(begun: { attempts: readonly BegunAttempt[] }): Promise<void>;
  /** Stores the input of a running step, as JSON text. A step whose lease is lost stays as it is. */
  noteInput(noted: { token: string; input: string; inputsRevision: number | null }): Promise<void>;
  /**
   * Steps that have been due since `dueBefore` or longer and have no slot, flow by flow. Counts up to a thousand of one
   * type of a flow and ten thousand in all, and reports where there are more.
   */
  listSlotWaits(query: { now: number; dueBefore: number }): Promise<SlotWaits>;
  /** Counts the waiting steps that are due, up to `most`. */
  measureBacklog(query: { now: number; most: number }): Promise<BacklogMeasure>;
  /**
   * Makes the steps that an owner leased due now, and counts the death of the process that ran them. A step that was
   * given back is due now too, whatever the clock showed then. A step without a written attempt counts neither as
   * interrupted nor as tried, and its next claim writes one. Yields how many were leased. Only for a caller that knows
   * that no process of this owner runs steps.
   */
  recover(request: { owner: string; now: number }): Promise<number>;
  /**
   * From now on, until the store closes, tells this process about work that another process made due or that fell due:
   * each notice goes to one process with a free slot. Notices may come late, twice or never, and name no step. There
   * are none where only one process at a time has the store. Call it once.
   */
  onDue(wakeable: Wakeable): void;
}

/** Receives the notices of due work. */
export interface Wakeable {
  /** Resolves when it could take a step, which may be never. */
  hasSlot(): Promise<void>;
  /** Claims due steps. Resolves to whether these were all; if not, the store wakes another process. */
  wake(): Promise<boolean>;
  /** Called each minute in one of all processes, as far as the store can reach any. */
  everyMinute(): void;
}

export interface ClaimRequest {
  /** The process that leases them, under a name that no other process on the store has: see `recover`. */
  readonly owner: string;
  readonly now: number;
  readonly leasedUntil: number;
  readonly limit: number;
  /** How many of `limit`, taken last, are only for flows that run no step in any process; none by default. */
  readonly keptForIdle?: number | undefined;
  /**
   * Whether first attempts may be written with their outcomes, or by `beginAttempts`, like those of steps that are
   * leased as they become due. `isUnwritten` marks them. A backend whose claims are cheap writes all attempts at once.
   */
  readonly mayWriteLater?: boolean | undefined;
}

export interface StepAddress {
  readonly runId: string;
  /** Runtime key. */
  readonly stepKey: string;
}

/**
 * Leases steps in the transaction that makes them due, so that no claim is needed. Such a step is Running without an
 * attempt: the row of its attempt is written with its outcome, or by `beginAttempts`. Only for a caller with a free
 * slot for each of them, while no other due step waits and neither the flow nor the step type limits its concurrency.
 */
export interface BirthLease {
  /** Made by `holderOf`, for one call only; `tokenOf` makes the token of each step from it. */
  readonly holder: string;
  readonly leasedUntil: number;
  /** How many steps are leased at most; the others become due. */
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
  /** When the next step falls due that this batch did not take and that may run; null if there is none. */
  readonly nextDueAt: number | null;
  /** Whether due steps were left because their flows run others and only slots kept for idle flows remain. */
  readonly isKept: boolean;
}

interface OverdueBatch {
  /** Runs whose time is up: stop their running steps. A run without running steps has ended already. */
  readonly timedOut: readonly StoppedRun[];
  /** Runs that steps of stopped runs waited for: they are cancelled, as `timedOut` are timed out. */
  readonly orphaned: readonly StoppedRun[];
  readonly claims: readonly Claim[];
  /** When the next time limit is up; null if there is none. */
  readonly nextAt: number | null;
}

/** A worker's lease on one attempt of a step. */
export interface Claim {
  /** Names this lease; an outcome is accepted only from its holder. */
  readonly token: string;
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  /** The newest revision of the flow, where other processes may have deployed it. */
  readonly newestRevision?: number | null | undefined;
  readonly stepKey: string;
  readonly stepType: string;
  /** From 1. */
  readonly attempt: number;
  /** Attempts that were interrupted since the step last had an outcome. */
  readonly interruptions: number;
  /** Interruptions that only this step can have caused, because no other step ran. */
  readonly loneDeaths: number;
  /** How long no other step may be started, because this one ran in two or more processes when they died. */
  readonly aloneMs: number | null;
  readonly triggerKey: string;
  readonly traceparent: string | null;
  /** When the step fell due, to measure the queue. */
  readonly dueAt: number;
  readonly startedAt: number;
  /** Attempts before the last retry by hand: the retry policy counts from there. */
  readonly attemptBase: number;
  /** When the attempt began: earlier than `startedAt` if the step has waited. */
  readonly attemptStartedAt: number;
  /** Set if the attempt began earlier and has waited: its stored state, and the signal that arrived. */
  readonly resumed: { readonly state: Json; readonly signal: ReceivedSignal | null } | null;
  /** The item of a loop that this child runs for. */
  readonly loop: { readonly item: Json; readonly index: number } | null;
  /** Why the run has to end: end the step instead of trying it. */
  readonly stop: RunStop | null;
  /**
   * The row of the attempt is written with its outcome, or by `beginAttempts`, like that of a step that was leased when
   * it became due. Only for a step that no process can have begun before.
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
  /** From the claim, for the attempt's row if it is not written yet. Defaults to `at`. */
  readonly dueAt?: number | undefined;
  readonly startedAt?: number | undefined;
  /** Resolved inputs with secrets masked. */
  readonly input: Json;
  /** The revision that the inputs came from; absent if there are none. */
  readonly inputsRevision?: number | undefined;
  /** Results of the conditions on the step's edges; absent to keep the earlier ones. */
  readonly evaluationTrace?: Json | undefined;
  readonly result: StepResult;
  /**
   * No step follows, so nothing waits for this outcome: a backend may store it some milliseconds later, to share a
   * commit with other calls. If the process dies before, the step runs again, as after any outcome that was not stored.
   */
  readonly mayShareCommit?: boolean | undefined;
}

/** A step that begins to wait for deliveries with a key. */
export interface AwaitingStep extends StepAddress {
  readonly flowId: string;
  /** When its run started. */
  readonly startedAt: number;
  readonly key: string;
  /** The name of its signal. */
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
  /** The attempt goes on later: at `dueAt`, or when the signal arrives; with neither, never. */
  | {
      readonly kind: 'waiting';
      readonly state: Json;
      readonly dueAt: number | null;
      readonly signalName: string | null;
      /** Deliveries with this key to a trigger that signals the step count as such a signal. */
      readonly signalKey?: string | undefined;
      /** When the step's own time limit is up. */
      readonly limitAt?: number | undefined;
    }
  /** The step is a loop: its children run for each item, and their outputs become its own. */
  | { readonly kind: 'loop'; readonly items: readonly Json[]; readonly concurrency: number }
  /** The attempt failed and another is due. An uncounted one is not a try under the step's retry policy. */
  | {
      readonly kind: 'retry';
      readonly error: StepError;
      readonly output?: Json;
      readonly dueAt: number;
      readonly isUncounted?: boolean;
    }
  /**
   * The step starts a run of another flow, at the revision that its own run has pinned, and waits for its end or
   * succeeds at once. Both are one transaction. A step whose flow cannot be started fails.
   */
  | {
      readonly kind: 'runFlow';
      readonly flowId: string;
      /** The trigger body of the new run. */
      readonly body: Json;
      readonly isAwaited: boolean;
      /** When the step's own time limit is up: the awaited run takes no longer, nor longer than the step's run. */
      readonly limitAt?: number | undefined;
      /** When to try again if the flow starts no runs now; null if the step fails because of that. */
      readonly retryAt: number | null;
    };

/** The effects of an outcome. */
export interface Advance {
  readonly runStatus: RunStatus;
  /** Set when this outcome ended the run. */
  readonly endedRun: { readonly flowId: string; readonly startedAt: number; readonly completedAt: number } | null;
  /** Keys of steps made due, including a step that is to be tried again. */
  readonly dispatched: readonly string[];
  /** Those of them that the caller leases; absent if there are none. */
  readonly leased?: readonly LeasedStep[] | undefined;
  /** As in their claims. */
  readonly newestRevision?: Claim['newestRevision'];
  readonly skipped: readonly { readonly stepKey: string; readonly reason: string }[];
  /** Loops that ended with their last iteration. */
  readonly loops: readonly EndedLoop[];
  /** Set when this outcome made a run fail or time out whose manifest names a flow for that. */
  readonly failure?: FailureStart | undefined;
  /** The effect of a step that runs a flow: the result that the outcome counted as, and the run if one was started. */
  readonly subRun?:
    | { readonly result: Exclude<StepResult, { kind: 'runFlow' }>; readonly run: StartedRun | null }
    | undefined;
  /** The step that waited for this run, made due by the end of the run. */
  readonly woken?: StepAddress | undefined;
  /** The next run of the key, which the end of this run let start. */
  readonly next?: NextRun | undefined;
}

/** A run that has waited for its turn and runs now: its first steps are due. */
export interface NextRun extends Pick<StartedRun, 'flowId' | 'timeoutAt'> {
  readonly runId: string;
}

/**
 * The effect of a run's failure, in the transaction that ended the run: it starts a run of the flow that its own
 * revision names, or nothing if that flow starts no runs now. A run starts one such run at most, however often it
 * fails, and a run that was started like this starts none.
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
  /** When the oldest due step fell due, without steps that a limit in a manifest holds back; null if there is none. */
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
  /** The limit in the manifest that holds them back; null if only the slots of the process do. */
  readonly limit: SlotLimit | null;
  readonly count: number;
  /** There are more than `count`. */
  readonly isMore: boolean;
  readonly oldestDueAt: number;
}

interface SlotLimit {
  readonly concurrency: number;
  /** Null if it limits all steps of the flow. */
  readonly stepType: string | null;
}

/** Actions of operators and other systems on a run. */
interface ControlStore {
  /**
   * Ends the run at once if none of its steps runs, otherwise as soon as the running ones have ended. No further step
   * starts. The next `claimOverdue` cancels the runs that its steps wait for.
   */
  cancelRun(cancel: { runId: string; reason: string | null; at: number }): Promise<CancelResult>;
  /**
   * Makes a failed step due again; the loops around it and the run go on. Its attempts are kept. Skipped steps after it
   * are forgotten, so that they are planned again. For a loop that ran, the steps that made its iterations fail become
   * due again. A run that had ended no longer has a deadline.
   */
  retryStep(retry: { runId: string; stepKey: string; at: number }): Promise<RetryResult>;
  /** Hands a signal to the step that waits for it, or keeps it for the first step that will wait for it. */
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
  /** Null while a step still runs: the run ends with that step. */
  readonly completedAt: number | null;
  /** Set when it ended as TimedOut and its manifest names a flow for that. */
  readonly failure?: FailureStart | undefined;
  /** The step that waited for this run, due now that the run has ended. */
  readonly woken?: StepAddress | undefined;
  /** The next run of its key, if this one has ended and another waited for it. */
  readonly next?: NextRun | undefined;
}

type RetryResult =
  | { readonly kind: 'unknownRun' }
  | { readonly kind: 'unknownStep' }
  /** Only a failed step of a run that was not stopped can be tried again. */
  | { readonly kind: 'notFailed'; readonly stepStatus: StepStatus }
  /** The run was told to stop, and has ended or soon will. */
  | { readonly kind: 'stopped'; readonly runStatus: RunStatus }
  /** No other attempt could change the failure: every iteration of the loop succeeded. */
  | { readonly kind: 'nothingToRetry'; readonly error: StepError | null }
  /** The run would have to wait for that run, which waits for this one. */
  | { readonly kind: 'orderDeadlock'; readonly runId: string }
  | { readonly kind: 'accepted'; readonly steps: readonly string[] };

type SignalResult =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly status: RunStatus }
  /** A signal of that name was sent before and is still kept, or was taken and no step waits for another. */
  | { readonly kind: 'duplicate' }
  /** `stepKey` is null if no step waits for it yet. */
  | { readonly kind: 'accepted'; readonly stepKey: string | null };
