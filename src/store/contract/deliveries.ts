import type { CoalesceClaim, DeliveryOutcome, DeliveryRecord, Reason, SignalClaim } from '../../model/delivery.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import type { BirthLease } from './dispatch.ts';
import type { FlowRecord } from './flows.ts';
import type { NewRun, Page, PageQuery, TimeSpan } from './runs.ts';

/** Acceptance, at once or once the flow starts runs. */
export interface DeliveryStore extends DeliveryLogStore {
  /**
   * Inserts nonce, idempotency key, event id, delivery, run and due steps, or nothing. The same transaction checks that the run's
   * revision is the newest and that its flow starts runs; otherwise the result is 'outdated'. With `lease` the first
   * steps of an accepted run, as many as its limit says, are leased to the caller instead of due.
   */
  accept(acceptance: Acceptance, lease?: BirthLease): Promise<AcceptResult>;
  /**
   * As `accept` and `holdDelivery`, for one delivery to several triggers, each with the record and the run that it would have
   * alone, in the order of their flows' ids: all of it or nothing. A nonce or an idempotency key that one of them knows
   * counts for all; an event counts for the trigger that knows it. One record is kept, with what became of it at each.
   */
  acceptShared(members: readonly SharedAcceptance[]): Promise<SharedResult>;
  /**
   * As `accept`, but the run starts later, under the id in the result. If the flow starts runs and none of
   * its deliveries is held any more, nothing is written and the result is 'open': accept the delivery instead. If the
   * run's revision is not the newest, the result is 'outdated'.
   */
  holdDelivery(acceptance: Acceptance): Promise<HoldResult>;
  /**
   * For each delivery whether one was accepted at the trigger under its event id or its nonce, verified or not, and is not
   * forgotten yet. A hint for who would fetch it: its acceptance asks again.
   */
  areAccepted(query: AcceptedQuery): Promise<readonly boolean[]>;
  /** Deletes at most `limit` nonces, event ids and groups of deliveries that ended before `now`; yields how many. */
  purgeNonces(purge: { now: number; limit: number }): Promise<number>;
}

export interface Acceptance {
  /**
   * Absent where no webhook started the run. Its `runId` is that of the run. A second delivery with the same
   * `redeliveredFrom` yields 'duplicate' with the run of the first one, and nothing is written.
   */
  readonly delivery?: DeliveryRecord | undefined;
  readonly nonce?: NonceClaim | undefined;
  /** Names the key that verified the delivery; `features/keys` counts by it. It counts with the acceptance, but not for a replay. */
  readonly verifiedBy?: string | undefined;
  /** Scoped to the flow and the trigger. A known one with another body than the first's is a conflict. */
  readonly idempotencyKey?: string | undefined;
  /** The event that it tells of: a second delivery of a known one is a duplicate. */
  readonly event?: EventClaim | undefined;
  /** The trigger starts no run for it: unless it repeats something, nonce and delivery are kept, and the result is 'filtered'. */
  readonly isFiltered?: true | undefined;
  /**
   * It joins the run that waits for deliveries of its key, if one does: the result is 'coalesced'. Else its own run, which
   * is planned to start when its trigger says, waits for others.
   */
  readonly coalesce?: CoalesceClaim | undefined;
  /** It starts no run, and answers the steps that wait for it: the result is 'answered'. Names and delivery are kept. */
  readonly signal?: SignalClaim | undefined;
  /** Where several processes share the store: the result is 'outdated' if this one knew less of its flows than is stored. */
  readonly judgedBy?: JudgedBy | undefined;
  readonly run: NewRun;
}

type FieldOfRun = 'flowId' | 'triggerKey' | 'revision' | 'subFlows' | 'pins' | 'order' | 'sourceRunId' | 'startedAt';

