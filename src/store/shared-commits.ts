/** How long a call can wait for others to share its commit, in milliseconds; calls not named here never wait. */
export const SHARE_MS = { accept: 2, recordDelivery: 5, advance: 20 } as const;

/** This many calls wait no longer. On SQLite a commit costs 900 µs for 1 call, 120 µs a call for 14, 72 µs for 50. */
const ENOUGH_CALLS = 16;

/** A longer gap between calls counts as this one, so that a few calls after a lull show the new rate. */
const MAX_GAP_MS = 8 * SHARE_MS.advance;

type Timers = Pick<typeof globalThis, 'setTimeout' | 'clearTimeout'>;

/** Kept from when this module loads: code that replaces the global timers later means those of flows. */
const TIMERS: Timers = { setTimeout, clearTimeout };

/**
 * Decides when to send calls that share a commit: a commit of one call costs nearly as much as one of ten. Calls wait
 * only while others are likely to come. Only cost depends on that, never what is stored or in which order.
 */
export class SharedCommits {
  readonly #send: () => void;
  readonly #timers: Timers;
  /** The moving average of the time between calls; the newest counts an eighth. */
  #gapMs = MAX_GAP_MS;
  #lastAt = Number.NEGATIVE_INFINITY;
  /** When to send the calls: 0 at the end of this turn of the event loop, infinity if none wait. */
  #sendAt = Number.POSITIVE_INFINITY;
  #cancel = () => {};

  constructor(send: () => void, timers = TIMERS) {
    this.#send = send;
    this.#timers = timers;
  }

  /** Whether no calls are about to be sent. */
  get isIdle(): boolean {
    return this.#sendAt === Number.POSITIVE_INFINITY;
  }

  /** Notes a call that may wait for `shareMs`, the last of `count` waiting calls. */
  expect(shareMs: number, count: number): void {
    const now = performance.now();
    this.#gapMs += (Math.min(now - this.#lastAt, MAX_GAP_MS) - this.#gapMs) / 8;
    this.#lastAt = now;
    const isCompanyLikely = this.#gapMs < shareMs / 2;
    if (count >= ENOUGH_CALLS || !isCompanyLikely) {
      this.sendSoon();
      return;
    }
    if (now + shareMs >= this.#sendAt) return;
    this.cancel();
    const timer = this.#timers.setTimeout(() => this.#sendNow(), shareMs);
    this.#sendAt = now + shareMs;
    this.#cancel = () => this.#timers.clearTimeout(timer);
  }

  /** Sends at the end of this turn of the event loop. */
  sendSoon(): void {
    if (this.#sendAt === 0) return;
    this.cancel();
    const immediate = setImmediate(() => this.#sendNow());
    this.#sendAt = 0;
    this.#cancel = () => clearImmediate(immediate);
  }

  cancel(): void {
    this.#cancel();
    this.#sendAt = Number.POSITIVE_INFINITY;
    this.#cancel = () => {};
  }

  #sendNow(): void {
    this.cancel();
    this.#send();
  }
}
