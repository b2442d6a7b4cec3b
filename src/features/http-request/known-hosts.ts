import { hash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { Bucket } from './bucket.ts';
import { type Circuit, CLOSED } from './circuit.ts';
import { type HostEntry, type HostLimits, limitsOf } from './host-limits.ts';

/**
 * Steps that wait for the same: for a turn at a host, for the circuit of one endpoint of it, or for the own limits of a step.
 */
export interface Queue {
  /** As `hostTurn` of a step that waits has it: the origin, and for what is not the whole host's a digest. */
  readonly key: string;
  readonly host: Host;
  readonly bucket: Bucket;
  circuit: Circuit;
  /** Of the stored circuit; null where none is stored. */
  version: number | null;
  /** The stored circuit differs. */
  isUnsaved: boolean;
  /** Steps that wait in the store, as of the last count and since. */
  waiting: number;
  /** Steps that were made due since that count and have not come yet. */
  coming: number;
  /** Steps of it are about to be made due. */
  isReleasing: boolean;
  /** Requests under way, of this process. */
  inFlight: number;
  /** Those of other replicas, as of the last look; counted where so many may be at once. */
  inFlightElsewhere: number;
}

/** What this process knows of a host. */
export interface Host {
  readonly origin: string;
  /** What metrics call it. */
  readonly label: string;
  /** Of all requests. */
  readonly own: Queue;
  /** By key; its own among them. */
  readonly queues: Map<string, Queue>;
  /** Steps that hold a slot while their token is on its way. */
  inSlots: number;
  /** When a step was sent to wait, by the clock that is never set: it may not be stored yet. */
  parkedAt: number;
  /** Requests by the second, of the last ten. */
  readonly recent: Map<number, number>;
  /** Whose requests failed, although there was a connection, since one was answered. */
  readonly failing: Set<string>;
  lastError: { readonly at: number; readonly error: string } | null;
  /** No request has been answered since that error. */
  isFailing: boolean;
}

/** Hosts may come from deliveries; those that nothing is known of are forgotten first. */
const MOST_HOSTS = 1000;
/** As many circuits as hosts: whoever chooses the hosts must fill neither the memory nor the store. */
const MOST_OPEN = 1000;
const MOST_QUEUES = 16;
const LABELLED_HOSTS = 50;
const RECENT_SECONDS = 10;
/** A step that was sent to wait is stored by then. */
const STORED_AFTER_MS = 10_000;

interface KnownHostsServices {
  readonly entries: readonly HostEntry[];
  readonly clock: Clock;
  /** How many replicas share the limits. */
  readonly cluster: { readonly replicas: number };
}

/** The hosts that were called, as many as fit. */
export class KnownHosts {
  readonly #services: KnownHostsServices;
  readonly #byOrigin = new Map<string, Host>();
  readonly #labels = new Set<string>();

  constructor(services: KnownHostsServices) {
    this.#services = services;
  }

  all(): IterableIterator<Host> {
    return this.#byOrigin.values();
  }

  queues(): Queue[] {
    return [...this.all()].flatMap(({ queues }) => [...queues.values()]);
  }

  find(origin: string): Host | undefined {
    return this.#byOrigin.get(origin);
  }

  at(origin: string): Host {
    const known = this.#byOrigin.get(origin);
    if (known !== undefined) return known;
    if (this.#byOrigin.size >= MOST_HOSTS) this.#forgetIdle();
    if (this.#labels.size < LABELLED_HOSTS) this.#labels.add(origin);
    const limits = limitsOf(this.#services.entries, origin);
    const queues = new Map<string, Queue>();
    const host: Host = {
      origin,
      label: this.#labels.has(origin) ? origin : 'other',
      get own() {
        return own;
      },
      queues,
      inSlots: 0,
      parkedAt: Number.NEGATIVE_INFINITY,
      recent: new Map(),
      failing: new Set(),
      lastError: null,
      isFailing: false,
    };
    const own = this.#addQueue(host, origin, limits);
    this.#byOrigin.set(origin, host);
    return host;
  }

  /** The queue of a key that a step or a circuit was stored with. */
  queueAt(key: string): Queue {
    const [origin = key] = key.split(' ');
    const host = this.at(origin);
    return host.queues.get(key) ?? this.#addQueue(host, key, {});
  }

  /** The queue of an endpoint; undefined where nothing is known of it, unless it is to be made. */
  queueOf(host: Host, endpoint: string): Queue | undefined {
    return host.queues.get(keyOf(host, 'endpoint', endpoint));
  }

  makeQueueOf(host: Host, endpoint: string): Queue {
    return this.queueAt(keyOf(host, 'endpoint', endpoint));
  }

  /** The queue of a step's own limits; undefined where those of the host are as strict. */
  queueOfStep(host: Host, step: string, given: HostLimits): Queue | undefined {
    const { perSecond, atOnce } = host.own.bucket.limits;
    const limits = { perSecond: stricter(given.perSecond, perSecond), atOnce: stricter(given.atOnce, atOnce) };
    if (limits.perSecond === undefined && limits.atOnce === undefined) return undefined;
    const queue = this.queueAt(keyOf(host, 'step', step));
    // They may differ from run to run: those of this request say how long the next one waits.
    queue.bucket.limits = limits;
    return queue;
  }

  countRequest({ recent }: Host): void {
    const second = this.#second();
    recent.set(second, (recent.get(second) ?? 0) + 1);
    if (recent.size <= RECENT_SECONDS + 1) return;
    for (const key of recent.keys()) if (key < second - RECENT_SECONDS) recent.delete(key);
  }

  /** Over the last whole seconds. */
  requestsPerSecond({ recent }: Host): number {
    const now = this.#second();
    let count = 0;
    for (let second = now - RECENT_SECONDS; second < now; second += 1) count += recent.get(second) ?? 0;
    return count / RECENT_SECONDS;
  }

  /** Whether another circuit may open. */
  mayOpen(): boolean {
    return this.queues().filter(({ circuit }) => circuit.state !== 'closed').length < MOST_OPEN;
  }

  /** Whether steps wait for it, or something of it is to be stored or looked at. */
  isBusy({ parkedAt, queues }: Host): boolean {
    if (this.#services.clock.monotonic() - parkedAt < STORED_AFTER_MS) return true;
    return [...queues.values()].some(isBusy);
  }

  #addQueue(host: Host, key: string, limits: HostLimits): Queue {
    const { clock, cluster } = this.#services;
    for (const [idleKey, queue] of host.queues) {
      if (host.queues.size <= MOST_QUEUES) break;
      const isIdle =
        !isBusy(queue) &&
        queue.inFlight === 0 &&
        queue.circuit.failures === 0 &&
        queue.bucket.isIdle(clock.monotonic());
      if (isIdle && queue !== host.own) host.queues.delete(idleKey);
    }
    const counts = {
      version: null,
      isUnsaved: false,
      waiting: 0,
      coming: 0,
      isReleasing: false,
      inFlight: 0,
      inFlightElsewhere: 0,
    };
    const queue = { key, host, bucket: new Bucket(limits, cluster), circuit: CLOSED, ...counts };
    host.queues.set(key, queue);
    return queue;
  }

  #second(): number {
    return Math.floor(this.#services.clock.monotonic() / 1000);
  }

  /** The oldest of those of which no more is known than of a new one. */
  #forgetIdle(): void {
    let left = this.#byOrigin.size - MOST_HOSTS + 1;
    for (const [origin, host] of this.#byOrigin) {
      if (left <= 0) return;
      if (this.isBusy(host) || host.own.inFlight > 0 || this.requestsPerSecond(host) > 0) continue;
      this.#byOrigin.delete(origin);
      left -= 1;
    }
  }
}

function isBusy({ waiting, circuit, isUnsaved }: Queue): boolean {
  return waiting > 0 || isUnsaved || circuit.state !== 'closed';
}

/** In the form of an origin, a blank and hex digits: the index of waiting steps takes no character that JSON escapes. */
function keyOf({ origin }: Host, kind: 'endpoint' | 'step', name: string): string {
  return `${origin} ${hash('sha256', `${kind} ${name}`).slice(0, 16)}`;
}

function stricter(own: number | undefined, limit = Number.POSITIVE_INFINITY): number | undefined {
  return own !== undefined && own < limit ? own : undefined;
}
