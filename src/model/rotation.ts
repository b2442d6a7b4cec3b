/** An applicant for a turn; several can share a key, such as the steps of a flow. */
export interface Waiter {
  readonly key: string;
  /** Turns of the key that are in progress. */
  readonly running: number;
  /** The most turns of the key in progress at once; infinity if it has no limit. */
  readonly limit: number;
  /** Waiting since: decides within a key, and between keys that are equal in everything else. */
  readonly since: number;
}

/** The number of remembered keys; a forgotten one counts as new. */
const REMEMBERED = 10_000;

/**
 * Fair turns between keys with limits.
 *
 * The next turn goes to the key with the fewest turns in progress, so that a new key gets its share as soon as one turn
 * of a busy key ends. Among equals it goes to the key whose last turn is longest ago, so that keys alternate even if
 * turns are given one at a time. A new key comes after those that already wait, because otherwise keys that come and go
 * would starve them, and before the key that had the last turn.
 *
 * It only remembers the order of turns: callers pass the waiters and the turns in progress each time.
 */
export class Rotation {
  /** When each key had its last turn, counted in turns; the longest unused entry first. */
  readonly #last = new Map<string, number>();
  #newest: string | undefined;
  #turn = 0;

  /** The next waiter; undefined if none is below its limit. */
  next<One extends Waiter>(waiters: Iterable<One>): One | undefined {
    let first: One | undefined;
    for (const waiter of waiters) {
      if (waiter.running < waiter.limit && (first === undefined || this.#compare(waiter, first) < 0)) first = waiter;
    }
    return first;
  }

  /** All waiters below their limits, the next one first, as if none of them took its turn. */
  order<One extends Waiter>(waiters: readonly One[]): One[] {
    return waiters.filter(({ running, limit }) => running < limit).sort((one, other) => this.#compare(one, other));
  }

  /** Gives the key a turn, which the caller counts as running. An unused turn can stay as given. */
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
    // A key that has turn after turn is already the last entry.
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
