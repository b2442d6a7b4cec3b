import { randomUUID } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import type { BirthLease } from '../store/store.ts';
import { LEASE_MS } from './leases.ts';
import { holderOf } from './runtime-keys.ts';

/** Slots that are kept free while a call is under way that makes steps due. */
export interface SlotOffer {
  readonly lease: BirthLease;
  /** Gives back the slots that nothing took. */
  withdraw(): void;
}

/** A slot, or a place in the line for one. */
export interface Place {
  /**
   * Resolves with true when a slot is free, or with false if the step should not wait for it; undefined if one is free
   * now.
   */
  readonly turn: Promise<boolean> | undefined;
  /** May be called more than once. */
  leave(): void;
}

/** Slots are counted as they are left in such moments. No step waits in line for much longer than one. */
const MOMENT_MS = 250;
/** A step that is leased now is in line for a slot when its transaction has been committed: up to a second later. */
const MOMENTS_AHEAD = 4;
/** At most so many more steps than there are slots: a process that hangs keeps them until its leases end. */
const MOST_AHEAD = 1000;
/** A claim takes ahead what would leave its slot in a moment, and this at most: it should not keep others waiting for its commit. */
const MOST_CLAIMED_AHEAD = 112;
/** What a claim that is due keeps from the line. What it takes ahead is more: it is not for want of slots that it is slow. */
const KEPT_SHARE = 4;

/**
 * Counts what may run at once: steps that run or wait in line, and slots that are kept for steps to come.
 *
 * While steps are quick, slots are free again before a step that becomes due is stored. So more steps may be leased than
 * there are slots: they wait in line. A slot that is left goes to the flow that runs the fewest steps here, among equals
 * to the one whose last slot is the longest ago, and in it to the step that came first.
 */
export class Slots {
  readonly #all: number;
  readonly #clock: Clock;
  /** With a number appended it names a lease that this process gives itself. */
  readonly #holder: string;
  readonly #onWithdrawn: () => void;
  /** Of flows with steps that run or wait in line. */
  readonly #flows = new Map<string, FlowSeats>();
  #looking: NodeJS.Timeout | undefined;
  #isClosed = false;
  #running = 0;
  #kept = 0;
  #offers = 0;
  #begun = 0;
  /** Slots that were left in this moment, and in the one before it. */
  #left = 0;
  #leftBefore = 0;
  #moment = 0;
  taken = 0;

  /** `onWithdrawn` is called when slots of an offer are free again. */
  constructor(
    { concurrency, clock, owner }: { concurrency: number; clock: Clock; owner: string },
    onWithdrawn: () => void,
  ) {
    this.#all = concurrency;
    this.#clock = clock;
    this.#holder = holderOf(owner, randomUUID());
    this.#onWithdrawn = onWithdrawn;
  }

