import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  afterRequest,
  beginProbe,
  type Circuit,
  type CircuitState,
  CLOSED,
  circuitText,
  isForgotten,
  MOST_PROBES,
  mayProbe,
  type RequestEnd,
  rampFrom,
  rampRate,
  stateOf,
} from './circuit.ts';
import { type HostLimits, hostEntriesOf, rateText } from './host-limits.ts';
import { MOST_COUNTED, recountWaits, releaseWaits, type Scene } from './host-releases.ts';
import type { Asking } from './host-turns.ts';
import { type Host, KnownHosts, MOST_HOSTS } from './known-hosts.ts';
import { StoredCircuits } from './stored-circuits.ts';

/** Asks for a turn at a host. */
export interface TurnRequest {
  /** As `originOf` has it. */
  readonly origin: string;
  /** The step's own limits, which count where they are stricter. */
  readonly own: HostLimits;
  /** Names the step, the same in all runs. */
  readonly step: string;
  /** The step has waited for this host. */
  readonly hasWaited: boolean;
  /** Probes of the host in a row that the step has made in vain; absent where it would not make another one. */
  readonly probes?: number | undefined;
  /** The turn is waited for here and now if it comes within so many milliseconds. */
  readonly patienceMs?: number;
  /** How long the answer may take. */
  readonly answerMs: number;
  readonly signal: AbortSignal;
}

export type HostTurn =
  | { readonly kind: 'go'; readonly isProbe: boolean; readonly end: (end: RequestEnd) => void }
  /** Not before the time named, in milliseconds since the Unix epoch, or until the host's steps are released. */
  | {
      readonly kind: 'wait';
      readonly until: number;
      readonly why: 'rate' | 'atOnce' | 'circuit';
      readonly message: string;
    };

export interface HostState {
  readonly origin: string;
  readonly circuit: Circuit;
  readonly state: CircuitState;
  /** Why it is not called now, in words; null where it is. */
  readonly why: string | null;
  readonly limits: HostLimits;
  readonly inFlight: number;
  /** Over the last ten seconds. */
  readonly requestsPerSecond: number;
  /** As far as they are counted. */
  readonly waitingSteps: number;
  readonly lastError: { readonly at: number; readonly error: string } | null;
}

export interface HostSettings {
  /** As `hostEntryTexts` has passed them. */
  readonly outgoingHosts: readonly string[];
  /** Failures in a row after which a host is not asked; 0 for never. */
  readonly circuitFailures: number;
}

/** What the hosts are kept with once the service runs; without it they have their limits, and no steps that wait. */
export interface HostConnections {
  readonly store: Pick<Store, 'listCircuits' | 'changeCircuit' | 'listHostWaits' | 'releaseHostWaits' | 'replica'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'outgoingRequests' | 'outgoingCircuitsOpen' | 'outgoingWaitingSteps'>;
  /** Steps were made due. */
  readonly onReleased: () => void;
}

/** The hosts that steps call: how fast each may be called, and whether it is called at all. */
export interface Hosts {
  ask(request: TurnRequest): Promise<HostTurn>;
  list(): Promise<HostState[]>;
  /** Closes an open circuit by hand; yields whether there was one. */
  closeCircuit(origin: string): Promise<boolean>;
  connect(connections: HostConnections): void;
  /** Takes over what is stored; from then on releases steps that wait. Rejects as the store does. */
  start(): Promise<void>;
  /** Releases steps that wait, as it does by itself every second while some do. Never rejects. */
  look(): Promise<void>;
  /** Resolves when nothing of it runs any more. */
  stop(): Promise<void>;
}

/** A request that went. */
interface Sent {
  readonly isProbe: boolean;
  readonly willRepeat: boolean;
  readonly tookMs: number;
}

