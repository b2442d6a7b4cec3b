/** Time is passed in, so that tests choose it. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds that never go back; only differences mean anything. */
  monotonic(): number;
}
