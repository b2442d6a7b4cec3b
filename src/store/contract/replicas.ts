import type { StoreTime } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';

/** The processes that have the store. Each has its own name, which is the owner of its leases. */
export interface ReplicaStore {
  /**
   * Stores how far the time of the nonce ledger has come, and yields it: the latest time that any process gave. It
   * begins with `now`; a process that does not know it yet gives none.
   */
  keepTime(time: { now: number; ledgerAt?: number | undefined }): Promise<StoreTime>;
  /**
   * Reports that this process lives; every replica calls it every few seconds. Takes replicas off the list that have
   * not called it for long, and makes their leased steps due, as `recover` does.
   */
  beat(beat: Beat): Promise<BeatAnswer>;
  /**
   * Yields whether this process is to remove old rows now: one of all processes, unless one was told so less than
   * `everyMs` ago. Also frees wake-ups that a dead process had taken, and leaves one for steps that have been due for
   * half a minute, unless the wake-ups themselves are so far behind: see `onDue`.
   */
  beginHousekeeping(request: { everyMs: number; now: number }): Promise<boolean>;
  /** The live replicas, as far as the store knows, by name. */
  listReplicas(query: { now: number }): Promise<readonly Replica[]>;
}

export interface Beat {
  readonly version: string;
  readonly startedAt: number;
  /** How far the clock of this process is ahead of the store's, as far as it knows. */
  readonly clockOffsetMs: number;
  /** Facts that have to be the same in all replicas, in any form. */
  readonly fingerprint: Json;
  /**
   * Whether replicas not seen for too long count as dead. They may be alive if this process could not beat either: the
   * first one to come back would take all others for dead.
   */
  readonly judgesOthers: boolean;
  /** As in `keepTime`. */
  readonly ledgerAt: number;
  /**
   * Set if calls that lease steps got no answer: returns the leases of this process that end before `leasedBefore` and
   * that it does not know of, as `returnLeases` does.
   */
  readonly lost?: LostLeases | undefined;
  readonly now: number;
}

export interface LostLeases {
  readonly leasedBefore: number;
  /** The tokens that this process knows. */
  readonly held: readonly string[];
}

export interface BeatAnswer extends StoreTime {
  /** How many replicas live, including this one. */
  readonly replicas: number;
  /** Replicas that this call found dead. */
  readonly died: readonly DeadReplica[];
  /** Replicas that died in the last day and did not come back; absent if only one process has the store. */
  readonly dead?: readonly DeadReplica[] | undefined;
  /** The fingerprints of the live replicas, including this one; absent if one process has the store. */
  readonly told?: readonly Pick<Replica, 'name' | 'fingerprint'>[] | undefined;
  /** Why this release no longer fits the schema, which a newer release changed; undefined while it fits. */
  readonly misfit?: string | undefined;
}

export interface DeadReplica {
  readonly name: string;
  /** When it was last seen, by the store's clock. */
  readonly at: number;
  /** Steps that it had leased. */
  readonly steps: number;
}

export interface Replica {
  readonly name: string;
  readonly version: string;
  readonly startedAt: number;
  /** When it last reported that it lives, by the store's clock. */
  readonly seenAt: number;
  readonly clockOffsetMs: number;
  readonly fingerprint: Json;
  /** Steps that it has leased. */
  readonly steps: number;
}
