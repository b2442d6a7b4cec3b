import { randomBytes } from 'node:crypto';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { RUN_FLOW_KEY } from '../model/manifest.ts';
import { holderOf } from '../model/runtime-keys.ts';
import type {
  BirthLease,
  Claim,
  NewRun,
  RunStop,
  StartedRun,
  StepResult,
  StoppedRun,
  Store,
  Wakeable,
} from '../store/store.ts';
import { type AcceptanceLimits, LATE_MS } from './acceptance-limits.ts';
import { type Alarm, createAlarm } from './alarm.ts';
import { type AttemptServices, createAttempt, type Followed, firstClaim, isForeign } from './attempt.ts';
import { type Beginnings, createBeginnings } from './beginnings.ts';
import type { Catalog } from './catalog.ts';
import { createLeases, LEASE_MS, type Lease, type Leases, stopOf } from './leases.ts';
import type { PreparedRevision } from './prepared-revision.ts';
import { type Reserved, type ReservedForClaim, type Slot, Slots } from './slots.ts';
import { backoffMs } from './step-failure.ts';

/**
 * Leases due steps and sees each through to its stored outcome. Its own state is five fields: who has a slot
 * (`#slots`), what is leased (`#leases`), when to claim next (`#claims`), what waits for a claim (`#waiting`), and
 * whether it stops (`#stopping`). The README of this folder explains how they work together.
 */
export interface Dispatcher extends Pick<Wakeable, 'hasSlot' | 'wake'> {
  start(): void;
  /** Reports that a step may be due, to claim it as soon as a slot is free. Its run may have a time limit. */
  nudge(timeoutAt?: number | null): void;
  /**
   * Leases the first steps of a run that is about to be stored, as far as slots are free; undefined if they must be
   * claimed. Release it when the run is stored or refused.
   */
  reserve(run: Pick<NewRun, 'flowId' | 'steps'>): ReservedLease | undefined;
  /** Reports that a run is durable: the steps that were leased with it start, and the others are claimed. */
  started(run: StartedRun, reserved?: ReservedLease): void;
  /** The leases that this process knows of. */
  heldTokens(): readonly string[];
  /** Aborts the steps of a stopped run that run here. */
  stopRun(runId: string, stop: RunStop): void;
  /**
   * Claims nothing more, lets running steps finish for `graceMs`, then aborts them and gives their leases back: the
   * next process continues them at once, and the interruption does not count. Resolves when nothing of the dispatcher
   * runs any more.
   */
  stop(graceMs: number): Promise<void>;
}

/** The lease of steps that a call is about to make due, and the slots reserved for them. */
export interface ReservedLease extends Pick<Reserved, 'release'> {
  readonly lease: BirthLease;
}

interface DispatcherServices extends AttemptServices {
  readonly store: Pick<
    Store,
    'claimDue' | 'claimOverdue' | 'renewLeases' | 'returnLeases' | 'advance' | 'beginAttempts' | 'noteInput' | 'ping'
  >;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly acceptanceLimits: Pick<AcceptanceLimits, 'claimed' | 'end'>;
  /** How many steps run at once. */
  readonly concurrency: number;
  /** Name of this process in its leases. */
  readonly owner: string;
  /** While this is false, nothing is leased: see `Heartbeat`. */
  readonly isFit: () => boolean;
}

/** While others wait, a slot passes from one step of a run to the next for this time; then it is the others' turn. */
const TURN_MS = 100;
/** Extra delay before a process hears of due steps if it only has slots left that are kept for idle flows. */
const KEPT_MS = 500;
const DUE_AGAIN: Followed = { claims: [], startedRuns: [], nextDueAt: 0, limitAt: Number.POSITIVE_INFINITY };
const CLAIM_BACKOFF = { backoffSeconds: 0.1, factor: 2, maxBackoffSeconds: 5, jitter: true };

export function createDispatcher(services: DispatcherServices): Dispatcher {
  return new StepDispatcher(services);
}

class StepDispatcher implements Dispatcher {
  readonly #services: DispatcherServices;
  readonly #attempt: ReturnType<typeof createAttempt>;
  readonly #beginnings: Beginnings;
  readonly #deadlines: Alarm;

