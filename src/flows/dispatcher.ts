import { setImmediate } from 'node:timers/promises';
import { levelOfRetry } from '../errors.ts';
import type { BirthLease, Claim, NewRun, RunStop, StartedRun, StepResult, Store, Wakeable } from '../store/store.ts';
import { type AttemptServices, createAttempt, type Followed, firstClaim, type OnRan } from './attempt.ts';
import { type Beginnings, createBeginnings } from './beginnings.ts';
import type { Catalog } from './catalog.ts';
import { createDeadlines, type Deadlines, LONGEST_SLEEP_MS } from './deadlines.ts';
import { createLeases, LEASE_MS, type Lease, type Leases, stopOf } from './leases.ts';
import { type Place, type SlotOffer, Slots } from './slots.ts';
import { backoffMs } from './step-failure.ts';

/** Claims due steps and sees each through to its stored outcome. */
export interface Dispatcher extends Pick<Wakeable, 'room' | 'wake'> {
  start(): void;
  /** Says that a step may be due: it is claimed as soon as there is room. Its run may have a time limit. */
  nudge(timeoutAt?: number | null): void;
  /**
   * Keeps slots free for the first steps of a run that is about to be stored, so that they need no claim; undefined where
   * they have to wait for their turn. To be withdrawn when the run is stored or refused.
   */
  offer(run: Pick<NewRun, 'flowId' | 'steps'>): SlotOffer | undefined;
  /** Says that a run is durable: the steps that the offer leased start, and the others are claimed. */
  started(run: StartedRun, offer?: SlotOffer): void;
  /** The leases that this process knows of. */
  heldTokens(): readonly string[];
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
  readonly store: Pick<
    Store,
    'claimDue' | 'claimOverdue' | 'renewLeases' | 'returnLeases' | 'advance' | 'beginAttempts' | 'ping'
  >;
  readonly catalog: Pick<Catalog, 'find'>;
  /** Is told of each claim, so that runs are stored no faster than their steps can be taken: see `Intake`. */
  readonly intake: {
    claimed(claim: { sentAt: number; taken: number; oldestDueAt: number | null }): boolean;
    stop(): void;
  };
  /** Steps that run at once. */
  readonly concurrency: number;
  /** Names this process in its leases. */
  readonly owner: string;
  /** While it is not, nothing is leased: see `Heartbeat`. */
  readonly isFit: () => boolean;
}

/** While others wait, a slot passes from one step of a run to the next for so long: then it is the others' turn. */
const TURN_MS = 100;
const DUE_AGAIN: Followed = { claims: [], startedRuns: [], nextDueAt: 0, limitAt: Number.POSITIVE_INFINITY };
/** How soon to ask again whether this process is fit. */
const FIT_LOOK_MS = 1000;
const CLAIM_BACKOFF = { backoffSeconds: 0.1, factor: 2, maxBackoffSeconds: 5, jitter: true };

export function createDispatcher(services: DispatcherServices): Dispatcher {
  return new StepDispatcher(services);
}

class StepDispatcher implements Dispatcher {
  readonly #services: DispatcherServices;
  readonly #leases: Leases;
  readonly #attempt: ReturnType<typeof createAttempt>;
  readonly #beginnings: Beginnings;
  readonly #deadlines: Deadlines;
  readonly #slots: Slots;
  readonly #working = new Set<Promise<void>>();
  /** A step that runs alone, and until when, by the clock that is never set. */
  #alone: { readonly lease: Lease; readonly until: number } | undefined;
  /** Whether due steps wait for a running one of their own flow to end. */
  #isHeldBack = false;
  /** Whether due steps wait for a slot, as far as is known: then no step gets one before its turn, unless slots are quick. */
  #isBehind = true;
  /** Whether one of them had waited for so long at the last claim that none goes before it. */
  #isLate = false;
  #isActive = false;
  /** Are told when a notice of due steps would find room; while none would, due steps are claimed without one. */
  #onRoom: (() => void)[] = [];
  /** When to claim next, as far as is known; 0 is now. */
  #nextDueAt = 0;
  /** No claim before this, after the store failed. */
  #claimAgainAt = 0;
  #failures = 0;
  #claiming: Promise<void> | undefined;
  #nextTurn: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = 0;

