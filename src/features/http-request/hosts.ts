import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { serially } from '../../model/serially.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import {
  afterRequest,
  beginProbe,
  type Circuit,
  CLOSED,
  circuitText,
  isForgotten,
  mayProbe,
  type OpenCircuit,
  type RequestEnd,
} from './circuit.ts';
import { type HostLimits, hostEntriesOf, rateText } from './host-limits.ts';
import { type Host, KnownHosts, type Queue } from './known-hosts.ts';
import type { HostPlace, HostStore } from './store.ts';
import { StoredCircuits } from './stored-circuits.ts';
import { freePlaces, StoredPlaces } from './stored-places.ts';

/** A request for a turn at a host. */
interface TurnRequest {
  /** In the form of `originOf`. */
  readonly origin: string;
  /** The sender as the host sees it, as far as is known. */
  readonly caller: string;
  /** Describes what the caller calls: requests to one endpoint share a circuit. */
  readonly endpoint: string;
  /** The step's own limits, which apply if they are stricter. */
  readonly own: HostLimits;
  /** Identifies the step, the same in all runs. */
  readonly step: string;
  /** The queue that the step has waited in. */
  readonly waitedIn?: string | undefined;
  /** For a request that can wait only in its slot: the longest wait there. It goes before all that can wait outside. */
  readonly mostWaitMs?: number;
  /** The longest time for the answer. */
  readonly answerMs: number;
  readonly signal: AbortSignal;
}

export type HostTurn =
  /** `probed`: the queue whose circuit the request tries. */
  | { readonly kind: 'go'; readonly probed: string | undefined; readonly end: (end: RequestEnd) => void }
  /** Wait until the steps of the queue are released; `why` and `message` give the reason. */
  | {
      readonly kind: 'wait';
      readonly queue: string;
      readonly why: 'rate' | 'atOnce' | 'circuit';
      readonly message: string;
    };

export interface HostState {
  readonly origin: string;
  /** Circuits that are not closed: first that of all callers, then the oldest. */
  readonly circuits: readonly OpenCircuit[];
  /** Consecutive failures of all callers. */
  readonly failures: number;
  readonly limits: HostLimits;
  readonly inFlight: number;
  /** Over the last ten seconds. */
  readonly requestsPerSecond: number;
  /** At most as many as are counted. */
  readonly waitingSteps: number;
  readonly lastError: { readonly at: number; readonly error: string } | null;
  readonly isFailing: boolean;
}

interface HostSettings {
  /** Texts that `hostEntryTexts` accepted. */
  readonly outgoingHosts: readonly string[];
  /** Consecutive failures after which a host is not called; 0 for never. */
  readonly circuitFailures: number;
}

/** Given once the service runs; before, hosts only have their limits, and no step waits. */
interface HostConnections {
  readonly store: HostStore;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'outgoingRequests' | 'outgoingCircuitsOpen' | 'outgoingWaitingSteps'>;
  /** Called when steps were made due. */
  readonly onReleased: () => void;
}

interface HostServices {
  readonly settings: HostSettings;
  readonly clock: Clock;
  /** How many replicas share the limits. */
  readonly cluster?: { readonly replicas: number } | undefined;
  /** A number from 0 up to 1. */
  readonly random?: (() => number) | undefined;
  /** Resolves after this many milliseconds, or when the signal aborts. */
  readonly wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** The wait of a request. */
interface HostWait extends Omit<Extract<HostTurn, { kind: 'wait' }>, 'kind' | 'queue'> {
  readonly queue: Queue;
  /** Infinity if unknown. */
  readonly ms: number;
}

/** Interval for looking at waiting steps, and at what other replicas know of hosts. */
const LOOK_MS = 1000;
/** A token due this soon is awaited in the slot: parking the step would cost two transactions. */
const MOST_IN_SLOT_MS = 100;
/** Most steps of one host that wait for their token in a slot. */
const MOST_IN_SLOT = 4;
const MOST_COUNTED = 10_000;
/** Failed requests from this many callers show that the host itself has a problem. */
const SEVERAL_CALLERS = 2;

/** The hosts that steps call: how fast each can be called, and whether it is called at all. */
export class Hosts {
  readonly #services: HostServices;
  readonly #random: () => number;
  readonly #wait: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly #hosts: KnownHosts;
  readonly #releases = serially();
  #connected: (HostConnections & { readonly circuits: StoredCircuits; readonly places: StoredPlaces }) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #isStopped = false;

