import { randomUUID } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import type { BirthLease } from '../store/store.ts';
import { LEASE_MS } from './leases.ts';
import { holderOf } from './runtime-keys.ts';

/** Slots that are kept free while a call is under way that makes steps due. */
export interface SlotOffer {
  readonly lease: BirthLease;
  /** Gives back the slots that nothing took. */
  withdraw(): void;
}

/** Counts what may run at once: steps that run, and slots that are kept for steps to come. */
export class Slots {
  readonly #all: number;
  readonly #clock: Clock;
  /** With a number appended it names a lease that this process gives itself. */
  readonly #holder: string;
  readonly #onWithdrawn: () => void;
  #offers = 0;
  taken = 0;

  /** `onWithdrawn` is called when slots of an offer are free again. */
  constructor(
    { concurrency, clock, owner }: { concurrency: number; clock: Clock; owner: string },
    onWithdrawn: () => void,
  ) {
    this.#all = concurrency;
    this.#clock = clock;
    this.#holder = holderOf(owner, randomUUID());
    this.#onWithdrawn = onWithdrawn;
  }

  get room(): number {
    return Math.max(0, this.#all - this.taken);
  }

  /** Yields the function that leaves the slot, however often it is called. */
  take(): () => void {
    let isTaken = true;
    this.taken += 1;
    return () => {
      if (isTaken) this.taken -= 1;
      isTaken = false;
    };
  }

  /** Keeps slots for steps that a call is about to make due. */
  offer(count: number): SlotOffer {
    this.taken += count;
    this.#offers += 1;
    let isKept = true;
    const leasedUntil = this.#clock.now() + LEASE_MS;
    return {
      lease: { holder: `${this.#holder}.${this.#offers}`, leasedUntil, limit: count },
      withdraw: () => {
        if (!isKept) return;
        isKept = false;
        this.taken -= count;
        this.#onWithdrawn();
      },
    };
  }
}
