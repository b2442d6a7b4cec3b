import type { Clock } from '../model/clock.ts';
import { type Circuit, CLOSED } from './circuit.ts';
import { type HostEntry, type HostLimits, limitsOf } from './host-limits.ts';
import { HostTurns } from './host-turns.ts';

/** What this process knows of a host. */
export interface Host {
  readonly origin: string;
  readonly limits: HostLimits;
  readonly turns: HostTurns;
  /** What metrics call it. */
  readonly label: string;
  circuit: Circuit;
  /** Of the stored circuit; null where none is stored. */
  version: number | null;
  /** The stored circuit is another. */
  isUnsaved: boolean;
  saving: Promise<void> | undefined;
  /** How often the circuit was stored, or found to be outdated. */
  saves: number;
  /** `probingUntil` of the circuit that this process stored last. */
  storedProbe: number | null;
  /** Steps that wait in the store, as of the last count and since. */
  waiting: number;
  /** When a step was sent to wait, by the clock that is never set: it may not be stored yet. */
  parkedAt: number;
  /** Steps that hold a slot while they wait for a moment. */
  patient: number;
  /** Requests by the second, of the last ten. */
  readonly recent: Map<number, number>;
  /** Requests that its limits allow and that no step made: so many steps are released. */
  credit: number;
  released: number;
  lastError: { readonly at: number; readonly error: string } | null;
  /** No request has been answered since that error. */
  isFailing: boolean;
}

/** Hosts may come from deliveries; those that nothing is known of are forgotten first. */
export const MOST_HOSTS = 1000;
const LABELLED_HOSTS = 50;
const RECENT_SECONDS = 10;
/** A step that was sent to wait is stored by then. */
const STORED_AFTER_MS = 10_000;

/** The hosts that were called, as many as fit. */
export class KnownHosts {
  readonly #entries: readonly HostEntry[];
  readonly #clock: Clock;
  readonly #byOrigin = new Map<string, Host>();
  readonly #labels = new Set<string>();

  constructor(entries: readonly HostEntry[], clock: Clock) {
    this.#entries = entries;
    this.#clock = clock;
  }

  all(): IterableIterator<Host> {
    return this.#byOrigin.values();
  }

  find(origin: string): Host | undefined {
    return this.#byOrigin.get(origin);
  }

  at(origin: string): Host {
    const known = this.#byOrigin.get(origin);
    if (known !== undefined) return known;
    if (this.#byOrigin.size >= MOST_HOSTS) this.#forgetIdle();
    const limits = limitsOf(this.#entries, origin);
    if (this.#labels.size < LABELLED_HOSTS) this.#labels.add(origin);
    const host: Host = {
      origin,
      limits,
      turns: new HostTurns(limits),
      label: this.#labels.has(origin) ? origin : 'other',
      circuit: CLOSED,
      version: null,
      isUnsaved: false,
      saving: undefined,
      saves: 0,
      storedProbe: null,
      waiting: 0,
      parkedAt: Number.NEGATIVE_INFINITY,
      patient: 0,
      recent: new Map(),
      credit: 0,
      released: 0,
      lastError: null,
      isFailing: false,
    };
    this.#byOrigin.set(origin, host);
    return host;
  }

  countRequest({ recent }: Host): void {
    const second = this.#second();
    recent.set(second, (recent.get(second) ?? 0) + 1);
    if (recent.size <= RECENT_SECONDS + 1) return;
    for (const key of recent.keys()) if (key < second - RECENT_SECONDS) recent.delete(key);
  }

  /** Requests in the last whole seconds, at most ten. */
  recentRequests({ recent }: Host, seconds: number): number {
    const now = this.#second();
    let count = 0;
    for (let second = now - seconds; second < now; second += 1) count += recent.get(second) ?? 0;
    return count;
  }

  /** Whether steps wait for it, or something of it is to be stored or looked at. */
  isBusy({ waiting, parkedAt, circuit, isUnsaved, saving }: Host): boolean {
    if (waiting > 0 || circuit.phase === 'open' || isUnsaved || saving !== undefined) return true;
    return this.#clock.monotonic() - parkedAt < STORED_AFTER_MS;
  }

  #second(): number {
    return Math.floor(this.#clock.monotonic() / 1000);
  }

  /** The oldest of those of which no more is known than of a new one. */
  #forgetIdle(): void {
    let left = this.#byOrigin.size - MOST_HOSTS + 1;
    for (const [origin, host] of this.#byOrigin) {
      if (left <= 0) return;
      if (this.isBusy(host) || host.turns.inFlight > 0 || this.recentRequests(host, RECENT_SECONDS) > 0) continue;
      this.#byOrigin.delete(origin);
      left -= 1;
    }
  }
}
