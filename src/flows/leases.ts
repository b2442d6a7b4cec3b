import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { Places } from '../model/places.ts';
import { STOP_ERRORS } from '../model/run.ts';
import type { Claim, RunStop, Store } from '../store/store.ts';
import { toBegunAttempt } from './beginnings.ts';

/** The longest that a step of a dead process waits for another one; renewed three times before it runs out. */
export const LEASE_MS = 30_000;

/** Abort reason of a step whose run was stopped. */
class RunStopped extends Error {
  readonly stop: RunStop;
  constructor(stop: RunStop) {
    super(STOP_ERRORS[stop].message);
    this.name = 'RunStopped';
    this.stop = stop;
  }
}

export function stopOf({ reason }: Pick<Abortable, 'reason'>): RunStop | undefined {
  return reason instanceof RunStopped ? reason.stop : undefined;
}

/** Can be aborted; has the state of an `AbortSignal`, before one is needed. */
export interface Abortable {
  readonly aborted: boolean;
  readonly reason: unknown;
  /** Made at the first access: almost no step needs it. */
  readonly signal: AbortSignal;
}

/** This process' hold on one attempt. Aborts when it is lost or the process stops waiting. */
export class Lease implements Abortable {
  claim: Claim;
  /** As far as this process knows; milliseconds since the Unix epoch. */
  leasedUntil: number;
  /** Place among the held leases. */
  place = -1;
  #reason: Error | undefined;
  #controller: AbortController | undefined;

  constructor(claim: Claim, leasedUntil: number) {
    this.claim = claim;
    this.leasedUntil = leasedUntil;
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): Error | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  abort(reason: Error): void {
    this.#reason ??= reason;
    this.#controller?.abort(this.#reason);
  }
}

/** The attempts that run in this process. */
export interface Leases {
  hold(claim: Claim, leasedUntil: number): Lease;
  release(lease: Lease): void;
  /**
   * Releases an attempt whose outcome was given up, and lets its lease run out. Yields whether the attempt had begun,
   * which must then be recorded.
   */
  giveUp(lease: Lease): boolean;
  /** Resolves when none is held any more. */
  left(): Promise<void>;
  /** Tokens of all leases that are held or were given up. */
  tokens(): string[];
  /**
   * Returns the lease of a step that did not begin, in one call with others of this turn of the event loop: the step is
   * due again, as before. Waits out an outage of the store. Yields false if it fails for as long as a lease lasts, or
   * until `endReturns`; then give the lease up.
   */
  putBack(lease: Lease): Promise<boolean>;
  /** From now on, no failed return is tried again. */
  endReturns(): void;
  /** Extends all of them every few seconds from now on. */
  startRenewing(): void;
  /**
   * Extends nothing any more and returns the leases that were given up, so that another process continues their steps
   * at once. Resolves when none of its work runs any more.
   */
  giveBack(): Promise<void>;
  /** Extends all in one call and aborts those that the store gave to another process; rejects as the store does. */
  renew(): Promise<void>;
  /** Whether one has run out without renewal: a claim could yield a step that still runs here. */
  hasLapsed(now: number): boolean;
  /** Aborts the attempts of a stopped run. */
  stopRun(runId: string, stop: RunStop): void;
  /** Aborts all current and later attempts. */
  abort(reason: string): void;
}

