import type { NewRun, RunOrder } from '../../model/run.ts';
import type { SearchKeyRow } from '../../model/text.ts';
import type { RunRow } from '../new-rows.ts';
import type { Joining, NextRun } from '../store.ts';
import type { Ask, Decision } from './decision.ts';
import type { Bounds } from './kept-sizes.ts';
import type { Port } from './port.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A new run that may have to wait. */
export interface PlacedRun extends Pick<NewRun, 'id' | 'flowId' | 'sourceRunId'> {
  readonly order: RunOrder;
}

export interface EndedRun extends Pick<FoundRun, 'flowId' | 'revision' | 'status'> {
  readonly runId: string;
  readonly at: number;
}

/** A delivery that may share a run, and the run that it starts otherwise. */
export interface PlacedDelivery extends Pick<NewRun, 'flowId' | 'triggerKey' | 'revision' | 'order' | 'startedAt'> {
  readonly runId: string;
  readonly body: Uint8Array;
  readonly idempotencyKey: string | null;
  readonly joining: Joining;
}

/** The run for a delivery: another delivery's run, which it joins, or its own, which others may join. */
export interface Place {
  readonly runId: string;
  /** The delivery is the last one that fits. */
  readonly startsNow: boolean;
  /** Stores the delivery there, once nothing refuses it. */
  keep(): void;
}

/** The places for the deliveries of one transaction. */
export interface Places {
  /** Undefined if the delivery's own run starts at once. `isHeld`: its flow starts no runs now. */
  find(delivery: PlacedDelivery, isHeld: boolean): Place | undefined;
  /** Writes the changes to the places; runs are stored before. */
  settle(): void;
}

/** The stored data of a held delivery. */
export interface Held {
  /** The run that it will start, in the form in which it would be stored now. */
  readonly run: RunRow;
  readonly keys: readonly SearchKeyRow[];
  readonly body: Uint8Array;
  readonly isTrusted: boolean;
}

/** Makes things wait, if the manifest says so. `features/placer.ts` lists placers; the first with a place decides. */
export interface Placer {
  readonly name: string;
  readonly deliveries?: DeliveryPlacer;
  readonly runs?: RunPlacer;
  /** Only one placer has this. */
  readonly held?: HoldingPlacer;
}

/** Lets deliveries of a trigger share runs; not asked about other deliveries. */
export interface DeliveryPlacer {
  /** Reads ahead for one whole transaction, after its names are looked up: locks are taken in this order everywhere. */
  take(port: Port, deliveries: readonly PlacedDelivery[]): Decision<Places>;
  /** Deliveries of the flow are no longer held: no delivery joins them. */
  closeHeld(port: Port, flowId: string): void;
  /** Deletes at most `limit` places that nothing can join any more; yields how many. */
  purge(port: Port, given: { readonly now: number; readonly limit: number }): Decision<number>;
}

/** Holds deliveries to a flow that starts no runs now; not asked about other deliveries. */
export interface HoldingPlacer {
  /**
   * Whether a delivery planned for a revision is held: `open` if the flow starts runs, `outdated` if a deploy came in
   * between, or it was deleted. Asked before its names are claimed. Locks only the flow, so that deliveries are held in
   * the order of their arrival, and none while a release ends.
   */
  admit(port: Port, delivery: Pick<NewRun, 'flowId' | 'revision'>): Ask<'held' | 'open' | 'outdated'>;
  /** Whether one more fits within the limits of held deliveries, until the transaction ends. */
  fits(port: Port, held: Held, bounds: Bounds): Ask<boolean>;
  /** `joins`: it joins the run of an earlier held delivery. The record of the delivery has its keys: `keepHeldKeys`. */
  keep(port: Port, held: Held, joins: boolean): void;
  /** How many deliveries of the flow are held. */
  count(port: Port, flowId: string): Ask<number>;
}

/** Makes runs of a flow wait for others; not asked about other runs. */
export interface RunPlacer {
  /** Locks the places of new runs in one order: otherwise two transactions for the same ones could block each other. */
  lock(port: Port, runs: readonly PlacedRun[]): Decision<void>;
  /**
   * Takes a new run; yields whether it has to wait. `parentRunId` is the run whose step is to wait for the new one. If
   * a run would then wait for itself, yields that run's id and does not take the new run.
   */
  join(port: Port, run: PlacedRun, parentRunId: string | undefined): Decision<boolean | string>;
  /** The same for a run that is retried, for which a step may still wait. */
  rejoin(rows: RunRows, run: Pick<EndedRun, 'runId' | 'flowId' | 'revision'>): Decision<boolean | string>;
  /** Called when a run ended; yields the run that now goes on. `mayStop`: the manifest lets failures stop others. */
  leave(rows: RunRows, run: EndedRun, mayStop: boolean): Decision<NextRun | undefined>;
}
