import type { CoalesceClaim } from '../../model/delivery.ts';
import { MAX_BYTES, type RunTrigger } from '../../model/run.ts';

/** The part of one delivery in the run that it starts or joins. */
export interface Arrival extends Pick<CoalesceClaim, 'quietMs' | 'maxMs' | 'collect'> {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** Size of its body and headers. */
  readonly bytes: number;
}

/** A run that waits for more deliveries, with the number and size of its present ones. */
export interface Group {
  readonly runId: string;
  readonly revision: number;
  readonly deliveries: number;
  readonly bytes: number;
  /** When the run starts, unless another delivery joins. */
  readonly dueAt: number;
  /** The latest time for the run to start. */
  readonly untilAt: number;
  /** The flow starts no runs now: this run starts once the flow does. */
  readonly isHeld: boolean;
}

/** The size of a delivery for its group, in bytes. */
export function bytesOf(body: Uint8Array, headers: RunTrigger['headers']): number {
  return body.byteLength + Buffer.byteLength(JSON.stringify(headers));
}

/** When the run of a delivery starts if no other delivery joins. */
export function dueAtOf({ at, bytes, quietMs, maxMs, collect }: Arrival): number {
  return isFull({ deliveries: 1, bytes }, collect) ? at : at + Math.min(quietMs, maxMs);
}

/** The group that a delivery opens. */
export function openGroup(arrival: Arrival, of: Pick<Group, 'runId' | 'revision' | 'isHeld'>): Group {
  const { at, bytes, maxMs } = arrival;
  return { ...of, deliveries: 1, bytes, dueAt: dueAtOf(arrival), untilAt: at + maxMs };
}

/**
 * The group with one more delivery; undefined if the delivery opens another group: the run is about to start, is held
 * and the delivery is not (or the other way round), or has another revision.
 */
export function joinGroup(
  group: Group,
  { at, bytes, quietMs, collect }: Arrival,
  of: Pick<Group, 'revision' | 'isHeld'>,
): Group | undefined {
  if (group.revision !== of.revision || group.isHeld !== of.isHeld) return undefined;
  if (group.dueAt <= at || isFull(group, collect)) return undefined;
  const joined = { ...group, deliveries: group.deliveries + 1, bytes: group.bytes + bytes };
  if (isFull(joined, collect)) return { ...joined, dueAt: at };
  return { ...joined, dueAt: Math.max(group.dueAt, Math.min(at + quietMs, group.untilAt)) };
}

function isFull({ deliveries, bytes }: Pick<Group, 'deliveries' | 'bytes'>, collect: number): boolean {
  return deliveries >= collect || bytes >= MAX_BYTES.coalesced;
}
