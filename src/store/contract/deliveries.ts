import type {
  CoalesceClaim,
  DeliveryOutcome,
  DeliveryRecord,
  DigestCover,
  Reason,
  SignalClaim,
} from '../../model/delivery.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import type { BirthLease } from './dispatch.ts';
import type { FlowRecord } from './flows.ts';
import type { NewRun, Page, PageQuery, TimeSpan } from './runs.ts';

/** Accepts deliveries, at once or when the flow starts runs again. */
export interface DeliveryStore extends DeliveryLogStore {
  /**
   * Inserts nonce, idempotency key, event id, delivery, run and due steps, or nothing. The same transaction checks that
   * the run's revision is the newest and that its flow starts runs; otherwise the result is 'outdated'. With `lease`,
   * the first steps of an accepted run, up to its limit, are leased to the caller instead of becoming due.
   */
  accept(acceptance: Acceptance, lease?: BirthLease): Promise<AcceptResult>;
  /**
   * Like `accept` and `holdDelivery`, for one delivery to several triggers: all of it or nothing. Each has the record
   * and run that it would have alone, in the order of their flows' ids. A nonce or idempotency key that one knows
   * counts for all; an event counts for the trigger that knows it. One record is kept, with the outcome at each.
   */
  acceptShared(members: readonly SharedAcceptance[]): Promise<SharedResult>;
  /**
   * Like `accept`, but the run starts later, under the id in the result. If the flow starts runs and no longer holds
   * deliveries, nothing is written and the result is 'open': accept the delivery instead. If the run's revision is not
   * the newest, the result is 'outdated'.
   */
  holdDelivery(acceptance: Acceptance): Promise<HoldResult>;
  /**
   * For each delivery: whether the trigger accepted its event id or its nonce, verified or not, and still knows it. A
   * hint for callers about to fetch the delivery: its acceptance asks again.
   */
  areAccepted(query: AcceptedQuery): Promise<readonly boolean[]>;
  /** Deletes at most `limit` nonces, event ids and groups of deliveries that ended before `now`; yields how many. */
  purgeNonces(purge: { now: number; limit: number }): Promise<number>;
}

export interface Acceptance {
  /**
   * Absent if no webhook started the run. Its `runId` is that of the run. A second delivery with the same
   * `redeliveredFrom` yields 'duplicate' with the run of the first one, and nothing is written.
   */
  readonly delivery?: DeliveryRecord | undefined;
  readonly nonce?: NonceClaim | undefined;
  /** Names the key that verified the delivery, for `features/keys`. Counts with the acceptance, not for a replay. */
  readonly verifiedBy?: string | undefined;
  /** Scoped to the flow and the trigger. A known key with a different body is a conflict. */
  readonly idempotencyKey?: string | undefined;
  /** The event that the delivery reports: a second delivery of a known event is a duplicate. */
  readonly event?: EventClaim | undefined;
  /** The trigger starts no run for it: unless it is a repetition, nonce and delivery are kept. Yields 'filtered'. */
  readonly isFiltered?: true | undefined;
  /**
   * It joins the run that waits for deliveries of its key, if there is one: the result is 'coalesced'. Otherwise its
   * own run, planned to start when its trigger says, waits for others.
   */
  readonly coalesce?: CoalesceClaim | undefined;
  /** It starts no run, but answers steps that wait for it: the result is 'answered'. Names and delivery are kept. */
  readonly signal?: SignalClaim | undefined;
  /** If several processes share the store: the result is 'outdated' if this one knew less of its flows than it has. */
  readonly judgedBy?: JudgedBy | undefined;
  readonly run: NewRun;
}

type FieldOfRun = 'flowId' | 'triggerKey' | 'revision' | 'subFlows' | 'pins' | 'order' | 'sourceRunId' | 'startedAt';

/** The facts that decide an acceptance. A backend's calls also have the rows to store. */
export interface Candidate extends Pick<NewRun, FieldOfRun> {
  /** The run that starts unless another result applies. */
  readonly runId: string;
  readonly body: Uint8Array;
  /** Undefined if no webhook started the run. */
  readonly record: Pick<DeliveryRecord, 'id' | 'receivedAt' | 'outcome'> | undefined;
  readonly redeliveredFrom: string | null;
  readonly nonce: NonceClaim | undefined;
  readonly idempotencyKey: string | null;
  /** Hex SHA-256 of the body; an empty string without an idempotency key. */
  readonly bodySha256: string;
  readonly event: EventClaim | undefined;
  readonly verifiedBy: string | null;
  readonly isFiltered: boolean;
  /** Undefined if it starts a run. */
  readonly signal: SignalClaim | undefined;
  /** Undefined if it shares no run with others. */
  readonly joining: Joining | undefined;
}

