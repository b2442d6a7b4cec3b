import type { HostLimits } from './host-limits.ts';

/**
 * A request up to this much later than its token lets the next one pass earlier by the same time: claims take
 * milliseconds, and without this they would lower the rate.
 */
const SLACK_MS = 25;
/** Steps are made due until the next look at waiting ones, and for a little longer. */
const RELEASED_FOR_MS = 1200;
/**
 * Releases a second if no rate is set: a receiver that is back gets no flood, and ten thousand steps have called it
 * within two minutes.
 */
const UNLIMITED_RELEASES = 100;
/** As many as a process can run in a second, so that no released step waits long for a slot. */
const MOST_RELEASED = 2000;

/** A plan for making waiting steps due: the first time, the number of steps, and the time between them. */
interface Release {
  readonly from: number;
  readonly count: number;
  readonly everyMs: number;
}

/**
 * The rate of a host or of a step: a bucket with a single token, so that requests are evenly spaced and a receiver sees
 * at most one more than the limit in any window of time. Each of several replicas has its share of the rate. Times are
 * milliseconds of the monotonic clock.
 */
export class Bucket {
  /** The time of the next token. */
  #tokenAt = Number.NEGATIVE_INFINITY;
  /** The time at which the last released step comes. */
  #releasedAt = Number.NEGATIVE_INFINITY;
  readonly #cluster: { readonly replicas: number };
  limits: HostLimits;

  constructor(limits: HostLimits, cluster: { readonly replicas: number }) {
    this.limits = limits;
    this.#cluster = cluster;
  }

  /** The time until the token for a request made now. A released one goes before all that were not released. */
  waitMs(now: number, wasReleased: boolean): number {
    const { perSecond } = this.limits;
    if (perSecond === undefined) return 0;
    const at = wasReleased ? this.#tokenAt : Math.max(this.#tokenAt, this.#releasedAt + this.#everyMs(perSecond));
    return Math.max(0, at - now);
  }

  /** Takes the token, at once or at a later time that the caller waits for. */
  take(at: number): void {
    const { perSecond } = this.limits;
    if (perSecond === undefined) return;
    this.#tokenAt = Math.max(this.#tokenAt, at - SLACK_MS) + this.#everyMs(perSecond);
  }

  /** When at most `most` waiting steps can come; undefined if none can before the next look. */
  nextRelease(now: number, most: number): Release | undefined {
    const { perSecond, atOnce } = this.limits;
    // If only the number at once is limited, the caller knows how many can go.
    const isUnlimited = perSecond === undefined && atOnce === undefined;
    const rate = isUnlimited ? UNLIMITED_RELEASES : perSecond;
    const everyMs = rate === undefined ? 0 : this.#everyMs(rate);
    const from = Math.max(now, this.#tokenAt, this.#releasedAt + everyMs);
    const inTime = everyMs === 0 ? MOST_RELEASED : Math.floor((now + RELEASED_FOR_MS - from) / everyMs) + 1;
    const count = Math.min(most, inTime, MOST_RELEASED);
    return count < 1 ? undefined : { from, count, everyMs };
  }

  /** Records that this many steps were made due. */
  released({ from, everyMs }: Release, count: number): void {
    if (count > 0) this.#releasedAt = from + (count - 1) * everyMs;
  }

  /** Whether its state equals that of a new one. */
  isIdle(now: number): boolean {
    return Math.max(this.#tokenAt, this.#releasedAt) <= now;
  }

  #everyMs(perSecond: number): number {
    return (1000 * this.#cluster.replicas) / perSecond;
  }
}
