/** Time is passed in, so that tests choose it. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds that never go back; only differences mean anything. */
  monotonic(): number;
}

const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

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
