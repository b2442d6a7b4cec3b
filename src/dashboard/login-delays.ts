import { LRUCache } from 'lru-cache';
import type { Clock } from '../model/clock.ts';
import { addressGroup } from '../webhooks/networks/address.ts';

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** After so long without a failure an address starts anew. */
const FORGET_AFTER_MS = 15 * 60_000;
/** Remembered failures; the least recent are forgotten first, so that a flood of addresses or names costs no memory. */
const MAX_REMEMBERED = 10_000;
/** Failures of an address, whatever the accounts, before it is slowed down as a whole: many people may share it. */
const FREE_FAILURES_OF_ADDRESS = 20;
/** Logins of one address that wait for their turn; more are told to come back. */
const MAX_WAITING = 16;
/** How often one login waits, while others of its address fail, before it is told to come back. */
const MAX_TURNS = 10;

export interface Login {
  /** An IPv6 address stands for its /64. */
  readonly address: string;
  /** The name of HTTP Basic, or that it is a token. */
  readonly account: string;
}

export interface LoginDelays {
  /**
   * Compares a claim when it is its turn: after a wrong one no other of that address and account is looked at for a
   * while, however many come at once.
   */
  attempt(login: Login, isRight: () => boolean): Promise<'right' | 'wrong' | 'too many'>;
}

interface Failures {
  count: number;
  /** Monotonic milliseconds of the last one. */
  at: number;
}

/**
 * Slows down who guesses: 100 ms after the first failure, twice that after each further one, two seconds at most, for the
 * address and account and, after twenty, for the address. There is no lock-out, because people share addresses.
 */
export function loginDelays({ clock, wait }: { clock: Clock; wait: (ms: number) => Promise<void> }): LoginDelays {
  const failures = new LRUCache<string, Failures>({ max: MAX_REMEMBERED });
  const waiting = new Map<string, number>();

  const delayLeft = (key: string, freeFailures: number): number => {
    const last = failures.get(key);
    if (last === undefined || last.count <= freeFailures) return 0;
    const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (last.count - freeFailures - 1), MAX_DELAY_MS);
    return last.at + delayMs - clock.monotonic();
  };
  const fail = (key: string) => {
    const at = clock.monotonic();
    const last = failures.get(key);
    const count = last === undefined || at - last.at > FORGET_AFTER_MS ? 1 : last.count + 1;
    failures.set(key, { count, at });
  };
  const waitFor = async (group: string, ms: number) => {
    waiting.set(group, (waiting.get(group) ?? 0) + 1);
    await wait(ms);
    const others = (waiting.get(group) ?? 0) - 1;
    if (others > 0) waiting.set(group, others);
    else waiting.delete(group);
  };

  return {
    async attempt({ address, account }, isRight) {
      const group = addressGroup(address);
      const ofAddress = `address ${group}`;
      const ofAccount = `account ${group} ${account.slice(0, 64)}`;
      for (let turn = 0; turn <= MAX_TURNS; turn += 1) {
        const ms = Math.max(delayLeft(ofAccount, 0), delayLeft(ofAddress, FREE_FAILURES_OF_ADDRESS));
        if (ms <= 0) {
          // Nothing may come between the look at the delays and the count: a second guess would slip in.
          if (isRight()) {
            // The address stays counted: whoever shares it must not guess faster because others log in.
            failures.delete(ofAccount);
            return 'right';
          }
          fail(ofAccount);
          fail(ofAddress);
          return 'wrong';
        }
        if ((waiting.get(group) ?? 0) >= MAX_WAITING) return 'too many';
        await waitFor(group, ms);
      }
      return 'too many';
    },
  };
}
