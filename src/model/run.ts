import type { Json } from './json.ts';
import type { RunStatus, RunTriggerType, StepStatus } from './manifest.ts';
import type { SearchKeys } from './search-keys.ts';

/** Size limits of a run's values as JSON. */
export const MAX_BYTES = {
  /** The output of a step, and an item of a loop. */
  output: 1024 * 1024,
  /** All items of a loop, and the outputs of its children together. */
  loop: 8 * 1024 * 1024,
  /** The inputs of a step, and the outputs that its expressions read: more than a whole loop's output. */
  inputs: 16 * 1024 * 1024,
  /** Bodies and headers of all deliveries that join a run before it starts. */
  coalesced: 1024 * 1024,
} as const;

/**
 * What a step of a run in flight can wait for: a signal, the end of a delay, its next attempt, its next poll, its turn
 * at the host that it calls, a secret that cannot be read, the end of a sub-run, or a free slot. A whole run can wait
 * for more deliveries that join it, or for its turn among the runs of its key.
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

/** Names of signals; they must fit in the path of the API call that sends one. */
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
  /** The run that this one repeats; or the failed run, or that of the `RunFlow` step, that started it. */
  readonly sourceRunId: string | null;
  readonly startedAt: number;
  readonly completedAt: number | null;
  /** The search keys of its delivery at that time; absent if there are none. */
  readonly searchKeys?: SearchKeys | undefined;
}

/** The input that started a run. */
export interface RunTrigger {
  readonly key: string;
  /** Exact bytes of the body; empty if there was none. */
  readonly body: Uint8Array;
  readonly contentType: string | null;
  /** Lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Header of runs that a cron trigger started: the time of its tick, ISO 8601. */
export const SCHEDULED_FOR = 'sluice-scheduled-for';

/** One of the deliveries that started a run. */
export interface RunDelivery extends Omit<RunTrigger, 'key'> {
  /** Null if no webhook started the run. */
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
  /** W3C trace context of the run's cause, so that its steps join the same trace. */
  readonly traceparent: string | null;
  readonly steps: readonly EntryStep[];
  /**
   * Flows that its steps run. The transaction that stores the run pins them, and the flows that those run, to their
   * newest revisions. Flows that are not deployed are not pinned.
   */
  readonly subFlows?: readonly string[] | undefined;
  /** Given instead if they are already pinned. */
  readonly pins?: Pins | undefined;
  /** The run that this one repeats, and whose deliveries it shares. */
  readonly deliveriesOf?: string | undefined;
  /** Absent if its flow lets runs overlap. */
  readonly order?: RunOrder | undefined;
}

/** A run while it waits for its turn, without steps and deadline. */
export function waitingRun<Given extends Pick<NewRun, 'steps' | 'timeoutAt'>>(run: Given): Given {
  return { ...run, steps: [], timeoutAt: null };
}

/** Result of the ordering expression for a run, for flows that run one at a time. */
export interface OrderKey {
  /** Runs without a key share one. */
  readonly key: string | null;
  /** Why it has no key; null if it has one. */
  readonly problem: string | null;
}

/** State of an ordered run: it may run, it waits for its turn, or it failed and stopped its order. */
export type OrderState = 'running' | 'waiting' | 'stopped';

/** Where a run waits for its turn: runs of one key and lane never overlap. */
export interface RunOrder extends OrderKey {
  /** Whether its cause is trusted: other runs have a separate lane. Null to use the source run's value. */
  readonly isTrusted: boolean | null;
}

/** Revisions of other flows for a run and the runs that its steps start, by flow id. */
export type Pins = Readonly<Record<string, number>>;

/** A run that was started, without the bytes that started it. */
export type StartedRun = Omit<NewRun, 'trigger'>;

interface EntryStep {
  readonly stepKey: string;
  readonly stepType: string;
  readonly dueAt: number;
}

/** Codes that Sluice itself gives to step errors. A handler can use its own. */
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

/** Why a step ended, failed for now, or never ran, in words that a person can act on. */
export interface StepError {
  /** snake_case: a `StepErrorCode`, or the handler's own code. */
  readonly code: string;
  readonly message: string;
  /** Whether another attempt could end differently. */
  readonly retryable: boolean;
  /** Origin of the host that the step called; absent if it called none. */
  readonly host?: string | undefined;
}

/** Errors of steps whose run was stopped. */
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
  /** When to start the step or look at it again; null if it is not due. */
  readonly dueAt: number | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
}

/** One try of a step. */
export interface Attempt {
  readonly attempt: number;
  /** Time between due and start. */
  readonly slotWaitMs: number;
  readonly status: StepStatus;
  readonly input: Json;
  /** The revision of the inputs; null if they were not read, as in a loop. */
  readonly inputsRevision: number | null;
  readonly output: Json;
  readonly error: StepError | null;
  readonly startedAt: number;
  readonly completedAt: number | null;
}
