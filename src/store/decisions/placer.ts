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

/** The run of a delivery: that of another one, which it joins, or its own, which others may join. */
export interface Place {
  readonly runId: string;
  /** It is the last one that fits. */
  readonly startsNow: boolean;
  /** Keeps the delivery there, once nothing refuses it. */
  keep(): void;
}

/** Where the deliveries of one transaction may go. */
export interface Places {
  /** Undefined where the delivery's own run starts at once. `isHeld`: its flow starts no runs now. */
  find(delivery: PlacedDelivery, isHeld: boolean): Place | undefined;
  /** Writes what became of them; the runs are stored before. */
  settle(): void;
}

/** What is kept of a delivery that is held. */
export interface Held {
  /** The run that it will start, as it would be stored now. */
  readonly run: RunRow;
  readonly keys: readonly SearchKeyRow[];
  readonly body: Uint8Array;
  readonly isTrusted: boolean;
}

/** Has things wait, if the manifest says so. `features/placer.ts` lists the placers; the first that gives a place decides. */
export interface Placer {
  readonly name: string;
  readonly deliveries?: DeliveryPlacer;
  readonly runs?: RunPlacer;
  /** Of one placer alone. */
  readonly held?: HoldingPlacer;
}

/** Has deliveries of a trigger share runs: it is asked about no other delivery. */
export interface DeliveryPlacer {
  /** Reads ahead for all of one transaction, after their names are asked for: locks are taken in this order everywhere. */
  take(port: Port, deliveries: readonly PlacedDelivery[]): Decision<Places>;
  /** Deliveries of the flow are held no longer: none joins them. */
  closeHeld(port: Port, flowId: string): void;
  /** Deletes at most `limit` places that nothing can go to any more; yields how many. */
  purge(port: Port, given: { readonly now: number; readonly limit: number }): Decision<number>;
}

/** Keeps deliveries to a flow that starts no runs now: it is asked about no other delivery. */
export interface HoldingPlacer {
  /**
   * Whether a delivery planned for a revision is held: `open` if the flow starts runs, `outdated` if a deploy came in
   * between, or it was deleted. Asked before its names are claimed. Locks the flow alone, so that deliveries are held in
   * the order of their arrival, and none while a release ends.
   */
  admit(port: Port, delivery: Pick<NewRun, 'flowId' | 'revision'>): Ask<'held' | 'open' | 'outdated'>;
  /** Whether one more fits within the bounds of held deliveries, until the transaction ends. */
  fits(port: Port, held: Held, bounds: Bounds): Ask<boolean>;
  /** `joins`: it joins the run of one that was held before. The record of the delivery has its search keys: `keepHeldKeys`. */
  keep(port: Port, held: Held, joins: boolean): void;
  /** How many deliveries of the flow are held. */
  count(port: Port, flowId: string): Ask<number>;
}

/** Has runs of a flow wait for others: it is asked about no other run. */
export interface RunPlacer {
  /** Locks what new runs are to join, in one order: else two transactions that join the same could block each other. */
  lock(port: Port, runs: readonly PlacedRun[]): Decision<void>;
  /**
   * Takes a new run; yields whether it has to wait. With the id of a run whose step is to wait for the new one: the id of a
   * run that would wait for itself then, and takes it not.
   */
  join(port: Port, run: PlacedRun, parentRunId: string | undefined): Decision<boolean | string>;
  /** The same of a run that is retried, whose step may still be waited for. */
  rejoin(rows: RunRows, run: Pick<EndedRun, 'runId' | 'flowId' | 'revision'>): Decision<boolean | string>;
  /** A run has ended; yields the one that goes on because of that. `mayStop`: the manifest lets a failure hold up others. */
  leave(rows: RunRows, run: EndedRun, mayStop: boolean): Decision<NextRun | undefined>;
}