/** What a delivery adds to a run that it shares with others. */
export interface Joining {
  readonly claim: CoalesceClaim;
  readonly deliveryId: string | null;
  readonly receivedAt: number;
  readonly contentType: string | null;
  /** JSON text. */
  readonly headers: string;
}

/** What a process knew about flows when it judged a delivery. */
export interface JudgedBy {
  /** The slug it was sent to, in lower case: all flows count that have the slug or had it. */
  readonly slug: string;
  /** Whether the process knew the flow as it is stored now. */
  isCurrent(stored: FlowRecord): boolean;
}

/** A delivery at one of several triggers. */
export interface SharedAcceptance {
  readonly acceptance: Acceptance;
  /** `later`: the delivery is held. `never`: its flow takes no deliveries now; only the nonce is kept. */
  readonly start: 'now' | 'later' | 'never';
  readonly lease?: BirthLease | undefined;
}

/** What a delivery led to at one trigger. A duplicate has no run if only another trigger knew its idempotency key. */
export interface SharedOutcome {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly kind: 'accepted' | 'held' | 'answered' | 'duplicate' | 'filtered' | 'closed';
  readonly runId: string | null;
  /** How many steps it answered. */
  readonly answered?: number;
  /** Its run waits for its turn. */
  readonly isWaiting?: true;
}

export type SharedResult =
  /** All of it is durable. Outcomes are in the order of the members; `lead` is the place of the one in the record. */
  | {
      readonly kind: 'shared';
      readonly outcomes: readonly SharedOutcome[];
      readonly lead: number;
      /** The run in the record. */
      readonly runId: string | null;
      readonly isReplay: boolean;
    }
  /** This delivery was redelivered before: nothing was written. */
  | { readonly kind: 'repeated'; readonly runId: string | null }
  /** As for `accept`; read this flow again, since it changed. */
  | { readonly kind: 'outdated'; readonly flowId: string }
  | Extract<AcceptResult, { kind: 'conflict' | 'replayed' }>;

export interface AcceptedQuery {
  readonly flowId: string;
  readonly triggerKey: string;
  /** By the time of the nonce ledger. */
  readonly at: number;
  readonly names: readonly DeliveryNames[];
}

/** The known names of a delivery that was not accepted here, or not yet. */
export interface DeliveryNames {
  readonly eventId?: string | undefined;
  readonly nonce?: Pick<NonceClaim, 'header' | 'value'> | undefined;
}

export interface NonceClaim {
  readonly value: string;
  /** Lower-case name of the header that has the value; '' if the value is the digest. */
  readonly header: string;
  /** Hex SHA-256 of what is signed, or of the body: names the delivery once the trigger names another header, or none. */
  readonly digest: string;
  /** Identifies the delivery once digests of the trigger cover something else; absent if the digest is made for it. */
  readonly covers?: DigestCover | undefined;
  /** An unverified nonce counts only against other unverified ones. */
  readonly isTrusted: boolean;
  /** Whether a gate asks for it now; otherwise it is kept for a later revision that does. */
  readonly isAsked: boolean;
  /** Hex SHA-256 of the body, to distinguish an honest retry from a forgery. */
  readonly bodySha256: string;
  /** When the delivery came, by the time of the nonce ledger: a nonce alive then still counts. See `ServiceClock`. */
  readonly arrivedAt: number;
  /** From this instant of the ledger's time on, the nonce counts as new again. */
  readonly expiresAt: number;
  /** Whether a known nonce refuses the delivery; otherwise it is accepted, with `nonce_replayed` in its violations. */
  readonly isEnforced: boolean;
}

/** Scoped to the flow and the trigger, as an idempotency key is; for verified deliveries only. */
export interface EventClaim {
  readonly id: string;
  /** Both by the time of the nonce ledger, like those of a nonce. */
  readonly arrivedAt: number;
  readonly expiresAt: number;
}

