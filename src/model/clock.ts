/** Passed in, so that tests choose the time. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds that never go back; only differences are meaningful. */
  monotonic(): number;
}

/**
 * The clock of a service. `now` is the time of the database, which is the same in all replicas, or of the machine if
 * the database has no clock. It advances with the monotonic clock, so that it never jumps in the middle of something.
 */
export interface ServiceClock extends Clock {
  /**
   * Milliseconds for storing and comparing the ends of nonces. They pass while a process has the database, continue
   * across restarts and never jump, so setting a clock never ends a nonce early. They are not a time of day.
   */
  ledger(): number;
  /** Whether the machine's own clock agrees; if not, nothing that has a time may be accepted. */
  isFit(): boolean;
  /** How far the machine's own clock is ahead of this one. */
  clockOffsetMs(): number;
  /** Adjusts to the store's answer to a call that was sent at that monotonic time. */
  follow(answer: StoreTime, sentAt: number): void;
}

/** The times that a store reports. */
export interface StoreTime {
  /** By its own clock; undefined if it has none. */
  readonly at: number | undefined;
  readonly ledgerAt: number;
}

const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** How long interventions are kept. Longer than deliveries and runs, since one may ask who did something last year. */
export const ACTIVITY_DAYS = 365;

/** Clocks that NTP controls differ by far less. */
export const CLOCK_UNFIT_MS = 5 * SECOND_MS;
/** Two readings of one machine's clocks differ by less. */
const TREMOR_MS = 100;
/** A machine that wakes up may set its clock twice: from its hardware and from the network. */
export const CLOCK_SETTLED_MS = 10 * SECOND_MS;

/**
 * Makes the clock of a service from those of its machine. If the store has no clock, follows a change of the machine's
 * clock by more than 5 s once it has lasted for 10 s; `onFollowed` gets the milliseconds by which the clock was set
 * ahead.
 */
export function createServiceClock(machine: Clock, onFollowed: (aheadMs: number) => void = () => {}): ServiceClock {
  const machineOffset = () => machine.now() - machine.monotonic();
  let isOfStore = false;
  let hasFollowed = false;
  let offset = machineOffset();
  let ledgerOffset = offset;
  let set: { readonly offset: number; readonly since: number } | undefined;

  /** The store read its clock between call and answer; an offset within these bounds is kept. */
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
 * Makes a function that says whether old rows may be deleted. After the wall clock was set ahead by more than an hour,
 * it forbids that for a day, so that there is time to correct the clock. A machine that slept looks the same.
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