/** What decides an acceptance. A backend's calls have the rows to store besides. */
export interface Candidate extends Pick<NewRun, FieldOfRun> {
  /** The run that starts if nothing else answers. */
  readonly runId: string;
  readonly body: Uint8Array;
  /** Undefined where no webhook started the run. */
  readonly record: Pick<DeliveryRecord, 'id' | 'receivedAt' | 'outcome'> | undefined;
  readonly redeliveredFrom: string | null;
  readonly nonce: NonceClaim | undefined;
  readonly idempotencyKey: string | null;
  /** Hex SHA-256 of the body; an empty string without an idempotency key. */
  readonly bodySha256: string;
  readonly event: EventClaim | undefined;
  readonly verifiedBy: string | null;
  readonly isFiltered: boolean;
  /** Undefined where it starts a run. */
  readonly signal: SignalClaim | undefined;
  /** Undefined where it shares a run with no other. */
  readonly joining: Joining | undefined;
}

/** What a delivery brings to a run that it shares with others. */
export interface Joining {
  readonly claim: CoalesceClaim;
  readonly deliveryId: string | null;
  readonly receivedAt: number;
  readonly contentType: string | null;
  /** JSON text. */
  readonly headers: string;
}

/** What a process knew of flows when it judged a delivery. */
export interface JudgedBy {
  /** Where it was sent, in lower case: all flows that have the slug count, and those that had it. */
  readonly slug: string;
  /** Whether the process knew of the flow what is stored of it now. */
  isCurrent(stored: FlowRecord): boolean;
}

/** A delivery as one of several triggers takes it. */
export interface SharedAcceptance {
  readonly acceptance: Acceptance;
  /** `later`: it is held. `never`: its flow takes no deliveries now, and only keeps the nonce. */
  readonly start: 'now' | 'later' | 'never';
  readonly lease?: BirthLease | undefined;
}

/** What became of a delivery at one trigger. A duplicate has no run where only another trigger knew its idempotency key. */
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
  /** All of it is durable, in the order of the members; `lead` is the place of the one that the record is about. */
  | {
      readonly kind: 'shared';
      readonly outcomes: readonly SharedOutcome[];
      readonly lead: number;
      /** That of the record. */
      readonly runId: string | null;
      readonly isReplay: boolean;
    }
  /** The delivery was delivered again before: nothing was written. */
  | { readonly kind: 'repeated'; readonly runId: string | null }
  /** As of `accept`; the flow that changed is to be read again. */
  | { readonly kind: 'outdated'; readonly flowId: string }
  | Extract<AcceptResult, { kind: 'conflict' | 'replayed' }>;

export interface AcceptedQuery {
  readonly flowId: string;
  readonly triggerKey: string;
  /** By the time of the nonce ledger. */
  readonly at: number;
  readonly names: readonly DeliveryNames[];
}

/** What is known of a delivery that was not accepted here, or not yet. */
export interface DeliveryNames {
  readonly eventId?: string | undefined;
  readonly nonce?: Pick<NonceClaim, 'header' | 'value'> | undefined;
}

export interface NonceClaim {
  readonly value: string;
  /** Lower-case name of the header that the value is of; '' where the value is the digest. */
  readonly header: string;
  /** Hex SHA-256 of the signed bytes: what the delivery is known by once another header is named, or none. */
  readonly digest: string;
  /** An unverified nonce stands only against other unverified ones. */
  readonly isTrusted: boolean;
  /** Whether anything asks for it now; else it is kept for a revision that does. */
  readonly isAsked: boolean;
  /** Hex SHA-256 of the body, to tell an honest retry from a forgery. */
  readonly bodySha256: string;
  /** When the delivery came, by the time of the nonce ledger: one that was alive then still counts. See `ServiceClock`. */
  readonly arrivedAt: number;
  /** From this instant of the ledger's time on the nonce counts as new again. */
  readonly expiresAt: number;
  /** Whether a known nonce refuses the delivery; else it is accepted and `nonce_replayed` joins its violations. */
  readonly isEnforced: boolean;
}

/** Scoped to the flow and the trigger, as an idempotency key is; of verified deliveries alone. */
export interface EventClaim {
  readonly id: string;
  /** Both by the time of the nonce ledger, as those of a nonce. */
  readonly arrivedAt: number;
  readonly expiresAt: number;
}

