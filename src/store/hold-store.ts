import type { Acceptance, AcceptResult, NewRun } from './store.ts';

/** Deliveries that are accepted while their flow starts no runs. */
export interface HoldStore {
  /**
   * As `accept`, but the run is started later, by `releaseHeld`, under the id given here. Where the flow starts runs and
   * nothing of it is held any more, nothing is written and the result is 'open': the delivery has to be accepted. Where the
   * run's revision is not the newest the result is 'outdated'.
   */
  holdDelivery(acceptance: Acceptance): Promise<HoldResult>;
  /**
   * Starts the runs of at most `limit` held deliveries, the oldest first, each of the newest revision, and forgets that
   * they were held. Starts none while the flow is disabled or drained.
   */
  releaseHeld(release: { flowId: string; limit: number; at: number }): Promise<Release>;
  /** Held deliveries by flow id; flows without any are absent. */
  countHeld(): Promise<Readonly<Record<string, number>>>;
}

export type HoldResult =
  | Exclude<AcceptResult, { kind: 'accepted' }>
  | { readonly kind: 'held'; readonly runId: string; readonly isReplay: boolean }
  | { readonly kind: 'open' };

/** A run that was started, without the bytes that started it. */
export type StartedRun = Omit<NewRun, 'trigger'>;

export interface Release {
  readonly runs: readonly StartedRun[];
  /** Held deliveries of the flow that are left. */
  readonly left: number;
}
