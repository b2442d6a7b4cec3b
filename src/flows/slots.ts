import type { Clock } from '../model/clock.ts';
import { Rotation, type Waiter } from '../model/rotation.ts';

/** A slot that a step has, or for which it is queued. */
export interface Slot {
  /** Yields true when the step can run, or false if it should wait no longer; undefined if it can run now. */
  readonly isReady: Promise<boolean> | undefined;
  /** May be called more than once. */
  leave(): void;
}

/** Slots that are reserved for future steps. */
export interface Reserved {
  readonly count: number;
  /** Frees those that were not taken. May be called more than once. */
  release(): void;
}

/** Length of the spans in which freed slots are counted, and the longest time in the queue. */
const SPAN_MS = 250;
/** A step that is leased now can run when its transaction has been committed: up to a second later. */
const SPANS_QUEUED = 4;
/** Most queued steps beyond the slots: a process that hangs keeps them until its leases end. */
const MOST_QUEUED = 1000;
/** A claim without a free slot gets this share of the slots, as they become free. */
const CLAIMS_SHARE = 1 / 4;

/**
 * The number of slots kept for flows that run no step: an eighth, so that flows whose steps hang, because a service
 * that they call does, cannot take all. With fewer than eight slots, none is kept.
 */
export function keptForIdle(slots: number): number {
  return Math.floor(slots / 8);
}

/** Slots that are reserved for a claim, and how many of them are kept for flows that run no step. */
export interface ReservedForClaim extends Reserved {
  readonly kept: number;
}

/**
 * Counts the steps that run at once in this process, and those that are about to.
 *
 * While steps are quick, slots are free again before a step that becomes due is stored. So more steps can be leased
 * than there are slots: they are queued here, by flows, and a freed slot goes to the flow whose turn it is.
 */
export class Slots {
  readonly #all: number;
  /** Slots that only a flow without running steps can take. */
  readonly #kept: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #onFree: () => void;
  readonly #rotation = new Rotation();
  /** The flows with steps that run or are queued. */
  readonly #flows = new Map<string, FlowSteps>();
  readonly #left: LeftSlots;
  /** Only those that are not kept for idle flows. */
  readonly #leftShared: LeftSlots;
  #running = 0;
  #queued = 0;
  #reserved = 0;
  /** How many slots, including future ones, are kept from the queue for a claim; `claimed`: for the one under way. */
  #forClaim = 0;
  claimed = 0;
  #slow: NodeJS.Timeout | undefined;
  #isAlone = false;
  #isClosed = false;
  #changes: (() => void)[] = [];

  /** `onFree` is called when slots that were reserved or kept may be free. */
  constructor({ concurrency, clock }: { concurrency: number; clock: Pick<Clock, 'monotonic'> }, onFree: () => void) {
    this.#all = concurrency;
    this.#kept = keptForIdle(concurrency);
    this.#clock = clock;
    this.#onFree = onFree;
    this.#left = new LeftSlots(clock);
    this.#leftShared = new LeftSlots(clock);
  }

  /** Whether a step runs alone, so that no other can start. */
  get isAlone(): boolean {
    return this.#isAlone;
  }

  get free(): number {
    return this.#isAlone ? 0 : Math.max(0, this.#all - this.#running - this.#queued - this.#reserved);
  }

  /** Whether each slot is freed several times a second. */
  get isQuick(): boolean {
    return this.#left.count >= this.#all;
  }