  readonly #slots: Slots;
  readonly #leases: Leases;
  readonly #claims: Alarm;
  /**
   * Due time of the oldest step that is known to wait for a claim; infinity if none waits. `isKept`: whether the last
   * claim left steps although slots are free, because those are kept for flows that run nothing.
   */
  #waiting = { since: 0, isKept: false };
  /** Unique to this process' leases: those of an earlier process may still be stored. */
  readonly #name = randomBytes(9).toString('base64url');
  #leasesGiven = 0;
  /** Resolves when the next turn of the event loop begins; undefined if nothing waits for it. */
  #nextTurn: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(services: DispatcherServices) {
    this.#services = services;
    this.#attempt = createAttempt(services);
    this.#beginnings = createBeginnings(services);
    this.#leases = createLeases(services);
    this.#slots = new Slots(services, () => this.#claims.ring());
    this.#claims = createAlarm({
      ...services,
      ask: () => this.#claim(),
      waitMs: (failures) => backoffMs(CLAIM_BACKOFF, failures, services.random),
      failure: 'due steps could not be claimed; trying again',
    });
    this.#deadlines = createDeadlines({
      ...services,
      onStopped: (run, stop) => {
        this.#leases.stopRun(run.runId, stop);
        services.report.runStopped(run, stop === 'timedOut' ? 'TimedOut' : 'Cancelled');
        if (run.failure?.kind === 'started') this.started(run.failure.run);
        if (run.woken !== undefined) this.nudge();
        if (run.next !== undefined) this.nudge(run.next.timeoutAt);
      },
      onClaims: (claims, leasedUntil) => {
        for (const claim of claims) this.#work(claim, { leasedUntil });
      },
    });
  }

  start(): void {
    if (this.#claims.isActive || this.#stopping !== undefined) return;
    this.#leases.startRenewing();
    this.#deadlines.start();
    this.#claims.start();
  }

  nudge(timeoutAt: number | null = null): void {
    if (timeoutAt !== null) this.#deadlines.expect(timeoutAt);
    this.#claims.expect(0);
  }

  async hasSlot(): Promise<void> {
    while (!this.#mayTakeMore()) await this.#slots.change();
    // A process with slots for every flow gets the notice first.
    if (this.#waiting.isKept) await Promise.race([this.#slots.change(), sleep(KEPT_MS, undefined, { ref: false })]);
  }

  async wake(): Promise<boolean> {
    if (!this.#mayTakeMore()) return false;
    this.nudge();
    // A claim in progress may have been sent before the notice; the next one was not.
    for (let claims = 0; claims < 2; claims += 1) await this.#claims.settle().catch(() => {});
    return !this.#hasWaiting && !this.#waiting.isKept && !this.#claims.isPaused;
  }

  reserve({ flowId, steps }: Pick<NewRun, 'flowId' | 'steps'>): ReservedLease | undefined {
    if (!this.#mayLease(flowId) || (this.#hasWaiting && !this.#slots.isQuick) || this.#isLate) return undefined;
    return this.#reserve(flowId, Math.min(steps.length, this.#slots.leasable(flowId)));
  }

  started(run: StartedRun, reserved?: ReservedLease): void {
    const { id: runId, steps, timeoutAt } = run;
    if (steps.length === 0) return;
    if (timeoutAt !== null) this.#deadlines.expect(timeoutAt);
    if (reserved !== undefined) {
      const { lease } = reserved;
      const startedAt = this.#services.clock.now();
      const claims = steps
        .slice(0, lease.limit)
        .map((step) => firstClaim({ ...run, ...step, runId, startedAt, loop: null, stop: null }, lease));
      this.#workSoon(claims, lease, this.#turnEnd());
      reserved.release();
    }
    const dueAt = Math.min(...steps.map((step) => step.dueAt));
    // Until then it waits for more deliveries.
    if (dueAt > this.#services.clock.now()) this.#claims.expect(dueAt);
    else if (steps.length > (reserved?.lease.limit ?? 0)) this.#expectDue(run.flowId);
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

  /** Whether due steps wait for a slot: then no step gets one before its turn, unless steps are quick. */
  get #hasWaiting(): boolean {
    return this.#waiting.since !== Number.POSITIVE_INFINITY;
  }

  /** Whether one of them has waited so long that no new run may overtake it. */
  get #isLate(): boolean {
    return this.#hasWaiting && this.#services.clock.now() - this.#waiting.since >= LATE_MS;
  }

  /** Whether a notice of due steps finds a free slot; while none does, due steps are claimed without one. */
  #mayTakeMore(): boolean {
    const { isFit } = this.#services;
    return this.#claims.isActive && isFit() && !this.#hasWaiting && this.#slots.free > 0 && !this.#claims.isPaused;
  }

  /** Whether steps of a flow can get a slot as they become due. */
  #mayLease(flowId: string): boolean {
    return this.#claims.isActive && !this.#slots.isAlone && this.#services.isFit() && !this.#isLimited(flowId);
  }

  #isLimited(flowId: string): boolean {
    return this.#services.catalog.find(flowId)?.prepared.isLimited !== false;
  }

  /** A due step of the flow was not leased. In a limited flow, it may wait for the flow instead of a slot. */
  #expectDue(flowId: string): void {
    // It waits, like others of its flow, until a running step ends; but a claim under way may not know of it.
    if (this.#waiting.isKept && this.#slots.claimed === 0 && this.#slots.leasable(flowId) === 0) return;
    if (this.#mayLease(flowId)) this.#wait();
    this.#claims.expect(0);
  }

  #wait(): void {
    this.#waiting.since = Math.min(this.#waiting.since, this.#services.clock.now());
  }

  #reserve(flowId: string, limit: number): ReservedLease | undefined {
    if (limit <= 0) return undefined;
    const { clock, owner } = this.#services;
    const { release } = this.#slots.reserve(limit, flowId);
    this.#leasesGiven += 1;
    const holder = holderOf(owner, `${this.#name}-${this.#leasesGiven}`);
    const lease = { holder, leasedUntil: clock.now() + LEASE_MS, limit };
    return { lease, release };
  }

  /** Claims as many steps as there are slots; without a free one, the claim waits until a slot is freed. */
  #claim(): Promise<void> | undefined {
    // If none waits, a claim of the few due steps leaves slots for steps that are leased as they become due.
    const reserved = this.#slots.reserveForClaim(this.#hasWaiting ? 1 : 1 / 2);
    if (reserved !== undefined) return this.#claimInto(reserved);
    this.#wait();
    return undefined;
  }

  async #claimInto({ count: limit, kept: keptForIdle, release }: ReservedForClaim): Promise<void> {
    const { store, clock, owner, acceptanceLimits } = this.#services;
    try {
      // Before leases are checked: one that runs out meanwhile, because the clock was set, has not run out at this
      // time.
      const now = clock.now();
      // Otherwise the store would hand out a step that still runs here, after an outage or a long pause of the process.
      if (this.#leases.hasLapsed(now)) await this.#leases.renew();
      // No step starts in a run without time left.
      await this.#deadlines.settle();
      const leasedUntil = now + LEASE_MS;
      const sentAt = clock.monotonic();
      const request = { owner, now, leasedUntil, limit, keptForIdle, mayWriteLater: true };
      const { claims, nextDueAt, isKept } = await store.claimDue(request);
      const since = nextDueAt !== null && nextDueAt <= now ? nextDueAt : Number.POSITIVE_INFINITY;
      this.#waiting = { since, isKept };
      acceptanceLimits.claimed({ sentAt, taken: claims.length, oldestDueAt: nextDueAt });
      if (nextDueAt !== null) this.#claims.expect(nextDueAt);
      for (const claim of claims) this.#work(claim, { leasedUntil });
    } finally {
      release();
    }
  }

  #turnEnd(): number {
    return this.#services.clock.monotonic() + TURN_MS;
  }

  /** Reserves slots for the steps after this one: its own slot, and as many more as are free while none waits. */
  #passOn(claim: Claim, result: StepResult, turnEndsAt: number): ReservedLease | undefined {
    const { flowId, stepKey } = claim;
    const isAwaited = result.kind === 'runFlow' && result.isAwaited;
    if (result.kind === 'retry' || result.kind === 'waiting' || isAwaited || !this.#mayLease(flowId)) return undefined;
    const hasWaiting = this.#hasWaiting;
    if (hasWaiting && this.#services.clock.monotonic() >= turnEndsAt) return undefined;
    const followers =
      result.kind === 'loop' ? result.concurrency : (this.#newest(claim)?.step(stepKey)?.followers ?? 1);
    const free = hasWaiting ? 1 : Math.max(1, this.#slots.free);
    return this.#reserve(flowId, Math.min(followers, free, this.#slots.leasable(flowId)));
  }

  /** Whether no step, no run and no other flow can wait for the outcome. */
  #isLast(claim: Claim, { kind }: StepResult): boolean {
    const prepared = this.#newest(claim);
    if (prepared?.isLimited !== false || prepared.readOrderKey !== undefined) return false;
    if (claim.triggerKey === RUN_FLOW_KEY) return false;
    if (kind !== 'succeeded' && !(kind === 'failed' && prepared.onFailure === null)) return false;
    return prepared.step(claim.stepKey)?.followers === 0;
  }

  /** The revision of a claimed step, if it is still the newest. */
  #newest({ flowId, revision }: Claim): PreparedRevision | undefined {
    const flow = this.#services.catalog.find(flowId);
    return flow?.record.revision === revision ? flow.prepared : undefined;
  }

  /** Starts steps that were leased as they became due, in the next turn of the event loop: answers leave first. */
  #workSoon(claims: readonly Claim[], { leasedUntil }: BirthLease, turnEndsAt: number): void {
    this.#nextTurn ??= setImmediate().then(() => {
      this.#nextTurn = undefined;
    });
    const after = this.#nextTurn;
    for (const claim of claims) this.#work(claim, { leasedUntil, turnEndsAt, after });
  }

  /** Sees a leased step through to its stored outcome, and then the steps after it. */
  #work(claim: Claim, start: { leasedUntil: number; turnEndsAt?: number; after?: Promise<void> }): void {
    const { leasedUntil, turnEndsAt = this.#turnEnd(), after } = start;
    const { flowId } = claim;
    const wasLimited = this.#isLimited(flowId);
    const lease = this.#leases.hold(claim, leasedUntil);
    const slot = this.#slotFor(claim, after !== undefined);
    let reserved: ReservedLease | undefined;
    const ran = () => {
      this.#beginnings.forget(lease.claim);
      slot.leave();
    };
    const onRan = (result: StepResult) => {
      ran();
      reserved = this.#passOn(claim, result, turnEndsAt);
      this.#claims.ring();
      return { lease: reserved?.lease, isLast: reserved === undefined && this.#isLast(claim, result) };
    };
    const end = (followed: Followed | undefined) => {
      ran();
      if (followed !== undefined) this.#leases.release(lease);
      else if (this.#leases.giveUp(lease)) this.#beginnings.watch(lease.claim);
      if (followed !== undefined) this.#follow(flowId, followed);
      if (reserved !== undefined && followed !== undefined) {
        this.#workSoon(followed.claims, reserved.lease, this.#hasWaiting ? turnEndsAt : this.#turnEnd());
      }
      reserved?.release();
      // Another step may have waited for the end of this one, or for a slot that the steps after it leave free.
      const isFree = (followed?.claims.length ?? 0) < (reserved?.lease.limit ?? 1);
      const mayBeNext = wasLimited || this.#isLimited(flowId) || (this.#waiting.isKept && isFree);
      if (mayBeNext) this.#claims.expect(0);
      else this.#claims.ring();
    };
    const see = async () => {
      const isBegun = await (claim.isUnwritten === true ? this.#begin(lease, slot, after) : true);
      end(await (isBegun ? this.#attempt(lease, onRan) : this.#putBack(lease)));
    };
    void see();
  }

  /** A step that was leased as it became due can wait for its slot; a claimed one already has its slot. */
  #slotFor({ runId, stepKey, flowId, interruptions, aloneMs }: Claim, mayWait: boolean): Slot {
    if (aloneMs !== null) {
      this.#services.logger.warn({ runId, stepKey, interruptions }, 'a step that ran when the process died runs alone');
      return this.#slots.takeAll(flowId, aloneMs);
    }
    return mayWait ? this.#slots.queue(flowId) : this.#slots.take(flowId);
  }

  /** Waits for the slot of a step whose attempt is not written; yields false if the step must be claimed again. */
  async #begin(lease: Lease, slot: Slot, after: Promise<void> | undefined): Promise<boolean> {
    if (slot.isReady === undefined) {
      this.#watch(lease.claim);
      await after;
      return true;
    }
    const isReady = await slot.isReady;
    await after;
    const startedAt = this.#services.clock.now();
    // Much can happen meanwhile: a process that hung, a step that runs alone, a limit for the flow, a stop.
    if (!isReady || lease.leasedUntil <= startedAt || !this.#mayLease(lease.claim.flowId)) {
      // The store may be away when the step is put back, and others can run meanwhile.
      slot.leave();
      return false;
    }
    const stop = stopOf(lease) ?? lease.claim.stop;
    lease.claim = { ...lease.claim, startedAt, attemptStartedAt: startedAt, stop };
    this.#watch(lease.claim);
    return true;
  }

  /** A step of a type that this process lacks never begins here: leaving it to others is not an attempt. */
  #watch(claim: Claim): void {
    if (!isForeign(claim, this.#services)) this.#beginnings.watch(claim);
  }

  async #putBack(lease: Lease): Promise<Followed | undefined> {
    return (await this.#leases.putBack(lease)) ? DUE_AGAIN : undefined;
  }

  #follow(flowId: string, { nextDueAt, limitAt, startedRuns }: Followed): void {
    for (const run of startedRuns) this.started(run);
    if (nextDueAt === 0) this.#expectDue(flowId);
    else this.#claims.expect(nextDueAt);
    this.#deadlines.expect(limitAt);
  }

  async #finish(graceMs: number): Promise<void> {
    const stopped = Promise.all([this.#claims.stop(), this.#deadlines.stop()]);
    this.#services.acceptanceLimits.end();
    this.#slots.close();
    this.#leases.endReturns();
    const grace = setTimeout(() => this.#leases.abort('the process stops'), graceMs);
    // The results of the claim in progress are leased to us, so they run too.
    await stopped;
    await this.#leases.left();
    await this.#beginnings.stop();
    clearTimeout(grace);
    await this.#leases.giveBack();
  }
}

interface DeadlineServices extends Pick<DispatcherServices, 'clock' | 'logger' | 'owner' | 'isFit'> {
  readonly store: Pick<Store, 'claimOverdue'>;
  onStopped(run: StoppedRun, stop: RunStop): void;
  /** Called for waiting steps whose own time limit is over: they are only ended, so they need no slot. */
  onClaims(claims: readonly Claim[], leasedUntil: number): void;
}

const OVERDUE_AGAIN_MS = 1_000;
/** How many runs, and steps, one call ends. */
const OVERDUE_AT_ONCE = 100;

/**
 * Enforces the time limits of runs and of waiting steps with a separate alarm, however many steps run, and cancels the
 * runs for which steps of stopped runs waited.
 */
function createDeadlines({ store, owner, onStopped, onClaims, ...services }: DeadlineServices): Alarm {
  const { clock } = services;
  const end = async () => {
    const now = clock.now();
    const leasedUntil = now + LEASE_MS;
    const overdue = await store.claimOverdue({ owner, now, leasedUntil, limit: OVERDUE_AT_ONCE });
    if (overdue.nextAt !== null) alarm.expect(overdue.nextAt);
    for (const run of overdue.timedOut) onStopped(run, 'timedOut');
    for (const run of overdue.orphaned) onStopped(run, 'cancelled');
    onClaims(overdue.claims, leasedUntil);
  };
  const alarm = createAlarm({
    ...services,
    ask: end,
    waitMs: () => OVERDUE_AGAIN_MS,
    failure: 'time limits could not be enforced; trying again',
  });
  return alarm;
}
