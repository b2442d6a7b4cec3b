import type { Json } from '../../model/json.ts';

/** Hosts that steps call: which of them are not asked now, and which steps wait for their turn. */
export interface HostStore {
  /** The circuits that are kept, by origin. */
  listCircuits(): Promise<readonly CircuitRecord[]>;
  /**
   * Replaces the circuit of that version by one of the version `next`, or forgets it where `circuit` is null. A version
   * null says that none is kept. Changes nothing and yields `outdated` if another is kept.
   */
  changeCircuit(change: CircuitChange): Promise<'changed' | 'outdated'>;
  /**
   * How many steps wait for each host and are not due yet, by origin; not counted beyond `most` each, and at most a
   * thousand hosts. A step waits for a host if the state that it keeps has its origin as `hostTurn`.
   */
  listHostWaits(query: { now: number; most: number }): Promise<readonly HostWait[]>;
  /**
   * Makes at most `limit` steps due that wait for a host, those first that are due next: one now, and another after each
   * `everyMs`, but none later than it would be. Yields how many.
   */
  releaseHostWaits(release: HostRelease): Promise<number>;
}

export interface CircuitRecord {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly version: number;
  readonly circuit: Json;
}

interface CircuitChange {
  readonly origin: string;
  readonly version: number | null;
  /** Never used before for this origin. */
  readonly next: number;
  readonly circuit: Json;
}

interface HostRelease {
  readonly origin: string;
  readonly now: number;
  readonly limit: number;
  readonly everyMs: number;
}

export interface HostWait {
  readonly origin: string;
  readonly steps: number;
  readonly nextDueAt: number;
}