  /**
   * How many steps of a flow can be leased now: one for each free slot that is not kept from it or, if steps are quick,
   * as many as would run in a second.
   */
  leasable(flowId: string): number {
    if (this.#isAlone) return 0;
    if (!this.isQuick) return Math.max(this.free - this.#kept, this.#flows.has(flowId) ? 0 : Math.min(1, this.free));
    const most = this.#all + Math.min(MOST_QUEUED, this.#left.count * SPANS_QUEUED);
    return Math.max(0, most - this.#running - this.#queued - this.#reserved);
  }

  /** Reserves slots for steps of a flow that a call is about to lease. */
  reserve(count: number, flowId: string): Reserved {
    const flow = this.#flowOf(flowId);
    flow.reserved += count;
    const { release } = this.#reserve(count, () => {
      flow.reserved -= count;
      this.#forgetIdle(flow);
    });
    return { count, release };
  }

  #reserve(count: number, onRelease: () => void): Reserved {
    this.#reserved += count;
    const release = once(() => {
      this.#reserved -= count;
      onRelease();
      this.#changed();
    });
    return { count, release };
  }

  /**
   * Reserves this share of the free slots for a claim; undefined if none is free yet. If steps are quick, the queue and
   * future steps could take all slots for as long as deliveries pour in: then a share of the freed slots is reserved for
   * the claim. It takes slots that are kept for idle flows only if no others are freed, because all their steps hang.
   */
  reserveForClaim(share: number): ReservedForClaim | undefined {
    if (this.#isAlone) return undefined;
    const { free, isQuick } = this;
    const forAll = Math.max(0, free - this.#kept);
    const isFull = forAll === 0 && isQuick;
    this.#forClaim = Math.ceil(isFull ? this.#all * CLAIMS_SHARE : free * share);
    const forIdle = this.#leftShared.count === 0 ? this.#all - this.#running : 0;
    const left = isFull ? this.#shared || forIdle : isQuick ? forAll : free;
    const count = Math.min(this.#forClaim, left);
    if (count <= 0) {
      // Nothing else tells when steps are no longer quick.
      if (!isFull || this.#slow !== undefined) return undefined;
      this.#slow = setTimeout(() => {
        this.#slow = undefined;
        this.#onFree();
      }, SPAN_MS).unref();
      return undefined;
    }
    this.#forClaim = count;
    this.claimed = count;
    const { release } = this.#reserve(count, () => {
      this.#forClaim = 0;
      this.claimed = 0;
      this.#fill();
    });
    const unkept = isFull ? this.#shared : isQuick ? count : forAll;
    return { count, kept: count - Math.min(count, unkept), release };
  }

  /** How many slots that are not kept for idle flows have no step. */
  get #shared(): number {
    return Math.max(0, this.#all - this.#kept - this.#running);
  }

  /** Takes a slot for a step that runs even if none is free. */
  take(flowId: string): Slot {
    const flow = this.#flowOf(flowId);
    this.#running += 1;
    flow.running += 1;
    this.#rotation.give(flow.key);
    return { isReady: undefined, leave: once(() => this.#end(flow)) };
  }

  /** Takes all slots for a step that runs alone: no other starts until it has left, or until this time has passed. */
  takeAll(flowId: string, ms: number): Slot {
    this.#sendAway();
    this.#isAlone = true;
    // Another step may run alone when this one leaves for the second time.
    const share = once(() => {
      clearTimeout(timer);
      this.#isAlone = false;
      this.#changed();
    });
    const timer = setTimeout(share, ms).unref();
    const slot = this.take(flowId);
    return {
      isReady: undefined,
      leave: () => {
        slot.leave();
        share();
      },
    };
  }

  /** Takes a slot as soon as one is free. */
  queue(flowId: string): Slot {
    const flow = this.#flowOf(flowId);
    if (this.#hasFree(flow)) return this.take(flowId);
    if (this.#isClosed || this.#isAlone) {
      this.#forgetIdle(flow);
      return { isReady: Promise.resolve(false), leave: () => {} };
    }
    let slot: Slot | undefined;
    let end: QueuedStep['end'] = () => {};
    const isReady = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => end(false), SPAN_MS).unref();
      end = (mayRun) => {
        if (!flow.leave(step)) return;
        clearTimeout(timer);
        this.#queued -= 1;
        if (mayRun) slot = this.take(flowId);
        else this.#forgetIdle(flow);
        resolve(mayRun);
      };
    });
    const step: QueuedStep = { since: this.#clock.monotonic(), end, hasLeft: false };
    flow.join(step);
    this.#queued += 1;
    return {
      isReady,
      leave: () => {
        end(false);
        slot?.leave();
      },
    };
  }

  /** Resolves when another slot may have become free. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#changes.push(resolve));
  }

  /** Sends away all queued steps, now and later. */
  close(): void {
    this.#isClosed = true;
    this.#sendAway();
  }

  #changed(): void {
    this.#tell();
    this.#onFree();
  }

