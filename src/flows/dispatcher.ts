import type { Claim, RunStop, Store } from '../store/store.ts';
import {
  type AttemptServices,
  createAttempt,
  createLeases,
  type Followed,
  LEASE_MS,
  type Lease,
  type Leases,
} from './attempt.ts';
import { createDeadlines, type Deadlines, LONGEST_SLEEP_MS } from './deadlines.ts';
import { backoffMs } from './step-failure.ts';

/** Claims due steps and sees each through to its stored outcome. */
export interface Dispatcher {
  start(): void;
  /** Says that a step may be due: it is claimed as soon as there is room. Its run may have a time limit. */
  nudge(timeoutAt?: number | null): void;
  /** Aborts the steps of a run that was told to stop, as far as they run here. */
  stopRun(runId: string, stop: RunStop): void;
  /**
   * Claims nothing more, lets running steps finish for `graceMs`, then aborts them and gives their leases back: the next
   * process takes them up at once, and the interruption does not count. Resolves when nothing of the dispatcher runs
   * any more.
   */
  stop(graceMs: number): Promise<void>;
}

interface DispatcherServices extends AttemptServices {
  readonly store: Pick<Store, 'claimDue' | 'claimOverdue' | 'renewLeases' | 'returnLeases' | 'advance' | 'ping'>;
  /** Steps that run at once. */
  readonly concurrency: number;
}

const RENEWAL_MS = LEASE_MS / 3;
const CLAIM_BACKOFF = { backoffSeconds: 0.1, factor: 2, maxBackoffSeconds: 10, jitter: true };

export function createDispatcher(services: DispatcherServices): Dispatcher {
  return new StepDispatcher(services);
}

class StepDispatcher implements Dispatcher {
  readonly #services: DispatcherServices;
  readonly #leases: Leases;
  readonly #attempt: (lease: Lease) => Promise<Followed | undefined>;
  readonly #deadlines: Deadlines;
  readonly #working = new Set<Promise<void>>();
  /** A step that runs alone, and until when, by the clock that is never set. */
  #alone: { readonly lease: Lease; readonly until: number } | undefined;
  /** Whether due steps wait for a running one of their own flow to end. */
  #isHeldBack = false;
  #isActive = false;
  /** When to claim next, as far as is known; 0 is now. */
  #nextDueAt = 0;
  /** No claim before this, after the store failed. */
  #claimAgainAt = 0;
  #failures = 0;
  #claiming: Promise<void> | undefined;
  #renewing: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = 0;
  #renewal: NodeJS.Timeout | undefined;

