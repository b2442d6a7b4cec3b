import type { Logger } from 'pino';
import { InternalFaultError } from '../../flows/load-once.ts';
import type { Clock } from '../../model/clock.ts';
import { SOLE_OWNER } from '../../model/runtime-keys.ts';
import type { Queue } from './known-hosts.ts';
import type { HostPlace, HostPlaces, HostStore } from './store.ts';

/** Allows for delay after the latest end of a request: then its place is free even if it could not be returned. */
const SLACK_MS = 10_000;

interface PlacesServices {
  readonly store: Pick<HostStore, 'takeHostPlaces' | 'returnHostPlaces' | 'listHostPlaces' | 'replica'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Counts the requests of all replicas to hosts with a limit at once; a process that is alone on its store does not need
 * this. A request holds a place until it ends, its time is over, or its replica was found dead.
 */
export class StoredPlaces {
  readonly #services: PlacesServices;

  constructor(services: PlacesServices) {
    this.#services = services;
  }

  get #isShared(): boolean {
    return this.#services.store.replica !== SOLE_OWNER;
  }

  /** Takes a place in each limited queue, or returns the key of a full one. Rejects with `InternalFaultError`. */
  async take(taken: readonly Queue[], answerMs: number): Promise<HostPlaces> {
    const { store, clock } = this.#services;
    const queues = taken.flatMap(({ key, bucket: { limits } }) =>
      limits.atOnce === undefined ? [] : [{ queue: key, most: limits.atOnce }],
    );
    if (queues.length === 0 || !this.#isShared) return { kind: 'taken', places: [] };
    const now = clock.now();
    const until = Math.ceil(now + answerMs + SLACK_MS);
    return store.takeHostPlaces({ owner: store.replica, queues, now, until }).catch((cause: unknown) => {
      throw new InternalFaultError('the requests of all replicas could not be counted', { cause });
    });
  }

  /** Never rejects: a place that cannot be returned becomes free when its time is over. */
  async return(places: readonly HostPlace[]): Promise<void> {
    const { store, logger } = this.#services;
    await store.returnHostPlaces({ owner: store.replica, places }).catch((error: unknown) => {
      logger.warn({ err: error }, 'the end of a request could not be stored; its place is free later');
    });
  }

  /** Counts the requests of other replicas under way. Rejects as the store does. */
  async recount(queues: readonly Queue[]): Promise<void> {
    const { store, clock } = this.#services;
    if (!this.#isShared || !queues.some(({ bucket }) => bucket.limits.atOnce !== undefined)) return;
    const held = await store.listHostPlaces({ owner: store.replica, now: clock.now() });
    const byKey = new Map(held.map((each) => [each.queue, each.held]));
    for (const queue of queues) queue.inFlightElsewhere = byKey.get(queue.key) ?? 0;
  }
}

/** How many more requests the limits at once allow, as far as this process knows. */
export function freePlaces(queue: Queue): number {
  const free = ({ bucket, inFlight, inFlightElsewhere }: Queue) =>
    (bucket.limits.atOnce ?? Number.POSITIVE_INFINITY) - inFlight - inFlightElsewhere;
  return Math.min(free(queue), free(queue.host.own));
}