export type AcceptResult =
  /**
   * All of it is durable. `isReplay`: the nonce was known and not enforced. `isWaiting`: another run of its key runs or waits
   * before it, so that none of its steps is due or leased, and its deadline is not set yet.
   */
  | { readonly kind: 'accepted'; readonly runId: string; readonly isReplay: boolean; readonly isWaiting?: true }
  /** The idempotency key or the event was known: the delivery is kept, with the first run's id; no run was started. No id where that answered steps. */
  | { readonly kind: 'duplicate'; readonly runId: string | null; readonly isReplay: boolean }
  /** It joined a run that waits for more deliveries; `startsNow` where it was the last one that fits. All of it is durable. */
  | { readonly kind: 'coalesced'; readonly runId: string; readonly isReplay: boolean; readonly startsNow: boolean }
  /** It is for steps that wait, and answered so many of them now. */
  | { readonly kind: 'answered'; readonly runId: null; readonly answered: number; readonly isReplay: boolean }
  /** Its trigger filters it: nonce and delivery are kept, but not for a redelivery, which leaves nothing. */
  | { readonly kind: 'filtered'; readonly isReplay: boolean }
  /** The idempotency key was known, with another body: nothing was written. */
  | { readonly kind: 'conflict'; readonly runId: string }
  /** The nonce was known and enforced: nothing was written. Without a run where what had it was filtered. */
  | { readonly kind: 'replayed'; readonly runId: string | null; readonly hasSameBody: boolean }
  /** The run is not of the newest revision, or the flow starts no runs now: nothing was written; plan it again. */
  | { readonly kind: 'outdated' };

export type HoldResult =
  | Exclude<AcceptResult, { kind: 'accepted' | 'coalesced' | 'answered' }>
  | { readonly kind: 'held'; readonly runId: string; readonly isReplay: boolean }
  | { readonly kind: 'open' };

/** The delivery log: keeping it within bounds, and looking back on it. Counts are by the hour, as those of runs. */
interface DeliveryLogStore {
  /** Stores the record of a delivery that starts no run. */
  recordDelivery(record: DeliveryRecord): Promise<void>;
  /**
   * Newest first. A list has only the first 64 KiB of each body, because a page of whole bodies could fill the memory.
   */
  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>>;
  findDelivery(id: string): Promise<DeliveryRecord | undefined>;
  /** Deliveries received since then, by flow, trigger and reason, in the order of these. Counts outlive the records. */
  countDeliveries(query: { since: number; recentSince: number }): Promise<DeliveryCount[]>;
  /** Deletes at most `limit` older records; yields how many. Their counts stay in the stats. Held deliveries stay. */
  purgeDeliveries(purge: { before: number; limit: number }): Promise<number>;
  /** Returns at most so many free pages to the file system if many are free; yields how many. */
  releaseSpace(request: { pages: number }): Promise<number>;
}

/** `since` and `until` are about the arrival. */
export interface DeliveryQuery extends DeliveryFilter, PageQuery {}

/** What deliveries are picked by. */
export interface DeliveryFilter extends TimeSpan {
  readonly flowId?: string | undefined;
  /** Only deliveries to these flows. */
  readonly flowIds?: readonly string[] | undefined;
  readonly reason?: Reason | undefined;
  readonly rejectedOnly?: boolean | undefined;
  readonly acceptedOnly?: boolean | undefined;
  /** Answered with an error and started no run. */
  readonly refusedOnly?: boolean | undefined;
  /** Held until the flow starts runs: the newest 10 000 of those. */
  readonly heldOnly?: boolean | undefined;
  readonly outcome?: DeliveryOutcome | undefined;
  /**
   * Part of an id, client address, scheme, reason, detail or run id, in any case. Searches the newest 10 000 that match
   * the other filters. The first eight or more characters of an id are found however old it is, and so is a search key,
   * or its beginning: the newest 3000 that have it, and 3000 that begin with it.
   */
  readonly search?: string | undefined;
  /** Search keys that it has, whole, in any case; the newest 3000 with each of them are looked at. */
  readonly searchKeys?: SearchKeys | undefined;
}

export interface DeliveryCount {
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly count: number;
  /** Those of them that were received at `recentSince` or later. */
  readonly recent: number;
  /** Those of them that only the previous key verified. */
  readonly usedPreviousKey: number;
}

/** Of a key that a trigger has: the one in force, or the one before it. */
export type KeyRole = 'current' | 'previous';
