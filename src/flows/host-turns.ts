import type { HostLimits } from './host-limits.ts';

/** Requests that pass one after another, an interval apart. Times are milliseconds of the clock that is never set. */
interface Line {
  /** When the next may pass. */
  freeAt: number;
  /** The last turn that was promised to a request that waits; the past where none waits. */
  tailAt: number;
  /** The same among those that came when their turn was over. */
  lateAt: number;
}

/** A request that asks for its turn. */
export interface Asking {
  readonly now: number;
  /** The step's own limits; they only count where they are stricter than those of the host. */
  readonly own: HostLimits;
  /** Names the step, the same in all runs: its own limits hold for all of them. */
  readonly step: string;
  /** It has waited for its turn: it goes before all that come now. */
  readonly hasWaited: boolean;
  /** Requests a second that the host may have while it comes back. */
  readonly rampPerSecond: number;
  /** How many processes share the limits. */
  readonly replicas: number;
}

/** What a request has to wait for, and for how long as far as is known. */
export interface Wait {
  readonly ms: number;
  readonly why: 'rate' | 'atOnce';
  /** The limit that it is about, of all replicas together. */
  readonly limit: number;
  /** Nothing but rates: then its time is known to the millisecond. */
  readonly isExact: boolean;
}

interface Rule {
  readonly key: string;
  readonly why: Wait['why'];
  readonly limit: number;
  readonly intervalMs: number;
  /** Of this process, of requests at once. */
  readonly share: number;
}

/**
 * A request that comes this much after its turn lets the next one pass as much earlier: claims take milliseconds, and without
 * this they would lower the rate.
 */
const SLACK_MS = 25;
/** Until it has answered once, a host is taken to answer in this time. */
const FIRST_LATENCY_MS = 200;
const LEAST_LATENCY_MS = 5;
/** How much the newest answer counts. */
const LATENCY_WEIGHT = 0.2;
const MOST_LINES = 16;

/**
 * Decides which step calls a host next. Requests are evenly spaced, without bursts: in any time window, a receiver sees
 * at most one request more than the limit.
 *
 * A step that has to wait gets a time behind all others that wait, so that each step returns once and none returns
 * early. A limit on concurrent requests has no such times; it uses the time that the host takes to answer instead.
 */
export class HostTurns {
  readonly #limits: HostLimits;
  readonly #lines = new Map<string, Line>();
  #latencyMs = FIRST_LATENCY_MS;
  inFlight = 0;

  constructor(limits: HostLimits) {
    this.#limits = limits;
  }

  /** What the request would have to wait for; undefined where it may go. Changes nothing. */
  look(asking: Asking): Wait | undefined {
    let longest: Wait | undefined;
    for (const rule of this.#rulesFor(asking)) {
      const ms = this.#turnOf(rule, asking) - asking.now;
      if (ms <= 0) continue;
      const isExact = rule.why === 'rate' && longest?.isExact !== false;
      longest = {
        ...(longest !== undefined && longest.ms > ms ? longest : { ms, why: rule.why, limit: rule.limit }),
        isExact,
      };
    }
    return longest;
  }

  /** Lets the request wait, and yields for how long: the next one that comes has its turn behind it. */
  queue(asking: Asking): number {
    const { now, hasWaited } = asking;
    let longest = 0;
    for (const rule of this.#rulesFor(asking)) {
      const turnAt = this.#turnOf(rule, asking);
      if (turnAt <= now) continue;
      const line = this.#line(rule.key);
      const promised = hasWaited ? Math.max(turnAt, line.lateAt + rule.intervalMs) : turnAt;
      if (hasWaited) line.lateAt = promised;
      else line.tailAt = promised;
      longest = Math.max(longest, promised - now);
    }
    return longest;
  }

  /** Takes a turn, at once or at a later moment that is waited for. */
  take(asking: Asking, at = asking.now): void {
    for (const { key, why, intervalMs } of this.#rulesFor(asking)) {
      const line = this.#line(key);
      // Who waits in the line for a moment is at its end.
      if (at > asking.now && !asking.hasWaited) line.tailAt = Math.max(line.tailAt, at);
      if (why === 'rate') line.freeAt = Math.max(line.freeAt, at - SLACK_MS) + intervalMs;
    }
    this.inFlight += 1;
    this.#forgetIdle(asking.now);
  }