  constructor(services: DispatcherServices) {
    this.#services = services;
    this.#leases = createLeases(services);
    this.#attempt = createAttempt(services);
    this.#deadlines = createDeadlines({
      ...services,
      onTimedOut: (run) => {
        this.#leases.stopRun(run.runId, 'timedOut');
        services.report.runStopped(run, 'TimedOut');
      },
      onClaims: (claims, leasedUntil) => {
        for (const claim of claims) this.#work(claim, leasedUntil);
      },
    });
  }

  start(): void {
    if (this.#isActive || this.#stopping !== undefined) return;
    this.#isActive = true;
    this.#renewal = setInterval(() => this.#renewLeases(), RENEWAL_MS).unref();
    this.#deadlines.start();
    this.nudge();
  }

  nudge(timeoutAt: number | null = null): void {
    if (timeoutAt !== null) this.#deadlines.expect(timeoutAt);
    this.#nextDueAt = 0;
    this.#pump();
  }

  stopRun(runId: string, stop: RunStop): void {
    this.#leases.stopRun(runId, stop);
  }

  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#finish(graceMs);
    return this.#stopping;
  }

  /** Claims now, sleeps until it is time, or leaves it to the claim or the step that is under way. */
  #pump(): void {
    if (!this.#isActive || this.#claiming !== undefined) return;
    const room = this.#services.concurrency - this.#leases.size;
    if (room <= 0) return;
    const { clock } = this.#services;
    const aloneMs = this.#alone === undefined ? 0 : this.#alone.until - clock.monotonic();
    const claimAt = Math.max(this.#nextDueAt, this.#claimAgainAt, clock.now() + aloneMs);
    if (claimAt > clock.now()) {
      this.#sleepUntil(claimAt);
      return;
    }
    this.#claiming = this.#claim(room).finally(() => {
      this.#claiming = undefined;
      this.#pump();
    });
  }

  #sleepUntil(at: number): void {
    const now = this.#services.clock.now();
    const delayMs = Math.min(at - now, LONGEST_SLEEP_MS);
    // A timer that rings early costs one claim; setting it again for every step would cost more.
    if (this.#timer !== undefined && this.#timerAt <= now + delayMs) return;
    this.#endSleep();
    this.#timerAt = now + delayMs;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // A wall clock that was set back must not stretch the back-off.
      this.#claimAgainAt = 0;
      this.nudge();
    }, delayMs).unref();
  }

  #endSleep(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #claim(limit: number): Promise<void> {
    const { store, clock, logger, random } = this.#services;
    // From here on only what is learnt after the claim was sent counts.
    this.#nextDueAt = Number.POSITIVE_INFINITY;
    try {
      // Before leases are looked at: one that runs out meanwhile, because the clock was set, has not run out by then.
      const now = clock.now();
      // Else the store would hand out a step that still runs here, after an outage or a long pause of the process.
      if (this.#leases.hasLapsed(now)) await this.#leases.renew();
      // No step is started whose run has no time left.
      await this.#deadlines.settle();
      const leasedUntil = now + LEASE_MS;
      const { claims, nextDueAt, isHeldBack } = await store.claimDue({ now, leasedUntil, limit });
      this.#failures = 0;
      this.#isHeldBack = isHeldBack;
      if (nextDueAt !== null) this.#nextDueAt = Math.min(this.#nextDueAt, nextDueAt);
      for (const claim of claims) this.#work(claim, leasedUntil);
    } catch (error) {
      this.#failures += 1;
      const waitMs = backoffMs(CLAIM_BACKOFF, this.#failures, random);
      this.#claimAgainAt = clock.now() + waitMs;
      this.#nextDueAt = 0;
      this.#endSleep();
      logger.error({ err: error, waitMs }, 'due steps could not be claimed; trying again');
    }
  }

  #work(claim: Claim, leasedUntil: number): void {
    const lease = this.#leases.hold(claim, leasedUntil);
    const { runId, stepKey, interruptions, aloneMs } = claim;
    if (aloneMs !== null) {
      this.#alone = { lease, until: this.#services.clock.monotonic() + aloneMs };
      this.#services.logger.warn({ runId, stepKey, interruptions }, 'a step that ran when the process died runs alone');
    }
    const working = this.#attempt(lease).then((followed) => {
      if (followed === undefined) this.#leases.giveUp(lease);
      else this.#leases.release(lease);
      this.#working.delete(working);
      if (this.#alone?.lease === lease) this.#alone = undefined;
      if (this.#isHeldBack) this.#nextDueAt = 0;
      if (followed !== undefined) this.#follow(followed);
      this.#pump();
    });
    this.#working.add(working);
  }

  #follow({ nextDueAt, limitAt }: Followed): void {
    this.#nextDueAt = Math.min(this.#nextDueAt, nextDueAt);
    this.#deadlines.expect(limitAt);
  }

  #renewLeases(): void {
    this.#renewing ??= this.#leases
      .renew()
      .catch((error: unknown) => {
        this.#services.logger.warn({ err: error }, 'leases of running steps could not be renewed; trying again');
      })
      .finally(() => {
        this.#renewing = undefined;
      });
  }

  async #finish(graceMs: number): Promise<void> {
    this.#isActive = false;
    this.#endSleep();
    const grace = setTimeout(() => this.#leases.abort('the process stops'), graceMs);
    // What the claim under way yields is ours by lease, so that it runs too.
    await Promise.all([this.#claiming, this.#deadlines.stop()]);
    await Promise.all(this.#working);
    clearTimeout(grace);
    clearInterval(this.#renewal);
    await this.#renewing;
    await this.#returnLeases();
  }

  async #returnLeases(): Promise<void> {
    const tokens = this.#leases.givenUp();
    if (tokens.length === 0) return;
    const { store, clock, logger } = this.#services;
    try {
      await store.returnLeases({ tokens, at: clock.now() });
    } catch (error) {
      logger.warn(
        { err: error, steps: tokens.length },
        'unfinished steps could not be given back; they count as interrupted',
      );
    }
  }
}
