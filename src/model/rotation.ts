/** One who waits for a turn; several may wait under one key, such as the steps of a flow. */
export interface Waiter {
  readonly key: string;
  /** Turns of the key that are under way. */
  readonly running: number;
  /** So many may be under way at once; infinity where nothing limits the key. */
  readonly limit: number;
  /** Since when it waits: decides between those of one key, and between keys that are equal in everything else. */
  readonly since: number;
}

/** Keys that are remembered; a forgotten one counts as new. */
const REMEMBERED = 10_000;

/**
 * Fair turns between keys with limits.
 *
 * The next turn is for the key with the fewest turns under way, so that a new key gets its share as soon as one turn of
 * a busy key ends. Among equals it is for the key whose last turn is longest ago, so that keys alternate even where one
 * turn at a time is given. A new key comes after those that already wait, because otherwise keys that come and go would
 * starve them, and before the one that had the last turn.
 *
 * It remembers the order of turns and nothing else: who waits and what is under way is given anew each time.
 */
export class Rotation {
  /** When each key had its last turn, counted in turns; the longest unused entry first. */
  readonly #last = new Map<string, number>();
  #newest: string | undefined;
  #turn = 0;

  /** Who is next; undefined where nobody waits below the limit. */
  next<One extends Waiter>(waiters: Iterable<One>): One | undefined {
    let first: One | undefined;
    for (const waiter of waiters) {
      if (waiter.running < waiter.limit && (first === undefined || this.#compare(waiter, first) < 0)) first = waiter;
    }
    return first;
  }

  /** All who may have a turn, the next first, as if none of them took it. */
  order<One extends Waiter>(waiters: readonly One[]): One[] {
    return waiters.filter(({ running, limit }) => running < limit).sort((one, other) => this.#compare(one, other));
  }

  /** Gives the key a turn; the caller counts it as running. A turn that comes to nothing may be left as given. */
  give(key: string): void {
    this.#turn += 1;
    this.#remember(key, this.#turn);
  }

  #compare(one: Waiter, other: Waiter): number {
    return one.running - other.running || this.#lastOf(one.key) - this.#lastOf(other.key) || one.since - other.since;
  }

  #lastOf(key: string): number {
    return this.#last.get(key) ?? this.#remember(key, this.#turn - 0.5);
  }

  #remember(key: string, turn: number): number {
    // Where one key has turn after turn, it is the last entry already.
    if (key !== this.#newest) this.#last.delete(key);
    this.#newest = key;
    this.#last.set(key, turn);
    if (this.#last.size > REMEMBERED) {
      for (const longestUnused of this.#last.keys()) {
        this.#last.delete(longestUnused);
        break;
      }
    }
    return turn;
  }
}
