import type { StoreTime } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';

/** The processes that have the store, each under a name of its own: the owner of its leases. */
export interface ReplicaStore {
  /**
   * Keeps how far the time of the nonce ledger has come, and yields it: the latest that any process gave. It begins with
   * `now`, and a process that does not know it yet gives none.
   */
  keepTime(time: { now: number; ledgerAt?: number | undefined }): Promise<StoreTime>;
  /**
   * Says that this process lives, as every replica does every few seconds. Takes those off the list that have not said
   * so for long and makes the steps that they had leased due, as `recover` does.
   */
  beat(beat: Beat): Promise<BeatAnswer>;
  /**
   * Yields whether this process is to remove what is old now: one of them all, unless one was told so less than `everyMs`
   * ago. Also frees wake-ups that a dead process had taken, and leaves one for steps that have been due for half a minute,
   * unless the wake-ups themselves are so far behind: see `onDue`.
   */
  beginHousekeeping(request: { everyMs: number; now: number }): Promise<boolean>;
  /** The replicas that live, as far as the store knows, by name. */
  listReplicas(query: { now: number }): Promise<readonly Replica[]>;
}

export interface Beat {
  readonly version: string;
  readonly startedAt: number;
  /** How far this process' clock is ahead of the store's, as far as it knows. */
  readonly clockOffsetMs: number;
  /** What has to be the same in all replicas, in any form. */
  readonly fingerprint: Json;
  /**
   * Whether those that were not seen for too long are dead. They may not be where this process could not beat either: who
   * comes back first would take all others for dead.
   */
  readonly judgesOthers: boolean;
  /** As in `keepTime`. */
  readonly ledgerAt: number;
  /**
   * Calls that lease steps were not answered: of this process' leases those that end before, and that it does not know of,
   * are returned, as `returnLeases` does.
   */
  readonly lost?: LostLeases | undefined;
  readonly now: number;
}

export interface LostLeases {
  readonly leasedBefore: number;
  /** The tokens that this process knows of. */
  readonly held: readonly string[];
}

export interface BeatAnswer extends StoreTime {
  /** How many replicas live, this one included. */
  readonly replicas: number;
  /** Those that this call found dead. */
  readonly died: readonly DeadReplica[];
  /** Those that died in the last day and did not come back, whoever found it; absent where one process has the store. */
  readonly dead?: readonly DeadReplica[] | undefined;
  /** What the replicas that live told of themselves, this one included; absent where one process has the store. */
  readonly told?: readonly Pick<Replica, 'name' | 'fingerprint'>[] | undefined;
  /** Why this release no longer fits the schema, which a newer one has changed; undefined as long as it does. */
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
  /** When it said last that it lives, by the store's clock. */
  readonly seenAt: number;
  readonly clockOffsetMs: number;
  readonly fingerprint: Json;
  /** Steps that it has leased. */
  readonly steps: number;
}