  /** A request that had its turn is over; without a time it said nothing of how fast the host is. */
  leave(tookMs?: number): void {
    this.inFlight -= 1;
    if (tookMs === undefined) return;
    this.#latencyMs += (Math.max(LEAST_LATENCY_MS, tookMs) - this.#latencyMs) * LATENCY_WEIGHT;
  }

  /** Requests that one process can make in a second, as far as is known; `most` where nothing limits them. */
  capacity(asking: Asking, most: number): number {
    return this.#rulesFor(asking).reduce((least, { intervalMs }) => Math.min(least, 1000 / intervalMs), most);
  }

  /** Takes over how many wait in truth, or at least: some were cancelled, or wait since before a restart. */
  recount(asking: Asking, waiting: number, isMore: boolean): void {
    const rules = new Map(this.#rulesFor(asking).map((rule) => [rule.key, rule]));
    for (const key of new Set([...this.#lines.keys(), ...(waiting > 0 ? rules.keys() : [])])) {
      const line = this.#line(key);
      const rule = rules.get(key);
      // Those that came too late are released with the others.
      line.lateAt = Number.NEGATIVE_INFINITY;
      if (waiting === 0) line.tailAt = Number.NEGATIVE_INFINITY;
      else if (rule !== undefined && key !== 'ramp') {
        const tailAt = asking.now + waiting * rule.intervalMs;
        line.tailAt = isMore ? Math.max(line.tailAt, tailAt) : tailAt;
      }
    }
  }

  /** One line for each limit of the host, and for each step one of its own: its limits may differ from run to run. */
  #rulesFor({ own, step, rampPerSecond, replicas }: Asking): Rule[] {
    const rules: Rule[] = [];
    const addRate = (key: string, perSecond: number) =>
      rules.push({ key, why: 'rate', limit: perSecond, intervalMs: (1000 * replicas) / perSecond, share: 0 });
    const addAtOnce = (key: string, limit: number) => {
      const share = Math.max(1, Math.floor(limit / replicas));
      rules.push({ key, why: 'atOnce', limit, intervalMs: this.#latencyMs / share, share });
    };
    const { perSecond, atOnce } = this.#limits;
    if (perSecond !== undefined) addRate('rate', perSecond);
    if (own.perSecond !== undefined && own.perSecond < (perSecond ?? Number.POSITIVE_INFINITY)) {
      addRate(`rate of ${step}`, own.perSecond);
    }
    if (Number.isFinite(rampPerSecond)) addRate('ramp', rampPerSecond);
    if (atOnce !== undefined) addAtOnce('at once', atOnce);
    if (own.atOnce !== undefined && own.atOnce < (atOnce ?? Number.POSITIVE_INFINITY)) {
      addAtOnce(`at once of ${step}`, own.atOnce);
    }
    return rules;
  }

  /** The earliest time for the request: a step that has waited goes before all others, and later ones queue behind. */
  #turnOf({ key, why, intervalMs, share }: Rule, { now, hasWaited }: Asking): number {
    const { freeAt, tailAt } = this.#lines.get(key) ?? NO_LINE;
    const behind = !hasWaited && tailAt > now ? tailAt + intervalMs : now;
    if (why === 'rate') return Math.max(freeAt, behind);
    return this.inFlight < share ? behind : Math.max(behind, now + intervalMs);
  }

  #line(key: string): Line {
    const line = this.#lines.get(key) ?? { ...NO_LINE };
    this.#lines.set(key, line);
    return line;
  }

  /** Hosts may have many steps. A line that nothing waits in is as good as none. */
  #forgetIdle(now: number): void {
    if (this.#lines.size <= MOST_LINES) return;
    for (const [key, { freeAt, tailAt, lateAt }] of this.#lines) {
      if (Math.max(freeAt, tailAt, lateAt) <= now) this.#lines.delete(key);
    }
  }
}

const NO_LINE: Line = {
  freeAt: Number.NEGATIVE_INFINITY,
  tailAt: Number.NEGATIVE_INFINITY,
  lateAt: Number.NEGATIVE_INFINITY,
};
