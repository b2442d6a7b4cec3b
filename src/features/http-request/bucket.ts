import type { HostLimits } from './host-limits.ts';

/**
 * A request that comes this much after its token lets the next one pass as much earlier: claims take milliseconds, and
 * without this they would lower the rate.
 */
const SLACK_MS = 25;
/** Steps are made due for the time until the next look at the waiting ones, and a little more. */
const RELEASED_FOR_MS = 1200;
/**
 * A second, where no rate is set: a receiver that has just come back gets no flood, and ten thousand steps have called it
 * within two minutes.
 */
const UNLIMITED_RELEASES = 100;
/** What a process can run in a second, so that no step that was made due has to wait for a slot for long. */
const MOST_RELEASED = 2000;

/** When steps that wait are made due: the first, and how many follow at which distance. */
interface Release {
  readonly from: number;
  readonly count: number;
  readonly everyMs: number;
}

/**
 * The rate of a host or of a step: a bucket that holds a single token, so that requests are evenly spaced and a receiver
 * sees, in any window of time, at most one more than the limit. Each of several replicas has its share of the rate.
 * Times are milliseconds of the clock that is never set.
 */
export class Bucket {
  /** When the next token is there. */
  #tokenAt = Number.NEGATIVE_INFINITY;
  /** When the last of the steps comes that were made due. */
  #releasedAt = Number.NEGATIVE_INFINITY;
  readonly #cluster: { readonly replicas: number };
  limits: HostLimits;

  constructor(limits: HostLimits, cluster: { readonly replicas: number }) {
    this.limits = limits;
    this.#cluster = cluster;
  }

  /** How long until the token of a request that comes now. One that was made due goes before all that come by themselves. */
  waitMs(now: number, wasReleased: boolean): number {
    const { perSecond } = this.limits;
    if (perSecond === undefined) return 0;
    const at = wasReleased ? this.#tokenAt : Math.max(this.#tokenAt, this.#releasedAt + this.#everyMs(perSecond));
    return Math.max(0, at - now);
  }

  /** Takes the token, at once or at a later time that is waited for. */
  take(at: number): void {
    const { perSecond } = this.limits;
    if (perSecond === undefined) return;
    this.#tokenAt = Math.max(this.#tokenAt, at - SLACK_MS) + this.#everyMs(perSecond);
  }

  /** When at most `most` waiting steps may come; undefined where none may before the next look. */
  nextRelease(now: number, most: number): Release | undefined {
    const { perSecond, atOnce } = this.limits;
    // Where requests at once are limited and nothing else, the caller knows how many may go.
    const isUnlimited = perSecond === undefined && atOnce === undefined;
    const rate = isUnlimited ? UNLIMITED_RELEASES : perSecond;
    const everyMs = rate === undefined ? 0 : this.#everyMs(rate);
    const from = Math.max(now, this.#tokenAt, this.#releasedAt + everyMs);
    const inTime = everyMs === 0 ? MOST_RELEASED : Math.floor((now + RELEASED_FOR_MS - from) / everyMs) + 1;
    const count = Math.min(most, inTime, MOST_RELEASED);
    return count < 1 ? undefined : { from, count, everyMs };
  }

  /** So many were made due. */
  released({ from, everyMs }: Release, count: number): void {
    if (count > 0) this.#releasedAt = from + (count - 1) * everyMs;
  }

  /** Whether it says no more than a new one. */
  isIdle(now: number): boolean {
    return Math.max(this.#tokenAt, this.#releasedAt) <= now;
  }

  #everyMs(perSecond: number): number {
    return (1000 * this.#cluster.replicas) / perSecond;
  }
}
