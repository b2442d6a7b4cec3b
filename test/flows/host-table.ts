import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { RequestEnd } from '../../src/flows/circuit.ts';
import { createHosts, type Hosts, type HostTurn } from '../../src/flows/hosts.ts';
import type { CircuitRecord } from '../../src/store/store.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

export const ORIGIN = 'https://api.example.com';
export const T0 = Date.UTC(2026, 10, 22);

/** What is stored of hosts, in memory, for one process or several. */
export function sharedStore(replica: string) {
  const circuits = new Map<string, CircuitRecord>();
  const released: { origin: string; limit: number; at: number }[] = [];
  const waits = new Map<string, number>();
  return {
    replica,
    circuits,
    released,
    waits,
    listCircuits: async () => [...circuits.values()],
    async changeCircuit(change: {
      origin: string;
      version: number | null;
      next: number;
      circuit: CircuitRecord['circuit'];
    }) {
      const { origin, version, next, circuit } = change;
      if ((circuits.get(origin)?.version ?? null) !== version) return 'outdated' as const;
      if (circuit === null) circuits.delete(origin);
      else circuits.set(origin, { origin, version: next, circuit });
      return 'changed' as const;
    },
    listHostWaits: async () => [...waits].map(([origin, steps]) => ({ origin, steps, nextDueAt: T0 })),
    async releaseHostWaits({ origin, limit, now }: { origin: string; limit: number; now: number }) {
      released.push({ origin, limit, at: now - T0 });
      return limit;
    },
  };
}

interface Given {
  readonly limits?: readonly string[];
  readonly failures?: number;
  readonly replicas?: number;
  readonly store?: ReturnType<typeof sharedStore>;
}

export function setUp({ limits = [], failures = 3, replicas = 1, store }: Given = {}) {
  const time = { now: T0 };
  const clock = { now: () => time.now, monotonic: () => time.now };
  const hosts = createHosts({
    settings: { outgoingHosts: limits, circuitFailures: failures },
    clock,
    cluster: { replicas },
    random: () => 0.5,
    wait: async (ms) => {
      time.now += ms;
    },
  });
  onTestFinished(() => hosts.stop());
  const metrics = createMetrics();
  if (store !== undefined) {
    hosts.connect({ store, metrics, logger: pino({ level: 'silent' }), onReleased: () => {} });
  }
  return { hosts, time, metrics };
}

const signal = new AbortController().signal;
export const ask = (hosts: Hosts, more: Partial<Parameters<Hosts['ask']>[0]> = {}) =>
  hosts.ask({ origin: ORIGIN, own: {}, step: 'push', hasWaited: false, answerMs: 1000, signal, ...more });

export async function send(hosts: Hosts, end: RequestEnd, more = {}): Promise<HostTurn> {
  const turn = await ask(hosts, more);
  if (turn.kind === 'go') turn.end(end);
  return turn;
}
export const ANSWERED: RequestEnd = { kind: 'answered' };
export const FAILED: RequestEnd = { kind: 'failed', error: 'ECONNREFUSED' };

export async function open(hosts: Hosts): Promise<void> {
  for (let count = 0; count < 3; count += 1) await send(hosts, FAILED);
}

export const untilOf = (turn: HostTurn) => (turn.kind === 'wait' ? turn.until - T0 : turn.kind);

/** Lets changes of circuits wait, and tells when the first one does. */
export function slowDown(
  store: ReturnType<typeof sharedStore>,
  changeCircuit: ReturnType<typeof sharedStore>['changeCircuit'],
) {
  const begin: { goOn: () => void; onAsked: () => void } = { goOn: () => {}, onAsked: () => {} };
  const stored = new Promise<void>((resolve) => {
    begin.goOn = resolve;
  });
  const asked = new Promise<void>((resolve) => {
    begin.onAsked = resolve;
  });
  store.changeCircuit = async (change) => {
    begin.onAsked();
    await stored;
    return changeCircuit(change);
  };
  return { asked, goOn: begin.goOn };
}
