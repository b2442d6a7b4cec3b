import { LRUCache } from 'lru-cache';
import type { Clock } from '../model/clock.ts';

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** After so long without a failure an address starts anew. */
const FORGET_AFTER_MS = 15 * 60_000;
/** Addresses remembered; the least recent one is forgotten first, so that a flood of addresses costs no memory. */
const MAX_ADDRESSES = 10_000;

export interface LoginDelays {
  /** Counts a failed login and says how many milliseconds its answer has to wait. */
  afterFailure(address: string): number;
  /** A good login: the address starts anew. */
  forget(address: string): void;
}

/**
 * Slows down who guesses: 100 ms after the first failure, twice that after each further one, two seconds at most. There
 * is no lock-out, because everybody behind one proxy shares its address.
 */
export function loginDelays(clock: Clock): LoginDelays {
  const failures = new LRUCache<string, { count: number; at: number }>({ max: MAX_ADDRESSES });
  return {
    afterFailure(address) {
      const at = clock.monotonic();
      const last = failures.get(address);
      const count = last === undefined || at - last.at > FORGET_AFTER_MS ? 1 : last.count + 1;
      failures.set(address, { count, at });
      return Math.min(FIRST_DELAY_MS * 2 ** (count - 1), MAX_DELAY_MS);
    },
    forget(address) {
      failures.delete(address);
    },
  };
}
