import type { ActivityStore } from './contract/activity.ts';
import type { DeliveryStore } from './contract/deliveries.ts';
import type { DispatchStore } from './contract/dispatch.ts';
import type { FlowStore } from './contract/flows.ts';
import type { RunStore } from './contract/runs.ts';

export type * from './contract/activity.ts';
export type * from './contract/deliveries.ts';
export type * from './contract/dispatch.ts';
export type * from './contract/flows.ts';
export type * from './contract/runs.ts';

/**
 * Everything that Sluice stores, whatever the backend.
 *
 * Every member is one transaction that is durable when its promise resolves; when it rejects, nothing of it remains.
 * The contract is coarse so that a backend answers in one round trip, and asynchronous so that it may live in another
 * thread or on another machine. Times are milliseconds since the Unix epoch, given by the caller: a store has no clock.
 * `test/store/conformance.ts` tests the same contract; every backend must pass it.
 */
export interface Store extends DeliveryStore, FlowStore, DispatchStore, RunStore, ActivityStore {
  /** Resolves when the store can write, rejects with `StoreUnavailableError` when it cannot. */
  ping(): Promise<void>;
  /** Finishes what was called before, then releases files and threads. Idempotent. */
  close(): Promise<void>;
}