  constructor(services: DispatcherServices) {
    this.#services = services;
    this.#leases = createLeases(services);
    this.#attempt = createAttempt(services);
    this.#beginnings = createBeginnings(services);
    this.#slots = new Slots(services, () => this.#pump());
    this.#deadlines = createDeadlines({
      ...services,
      onStopped: (run, stop) => {
        this.#leases.stopRun(run.runId, stop);
        services.report.runStopped(run, stop === 'timedOut' ? 'TimedOut' : 'Cancelled');
        if (run.failure?.kind === 'started') this.started(run.failure.run);
        if (run.woken !== undefined) this.nudge();
      },
      onClaims: (claims, leasedUntil) => {
        for (const claim of claims) this.#work(claim, { leasedUntil });
      },
    });
  }

  start(): void {
    if (this.#isActive || this.#stopping !== undefined) return;
    this.#isActive = true;
    this.#leases.startRenewing();
    this.#deadlines.start();
    this.nudge();
  }

  nudge(timeoutAt: number | null = null): void {
    if (timeoutAt !== null) this.#deadlines.expect(timeoutAt);
    this.#nextDueAt = 0;
    this.#pump();
  }

  room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom.push(resolve);
      this.#tellOfRoom();
    });
  }

  async wake(): Promise<boolean> {
    if (!this.#hasRoom()) return false;
    this.nudge();
    // A claim that was under way may have been sent before the notice; the next one was not.
    for (let claims = 0; claims < 2; claims += 1) await this.#claiming;
    return !this.#isBehind && this.#failures === 0;
  }

  offer({ flowId, steps }: Pick<NewRun, 'flowId' | 'steps'>): SlotOffer | undefined {
    if (!this.#isActive || this.#isLate || (this.#isBehind && !this.#slots.isQuick)) return undefined;
    // While a claim is due, slots that are left are for the steps that it takes. Where slots are quick, it gets its own.
    const isClaimDue = this.#nextDueAt <= this.#services.clock.now();
    const { room, roomSoon, isQuick } = this.#slots;
    const count = Math.min(steps.length, isClaimDue && !isQuick ? room : roomSoon);
    return count > 0 && this.#mayLease(flowId) ? this.#slots.offer(count) : undefined;
  }

  started(run: StartedRun, offer?: SlotOffer): void {
    const { id: runId, steps, timeoutAt } = run;
    if (steps.length === 0) return;
    if (timeoutAt !== null) this.#deadlines.expect(timeoutAt);
    if (offer !== undefined) {
      const { lease } = offer;
      const startedAt = this.#services.clock.now();
      const claims = steps
        .slice(0, lease.limit)
        .map((step) => firstClaim({ ...run, ...step, runId, startedAt, loop: null, stop: null }, lease));
      this.#workSoon(claims, lease, this.#turnEnd());
      offer.withdraw();
    }
    if (steps.length <= (offer?.lease.limit ?? 0)) return;
    // A step is due and has no slot yet.
    if (this.#mayLease(run.flowId)) this.#isBehind = true;
    this.nudge();
  }

  heldTokens(): readonly string[] {
    return this.#leases.tokens();
  }

  stopRun(runId: string, stop: RunStop): void {
    this.#leases.stopRun(runId, stop);
  }

  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#finish(graceMs);
    return this.#stopping;
  }

  #hasRoom(): boolean {
    if (!this.#isActive || !this.#services.isFit() || this.#isBehind || this.#aloneMs() > 0) return false;
    return this.#slots.room > 0 && this.#claimAgainAt <= this.#services.clock.now();
  }

  #tellOfRoom(): void {
    if (this.#onRoom.length > 0 && this.#hasRoom()) for (const tell of this.#onRoom.splice(0)) tell();
  }

  /** Claims now, sleeps until it is time, or leaves it to the claim or the step that is under way. */
  #pump(): void {
    this.#tellOfRoom();
    if (!this.#isActive || this.#claiming !== undefined) return;
    const { clock, isFit } = this.#services;
    if (!isFit()) {
      this.#sleepUntil(clock.now() + FIT_LOOK_MS);
      return;
    }
    const claimAt = Math.max(this.#nextDueAt, this.#claimAgainAt, clock.now() + this.#aloneMs());
    if (claimAt > clock.now()) {
      this.#sleepUntil(claimAt);
      return;
    }
    const room = this.#slots.makeRoom();
    this.#isBehind ||= room <= 0;
    if (room <= 0) return;
    // While none waits, a claim of the few that fell due leaves room for steps that are leased as they become due.
    const limit = this.#isBehind ? room : Math.ceil(room / 2);
    const ahead = this.#isBehind ? this.#slots.claimableAhead : 0;
    const asked = this.#slots.offer(limit + ahead);
    this.#slots.keep(limit);
    this.#claiming = this.#claim({ limit, ahead, asked }).finally(() => {
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

  async #claim({ limit, ahead, asked }: { limit: number; ahead: number; asked: SlotOffer }): Promise<void> {
    const { store, clock, logger, random, owner } = this.#services;
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
      const sentAt = clock.monotonic();
      const { claims, nextDueAt, isHeldBack } = await store.claimDue({ owner, now, leasedUntil, limit, ahead });
      this.#failures = 0;
      this.#isHeldBack = isHeldBack;
      this.#isBehind = nextDueAt !== null && nextDueAt <= now;
      this.#isLate = this.#services.intake.claimed({ sentAt, taken: claims.length, oldestDueAt: nextDueAt });
      if (nextDueAt !== null) this.#nextDueAt = Math.min(this.#nextDueAt, nextDueAt);
      for (const claim of claims) if (claim.isUnwritten !== true) this.#work(claim, { leasedUntil });
      this.#slots.keep(0);
      for (const claim of claims) if (claim.isUnwritten === true) this.#work(claim, { leasedUntil });
    } catch (error) {
      this.#failures += 1;
      const waitMs = backoffMs(CLAIM_BACKOFF, this.#failures, random);
      this.#claimAgainAt = clock.now() + waitMs;
      this.#nextDueAt = 0;
      this.#endSleep();
      logger[levelOfRetry(error, 'error')]({ err: error, waitMs }, 'due steps could not be claimed; trying again');
    } finally {
      this.#slots.keep(0);
      asked.withdraw();
    }
  }

  /** Whether steps of a flow may have a slot as they become due. */
  #mayLease(flowId: string): boolean {
    const { isFit, catalog } = this.#services;
    if (!this.#isActive || this.#aloneMs() > 0 || !isFit()) return false;
    return catalog.find(flowId)?.prepared.isLimited === false;
  }

  /** How long nothing else may be started. */
  #aloneMs(): number {
    return this.#alone === undefined ? 0 : Math.max(0, this.#alone.until - this.#services.clock.monotonic());
  }

  #turnEnd(): number {
    return this.#services.clock.monotonic() + TURN_MS;
  }

  /** Keeps slots for the steps that follow one that has run: its own, and as many more as are free while none waits. */
  #passOn({ flowId, revision, stepKey }: Claim, result: StepResult, turnEndsAt: number): SlotOffer | undefined {
    const isAwaited = result.kind === 'runFlow' && result.isAwaited;
    if (result.kind === 'retry' || result.kind === 'waiting' || isAwaited || !this.#mayLease(flowId)) return undefined;
    if (this.#isBehind && this.#services.clock.monotonic() >= turnEndsAt) return undefined;
    const flow = this.#services.catalog.find(flowId);
    const step = flow?.record.revision === revision ? flow.prepared.step(stepKey) : undefined;
    const followers = result.kind === 'loop' ? result.concurrency : (step?.followers ?? 1);
    const count = Math.min(followers, this.#isBehind ? 1 : Math.max(1, this.#slots.room));
    return count === 0 ? undefined : this.#slots.offer(count);
  }

  /** Starts steps that were leased as they became due, in the next turn of the event loop: answers leave before. */
  #workSoon(claims: readonly Claim[], { leasedUntil }: BirthLease, turnEndsAt: number): void {
    this.#nextTurn ??= setImmediate().then(() => {
      this.#nextTurn = undefined;
    });
    for (const claim of claims) this.#work(claim, { leasedUntil, turnEndsAt, after: this.#nextTurn });
  }

  #work(claim: Claim, start: { leasedUntil: number; turnEndsAt?: number; after?: Promise<void> }): void {
    const { leasedUntil, turnEndsAt = this.#turnEnd(), after } = start;
    const lease = this.#leases.hold(claim, leasedUntil);
    let offer: SlotOffer | undefined;
    const { flowId, isUnwritten } = claim;
    const place = isUnwritten === true ? this.#slots.join(flowId) : this.#slots.take(flowId);
    const ran = () => {
      this.#beginnings.forget(lease.claim);
      place.leave();
    };
    const onRan = (result: StepResult) => {
      ran();
      offer = this.#passOn(claim, result, turnEndsAt);
      this.#pump();
      return offer?.lease;
    };
    const { runId, stepKey, interruptions, aloneMs } = claim;
    if (aloneMs !== null) {
      this.#alone = { lease, until: this.#services.clock.monotonic() + aloneMs };
      this.#services.logger.warn({ runId, stepKey, interruptions }, 'a step that ran when the process died runs alone');
      this.#slots.clearLine();
    }
    const attempting =
      isUnwritten === true ? this.#attemptInTurn(lease, { after, place, onRan }) : this.#attempt(lease, onRan);
    const working = attempting.then((followed) => {
      ran();
      if (followed !== undefined) this.#leases.release(lease);
      else if (this.#leases.giveUp(lease)) this.#beginnings.watch(lease.claim);
      this.#working.delete(working);
      if (this.#alone?.lease === lease) this.#alone = undefined;
      if (this.#isHeldBack) this.#nextDueAt = 0;
      if (followed !== undefined) this.#follow(flowId, followed);
      if (offer !== undefined && followed !== undefined) {
        this.#workSoon(followed.claims, offer.lease, this.#isBehind ? turnEndsAt : this.#turnEnd());
      }
      offer?.withdraw();
      this.#pump();
    });
    this.#working.add(working);
  }

  /** Attempts a step whose attempt is not written when it has its slot; where it gets none, the step is due again. */
  async #attemptInTurn(
    lease: Lease,
    { after, place, onRan }: { after: Promise<void> | undefined; place: Place; onRan: OnRan },
  ): Promise<Followed | undefined> {
    if (place.turn === undefined) {
      this.#beginnings.watch(lease.claim);
      await after;
    } else {
      const [isTurn] = await Promise.all([place.turn, after]);
      const startedAt = this.#services.clock.now();
      // Much may have come in between: a process that hung, a step that runs alone, a limit for the flow, a stop.
      if (!isTurn || lease.leasedUntil <= startedAt || !this.#mayLease(lease.claim.flowId)) {
        // The store may be away, and others can run meanwhile.
        place.leave();
        return (await this.#leases.putBack(lease)) ? DUE_AGAIN : undefined;
      }
      const stop = stopOf(lease.signal) ?? lease.claim.stop;
      lease.claim = { ...lease.claim, startedAt, attemptStartedAt: startedAt, stop };
      this.#beginnings.watch(lease.claim);
    }
    return this.#attempt(lease, onRan);
  }

  #follow(flowId: string, { nextDueAt, limitAt, startedRuns }: Followed): void {
    for (const run of startedRuns) this.started(run);
    if (nextDueAt === 0 && this.#mayLease(flowId)) this.#isBehind = true;
    this.#nextDueAt = Math.min(this.#nextDueAt, nextDueAt);
    this.#deadlines.expect(limitAt);
  }

  async #finish(graceMs: number): Promise<void> {
    this.#isActive = false;
    this.#services.intake.stop();
    this.#slots.close();
    this.#leases.endReturns();
    this.#endSleep();
    const grace = setTimeout(() => this.#leases.abort('the process stops'), graceMs);
    // What the claim under way yields is ours by lease, so that it runs too.
    await Promise.all([this.#claiming, this.#deadlines.stop()]);
    while (this.#working.size > 0) await Promise.all(this.#working);
    await this.#beginnings.stop();
    clearTimeout(grace);
    await this.#leases.giveBack();
  }
}
