import type { Json } from '../../model/json.ts';

/**
 * Hosts that steps call: which of them are not asked now, and which steps wait for their turn. A step waits in a queue if
 * the state that it keeps has the queue's key as `hostTurn`: the origin of the host, alone or with a blank and more.
 */
export interface HostStore {
  /** The circuits that are kept, by queue. */
  listCircuits(): Promise<readonly CircuitRecord[]>;
  /**
   * Replaces the circuit of that version by one of the version `next`, or forgets it where `circuit` is null. A version
   * null says that none is kept. Changes nothing and yields `outdated` if another is kept.
   */
  changeCircuit(change: CircuitChange): Promise<'changed' | 'outdated'>;
  /**
   * How many steps wait in each queue and are not due yet; not counted beyond `most` each, and at most a thousand queues.
   */
  listHostWaits(query: { now: number; most: number }): Promise<readonly HostWait[]>;
  /**
   * Makes at most `limit` steps of a queue due, those first that are due next: one now, and another after each
   * `everyMs`, but none later than it would be. Yields how many.
   */
  releaseHostWaits(release: HostRelease): Promise<number>;
  /**
   * Takes a place in each of the queues, or none: then it yields the queue in which all are taken. A place comes free when
   * it is returned, at its time, or when its owner is recovered.
   */
  takeHostPlaces(request: HostPlacesRequest): Promise<HostPlaces>;
  returnHostPlaces(request: { readonly owner: string; readonly places: readonly HostPlace[] }): Promise<void>;
  /** How many places others than the owner hold, by queue. */
  listHostPlaces(query: { readonly owner: string; readonly now: number }): Promise<readonly HeldPlaces[]>;
}

export interface HostPlace {
  readonly queue: string;
  /** From 1. */
  readonly place: number;
}

export interface HostPlacesRequest {
  readonly owner: string;
  /** How many places there are in each. */
  readonly queues: readonly { readonly queue: string; readonly most: number }[];
  readonly now: number;
  readonly until: number;
}

export type HostPlaces =
  | { readonly kind: 'taken'; readonly places: readonly HostPlace[] }
  | { readonly kind: 'full'; readonly queue: string };

export interface HeldPlaces {
  readonly queue: string;
  readonly held: number;
}

export interface CircuitRecord {
  readonly queue: string;
  readonly version: number;
  readonly circuit: Json;
}

interface CircuitChange {
  readonly queue: string;
  readonly version: number | null;
  /** Never used before for this queue. */
  readonly next: number;
  readonly circuit: Json;
}

interface HostRelease {
  readonly queue: string;
  readonly now: number;
  readonly limit: number;
  readonly everyMs: number;
}

export interface HostWait {
  readonly queue: string;
  readonly steps: number;
}