interface HostServices {
  readonly settings: HostSettings;
  readonly clock: Clock;
  /** How many replicas share the limits. */
  readonly cluster?: { readonly replicas: number } | undefined;
  /** A number from 0 up to 1. */
  readonly random?: (() => number) | undefined;
  /** Resolves after so many milliseconds, or when the signal aborts. */
  readonly wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** How often it looks at the steps that wait; while none does, and while other replicas may open circuits. */
const LOOK_MS = 1000;
const IDLE_LOOK_MS = 60_000;
const SHARED_LOOK_MS = 2000;
/** A turn that comes so soon is waited for in the slot: to park the step costs two transactions. */
const PATIENCE_MS = 100;
/** Steps of one host that hold a slot while they wait for their turn. */
const MOST_PATIENT = 4;
/** A parked step is claimed this much before its turn, and waits for the rest in its slot: a claim takes milliseconds. */
const CLAIM_MS = 10;
/**
 * Steps that wait for an open circuit are released when the host is back. If that does not happen, each calls by itself
 * after this time or up to twice as long.
 */
const SELF_RELEASE_MS = 1_800_000;
/**
 * The step that probes next is released when it is time; if that did not happen, it calls by itself this much later.
 */
const REPEAT_MS = 5000;

export function createHosts(services: HostServices): Hosts {
  return new HostTable(services);
}

class HostTable implements Hosts {
  readonly #services: HostServices;
  readonly #random: () => number;
  readonly #wait: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly #hosts: KnownHosts;
  readonly #scene: Scene;
  #connected: (HostConnections & { readonly circuits: StoredCircuits }) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = 0;
  #looking: Promise<void> | undefined;
  #isStarted = false;
  #isStopped = false;

  constructor(services: HostServices) {
    this.#services = services;
    this.#random = services.random ?? Math.random;
    this.#wait = services.wait ?? pause;
    this.#hosts = new KnownHosts(hostEntriesOf(services.settings.outgoingHosts), services.clock);
    const asking = (host: Host) => this.#askingOf(host, { own: {}, step: '', hasWaited: true });
    this.#scene = { hosts: this.#hosts, clock: services.clock, asking };
  }

