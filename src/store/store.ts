import type { ActivityStore } from './contract/activity.ts';
import type { Change } from './contract/changes.ts';
import type { DeliveryStore } from './contract/deliveries.ts';
import type { DispatchStore } from './contract/dispatch.ts';
import type { FlowStore } from './contract/flows.ts';
import type { ReplicaStore } from './contract/replicas.ts';
import type { RunStore } from './contract/runs.ts';
import type { Members, StorePart } from './part.ts';

export type * from './contract/activity.ts';
export type * from './contract/changes.ts';
export type * from './contract/deliveries.ts';
export type * from './contract/dispatch.ts';
export type * from './contract/examination.ts';
export type * from './contract/flows.ts';
export type * from './contract/replicas.ts';
export type * from './contract/runs.ts';

/**
 * Everything that Sluice stores, whatever the backend.
 *
 * Every operation is one transaction that is durable when its promise resolves; when it rejects, nothing of it remains.
 * The contract is coarse so that a backend answers in one round trip, and asynchronous so that it may live in another
 * thread or on another machine. Times are milliseconds since the Unix epoch, given by the caller: a store has no clock.
 * `test/store/conformance.ts` tests the same contract; every backend must pass it.
 */
export interface Store extends DeliveryStore, FlowStore, DispatchStore, RunStore, ActivityStore, ReplicaStore {
  /**
   * What other processes change, from the moment that a reader begins. Each reader gets all of it, in order; changes that
   * it has not taken yet and that say the same are joined, so that a slow reader costs no memory. A backend that may have
   * missed some yields one for each flow instead. Ends when the store closes and never rejects. Where one process at a
   * time has the store, nothing is ever yielded.
   */
  readonly changes: Changes;
  /** Tells the other processes that watch, soon and together with others, that a run went on here. */
  runChanged(runId: string): void;
  /** Whether this process is to be told by `changes` of the runs of others. */
  watchRuns(isWatching: boolean): void;
  /** Names this process among those that have the store, and the leases that it takes. */
  readonly replica: string;
  /** What the database takes, and how far Purge is behind. */
  measureStorage(): Promise<StorageMeasure>;
  /** Resolves when the store can write, rejects with `StoreUnavailableError` when it cannot. */
  ping(): Promise<void>;
  /** The verbs of a part, which must be in `features/store.ts`. */
  of<Part extends StorePart>(part: Part): Members<Part>;
  /** Finishes what was called before, then releases files and threads. Idempotent. */
  close(): Promise<void>;
}

export interface StorageMeasure {
  /** Of the database, or of its schema; 0 in memory. */
  readonly fileBytes: number;
  /** Of the write-ahead log; null where the server has one for all its databases. */
  readonly walBytes: number | null;
  /** What a database in this place may still grow by; null where that cannot be asked. */
  readonly freeBytes: number | null;
  /** When the nonce ended that has ended first and is still kept; null where there is none. */
  readonly oldestNonceEnd: number | null;
}

/** What is in a database: verbs of parts that write reject. */
export type Inspection = Pick<
  Store,
  'listDeployed' | 'findFlow' | 'findRevision' | 'readLiveFlow' | 'findSuperseded' | 'listRoutes' | 'of' | 'close'
>;

export interface Changes extends AsyncIterable<Change> {
  /** How long ago the store last looked at all that other processes had changed, in milliseconds; 0 where none can. */
  unseenMs(): number;
}