export type AcceptResult =
  /**
   * All of it is durable. `isReplay`: the nonce was known and not enforced. `isWaiting`: another run of its key runs or
   * waits before it, so that none of its steps is due or leased, and its deadline is not set yet.
   */
  | { readonly kind: 'accepted'; readonly runId: string; readonly isReplay: boolean; readonly isWaiting?: true }
  /** The key or the event was known: no run starts. The delivery is kept, with the first run's id if it had one. */
  | { readonly kind: 'duplicate'; readonly runId: string | null; readonly isReplay: boolean }
  /** It joined a run that waits for more deliveries; `startsNow`: it was the last that fits. All of it is durable. */
  | { readonly kind: 'coalesced'; readonly runId: string; readonly isReplay: boolean; readonly startsNow: boolean }
  /** It is for waiting steps, and has now answered this many of them. */
  | { readonly kind: 'answered'; readonly runId: null; readonly answered: number; readonly isReplay: boolean }
  /** Its trigger filters it: nonce and delivery are kept; of a redelivery nothing is kept. */
  | { readonly kind: 'filtered'; readonly isReplay: boolean }
  /** The idempotency key was known, with another body: nothing was written. */
  | { readonly kind: 'conflict'; readonly runId: string }
  /** The nonce was known and enforced: nothing was written. No run if the first delivery with it was filtered. */
  | { readonly kind: 'replayed'; readonly runId: string | null; readonly hasSameBody: boolean }
  /** The run's revision is not the newest, or the flow starts no runs now: nothing was written; plan the run again. */
  | { readonly kind: 'outdated' };

export type HoldResult =
  | Exclude<AcceptResult, { kind: 'accepted' | 'coalesced' | 'answered' }>
  | { readonly kind: 'held'; readonly runId: string; readonly isReplay: boolean }
  | { readonly kind: 'open' };

/** The delivery log: limits and reads it. Counts are by the hour, like those of runs. */
interface DeliveryLogStore {
  /** Stores the record of a delivery that starts no run. */
  recordDelivery(record: DeliveryRecord): Promise<void>;
  /**
   * Newest first. A list has only the first 64 KiB of each body, because a page of whole bodies could fill the memory.
   */
  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>>;
  findDelivery(id: string): Promise<DeliveryRecord | undefined>;
  /** Counts deliveries received since then, by flow, trigger and reason, in this order. Counts outlive the records. */
  countDeliveries(query: { since: number; recentSince: number }): Promise<DeliveryCount[]>;
  /** Deletes at most `limit` older records, but no held deliveries; yields how many. Their counts stay in the stats. */
  purgeDeliveries(purge: { before: number; limit: number }): Promise<number>;
  /** If many pages are free, returns at most this many to the file system; yields how many. */
  releaseSpace(request: { pages: number }): Promise<number>;
}

/** `since` and `until` are times of arrival. */
export interface DeliveryQuery extends DeliveryFilter, PageQuery {}

/** Selects deliveries. */
export interface DeliveryFilter extends TimeSpan {
  readonly flowId?: string | undefined;
  /** Only deliveries to these flows. */
  readonly flowIds?: readonly string[] | undefined;
  readonly reason?: Reason | undefined;
  readonly rejectedOnly?: boolean | undefined;
  readonly acceptedOnly?: boolean | undefined;
  /** Answered with an error, and started no run. */
  readonly refusedOnly?: boolean | undefined;
  /** Held until the flow starts runs: the newest 10 000 of them. */
  readonly heldOnly?: boolean | undefined;
  readonly outcome?: DeliveryOutcome | undefined;
  /**
   * Part of an id, client address, scheme, reason, detail or run id, in any case. Searches the newest 10 000 that match
   * the other filters. The first eight or more characters of an id are found at any age. So is a search key or its
   * beginning: the newest 3000 that have it, and 3000 that begin with it.
   */
  readonly search?: string | undefined;
  /** Search keys of the delivery, whole, in any case; looks at the newest 3000 deliveries with each of them. */
  readonly searchKeys?: SearchKeys | undefined;
}

export interface DeliveryCount {
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly count: number;
  /** Those that were received at `recentSince` or later. */
  readonly recent: number;
  /** Those that only the previous key verified. */
  readonly usedPreviousKey: number;
}

/** The role of a trigger's key: in force, or in force before that. */
export type KeyRole = 'current' | 'previous';
