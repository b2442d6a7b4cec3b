import type { Change } from './contract/changes.ts';
import type { DeliveryStore } from './contract/deliveries.ts';
import type { DispatchStore } from './contract/dispatch.ts';
import type { FlowStore } from './contract/flows.ts';
import type { ReplicaStore } from './contract/replicas.ts';
import type { RunStore } from './contract/runs.ts';
import type { SessionStore } from './contract/sessions.ts';
import type { Members, StorePart } from './part.ts';

export type * from './contract/changes.ts';
export type * from './contract/deliveries.ts';
export type * from './contract/dispatch.ts';
export type * from './contract/examination.ts';
export type * from './contract/flows.ts';
export type * from './contract/replicas.ts';
export type * from './contract/runs.ts';
export type * from './contract/sessions.ts';
export type { BodySealer } from './sealed-body.ts';

/**
 * Everything that Sluice stores, whatever the backend.
 *
 * Every operation is one transaction that is durable when its promise resolves; when it rejects, nothing of it remains.
 * The contract is coarse so that a backend answers in one round trip, and asynchronous so that it may live in another
 * thread or on another machine. Times are milliseconds since the Unix epoch, given by the caller: a store has no clock.
 * `test/store/conformance.ts` tests the same contract; every backend must pass it.
 */
export interface Store extends DeliveryStore, FlowStore, DispatchStore, RunStore, SessionStore, ReplicaStore {
  /**
   * Changes by other processes, from the moment that a reader begins. Each reader gets all of them, in order; equal
   * changes that it has not taken yet are joined, so that a slow reader costs no memory. A backend that may have missed
   * some yields one for each flow instead. Ends when the store closes and never rejects. Yields nothing where only one
   * process at a time has the store.
   */
  readonly changes: Changes;
  /** Tells watching processes that a run went on here: soon, and together with other runs. */
  runChanged(runId: string): void;
  /** Whether `changes` reports runs of other processes to this one. */
  watchRuns(isWatching: boolean): void;
  /** Names this process among those that have the store, and the leases that it takes. */
  readonly replica: string;
  /** The size of the database, and how far Purge is behind. */
  measureStorage(): Promise<StorageMeasure>;
  /** Resolves when the store can write, rejects with `StoreUnavailableError` when it cannot. */
  ping(): Promise<void>;
  /** The verbs of a part. The part must be in the list of `features/store.ts`. */
  of<Part extends StorePart>(part: Part): Members<Part>;
  /** Finishes earlier calls, then releases files and threads. Idempotent. */
  close(): Promise<void>;
}

export interface StorageMeasure {
  /** Size of the database, or of its schema; 0 in memory. */
  readonly fileBytes: number;
  /** Size of the write-ahead log; null where the server has one log for all its databases. */
  readonly walBytes: number | null;
  /** By how much a database in this place can still grow; null where the store cannot find out. */
  readonly freeBytes: number | null;
  /** The earliest end among the nonces that are still kept; null if there are none. */
  readonly oldestNonceEnd: number | null;
}

/** Reads the contents of a database. Verbs of parts that write reject. */
export type Inspection = Pick<
  Store,
  'listDeployed' | 'findFlow' | 'findRevision' | 'readLiveFlow' | 'findSuperseded' | 'listRoutes' | 'of' | 'close'
>;

export interface Changes extends AsyncIterable<Change> {
  /** How many milliseconds ago the store last looked at all changes by other processes; 0 where there are no others. */
  unseenMs(): number;
}
