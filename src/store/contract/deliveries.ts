import type { DeliveryRecord, Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import type { BucketRange, NewRun, Page, PageQuery } from './runs.ts';

/** Acceptance, at once or once the flow starts runs. */
export interface DeliveryStore {
  /**
   * Inserts nonce, idempotency key, delivery, run and due steps, or nothing. One transaction with asking whether the run's
   * revision is the newest and its flow starts runs: else the result is 'outdated'.
   */
  accept(acceptance: Acceptance): Promise<AcceptResult>;
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
  /** Deletes at most `limit` nonces that expired before `now`; yields how many. */
  purgeNonces(purge: { now: number; limit: number }): Promise<number>;
}

export interface Acceptance {
  /**
   * Absent where no webhook started the run. Its `runId` is the run's. One that names a `redeliveredFrom` for the second
   * time yields 'duplicate' with the first one's run, and nothing is written.
   */
  readonly delivery?: DeliveryRecord | undefined;
  readonly nonce?: NonceClaim | undefined;
  /** Scoped to the flow and the trigger. */
  readonly idempotencyKey?: string | undefined;
  readonly run: NewRun;
}

export interface NonceClaim {
  readonly value: string;
  /** Hex SHA-256 of the body, to tell an honest retry from a forgery. */
  readonly bodySha256: string;
  /** From this instant on the nonce counts as new again. */
  readonly expiresAt: number;
  /** Whether a known nonce refuses the delivery; else it is accepted and `nonce_replayed` joins its violations. */
  readonly isEnforced: boolean;
}

export type AcceptResult =
  /** All of it is durable. `isReplay`: the nonce was known and not enforced. */
  | { readonly kind: 'accepted'; readonly runId: string; readonly isReplay: boolean }
  /** The idempotency key was known: the delivery is kept, with the first run's id; no run was started. */
  | { readonly kind: 'duplicate'; readonly runId: string; readonly isReplay: boolean }
  /** The nonce was known and enforced: nothing was written. */
  | { readonly kind: 'replayed'; readonly runId: string; readonly hasSameBody: boolean }
  /** The run is not of the newest revision, or the flow starts no runs now: nothing was written; plan it again. */
  | { readonly kind: 'outdated' };

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

/** The delivery log: keeping it within bounds, and looking back on it. Counts are by the hour, as those of runs. */
export interface DeliveryLogStore {
  /** Keeps the record of a delivery that starts no run. */
  recordDelivery(record: DeliveryRecord): Promise<void>;
  /** Newest first. Of a body its first 64 KiB are in a list, for a page of whole ones could fill the memory. */
  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>>;
  findDelivery(id: string): Promise<DeliveryRecord | undefined>;
  /** The delivery as which a refused one was accepted later. */
  findRedelivery(deliveryId: string): Promise<{ deliveryId: string; runId: string } | undefined>;
  /**
   * The run of an accepted delivery with this nonce, expired or not, that was received since. A search through the log:
   * for a person who asks, not for each delivery.
   */
  findAcceptedNonce(search: NonceSearch): Promise<string | undefined>;
  /** Counts over `receivedAt >= since`. */
  deliveryStats(since: number): Promise<DeliveryStats>;
  /**
   * What was received since, or in the same hour before, by trigger and by what was found wrong. Redelivered ones do not
   * count; those whose records are gone do.
   */
  summariseDeliveries(query: { since: number; flowId?: string | undefined }): Promise<DeliveryGroup[]>;
  /** Deliveries received since, by where they went and what was wrong. They outlive their records. */
  countDeliveries(query: { since: number; recentSince: number }): Promise<DeliveryCount[]>;
  /** Deliveries by buckets of whole hours, oldest first; an empty bucket is absent. They outlive their records. */
  deliveryTimeseries(range: BucketRange): Promise<DeliveryBucket[]>;
  /** Deletes at most `limit` records that are older; yields how many. Their counts stay in the stats. What is held stays. */
  purgeDeliveries(purge: { before: number; limit: number }): Promise<number>;
  /** Gives at most so many free pages back to the file system where many are free; yields how many. */
  releaseSpace(request: { pages: number }): Promise<number>;
}

export interface DeliveryQuery extends PageQuery {
  readonly flowId?: string | undefined;
  readonly reason?: Reason | undefined;
  readonly rejectedOnly?: boolean | undefined;
  readonly acceptedOnly?: boolean | undefined;
  /** Answered with an error and started no run. */
  readonly refusedOnly?: boolean | undefined;
  /** Received from this instant on. */
  readonly since?: number | undefined;
  /** Received before this instant. */
  readonly until?: number | undefined;
  /**
   * Part of an id, client address, scheme, reason, detail or run id, any case, in the newest 10 000 that the other
   * filters leave; eight or more characters of the beginning of an id are found however old.
   */
  readonly search?: string | undefined;
}

export interface NonceSearch {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly nonce: string;
  readonly since: number;
}

export interface DeliveryStats {
  /** Deliveries by the reason that Enforce answers with. */
  readonly counts: Readonly<Partial<Record<Reason, number>>>;
  readonly accepted: number;
  readonly rejected: number;
  readonly total: number;
}

/** Deliveries to one trigger that are alike. */
export interface DeliveryGroup {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  readonly violations: readonly Reason[];
  readonly count: number;
  readonly firstAt: number;
  readonly firstId: string;
  readonly lastId: string;
}

export interface DeliveryCount {
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly count: number;
  /** Of them those received at `recentSince` or later. */
  readonly recent: number;
  /** Of them those that only the previous key verified. */
  readonly usedPreviousKey: number;
}

export interface DeliveryBucket {
  readonly at: number;
  readonly accepted: number;
  readonly rejected: number;
}