  get room(): number {
    return Math.max(0, this.#all - this.taken);
  }

  /** Slots that are free, and those that will be soon, if they are left as they were a moment ago. */
  get roomSoon(): number {
    this.#turnMoment();
    return Math.max(0, this.#all + Math.min(MOST_AHEAD, this.#leftBefore * MOMENTS_AHEAD) - this.taken);
  }

  /** Whether each slot was left in the moment before this one, on average. */
  get isQuick(): boolean {
    this.#turnMoment();
    return this.#leftBefore >= this.#all;
  }

  /**
   * Slots that are free for a claim that is due. Where steps are quick, the line and steps to come may have taken all of
   * them for as long as deliveries pour in: then a quarter is kept for the claim as they are left.
   */
  makeRoom(): number {
    const { room, isQuick } = this;
    if (room > 0) return room;
    this.keep(isQuick ? Math.ceil(this.#all / KEPT_SHARE) : 0);
    return Math.max(0, Math.min(this.#kept, this.#all - this.#running));
  }

  /** So many more steps than there are slots may be claimed: they have theirs soon. */
  get claimableAhead(): number {
    return this.isQuick ? Math.min(MOST_CLAIMED_AHEAD, this.#leftBefore) : 0;
  }

  /** Takes a slot for a step that runs whether or not one is free. */
  take(flowId: string): Place {
    const seat = new Seat(this.#seatsOf(flowId));
    this.#begin(seat);
    return this.#placeOf(seat);
  }

  /** Takes a slot, or a place in line. */
  join(flowId: string): Place {
    if (this.#hasFree()) return this.take(flowId);
    const seat = new Seat(this.#seatsOf(flowId));
    seat.flow.line.add(seat);
    if (this.#isClosed) seat.leaveLine(false);
    else this.#looking ??= this.#lookLater();
    return this.#placeOf(seat, seat.turn);
  }

  /** Keeps so many free slots from who waits in line, for steps that are being claimed and that cannot wait; 0 ends this. */
  keep(count: number): void {
    this.#kept = count;
    this.#fill();
  }

  /** Keeps slots for steps that a call is about to make due. */
  offer(count: number): SlotOffer {
    this.taken += count;
    this.#offers += 1;
    let isKept = true;
    const leasedUntil = this.#clock.now() + LEASE_MS;
    return {
      lease: { holder: `${this.#holder}.${this.#offers}`, leasedUntil, limit: count },
      withdraw: () => {
        if (!isKept) return;
        isKept = false;
        this.taken -= count;
        this.#onWithdrawn();
      },
    };
  }

  /** Sends away all who wait. */
  clearLine(): void {
    for (const { line } of this.#flows.values()) for (const seat of line) seat.leaveLine(false);
  }

  /** Sends away all who wait, and will. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#looking);
    this.clearLine();
  }

  #seatsOf(flowId: string): FlowSeats {
    const known = this.#flows.get(flowId);
    if (known !== undefined) return known;
    // Behind flows that already wait, because otherwise flows that come and go would starve them; ahead of the flow
    // that had the last slot.
    const seats = { flowId, line: new Set<Seat>(), running: 0, lastTurn: this.#begun - 0.5 };
    this.#flows.set(flowId, seats);
    return seats;
  }

  #placeOf(seat: Seat, turn?: Promise<boolean>): Place {
    this.taken += 1;
    let isTaken = true;
    return {
      turn,
      leave: () => {
        if (!isTaken) return;
        isTaken = false;
        this.taken -= 1;
        this.#leave(seat);
      },
    };
  }

  #leave(seat: Seat): void {
    const { flow } = seat;
    seat.leaveLine(false);
    if (seat.isRunning) {
      this.#running -= 1;
      flow.running -= 1;
      this.#turnMoment();
      this.#left += 1;
    }
    if (flow.running === 0 && flow.line.size === 0) this.#flows.delete(flow.flowId);
    this.#fill();
  }

  #hasFree(): boolean {
    return this.#running + this.#kept < this.#all;
  }

  #fill(): void {
    while (this.#hasFree()) {
      const next = this.#next();
      if (next === undefined) return;
      this.#begin(next);
    }
  }

  #next(): Seat | undefined {
    let best: FlowSeats | undefined;
    for (const flow of this.#flows.values()) {
      if (flow.line.size > 0 && (best === undefined || isBefore(flow, best))) best = flow;
    }
    const [next] = best?.line ?? [];
    return next;
  }

  #begin(seat: Seat): void {
    this.#running += 1;
    this.#begun += 1;
    seat.flow.running += 1;
    seat.flow.lastTurn = this.#begun;
    seat.isRunning = true;
    seat.leaveLine(true);
  }

  #turnMoment(): void {
    const moment = Math.floor(this.#clock.monotonic() / MOMENT_MS);
    if (moment === this.#moment) return;
    this.#leftBefore = moment === this.#moment + 1 ? this.#left : 0;
    this.#left = 0;
    this.#moment = moment;
  }

  /** Looks twice in a moment: who was there at the last look has waited for long enough. */
  #lookLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#looking = undefined;
      for (const { line } of this.#flows.values()) {
        for (const seat of line) {
          if (seat.hasWaited) seat.leaveLine(false);
          seat.hasWaited = true;
          this.#looking ??= this.#lookLater();
        }
      }
    }, MOMENT_MS / 2).unref();
  }
}

/** The steps of a flow that run here or wait in line. */
interface FlowSeats {
  readonly flowId: string;
  /** Who came first is first. */
  readonly line: Set<Seat>;
  running: number;
  lastTurn: number;
}

function isBefore(one: FlowSeats, other: FlowSeats): boolean {
  return one.running === other.running ? one.lastTurn < other.lastTurn : one.running < other.running;
}

/** One who has a slot or waits for one. */
class Seat {
  readonly flow: FlowSeats;
  isRunning = false;
  hasWaited = false;
  #endWait: ((isTurn: boolean) => void) | undefined;

  constructor(flow: FlowSeats) {
    this.flow = flow;
  }

  get turn(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#endWait = resolve;
      if (!this.flow.line.has(this)) resolve(this.isRunning);
    });
  }

  leaveLine(isTurn: boolean): void {
    this.flow.line.delete(this);
    this.#endWait?.(isTurn);
  }
}