  #tell(): void {
    for (const tell of this.#changes.splice(0)) tell();
  }

  #sendAway(): void {
    for (const flow of this.#flows.values()) for (const step of flow.all()) step.end(false);
  }

  #flowOf(flowId: string): FlowSteps {
    const flow = this.#flows.get(flowId) ?? new FlowSteps(flowId);
    this.#flows.set(flowId, flow);
    return flow;
  }

  #forgetIdle(flow: FlowSteps): void {
    if (flow.running === 0 && flow.queued === 0 && flow.reserved === 0) this.#flows.delete(flow.key);
  }

  #end(flow: FlowSteps): void {
    this.#running -= 1;
    flow.running -= 1;
    this.#left.add();
    if (this.#shared > 0) this.#leftShared.add();
    this.#forgetIdle(flow);
    this.#fill();
    // The next steps get this slot before a claim does, so the caller calls `onFree`.
    this.#tell();
  }

  #hasFree({ running }: FlowSteps): boolean {
    if (this.#isAlone) return false;
    if (running > 0) return this.#forClaim < this.#shared;
    // A claim that waits gets none of the kept slots.
    return this.#running + (this.claimed || Math.min(this.#forClaim, this.#shared)) < this.#all;
  }

  #fill(): void {
    while (this.#queued > 0) {
      const mayRun = [...this.#flows.values()].filter((flow) => flow.queued > 0 && this.#hasFree(flow));
      const first = this.#rotation.next(mayRun)?.first;
      if (first === undefined) return;
      first.end(true);
    }
  }
}

/** Does something the first time that it is called, and nothing later. */
function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    act();
  };
}

interface QueuedStep {
  readonly since: number;
  hasLeft: boolean;
  end(mayRun: boolean): void;
}

/** A flow's steps that run here, are queued, or are expected; its first queued step waits for the flow's turn. */
class FlowSteps implements Waiter {
  readonly key: string;
  /** Only the store limits a flow, and steps of a limited one are not queued here. */
  readonly limit = Number.POSITIVE_INFINITY;
  /** In order of arrival. A step that has left goes when it would be first. Not a Set, for the reason in `Places`. */
  readonly #queue: QueuedStep[] = [];
  queued = 0;
  running = 0;
  reserved = 0;

  constructor(flowId: string) {
    this.key = flowId;
  }

  get since(): number {
    return this.first?.since ?? 0;
  }

  get first(): QueuedStep | undefined {
    return this.#queue[0];
  }

  join(step: QueuedStep): void {
    this.#queue.push(step);
    this.queued += 1;
  }

  /** Yields whether it was queued until now. */
  leave(step: QueuedStep): boolean {
    if (step.hasLeft) return false;
    step.hasLeft = true;
    this.queued -= 1;
    while (this.#queue[0]?.hasLeft === true) this.#queue.shift();
    return true;
  }

  all(): QueuedStep[] {
    return this.#queue.filter(({ hasLeft }) => !hasLeft);
  }
}

/** Counts the slots that are freed in each span of time. */
class LeftSlots {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #span = 0;
  #now = 0;
  #before = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** In the last whole span. */
  get count(): number {
    this.#turn();
    return this.#before;
  }

  add(): void {
    this.#turn();
    this.#now += 1;
  }

  #turn(): void {
    const span = Math.floor(this.#clock.monotonic() / SPAN_MS);
    if (span === this.#span) return;
    this.#before = span === this.#span + 1 ? this.#now : 0;
    this.#now = 0;
    this.#span = span;
  }
}
