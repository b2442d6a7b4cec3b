import { setImmediate } from 'node:timers/promises';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { RequestEnd } from '../../../src/features/http-request/circuit.ts';
import { Hosts, type HostTurn } from '../../../src/features/http-request/hosts.ts';
import type { CircuitRecord, HostPlace, HostPlacesRequest } from '../../../src/features/http-request/store.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';

export const ORIGIN = 'https://api.example.com';
export const T0 = Date.UTC(2026, 10, 22);

/** A step that waits in a queue. */
interface Parked {
  readonly key: string;
  readonly step: number;
  dueAt: number;
}

/** The stored data about hosts, in memory, for one process or several. */
export function sharedStore(replica: string) {
  const circuits = new Map<string, CircuitRecord>();
  const released: { queue: string; limit: number; at: number }[] = [];
  /** Fixed numbers of waiting steps, whatever is released. */
  const waits = new Map<string, number>();
  const parked: Parked[] = [];
  const places = new Map<string, { owner: string; until: number }>();
  const waitingIn = (key: string, now: number) => parked.filter((step) => step.key === key && step.dueAt > now);
  return {
    replica,
    circuits,
    released,
    waits,
    parked,
    places,
    async takeHostPlaces({ owner, queues, now, until }: HostPlacesRequest) {
      const taken: HostPlace[] = [];
      for (const { queue, most } of queues) {
        const isFree = (place: number) => (places.get(`${queue} ${place}`)?.until ?? now) <= now;
        const place = Array.from({ length: most }, (_, at) => at + 1).find(isFree);
        if (place === undefined) {
          for (const each of taken) places.delete(`${each.queue} ${each.place}`);
          return { kind: 'full' as const, queue };
        }
        taken.push({ queue, place });
        places.set(`${queue} ${place}`, { owner, until });
      }
      return { kind: 'taken' as const, places: taken };
    },
    async returnHostPlaces({ places: returned }: { places: readonly HostPlace[] }) {
      for (const { queue, place } of returned) places.delete(`${queue} ${place}`);
    },
    async listHostPlaces({ owner, now }: { owner: string; now: number }) {
      const held = new Map<string, number>();
      for (const [key, place] of places) {
        const queue = key.slice(0, key.lastIndexOf(' '));
        if (place.owner !== owner && place.until > now) held.set(queue, (held.get(queue) ?? 0) + 1);
      }
      return [...held].map(([queue, count]) => ({ queue, held: count }));
    },
    listCircuits: async () => [...circuits.values()],
    async changeCircuit(change: {
      queue: string;
      version: number | null;
      next: number;
      circuit: CircuitRecord['circuit'];
    }) {
      const { queue, version, next, circuit } = change;
      if ((circuits.get(queue)?.version ?? null) !== version) return 'outdated' as const;
      if (circuit === null) circuits.delete(queue);
      else circuits.set(queue, { queue, version: next, circuit });
      return 'changed' as const;
    },
    async listHostWaits({ now }: { now: number }) {
      const steps = new Map(waits);
      for (const { key, dueAt } of parked) if (dueAt > now) steps.set(key, (steps.get(key) ?? 0) + 1);
      return [...steps].map(([queue, count]) => ({ queue, steps: count }));
    },
    async releaseHostWaits(release: { queue: string; limit: number; now: number; everyMs: number }) {
      const { queue, limit, now, everyMs } = release;
      released.push({ queue, limit, at: now - T0 });
      const next = waitingIn(queue, now)
        .sort((a, b) => a.dueAt - b.dueAt)
        .slice(0, limit);
      for (const [index, step] of next.entries()) step.dueAt = now + Math.floor(index * everyMs);
      return waits.has(queue) ? limit : next.length;
    },
  };
}

/** Runs steps that call the host, as a service does: claimed when due, parked while waiting; returns the send times. */
export async function runSteps(
  { hosts, time, store }: Pick<ReturnType<typeof setUp>, 'hosts' | 'time'> & { store: ReturnType<typeof sharedStore> },
  comesAt: readonly number[],
  {
    lateMs = () => 0,
    lastsMs = 0,
    more = {},
  }: { lateMs?: (step: number) => number; lastsMs?: number; more?: object } = {},
): Promise<{ step: number; at: number }[]> {
  const sent: { step: number; at: number }[] = [];
  const due = comesAt.map((at, step) => ({ step, at: T0 + at, waitedIn: undefined as string | undefined }));
  const underWay: { at: number; end: () => void }[] = [];
  for (let lookAt = T0 + 1000; sent.length < comesAt.length; time.now += 1) {
    if (time.now >= lookAt) {
      await hosts.look();
      lookAt += 1000;
    }
    for (const request of underWay.splice(0)) {
      if (request.at <= time.now) request.end();
      else underWay.push(request);
    }
    await setImmediate();
    for (const step of store.parked.splice(0)) {
      if (step.dueAt <= time.now) due.push({ step: step.step, at: step.dueAt + lateMs(step.step), waitedIn: step.key });
      else store.parked.push(step);
    }
    for (const { step, at, waitedIn } of due.splice(0).sort((a, b) => a.at - b.at)) {
      if (at > time.now) {
        due.push({ step, at, waitedIn });
        continue;
      }
      const turn = await ask(hosts, { waitedIn, ...more });
      if (turn.kind === 'wait') {
        store.parked.push({ key: turn.queue, step, dueAt: T0 + 86_400_000 + (comesAt[step] ?? 0) });
        continue;
      }
      sent.push({ step, at: time.now - T0 });
      underWay.push({ at: time.now + lastsMs, end: () => turn.end(ANSWERED) });
    }
  }
  return sent;
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
  const hosts = new Hosts({
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
  hosts.ask({
    origin: ORIGIN,
    caller: 'flow 1',
    endpoint: 'step a',
    own: {},
    step: 'push',
    answerMs: 1000,
    signal,
    ...more,
  });

export async function send(hosts: Hosts, end: RequestEnd, more = {}): Promise<HostTurn> {
  const turn = await ask(hosts, more);
  if (turn.kind === 'go') turn.end(end);
  return turn;
}
export const ANSWERED: RequestEnd = { kind: 'answered' };
export const FAILED: RequestEnd = { kind: 'failed', error: 'ECONNREFUSED', isAway: true };
export const BROKEN: RequestEnd = { kind: 'failed', error: 'answered 500' };

export async function open(hosts: Hosts, end = FAILED, more = {}): Promise<void> {
  for (let count = 0; count < 3; count += 1) await send(hosts, end, more);
}

/** Holds back changes of circuits; `asked` resolves at the first one. */
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
