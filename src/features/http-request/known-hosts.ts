import { hash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { Bucket } from './bucket.ts';
import { type Circuit, CLOSED } from './circuit.ts';
import { type HostEntry, type HostLimits, limitsOf } from './host-limits.ts';

/**
 * Steps with a common wait: for a turn at a host, for the circuit of one of its endpoints, or for a step's own limits.
 */
export interface Queue {
  /** The `hostTurn` of its waiting steps: the origin, followed by a digest unless the queue is for the whole host. */
  readonly key: string;
  readonly host: Host;
  readonly bucket: Bucket;
  circuit: Circuit;
  /** Version of the stored circuit; null if none is stored. */
  version: number | null;
  /** Whether the stored circuit differs. */
  isUnsaved: boolean;
  /** Waiting steps in the store: the last count, with changes since. */
  waiting: number;
  /** Steps made due since that count that have not come yet. */
  coming: number;
  /** Whether a release of its steps is about to start. */
  isReleasing: boolean;
  /** Requests under way, of this process. */
  inFlight: number;
  /** Requests of other replicas, as of the last look; counted if the number at once is limited. */
  inFlightElsewhere: number;
}

/** This process's knowledge of a host. */
export interface Host {
  readonly origin: string;
  /** Its name in metrics. */
  readonly label: string;
  /** The queue for all requests. */
  readonly own: Queue;
  /** By key, including its own. */
  readonly queues: Map<string, Queue>;
  /** Steps that hold a slot while they wait for their token. */
  inSlots: number;
  /** The last time that a step was sent to wait, by the monotonic clock: it may not be stored yet. */
  parkedAt: number;
  /** Requests by second, for the last ten seconds. */
  readonly recent: Map<number, number>;
  /** Callers whose requests failed despite a connection, since the last answered one. */
  readonly failing: Set<string>;
  lastError: { readonly at: number; readonly error: string } | null;
  /** Whether no request has been answered since that error. */
  isFailing: boolean;
}

/** Deliveries can choose hosts, so the number is limited; hosts without special state are forgotten first. */
const MOST_HOSTS = 1000;
/** As many as hosts: a sender who chooses the hosts must fill neither the memory nor the store. */
const MOST_OPEN = 1000;
const MOST_QUEUES = 16;
const LABELLED_HOSTS = 50;
const RECENT_SECONDS = 10;
/** By then, a step that was sent to wait is stored. */
const STORED_AFTER_MS = 10_000;

interface KnownHostsServices {
  readonly entries: readonly HostEntry[];
  readonly clock: Clock;
  /** How many replicas share the limits. */
  readonly cluster: { readonly replicas: number };
}

/** The hosts that were called, up to a limit. */
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

  /** The queue for the key in a stored step or circuit. */
  queueAt(key: string): Queue {
    const [origin = key] = key.split(' ');
    const host = this.at(origin);
    return host.queues.get(key) ?? this.#addQueue(host, key, {});
  }

  /** The queue of an endpoint; undefined if it has none yet. */
  queueOf(host: Host, endpoint: string): Queue | undefined {
    return host.queues.get(keyOf(host, 'endpoint', endpoint));
  }

  makeQueueOf(host: Host, endpoint: string): Queue {
    return this.queueAt(keyOf(host, 'endpoint', endpoint));
  }

  /** The queue of a step's own limits; undefined if the host's are as strict. */
  queueOfStep(host: Host, step: string, given: HostLimits): Queue | undefined {
    const { perSecond, atOnce } = host.own.bucket.limits;
    const limits = { perSecond: stricter(given.perSecond, perSecond), atOnce: stricter(given.atOnce, atOnce) };
    if (limits.perSecond === undefined && limits.atOnce === undefined) return undefined;
    const queue = this.queueAt(keyOf(host, 'step', step));
    // Limits can differ from run to run: those of this request decide how long the next one waits.
    queue.bucket.limits = limits;
    return queue;
  }

  countRequest({ recent }: Host): void {
    const second = this.#second();
    recent.set(second, (recent.get(second) ?? 0) + 1);
    if (recent.size <= RECENT_SECONDS + 1) return;
    for (const key of recent.keys()) if (key < second - RECENT_SECONDS) recent.delete(key);
  }

  /** Average over the last whole seconds. */
  requestsPerSecond({ recent }: Host): number {
    const now = this.#second();
    let count = 0;
    for (let second = now - RECENT_SECONDS; second < now; second += 1) count += recent.get(second) ?? 0;
    return count / RECENT_SECONDS;
  }

  /** Whether another circuit can open. */
  mayOpen(): boolean {
    return this.queues().filter(({ circuit }) => circuit.state !== 'closed').length < MOST_OPEN;
  }

  /** Whether steps wait for it, or one of its circuits needs to be stored or watched. */
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

  /** Forgets the oldest hosts whose state equals that of a new one. */
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

/** An origin, a blank and hex digits: the index of waiting steps takes no character that JSON escapes. */
function keyOf({ origin }: Host, kind: 'endpoint' | 'step', name: string): string {
  return `${origin} ${hash('sha256', `${kind} ${name}`).slice(0, 16)}`;
}

function stricter(own: number | undefined, limit = Number.POSITIVE_INFINITY): number | undefined {
  return own !== undefined && own < limit ? own : undefined;
}