  constructor(services: HostServices) {
    const { settings, clock, cluster = { replicas: 1 } } = services;
    this.#services = services;
    this.#random = services.random ?? Math.random;
    this.#wait = services.wait ?? pause;
    this.#hosts = new KnownHosts({ entries: hostEntriesOf(settings.outgoingHosts), clock, cluster });
  }

  async ask(request: TurnRequest): Promise<HostTurn> {
    const { waitedIn, mostWaitMs, signal } = request;
    const { clock } = this.#services;
    const host = this.#hosts.at(request.origin);
    const queues = this.#queuesOf(host, request);
    for (const queue of queues) if (queue.key === waitedIn) queue.coming = Math.max(0, queue.coming - 1);
    const wait = this.#waitFor(queues, request);
    const mayStay = mostWaitMs !== undefined || host.inSlots < MOST_IN_SLOT;
    if (wait !== undefined && !(mayStay && wait.ms <= (mostWaitMs ?? MOST_IN_SLOT_MS))) return this.#park(wait);
    const waitMs = wait?.ms ?? 0;
    for (const queue of queues) {
      queue.bucket.take(clock.monotonic() + waitMs);
      queue.inFlight += 1;
    }
    if (waitMs > 0) {
      host.inSlots += 1;
      await this.#wait(waitMs, signal).finally(() => {
        host.inSlots -= 1;
      });
    }
    return this.#go(host, request, queues);
  }

  /** The queues in which the request may have to wait. */
  #queuesOf(host: Host, { endpoint, own, step }: TurnRequest): Queue[] {
    const queues = [host.own, this.#hosts.queueOf(host, endpoint), this.#hosts.queueOfStep(host, step, own)];
    return queues.filter((queue) => queue !== undefined);
  }

  /** Completes a turn: a circuit may have opened during the wait for it. */
  async #go(host: Host, request: TurnRequest, taken: readonly Queue[]): Promise<HostTurn> {
    const probes = new Map<Queue, Circuit>();
    const giveBack = () => {
      for (const queue of taken) queue.inFlight -= 1;
      const unsent = { probes, caller: null, mayOpen: false };
      for (const begun of probes.keys()) this.#endAt(begun, { kind: 'none' }, unsent);
    };
    for (const queue of this.#queuesOf(host, request)) {
      const barred = this.#barredAt(queue, request);
      const isProbe = barred === undefined && queue.circuit.state !== 'closed';
      if (isProbe && (await this.#beginProbe(queue, request.answerMs))) probes.set(queue, queue.circuit);
      else if (barred !== undefined || isProbe) {
        giveBack();
        return this.#park(barred ?? waitForCircuit(queue));
      }
    }
    const counted = await this.#connected?.places.take(taken, request.answerMs).catch((error: unknown) => {
      giveBack();
      throw error;
    });
    if (counted?.kind === 'full') {
      giveBack();
      const full = this.#hosts.queueAt(counted.queue);
      // Applies until the next look.
      full.inFlightElsewhere = Math.max(full.inFlightElsewhere, (full.bucket.limits.atOnce ?? 1) - full.inFlight);
      return this.#park(waitForPlace(full));
    }
    const places = counted?.places ?? [];
    this.#hosts.countRequest(host);
    let isOver = false;
    const end = (ended: RequestEnd) => {
      if (!isOver) this.#end(host, ended, { ...request, probes, taken, places });
      isOver = true;
    };
    return { kind: 'go', probed: [...probes.keys()][0]?.key, end };
  }

  /** Whether the request can probe: among several processes, the one that changes the stored circuit can. */
  async #beginProbe(queue: Queue, answerMs: number): Promise<boolean> {
    const { circuit } = queue;
    if (circuit.state === 'closed') return true;
    const probing = beginProbe(circuit, this.#services.clock.now(), answerMs);
    await this.#setCircuit(queue, probing);
    if (queue.circuit !== probing) return false;
    // While the store is unavailable, there are no probes: the outcome of the step could not be stored either.
    if (queue.isUnsaved) queue.circuit = circuit;
    return !queue.isUnsaved;
  }

  /** The wait for an open circuit, or else the longest one. */
  #waitFor(queues: readonly Queue[], request: TurnRequest): HostWait | undefined {
    const barred = queues.map((queue) => this.#barredAt(queue, request)).find((wait) => wait !== undefined);
    if (barred !== undefined) return barred;
    const waits = queues.map((queue) => this.#waitAt(queue, request)).filter((wait) => wait !== undefined);
    return waits.sort((a, b) => b.ms - a.ms)[0];
  }

  /** The wait for an open circuit; undefined if the host can be called. */
  #barredAt(queue: Queue, request: TurnRequest): HostWait | undefined {
    const { circuit } = queue;
    if (circuit.state === 'closed' || this.#services.settings.circuitFailures === 0) return undefined;
    const isNext = queue.waiting === 0 || goesFirst(queue, request);
    return isNext && mayProbe(circuit, this.#services.clock.now()) ? undefined : waitForCircuit(queue);
  }

  #waitAt(queue: Queue, request: TurnRequest): HostWait | undefined {
    const { host, bucket, waiting } = queue;
    const { perSecond, atOnce } = bucket.limits;
    const isFirst = goesFirst(queue, request);
    if (atOnce !== undefined && (freePlaces(queue) <= 0 || (waiting > 0 && !isFirst))) return waitForPlace(queue);
    if (perSecond === undefined) return undefined;
    const tokenMs = bucket.waitMs(this.#services.clock.monotonic(), isFirst);
    const ms = waiting > 0 && !isFirst ? Number.POSITIVE_INFINITY : tokenMs;
    if (ms <= 0) return undefined;
    return { queue, ms, why: 'rate', message: `${host.origin} is limited to ${rateText(perSecond)}` };
  }

  #park({ queue, why, message }: HostWait): HostTurn {
    // Without a store, nothing would count the steps that continue.
    if (this.#connected !== undefined) queue.waiting += 1;
    queue.host.parkedAt = this.#services.clock.monotonic();
    return { kind: 'wait', queue: queue.key, why, message };
  }

  #end(host: Host, ended: RequestEnd, { caller, endpoint, probes, taken, places }: SentRequest): void {
    for (const queue of taken) queue.inFlight -= 1;
    this.#connected?.metrics.outgoingRequests.inc({ host: host.label, result: ended.kind });
    if ('error' in ended && ended.error !== undefined) {
      host.lastError = { at: this.#services.clock.now(), error: ended.error };
    }
    if (ended.kind === 'answered') host.isFailing = false;
    else if ('error' in ended) host.isFailing = true;
    const isAway = ended.kind === 'failed' && ended.isAway === true;
    if (ended.kind === 'failed' && !isAway) host.failing.add(caller);
    else if (ended.kind !== 'failed' && ended.kind !== 'none') host.failing.clear();
    // A host that wants a pause at one endpoint is up for others; one that fails for one caller may be, too.
    const isOfHost = isAway || host.failing.size >= SEVERAL_CALLERS;
    const answered = { kind: 'answered' } as const;
    const atHost = { probes, caller: null, mayOpen: isOfHost };
    this.#endAt(host.own, ended.kind === 'refused' ? answered : ended, atHost);
    const isOfEndpoint = (ended.kind === 'failed' && !isAway) || ended.kind === 'refused';
    const queue = isOfEndpoint ? this.#hosts.makeQueueOf(host, endpoint) : this.#hosts.queueOf(host, endpoint);
    if (queue !== undefined && (!isAway || probes.has(queue))) {
      this.#endAt(queue, ended, { probes, caller: endpoint, mayOpen: true });
      // Failures that one endpoint's circuit explains say nothing about the host.
      if (queue.circuit.state !== 'closed' && host.own.circuit.state === 'closed') {
        host.own.circuit = CLOSED;
        host.failing.clear();
      }
    }
    if (places.length === 0) this.#releaseNext(host);
    else void this.#connected?.places.return(places).then(() => this.#releaseNext(host));
  }

  /** Uses a free place. */
  #releaseNext(host: Host): void {
    for (const each of host.queues.values()) {
      const { atOnce = host.own.bucket.limits.atOnce } = each.bucket.limits;
      if (atOnce !== undefined && each.waiting > 0) void this.#releaseSoon(each);
    }
  }

  /** Applies the end of a request to one circuit. */
  #endAt(
    queue: Queue,
    ended: RequestEnd,
    { probes, caller, mayOpen }: { probes: Probes; caller: string | null; mayOpen: boolean },
  ): void {
    const { clock, settings } = this.#services;
    const { circuit } = queue;
    const opens = mayOpen && settings.circuitFailures > 0 && (circuit.state !== 'closed' || this.#hosts.mayOpen());
    if (ended.kind === 'refused' && !opens) return;
    // If another replica or an operator has changed the circuit meanwhile, the request is not a probe of it.
    const isProbe = circuit.state !== 'closed' && probes.get(queue) === circuit;
    const threshold = opens ? settings.circuitFailures : Number.POSITIVE_INFINITY;
    const about = { at: clock.now(), isProbe, caller, threshold, random: this.#random };
    void this.#setCircuit(queue, afterRequest(circuit, ended, about));
  }

  /** Applies at once; resolves once it is stored, or cannot be. */
  async #setCircuit(queue: Queue, circuit: Circuit): Promise<void> {
    const before = queue.circuit;
    queue.circuit = circuit;
    if (circuit === before || (circuit.state === 'closed' && before.state === 'closed')) return;
    await this.#connected?.circuits.changed(queue, before);
  }

  async list(): Promise<HostState[]> {
    await this.#recount();
    return [...this.#hosts.all()].map((host): HostState => {
      const { origin, own, lastError, isFailing } = host;
      const queues = [...host.queues.values()];
      const circuits = queues.map(({ circuit }) => circuit).filter((circuit) => circuit.state !== 'closed');
      return {
        origin,
        circuits: circuits.sort((a, b) => Number(b.caller === null) - Number(a.caller === null) || a.since - b.since),
        failures: own.circuit.failures,
        limits: own.bucket.limits,
        inFlight: own.inFlight,
        requestsPerSecond: this.#hosts.requestsPerSecond(host),
        waitingSteps: Math.min(
          MOST_COUNTED,
          queues.reduce((steps, { waiting }) => steps + waiting, 0),
        ),
        lastError,
        isFailing,
      };
    });
  }

  /** Closes the open circuits of a host by hand; returns whether there were any. */
  async closeCircuit(origin: string): Promise<boolean> {
    await this.#connected?.circuits.synchronise();
    const { queues } = this.#hosts.find(origin) ?? {};
    const open = [...(queues?.values() ?? [])].filter(({ circuit }) => circuit.state !== 'closed');
    // If the store is unavailable, the next look stores it.
    await Promise.all(open.map((queue) => this.#setCircuit(queue, CLOSED)));
    return open.length > 0;
  }

  connect(connections: HostConnections): void {
    const circuits = new StoredCircuits({ ...connections, clock: this.#services.clock, hosts: this.#hosts });
    const places = new StoredPlaces({ ...connections, clock: this.#services.clock });
    this.#connected = { ...connections, circuits, places };
  }

  /** Adopts stored circuits, then starts releasing waiting steps. Rejects as the store does. */
  async start(): Promise<void> {
    await this.#connected?.circuits.synchronise();
    // If circuits are switched off now, those of an earlier process are closed.
    const isOff = this.#services.settings.circuitFailures === 0;
    for (const queue of this.#hosts.queues()) if (isOff) void this.#setCircuit(queue, CLOSED);
    await this.#recount();
    this.#timer = setInterval(() => {
      const isShared = this.#connected?.circuits.isShared === true;
      if (!isShared && ![...this.#hosts.all()].some((host) => this.#hosts.isBusy(host))) return;
      this.#looking ??= this.look().finally(() => {
        this.#looking = undefined;
      });
    }, LOOK_MS).unref();
  }

  /** Resolves once nothing runs any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#looking;
    await this.#releases.ended();
    await this.#connected?.circuits.settled();
  }

  /** Releases waiting steps; also called every second while there may be some. Never rejects. */
  async look(): Promise<void> {
    try {
      await this.#connected?.circuits.synchronise();
      await this.#recount();
    } catch (error) {
      this.#tell(error);
    }
    for (const queue of this.#hosts.queues()) {
      if (queue.waiting > 0) await this.#releaseSoon(queue);
      else if (queue.circuit.state !== 'closed' && isForgotten(queue.circuit, this.#services.clock.now())) {
        void this.#setCircuit(queue, CLOSED);
      }
    }
  }

  /** Counts waiting steps: some were cancelled, and some have waited since before a restart. */
  async #recount(): Promise<void> {
    if (this.#connected === undefined) return;
    const { store, metrics, places } = this.#connected;
    const waits = await store.listHostWaits({ now: this.#services.clock.now(), most: MOST_COUNTED });
    const steps = new Map(waits.map((wait) => [wait.queue, wait.steps]));
    for (const key of steps.keys()) this.#hosts.queueAt(key);
    const byLabel = new Map<string, number>();
    for (const queue of this.#hosts.queues()) {
      queue.waiting = steps.get(queue.key) ?? 0;
      queue.coming = 0;
      const { label } = queue.host;
      byLabel.set(label, (byLabel.get(label) ?? 0) + queue.waiting);
    }
    for (const [host, count] of byLabel) metrics.outgoingWaitingSteps.set({ host }, count);
    await places.recount(this.#hosts.queues());
  }

  /** Releases steps of a queue after the releases under way. Never rejects. */
  async #releaseSoon(queue: Queue): Promise<void> {
    if (queue.isReleasing) return;
    queue.isReleasing = true;
    await this.#releases
      .run(() => {
        queue.isReleasing = false;
        return this.#release(queue);
      })
      .catch((error: unknown) => this.#tell(error));
  }

  /**
   * Makes waiting steps due, evenly spaced, those first that have waited longest: as many as the limits allow until the
   * next look. For an open circuit, only the one step that probes it.
   */
  async #release(queue: Queue): Promise<void> {
    if (this.#connected === undefined || this.#isStopped) return;
    const { store, onReleased } = this.#connected;
    const { clock } = this.#services;
    const { key, host, bucket } = queue;
    const [now, at] = [clock.now(), clock.monotonic()];
    const open = [host.own.circuit, queue.circuit].filter((circuit) => circuit.state !== 'closed');
    if (open.some((circuit) => !mayProbe(circuit, now))) return;
    const places = open.length > 0 ? 1 : freePlaces(queue) - queue.coming;
    const most = queue === host.own ? places : Math.min(places, host.own.bucket.nextRelease(at, places)?.count ?? 0);
    const release = bucket.nextRelease(at, most);
    if (release === undefined) return;
    const { count: limit, everyMs } = release;
    const released = await store.releaseHostWaits({
      queue: key,
      now: now + Math.ceil(release.from - at),
      limit,
      everyMs,
    });
    bucket.released(release, released);
    queue.waiting = Math.max(0, queue.waiting - released);
    queue.coming += released;
    if (released > 0) onReleased();
  }

  #tell(error: unknown): void {
    const message = 'steps that wait for hosts could not be released; trying again';
    this.#connected?.logger.warn({ err: error }, message);
  }
}

/** The circuits that a request probes, as they were when it began. */
type Probes = ReadonlyMap<Queue, Circuit>;

/** A request under way. */
interface SentRequest extends Pick<TurnRequest, 'caller' | 'endpoint'> {
  readonly probes: Probes;
  /** The queues in which it counts as under way. */
  readonly taken: readonly Queue[];
  /** Its places in queues that are counted in the store. */
  readonly places: readonly HostPlace[];
}

function waitForPlace(queue: Queue): HostWait {
  const { host, bucket } = queue;
  const whose = queue === host.own ? '' : ' for this step';
  const message = `${host.origin} is limited to ${bucket.limits.atOnce} requests at once${whose}`;
  return { queue, ms: Number.POSITIVE_INFINITY, why: 'atOnce', message };
}

/** Whether the request goes before all that were not released. */
function goesFirst({ key }: Queue, { waitedIn, mostWaitMs }: TurnRequest): boolean {
  return waitedIn === key || mostWaitMs !== undefined;
}

function waitForCircuit(queue: Queue): HostWait {
  const { circuit, host } = queue;
  const message =
    circuit.state === 'closed' ? `another request tries ${host.origin} first` : circuitText(host.origin, circuit);
  return { queue, ms: Number.POSITIVE_INFINITY, why: 'circuit', message };
}

/** Ends early if the signal aborts. */
const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => {});
