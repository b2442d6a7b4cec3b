import type { Joining } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Place, PlacedDelivery, Places } from './placer.ts';
import { deliveryPlacers } from './placing.ts';
import type { Port } from './port.ts';

type Arrived = Omit<PlacedDelivery, 'joining'> & { readonly joining: Joining | undefined };

const mayJoin = (call: Arrived): call is PlacedDelivery => call.joining !== undefined;

/** Reads the places that deliveries may join; most deliveries join none, and cost no reads. */
export function* takePlaces(port: Port, calls: readonly Arrived[]): Decision<readonly Places[]> {
  const deliveries = calls.filter(mayJoin);
  const places: Places[] = [];
  if (deliveries.length > 0) for (const { take } of deliveryPlacers) places.push(yield* take(port, deliveries));
  return places;
}

/** See `Places.find`. */
export function findPlace(places: readonly Places[], call: Arrived, isHeld: boolean): Place | undefined {
  if (!mayJoin(call)) return undefined;
  for (const each of places) {
    const place = each.find(call, isHeld);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** Deliveries held from now on join none of those held before. */
export function closeHeldPlaces(port: Port, flowId: string): void {
  for (const { closeHeld } of deliveryPlacers) closeHeld(port, flowId);
}

export function* purgePlaces(port: Port, { now, limit }: { now: number; limit: number }): Decision<number> {
  let purged = 0;
  for (const { purge } of deliveryPlacers) purged += yield* purge(port, { now, limit: limit - purged });
  return purged;
}