interface LeaseServices {
  readonly store: Pick<Store, 'renewLeases' | 'returnLeases' | 'beginAttempts'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const RENEWAL_MS = LEASE_MS / 3;
const RETURN_AGAIN_MS = 1000;

export function createLeases({ store, clock, logger }: LeaseServices): Leases {
  const held = new Places<Lease>();
  const givenUp = new Set<Lease>();
  let onLeft: (() => void) | undefined;
  let abortReason: Error | undefined;
  let renewal: NodeJS.Timeout | undefined;
  let renewing: Promise<void> | undefined;
  const returns = createReturns({ store, clock, logger });

  const renew = async () => {
    const leasedUntil = clock.now() + LEASE_MS;
    // These were last extended while the clock was fast; without renewal they would last until the false time.
    const tooLong = [...givenUp].filter((lease) => lease.leasedUntil > leasedUntil);
    const leases = [...held.items(), ...tooLong];
    if (leases.length === 0) return;
    const lost = new Set(await store.renewLeases({ tokens: leases.map(({ claim }) => claim.token), leasedUntil }));
    for (const lease of leases) {
      if (!lost.has(lease.claim.token)) lease.leasedUntil = leasedUntil;
      else if (!givenUp.delete(lease) && held.at(lease.place) === lease) lease.abort(new Error('its lease was lost'));
    }
  };
  const renewAndLog = () => {
    renewing ??= renew()
      .catch((error: unknown) => {
        logger.warn({ err: error }, 'leases of running steps could not be renewed; trying again');
      })
      .finally(() => {
        renewing = undefined;
      });
  };

  const leave = (lease: Lease) => {
    // Its place may belong to another one by now.
    if (held.at(lease.place) === lease) held.take(lease.place);
    if (held.size === 0) onLeft?.();
  };

  return {
    hold(claim, leasedUntil) {
      const lease = new Lease(claim, leasedUntil);
      lease.place = held.add(lease);
      if (abortReason !== undefined) lease.abort(abortReason);
      return lease;
    },
    release: leave,
    giveUp(lease) {
      leave(lease);
      givenUp.add(lease);
      return !returns.unbegun.has(lease);
    },
    async left() {
      while (held.size > 0) {
        await new Promise<void>((resolve) => {
          onLeft = resolve;
        });
      }
    },
    putBack: returns.putBack,
    endReturns: returns.end,
    tokens: () => [...held.items(), ...givenUp].map(({ claim }) => claim.token),
    startRenewing() {
      renewal ??= setInterval(renewAndLog, RENEWAL_MS).unref();
    },
    async giveBack() {
      clearInterval(renewal);
      await renewing;
      const claims = [...givenUp].map(({ claim }) => claim);
      if (claims.length === 0) return;
      const begun = [...givenUp].filter((lease) => !returns.unbegun.has(lease)).map(({ claim }) => claim);
      try {
        // Records the interruption.
        await store.beginAttempts({ attempts: begun.map(toBegunAttempt) });
        const dueAt = claims.map((claim) => claim.dueAt);
        await store.returnLeases({ tokens: claims.map(({ token }) => token), at: clock.now(), dueAt });
      } catch (error) {
        logger.warn(
          { err: error, steps: claims.length },
          'unfinished steps could not be released; they count as interrupted',
        );
      }
    },
    renew,
    hasLapsed(now) {
      return held.items().some((lease) => lease.leasedUntil <= now);
    },
    stopRun(runId, stop) {
      for (const lease of held.items()) if (lease.claim.runId === runId) lease.abort(new RunStopped(stop));
    },
    abort(reason) {
      abortReason = new Error(reason);
      for (const lease of held.items()) lease.abort(abortReason);
    },
  };
}

/** Returns leases of steps that did not begin: those of one turn of the event loop in one call. */
function createReturns({ store, clock, logger }: LeaseServices) {
  /** Leases that the store failed to take back. */
  const unbegun = new WeakSet<Lease>();
  const ending = new AbortController();
  let claims: Claim[] = [];
  let returning: Promise<boolean> | undefined;

  const returnAll = async () => {
    const given = claims;
    claims = [];
    returning = undefined;
    try {
      const [tokens, dueAt] = [given.map(({ token }) => token), given.map((claim) => claim.dueAt)];
      await store.returnLeases({ tokens, at: clock.now(), dueAt });
      return true;
    } catch (error) {
      logger.warn({ err: error, steps: given.length }, 'steps that got no slot could not be released; trying again');
      return false;
    }
  };
  const returnSoon = (claim: Claim) => {
    claims.push(claim);
    returning ??= setImmediate().then(returnAll);
    return returning;
  };

  return {
    unbegun,
    async putBack(lease: Lease): Promise<boolean> {
      const { signal } = ending;
      const since = clock.monotonic();
      while (!(await returnSoon(lease.claim))) {
        if (!signal.aborted) await pause(RETURN_AGAIN_MS, signal);
        if (signal.aborted || clock.monotonic() - since >= LEASE_MS) {
          unbegun.add(lease);
          return false;
        }
      }
      return true;
    },
    end: () => ending.abort(),
  };
}

/** Resolves after `ms`, or as soon as the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
