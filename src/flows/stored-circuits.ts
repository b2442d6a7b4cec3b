import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { beginProbe, type Circuit, endProbe, isNotable, openCircuit, rampFrom } from './circuit.ts';
import type { Host, KnownHosts } from './known-hosts.ts';
import { SOLE_OWNER } from './runtime-keys.ts';

interface CircuitServices {
  readonly store: Pick<Store, 'listCircuits' | 'changeCircuit' | 'replica'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'outgoingCircuitsOpen'>;
  readonly clock: Clock;
  readonly hosts: KnownHosts;
}

/**
 * Keeps the circuits that are open in the store, so that a restart does not close them and every replica knows them. They
 * change rarely; a request that passes writes nothing.
 */
export class StoredCircuits {
  readonly #services: CircuitServices;

  constructor(services: CircuitServices) {
    this.#services = services;
  }

  /** Whether other processes change the circuits too. */
  get isShared(): boolean {
    return this.#services.store.replica !== SOLE_OWNER;
  }

  /** The circuit of a host has changed: says so, and stores it as soon as it can. */
  changed(host: Host, before: Circuit): void {
    this.#tell(host, before);
    host.isUnsaved = true;
    // The next look tries again.
    this.save(host).catch((error: unknown) => {
      const { logger } = this.#services;
      logger[levelOfRetry(error, 'warn')]({ err: error }, 'the state of a host could not be stored; trying again');
    });
  }

  /**
   * Stores the current circuit, or adopts the one that another replica has stored. Changes are stored one after
   * another: if one overtook another, it would look like a change by another replica. Rejects as the store does.
   */
  async save(host: Host): Promise<void> {
    while (host.isUnsaved) {
      host.saving ??= this.#saveAll(host).finally(() => {
        host.saving = undefined;
      });
      await host.saving;
    }
  }

  async #saveAll(host: Host): Promise<void> {
    const { store, clock } = this.#services;
    while (host.isUnsaved) {
      const { circuit, version, origin } = host;
      host.isUnsaved = false;
      const kept = circuit.phase === 'open' ? { ...circuit } : null;
      if (kept === null && version === null) continue;
      const next = Math.max(clock.now(), (version ?? 0) + 1);
      try {
        const result = await store.changeCircuit({ origin, version, next, circuit: kept });
        host.saves += 1;
        if (result === 'changed') {
          host.version = kept === null ? null : next;
          host.storedProbe = kept?.probingUntil ?? null;
        } else await this.#takeOver([origin]);
      } catch (error) {
        host.isUnsaved = true;
        throw error;
      }
    }
  }

  /** Of several replicas one probes a host: the one that changes the stored circuit. Rejects as the store does. */
  async beginProbe(host: Host, answerMs: number): Promise<boolean> {
    if (host.circuit.phase !== 'open') return true;
    const { probingUntil } = beginProbe(host.circuit, this.#services.clock.now(), answerMs);
    host.circuit = { ...host.circuit, probingUntil };
    if (!this.isShared) return true;
    // Others may change it meanwhile, and leave the probe to this process once it is stored.
    const isOurs = () => host.circuit.phase === 'open' && host.circuit.probingUntil === probingUntil;
    host.isUnsaved = true;
    try {
      await this.save(host);
    } catch (error) {
      // Another save may have stored the probe by now.
      if (isOurs()) host.circuit = endProbe(host.circuit);
      host.isUnsaved = true;
      throw error;
    }
    return isOurs() && host.storedProbe === probingUntil;
  }

  /** Takes over all circuits that are stored. Rejects as the store does. */
  takeOverAll(): Promise<void> {
    return this.#takeOver();
  }

  async #takeOver(only?: readonly string[]): Promise<void> {
    const { store, hosts, clock } = this.#services;
    const saved = new Map([...hosts.all()].map(({ origin, saves }) => [origin, saves]));
    const records = new Map((await store.listCircuits()).map((record) => [record.origin, record]));
    const known = [...hosts.all()].map(({ origin }) => origin);
    for (const origin of only ?? new Set([...known, ...records.keys()])) {
      const record = records.get(origin);
      const host = hosts.at(origin);
      // A save shows whether this one was late, and what was read may be older than what was stored since.
      const isSaving = host.isUnsaved || host.saving !== undefined || host.saves !== (saved.get(origin) ?? 0);
      if (only === undefined && isSaving) continue;
      if ((record?.version ?? null) === host.version) {
        // What was in the way of the save is gone.
        if (only !== undefined && record === undefined) host.isUnsaved = true;
        continue;
      }
      const stored = record === undefined ? undefined : openCircuit.safeParse(record.circuit).data;
      const before = host.circuit;
      host.version = record?.version ?? null;
      const probe = stored?.probingUntil ?? null;
      const isProbing = before.phase === 'open' && before.probingUntil === probe;
      if (probe !== null && probe === host.storedProbe && !isProbing) {
        // The probe of this process is over: what it said counts, whatever older requests said meanwhile.
        host.isUnsaved = true;
        continue;
      }
      if (stored !== undefined) {
        host.circuit = stored;
        // What another process met; it stored no other time.
        host.lastError ??= { at: stored.since, error: stored.lastError };
      } else if (before.phase === 'open') host.circuit = rampFrom(before, clock.now());
      this.#tell(host, before);
    }
  }

  #tell({ origin, circuit, label }: Host, before: Circuit): void {
    const { logger, metrics, hosts } = this.#services;
    if (circuit.phase === before.phase) return;
    const open = [...hosts.all()].filter((host) => host.label === label && host.circuit.phase === 'open').length;
    metrics.outgoingCircuitsOpen.set({ host: label }, open);
    if (!isNotable(circuit) && !isNotable(before)) return;
    if (circuit.phase === 'open') {
      const { why, failures, lastError, probeAt } = circuit;
      logEvent(logger, 'CircuitOpened', { host: origin, why, failures, lastError, probeAt });
    } else logEvent(logger, 'CircuitClosed', { host: origin });
  }
}
