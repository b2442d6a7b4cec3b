import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SOLE_OWNER } from '../../model/runtime-keys.ts';
import { serially } from '../../model/serially.ts';
import { logEvent } from '../../telemetry/events.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { type Circuit, CLOSED, isNotable, openCircuit } from './circuit.ts';
import type { Host, KnownHosts, Queue } from './known-hosts.ts';
import type { HostStore } from './store.ts';

interface CircuitServices {
  readonly store: Pick<HostStore, 'listCircuits' | 'changeCircuit' | 'replica'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'outgoingCircuitsOpen'>;
  readonly clock: Clock;
  readonly hosts: KnownHosts;
}

/**
 * Stores the circuits that are not closed, so that a restart does not close them and every replica knows them. They
 * change rarely; a request that passes writes nothing.
 *
 * A change applies in this process at once, and in all when it is stored. If another process stored one first, that one
 * applies: only a process that knows a stored version can replace it. This process reads and writes one after another,
 * so it does not take its own write for a change by another.
 */
export class StoredCircuits {
  readonly #services: CircuitServices;
  readonly #queue = serially();

  constructor(services: CircuitServices) {
    this.#services = services;
  }

  /** Whether other processes change the circuits too. */
  get isShared(): boolean {
    return this.#services.store.replica !== SOLE_OWNER;
  }

  /** Reports that a circuit has changed, and stores it. Resolves once it is stored, or cannot be. */
  async changed(queue: Queue, before: Circuit): Promise<void> {
    this.#tell(queue, before);
    queue.isUnsaved = true;
    try {
      await this.#queue.run(() => this.#save(queue));
    } catch (error) {
      // The next look tries again.
      const { logger } = this.#services;
      logger.warn({ err: error }, 'the state of a host could not be stored; trying again');
    }
  }

  /** Stores changes that could not be stored before, and adopts those of other processes. Rejects as the store does. */
  synchronise(): Promise<void> {
    return this.#queue.run(async () => {
      for (const queue of this.#services.hosts.queues()) await this.#save(queue);
      await this.#takeOver();
    });
  }

  /** Resolves when everything is stored, or cannot be stored now. */
  settled(): Promise<void> {
    return this.#queue.ended();
  }

  async #save(queue: Queue): Promise<void> {
    const { store, clock } = this.#services;
    if (!queue.isUnsaved) return;
    queue.isUnsaved = false;
    const { key, version, circuit } = queue;
    const stored = circuit.state === 'closed' ? null : { ...circuit };
    if (stored === null && version === null) return;
    const next = Math.max(clock.now(), (version ?? 0) + 1);
    try {
      const result = await store.changeCircuit({ queue: key, version, next, circuit: stored });
      if (result === 'changed') queue.version = stored === null ? null : next;
      else await this.#takeOver(queue);
    } catch (error) {
      queue.isUnsaved = true;
      throw error;
    }
  }

  /** Adopts stored circuits that changed; that of `outdated` in any case. */
  async #takeOver(outdated?: Queue): Promise<void> {
    const { store, hosts } = this.#services;
    const records = await store.listCircuits();
    const stored = new Map(
      records.map(({ queue: key, version, circuit }) => [
        key,
        { version, circuit: openCircuit.safeParse(circuit).data },
      ]),
    );
    for (const key of stored.keys()) hosts.queueAt(key);
    for (const queue of hosts.queues()) {
      const { version = null, circuit = CLOSED } = stored.get(queue.key) ?? {};
      // Changes made here meanwhile are stored first.
      if (queue.isUnsaved || (version === queue.version && queue !== outdated)) continue;
      queue.version = version;
      // An error that another process had; the time is the circuit's, because no other is stored.
      if (circuit.state !== 'closed') queue.host.lastError ??= { at: circuit.since, error: circuit.lastError };
      const before = queue.circuit;
      queue.circuit = circuit.state === 'closed' && before.state === 'closed' ? before : circuit;
      this.#tell(queue, before);
    }
  }

  #tell({ circuit, host }: Queue, before: Circuit): void {
    const { logger, metrics, hosts } = this.#services;
    if ((circuit.state === 'closed') === (before.state === 'closed')) return;
    const { origin, label } = host;
    const open = [...hosts.all()].filter((other) => other.label === label && isOpen(other)).length;
    metrics.outgoingCircuitsOpen.set({ host: label }, open);
    if (!isNotable(circuit) && !isNotable(before)) return;
    if (circuit.state === 'closed') logEvent(logger, 'CircuitClosed', { host: origin, ...callerOf(before) });
    else {
      const { why, failures, lastError, until } = circuit;
      const about = { why, failures, lastError, probeAt: until };
      logEvent(logger, 'CircuitOpened', { host: origin, ...callerOf(circuit), ...about });
    }
  }
}

function isOpen({ queues }: Host): boolean {
  return [...queues.values()].some(({ circuit }) => circuit.state !== 'closed');
}

function callerOf(circuit: Circuit): { readonly caller?: string } {
  return circuit.state === 'closed' || circuit.caller === null ? {} : { caller: circuit.caller };
}
