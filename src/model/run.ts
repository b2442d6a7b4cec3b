import type { Json } from './json.ts';
import type { RunStatus, RunTriggerType, StepStatus } from './manifest.ts';
import type { SearchKeys } from './search-keys.ts';

/** How large values of a run may be as JSON. */
export const MAX_BYTES = {
  /** What a step may leave, and an item of a loop may be. */
  output: 1024 * 1024,
  /** What a loop takes as its items, and what its children may leave together. */
  loop: 8 * 1024 * 1024,
  /** What a step takes as its inputs, and what its expressions may read of other steps: a whole loop's output and more. */
  inputs: 16 * 1024 * 1024,
  /** What deliveries bring together, bodies and headers, before the run that they share starts. */
  coalesced: 1024 * 1024,
} as const;

/**
 * What a step of a run in flight may wait for: a signal, the end of a delay, its next attempt, its next poll, its turn
 * at the host that it calls, a secret that cannot be read, the end of a sub-run, or a free slot. A whole run may wait for
 * more deliveries that join it, or for its turn among the runs of its key.
 */
export const WAIT_KINDS = [
  'signal',
  'delay',
  'retry',
  'poll',
  'host',
  'secret',
  'run',
  'coalesce',
  'order',
  'slot',
] as const;
export type WaitKind = (typeof WAIT_KINDS)[number];

/** Names of signals, which fit in the path of the call that sends one. */
export const SIGNAL_NAME = /^[A-Za-z0-9_.:-]{1,128}$/;

/** One execution of a flow. Times are milliseconds since the Unix epoch. */
export interface Run {
  readonly id: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly flowVersion: string;
  /** The revision whose graph this run follows to its end. */
  readonly revision: number;
  readonly status: RunStatus;
  readonly triggerKey: string;
  readonly triggerType: RunTriggerType;
  readonly deliveryId: string | null;
  /**
   * The run that this one repeats; of a run that a failure started, the run that failed; of one that a `RunFlow` step
   * started, the run of that step.
   */
  readonly sourceRunId: string | null;
  readonly startedAt: number;
  readonly completedAt: number | null;
  /** Those of what started it, as they were then; absent where it has none. */
  readonly searchKeys?: SearchKeys | undefined;
}

/** What a run was started with. */
export interface RunTrigger {
  readonly key: string;
  /** Exact bytes of the body, empty where there was none. */
  readonly body: Uint8Array;
  readonly contentType: string | null;
  /** Lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Among the headers of what a cron trigger started: the time of its tick, ISO 8601. */
export const SCHEDULED_FOR = 'sluice-scheduled-for';

/** One of the deliveries that a run was started with. */
export interface RunDelivery extends Omit<RunTrigger, 'key'> {
  /** Null where no webhook started the run. */
  readonly id: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
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
  readonly steps: readonly EntryStep[];
  /**
   * Flows that its steps run. The transaction that stores the run pins them, and the flows that those run, to their
   * newest revisions. Flows that are not deployed are not pinned.
   */
  readonly subFlows?: readonly string[] | undefined;
  /** Given instead by what has pinned them already. */
  readonly pins?: Pins | undefined;
  /** It repeats this run, whose deliveries it has too. */
  readonly deliveriesOf?: string | undefined;
  /** Absent where its flow lets runs overlap. */
  readonly order?: RunOrder | undefined;
}

/** A run while it waits for its turn: it has neither steps nor a deadline. */
export function waitingRun<Given extends Pick<NewRun, 'steps' | 'timeoutAt'>>(run: Given): Given {
  return { ...run, steps: [], timeoutAt: null };
}

/** What the expression of a flow that runs one at a time says of a run. */
export interface OrderKey {
  /** Runs without a key share one. */
  readonly key: string | null;
  /** Why it has none; null where it has one. */
  readonly problem: string | null;
}

/** Of a run of an order: it may run, it waits for its turn, or it has failed and no other may run because of that. */
export type OrderState = 'running' | 'waiting' | 'stopped';

/** Where a run waits for its turn: runs of one key and lane never overlap. */
export interface RunOrder extends OrderKey {
  /** Whether what started it was verified: what was not has a lane of its own. Null where that is as for the run's source. */
  readonly isTrusted: boolean | null;
}

/** Revisions of other flows that a run and the runs that its steps start follow, by flow id. */
export type Pins = Readonly<Record<string, number>>;

/** A run that was started, without the bytes that started it. */
export type StartedRun = Omit<NewRun, 'trigger'>;

interface EntryStep {
  readonly stepKey: string;
  readonly stepType: string;
  readonly dueAt: number;
}

/** Each code that Sluice itself gives to a step's error. A handler may give codes of its own. */
export const STEP_ERROR_CODES = [
  'cancelled',
  'circuit_open',
  'egress_refused',
  'expression_failed',
  'failed_on_purpose',
  'flow_closed',
  'flow_not_pinned',
  'flows_too_deep',
  'handler_error',
  'input_too_large',
  'internal_error',
  'interrupted',
  'interrupted_too_often',
  'invalid_input',
  'iteration_failed',
  'network_error',
  'order_deadlock',
  'output_not_json',
  'output_too_large',
  'poll_timeout',
  'redirect_refused',
  'response_too_large',
  'run_timed_out',
  'secret_not_kept',
  'secret_unavailable',
  'signal_timeout',
  'sub_run_cancelled',
  'sub_run_failed',
  'sub_run_timed_out',
  'timeout',
  'unexpected_status',
  'unknown_handler',
  'when_failed',
] as const;
export type StepErrorCode = (typeof STEP_ERROR_CODES)[number];

/** A step that ended, failed for now, or never ran: the reason in words that a person can act on. */
export interface StepError {
  /** snake_case: a `StepErrorCode`, or a code of the handler's own. */
  readonly code: string;
  readonly message: string;
  /** Whether another attempt could end differently. */
  readonly retryable: boolean;
  /** Origin of the host that the step called; absent where it called none. */
  readonly host?: string | undefined;
}

/** How a step ends whose run was told to stop. */
export const STOP_ERRORS = {
  timedOut: { code: 'run_timed_out', message: 'The time limit of the run was reached.', retryable: false },
  cancelled: { code: 'cancelled', message: 'The run was cancelled.', retryable: false },
} as const satisfies Record<string, StepError & { readonly code: StepErrorCode }>;

/** One node of a run. */
export interface Step {
  readonly runId: string;
  readonly stepKey: string;
  readonly stepType: string;
  readonly status: StepStatus;
  /** Resolved inputs of the last attempt, secrets masked. */
  readonly input: Json;
  readonly output: Json;
  readonly error: StepError | null;
  readonly skipReason: string | null;
  readonly evaluationTrace: Json;
  readonly attemptCount: number;
  /** When the step is to be started or looked at again; null when nothing is due. */
  readonly dueAt: number | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
}

/** One try of a step. */
export interface Attempt {
  readonly attempt: number;
  /** How long it was due before it began. */
  readonly slotWaitMs: number;
  readonly status: StepStatus;
  readonly input: Json;
  /** The revision that the inputs came from; null where they were not read, as by a loop. */
  readonly inputsRevision: number | null;
  readonly output: Json;
  readonly error: StepError | null;
  readonly startedAt: number;
  readonly completedAt: number | null;
}
