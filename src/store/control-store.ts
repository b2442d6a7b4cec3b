import type { Json } from '../model/json.ts';
import type { RunStatus, StepStatus } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';

/** What is done to a run from outside. */
export interface ControlStore {
  /** Ends the run at once where nothing of it runs, else as soon as what runs has ended; nothing more is started. */
  cancelRun(cancel: { runId: string; reason: string | null; at: number }): Promise<CancelResult>;
  /**
   * Makes a failed step due once more, and the loops around it and the run go on. Its attempts are kept; steps after it
   * that were skipped are forgotten, so that they are planned anew. Of a loop that ran, what made its iterations fail is
   * due again. A run that had ended has no deadline any more.
   */
  retryStep(retry: { runId: string; stepKey: string; at: number }): Promise<RetryResult>;
  /** Hands a signal to the step that waits for it, or keeps it for the first that will. */
  deliverSignal(signal: { runId: string; name: string; body: Json; at: number }): Promise<SignalResult>;
}

export type CancelResult =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly status: RunStatus }
  | { readonly kind: 'accepted'; readonly run: StoppedRun };

export type RetryResult =
  | { readonly kind: 'unknownRun' }
  | { readonly kind: 'unknownStep' }
  /** Only a failed step of a run that was not stopped can be tried again. */
  | { readonly kind: 'notFailed'; readonly stepStatus: StepStatus }
  /** The run was told to stop, and has ended or is about to. */
  | { readonly kind: 'stopped'; readonly runStatus: RunStatus }
  /** The step failed, and no other attempt could change that: every iteration of the loop ended well. */
  | { readonly kind: 'nothingToRetry'; readonly error: StepError | null }
  | { readonly kind: 'accepted'; readonly steps: readonly string[] };

export type SignalResult =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'ended'; readonly status: RunStatus }
  /** One of that name was sent before and is still kept, or was taken and no step waits for another. */
  | { readonly kind: 'duplicate' }
  /** `stepKey` is null where no step waits for it yet. */
  | { readonly kind: 'accepted'; readonly stepKey: string | null };

/** A run that was told to stop. */
export interface StoppedRun {
  readonly runId: string;
  readonly flowId: string;
  readonly startedAt: number;
  /** Null while a step still runs: the run ends with it. */
  readonly completedAt: number | null;
}

export interface EndedLoop {
  readonly stepKey: string;
  readonly status: 'Succeeded' | 'Failed';
  readonly error: StepError | null;
}

export interface ReceivedSignal {
  readonly body: Json;
  readonly deliveredAt: number;
}

/** Why a run is ended before its time. */
export type RunStop = 'cancelled' | 'timedOut';