  async ask(request: TurnRequest): Promise<HostTurn> {
    const { origin, patienceMs = PATIENCE_MS, signal } = request;
    const host = this.#hosts.at(origin);
    const barred = this.#barred(host, request);
    if (barred !== undefined) return barred;
    const asking = this.#askingOf(host, request);
    const wait = host.turns.look(asking);
    if (wait === undefined) {
      host.turns.take(asking);
      return this.#go(host, request);
    }
    const mayStay = host.patient < MOST_PATIENT || patienceMs > PATIENCE_MS;
    if (!wait.isExact || wait.ms > patienceMs || !mayStay) {
      const waitMs = host.turns.queue(asking);
      const limit = wait.why === 'rate' ? rateText(wait.limit) : `${wait.limit} requests at once`;
      return this.#park(host, {
        until: this.#services.clock.now() + Math.max(0, waitMs - CLAIM_MS),
        why: wait.why,
        message: `${origin} is limited to ${limit}`,
      });
    }
    host.turns.take(asking, asking.now + wait.ms);
    host.patient += 1;
    await this.#wait(wait.ms, signal).finally(() => {
      host.patient -= 1;
    });
    return this.#go(host, request);
  }

  /** The turn is taken; while it was waited for, the circuit may have opened. */
  async #go(host: Host, request: TurnRequest): Promise<HostTurn> {
    const { clock } = this.#services;
    const { answerMs, signal, probes } = request;
    const barred = this.#barred(host, request);
    const isProbe = barred === undefined && host.circuit.phase === 'open';
    try {
      if (barred !== undefined || signal.aborted || (isProbe && !(await this.#beginProbe(host, answerMs)))) {
        host.turns.leave();
        return barred ?? this.#parkUntilAsked(host, request);
      }
    } catch (error) {
      host.turns.leave();
      throw error;
    }
    this.#hosts.countRequest(host);
    const startedAt = clock.monotonic();
    let isOver = false;
    const end = (ended: RequestEnd) => {
      if (isOver) return;
      isOver = true;
      const willRepeat = probes !== undefined && probes + 1 < MOST_PROBES;
      this.#end(host, ended, { isProbe, willRepeat, tookMs: clock.monotonic() - startedAt });
    };
    return { kind: 'go', isProbe, end };
  }

  async #beginProbe(host: Host, answerMs: number): Promise<boolean> {
    if (this.#connected !== undefined) return this.#connected.circuits.beginProbe(host, answerMs);
    if (host.circuit.phase === 'open') host.circuit = beginProbe(host.circuit, this.#services.clock.now(), answerMs);
    return true;
  }

  async list(): Promise<HostState[]> {
    const now = this.#services.clock.now();
    const waits = (await this.#connected?.store.listHostWaits({ now, most: MOST_COUNTED })) ?? [];
    const steps = new Map(waits.map((wait) => [wait.origin, wait.steps]));
    // Those of other replicas too.
    for (const origin of steps.keys()) this.#hosts.at(origin);
    return [...this.#hosts.all()].map((host): HostState => {
      const { origin, circuit, limits, turns, lastError, isFailing } = host;
      const waitingSteps = steps.get(origin) ?? 0;
      const requestsPerSecond = this.#hosts.recentRequests(host, 10) / 10;
      const state = stateOf(circuit, { now, isFailing });
      const why = circuit.phase === 'open' ? circuitText(origin, circuit) : null;
      return {
        origin,
        circuit,
        state,
        why,
        limits,
        inFlight: turns.inFlight,
        requestsPerSecond,
        waitingSteps,
        lastError,
      };
    });
  }

  async closeCircuit(origin: string): Promise<boolean> {
    await this.#connected?.circuits.takeOverAll();
    const host = this.#hosts.find(origin);
    if (host?.circuit.phase !== 'open') return false;
    this.#setCircuit(host, rampFrom(host.circuit, this.#services.clock.now()));
    // Where the store is away, the next look stores it.
    await Promise.allSettled([host.saving]);
    this.#lookIn(0);
    return true;
  }

  connect(connections: HostConnections): void {
    const circuits = new StoredCircuits({ ...connections, clock: this.#services.clock, hosts: this.#hosts });
    this.#connected = { ...connections, circuits };
  }

  async start(): Promise<void> {
    await this.#connected?.circuits.takeOverAll();
    // What an earlier process stored is over where circuits are switched off now.
    const isOff = this.#services.settings.circuitFailures === 0;
    for (const host of this.#hosts.all()) if (isOff && host.circuit.phase === 'open') this.#setCircuit(host, CLOSED);
    if (this.#connected !== undefined) await recountWaits(this.#connected, this.#scene);
    this.#isStarted = true;
    this.#lookIn(LOOK_MS);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
    await Promise.allSettled([...this.#hosts.all()].map(({ saving }) => saving));
  }

  async #release(host: Host, store: HostConnections['store']): Promise<number> {
    const { circuit, waiting } = host;
    if (waiting > 0) return releaseWaits(host, store, this.#scene);
    if (circuit.phase === 'open' && isForgotten(circuit, this.#services.clock.now())) this.#setCircuit(host, CLOSED);
    return 0;
  }

  /** The wait for an open circuit; undefined if the host may be called. */
  #barred(host: Host, { probes = 0 }: TurnRequest): HostTurn | undefined {
    const { circuit } = host;
    if (this.#services.settings.circuitFailures === 0) return undefined;
    if (circuit.phase === 'closed' || mayProbe(circuit, this.#services.clock.now(), probes > 0)) return undefined;
    return this.#parkUntilAsked(host, { probes });
  }

  #parkUntilAsked(host: Host, { probes = 0 }: Pick<TurnRequest, 'probes'>): HostTurn {
    const { circuit, origin } = host;
    const now = this.#services.clock.now();
    const isOpen = circuit.phase === 'open';
    const message = isOpen ? circuitText(origin, circuit) : `another request tries ${origin} first`;
    // One that is to probe again stays before the others.
    const isNext = isOpen && probes > 0;
    const until = isNext ? Math.max(now, circuit.probeAt) + REPEAT_MS : now + SELF_RELEASE_MS * (1 + this.#random());
    return this.#park(host, { until, why: 'circuit', message });
  }

  #park(host: Host, wait: Omit<Extract<HostTurn, { kind: 'wait' }>, 'kind'>): HostTurn {
    host.waiting += 1;
    host.parkedAt = this.#services.clock.monotonic();
    this.#lookIn(LOOK_MS);
    return { kind: 'wait', ...wait, until: Math.ceil(wait.until) };
  }

  #askingOf(host: Host, { own, step, hasWaited }: Pick<TurnRequest, 'own' | 'step' | 'hasWaited'>): Asking {
    const { clock, cluster } = this.#services;
    const rampPerSecond = rampRate(host.circuit, clock.now());
    return { now: clock.monotonic(), own, step, hasWaited, rampPerSecond, replicas: cluster?.replicas ?? 1 };
  }

  #end(host: Host, ended: RequestEnd, { isProbe, willRepeat, tookMs }: Sent): void {
    const { clock, settings } = this.#services;
    const at = clock.now();
    host.turns.leave(ended.kind === 'none' ? undefined : tookMs);
    this.#connected?.metrics.outgoingRequests.inc({ host: host.label, result: ended.kind });
    if ('error' in ended && ended.error !== undefined) host.lastError = { at, error: ended.error };
    if (ended.kind === 'answered') host.isFailing = false;
    else if ('error' in ended) host.isFailing = true;
    const { circuit } = host;
    // Another replica, or an operator, may have closed it meanwhile: then it counts as any request.
    const about = { at, isProbe: isProbe && circuit.phase === 'open', willRepeat };
    // Most requests are answered: only one that was not can open a circuit.
    const threshold = ended.kind !== 'answered' && this.#mayOpen(circuit) ? settings.circuitFailures : 0;
    const perSecond = ended.kind === 'refused' ? this.#hosts.recentRequests(host, 1) : 0;
    const circuitAfter = afterRequest(circuit, ended, { ...about, threshold, perSecond, random: this.#random });
    this.#setCircuit(host, circuitAfter);
  }

  /** As many circuits as hosts are kept: whoever chooses the hosts must fill neither the memory nor the store. */
  #mayOpen(circuit: Circuit): boolean {
    if (circuit.phase === 'open') return true;
    let open = 0;
    for (const host of this.#hosts.all()) open += Number(host.circuit.phase === 'open');
    return open < MOST_HOSTS;
  }

  #setCircuit(host: Host, circuit: Circuit): void {
    const before = host.circuit;
    host.circuit = circuit;
    if (circuit === before || (circuit.phase === 'closed' && before.phase === 'closed')) return;
    this.#connected?.circuits.changed(host, before);
    this.#lookIn(LOOK_MS);
  }

  /** Looks then at the latest. */
  #lookIn(ms: number): void {
    if (!this.#isStarted || this.#isStopped || this.#looking !== undefined) return;
    const at = this.#services.clock.monotonic() + ms;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#looking = this.look().finally(() => {
        this.#looking = undefined;
        const isBusy = [...this.#hosts.all()].some((host) => this.#hosts.isBusy(host));
        if (isBusy) this.#lookIn(LOOK_MS);
        else this.#lookIn(this.#connected?.circuits.isShared === true ? SHARED_LOOK_MS : IDLE_LOOK_MS);
      });
    }, ms).unref();
  }

  async look(): Promise<void> {
    const connected = this.#connected;
    if (connected === undefined) return;
    const { circuits, logger, onReleased } = connected;
    try {
      for (const host of this.#hosts.all()) await circuits.save(host);
      if (circuits.isShared) await circuits.takeOverAll();
      await recountWaits(connected, this.#scene);
      let released = 0;
      for (const host of this.#hosts.all()) released += await this.#release(host, connected.store);
      if (released > 0) onReleased();
    } catch (error) {
      logger[levelOfRetry(error, 'warn')](
        { err: error },
        'steps that wait for hosts could not be released; trying again',
      );
    }
  }
}

/** Ends early where the signal aborts. */
const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => {});
