/** Time is passed in, so that tests choose it. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds that never go back; only differences mean anything. */
  monotonic(): number;
}

/**
 * What a service goes by. Its `now` is the time of the database, which is the same in all replicas, or that of the machine
 * where the database has no clock; it goes on by the monotonic clock, so that it never jumps in the middle of something.
 */
export interface ServiceClock extends Clock {
  /**
   * Milliseconds that the ends of nonces are stored and compared by. They pass while a process has the database, go on over
   * restarts and never jump, so that no clock that is set ends a nonce early. They say nothing of the hour.
   */
  ledger(): number;
  /** Whether the machine's own clock agrees; nothing that has a time may be accepted while it does not. */
  isFit(): boolean;
  /** How far the machine's own clock is ahead of this one. */
  clockOffsetMs(): number;
  /** Goes by what the store answered to a call that was sent at that monotonic time. */
  follow(answer: StoreTime, sentAt: number): void;
}

/** What a store knows of the time. */
export interface StoreTime {
  /** By its own clock; undefined where it has none. */
  readonly at: number | undefined;
  readonly ledgerAt: number;
}

const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** Clocks that are kept by NTP differ by far less. */
export const CLOCK_UNFIT_MS = 5 * SECOND_MS;
/** Two readings of one machine's clocks differ by less. */
const TREMOR_MS = 100;
/** A machine that wakes up may set its clock twice: once from its hardware and once from the network. */
export const CLOCK_SETTLED_MS = 10 * SECOND_MS;

/**
 * Makes the clock of a service from those of its machine. Where the store has no clock, a change of the machine's own by
 * more than 5 s is followed once it has stayed for 10 s; `onFollowed` learns by how much it was set ahead.
 */
export function createServiceClock(machine: Clock, onFollowed: (aheadMs: number) => void = () => {}): ServiceClock {
  const machineOffset = () => machine.now() - machine.monotonic();
  let isOfStore = false;
  let hasFollowed = false;
  let offset = machineOffset();
  let ledgerOffset = offset;
  let set: { readonly offset: number; readonly since: number } | undefined;

  /** The store read its clock at some instant in between; what is possible is left as it is. */
  function followStore(at: number, sentAt: number): void {
    const [earliest, latest] = [at - machine.monotonic(), at - sentAt];
    offset = isOfStore ? Math.min(Math.max(offset, earliest), latest) : (earliest + latest) / 2;
    isOfStore = true;
  }

  function followMachine(): boolean {
    const current = machineOffset();
    const aheadMs = current - offset;
    if (Math.abs(aheadMs) <= CLOCK_UNFIT_MS) {
      set = undefined;
      if (Math.abs(aheadMs) > TREMOR_MS) offset = current;
      return true;
    }
    const now = machine.monotonic();
    if (set === undefined || Math.abs(current - set.offset) > TREMOR_MS) set = { offset: current, since: now };
    if (now - set.since < CLOCK_SETTLED_MS) return false;
    set = undefined;
    offset = current;
    onFollowed(aheadMs);
    return true;
  }

  const clockOffsetMs = () => machineOffset() - offset;
  return {
    now: () => Math.floor(machine.monotonic() + offset),
    monotonic: () => machine.monotonic(),
    ledger: () => Math.floor(machine.monotonic() + ledgerOffset),
    isFit: () => (isOfStore ? Math.abs(clockOffsetMs()) <= CLOCK_UNFIT_MS : followMachine()),
    clockOffsetMs,
    follow({ at, ledgerAt }, sentAt) {
      if (at !== undefined) followStore(at, sentAt);
      const told = ledgerAt - machine.monotonic();
      ledgerOffset = hasFollowed ? Math.max(ledgerOffset, told) : told;
      hasFollowed = true;
    },
  };
}

const JUMP_MS = HOUR_MS;
const HELD_MS = DAY_MS;

/**
 * Makes a function that says whether rows may be deleted for their age. After the wall clock was set ahead by more than an
 * hour they may not for a day, so that there is time to set it right. A machine that slept looks the same.
 */
export function deletionGuard(clock: Clock, onHeld: (aheadMs: number) => void): () => boolean {
  let offset = clock.now() - clock.monotonic();
  let heldUntil = Number.NEGATIVE_INFINITY;
  return () => {
    const before = offset;
    offset = clock.now() - clock.monotonic();
    if (offset - before > JUMP_MS) {
      heldUntil = clock.monotonic() + HELD_MS;
      onHeld(offset - before);
    }
    return clock.monotonic() >= heldUntil;
  };
}
