import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHosts, type Hosts, type HostTurn, type RequestEnd } from '../../src/flows/hosts.ts';
import type { CircuitRecord } from '../../src/store/store.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

const ORIGIN = 'https://api.example.com';
const T0 = Date.UTC(2026, 10, 22);

/** What is stored of hosts, in memory, for one process or several. */
function sharedStore(replica: string) {
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

function setUp({ limits = [], failures = 3, replicas = 1, store }: Given = {}) {
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
const ask = (hosts: Hosts, more: Partial<Parameters<Hosts['ask']>[0]> = {}) =>
  hosts.ask({ origin: ORIGIN, own: {}, hasWaited: false, answerMs: 1000, signal, ...more });

async function send(hosts: Hosts, end: RequestEnd, more = {}): Promise<HostTurn> {
  const turn = await ask(hosts, more);
  if (turn.kind === 'go') turn.end(end);
  return turn;
}
const ANSWERED: RequestEnd = { kind: 'answered' };
const FAILED: RequestEnd = { kind: 'failed', error: 'ECONNREFUSED' };

async function open(hosts: Hosts): Promise<void> {
  for (let count = 0; count < 3; count += 1) await send(hosts, FAILED);
}

const untilOf = (turn: HostTurn) => (turn.kind === 'wait' ? turn.until - T0 : turn.kind);

describe('the rate of a host', () => {
  it('lets steps pass one after another, and tells each of the others its own turn', async () => {
    const { hosts, time } = setUp({ limits: ['api.example.com=2/s'] });
    const turns: (number | string)[] = [];
    for (let count = 0; count < 5; count += 1) turns.push(untilOf(await send(hosts, ANSWERED)));
    expect(turns).toEqual(['go', 465, 965, 1465, 1965]);
    time.now += 465;
    expect(await send(hosts, ANSWERED, { hasWaited: true })).toMatchObject({ kind: 'go' });
    // Who comes now goes behind all that wait.
    expect(untilOf(await send(hosts, ANSWERED))).toBe(2465);
  });

  it('holds in any window of a second, but for one request, whenever steps come', async () => {
    const { hosts, time } = setUp({ limits: ['*=20/s'] });
    const sent: number[] = [];
    const due: { at: number; hasWaited: boolean }[] = Array.from({ length: 100 }, () => ({ at: T0, hasWaited: false }));
    while (due.length > 0) {
      due.sort((a, b) => a.at - b.at);
      const next = due.shift();
      if (next === undefined) break;
      // Each is claimed some milliseconds late.
      time.now = Math.max(time.now, next.at + (due.length % 17));
      const turn = await send(hosts, ANSWERED, { hasWaited: next.hasWaited });
      if (turn.kind === 'go') sent.push(time.now);
      else due.push({ at: turn.until, hasWaited: true });
    }
    expect(sent).toHaveLength(100);
    const windows = sent.map((at) => sent.filter((other) => other >= at && other < at + 1000).length);
    expect(Math.max(...windows)).toBeLessThanOrEqual(21);
    expect(time.now - T0).toBeLessThan(5500);
  });

  it('is shared out among replicas, as limits of deliveries are', async () => {
    const { hosts } = setUp({ limits: ['*=4/s:4'], replicas: 2 });
    expect(untilOf(await send(hosts, ANSWERED))).toBe('go');
    expect(untilOf(await send(hosts, ANSWERED))).toBe(465);
  });

  it.each([
    ['a stricter rate of the step counts', { perSecond: 1 }, 965],
    ['a looser one does not', { perSecond: 100 }, 465],
  ])('%s', async (_what, own, until) => {
    const { hosts } = setUp({ limits: ['*=2/s'] });
    await send(hosts, ANSWERED, { own });
    expect(untilOf(await send(hosts, ANSWERED, { own }))).toBe(until);
  });

  it('counts hosts apart, and a host without a limit not at all', async () => {
    const { hosts } = setUp({ limits: ['*=1/s', 'free.example.com=unlimited'] });
    for (const origin of [ORIGIN, 'https://b.example.com', 'https://free.example.com', 'https://free.example.com']) {
      expect(await send(hosts, ANSWERED, { origin })).toMatchObject({ kind: 'go' });
    }
    expect(await send(hosts, ANSWERED)).toMatchObject({ kind: 'wait', why: 'rate' });
  });

  it('lets no more requests be under way at once than it says; the next goes when one has ended', async () => {
    const { hosts, time } = setUp({ limits: ['*=:2'] });
    const [first, second] = [await ask(hosts), await ask(hosts)];
    expect(second.kind).toBe('go');
    const waiting = await ask(hosts);
    expect(waiting).toMatchObject({
      kind: 'wait',
      why: 'atOnce',
      message: expect.stringContaining('2 requests at once'),
    });
    if (first.kind === 'go') first.end(ANSWERED);
    if (first.kind === 'go') first.end(ANSWERED);
    time.now += 10;
    expect(await ask(hosts, { hasWaited: true })).toMatchObject({ kind: 'go' });
    expect(await ask(hosts, { hasWaited: true })).toMatchObject({ kind: 'wait' });
  });

  it('tells who comes after a restart a turn behind all that wait, even where not all were counted', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ limits: ['*=20/s'], store });
    store.waits.set(ORIGIN, 100);
    await hosts.start();
    expect(untilOf(await send(hosts, ANSWERED))).toBe(5040);
    store.waits.set(ORIGIN, 10_000);
    await hosts.look();
    expect(untilOf(await send(hosts, ANSWERED))).toBe(500_040);
    time.now += 1000;
    await hosts.look();
    expect(untilOf(await send(hosts, ANSWERED))).toBe(501_040);
    expect(await send(hosts, ANSWERED, { hasWaited: true })).toMatchObject({ kind: 'go' });
  });

  it('releases steps that wait while turns are unused, as many as may go in a second', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ limits: ['*=20/s'], store });
    store.waits.set(ORIGIN, 500);
    await hosts.start();
    await hosts.look();
    expect(store.released).toEqual([{ origin: ORIGIN, limit: 20, at: 0 }]);
    // They went; the next twenty follow, and no more because those were told to.
    for (let count = 0; count < 20; count += 1) {
      await send(hosts, ANSWERED, { hasWaited: true });
      time.now += 50;
    }
    await hosts.look();
    expect(store.released.at(-1)).toMatchObject({ limit: 20 });
  });
});

describe('the circuit of a host', () => {
  it('makes steps wait that would have called it, and says for what', async () => {
    const { hosts } = setUp();
    await open(hosts);
    const turn = await ask(hosts);
    expect(turn).toMatchObject({
      kind: 'wait',
      why: 'circuit',
      message: `the circuit of ${ORIGIN} has been open since 2026-11-22T00:00:00Z: 3 requests in a row failed (ECONNREFUSED)`,
    });
    expect(untilOf(turn)).toBeGreaterThan(60_000);
    expect(await ask(hosts, { origin: 'https://b.example.com' })).toMatchObject({ kind: 'go' });
  });

  it('lets one step probe it when it is time, and those that come meanwhile wait', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    const probe = await ask(hosts, { hasWaited: true });
    expect(probe).toMatchObject({ kind: 'go', isProbe: true });
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    if (probe.kind === 'go') probe.end(ANSWERED);
    expect(await ask(hosts)).toMatchObject({ kind: 'go', isProbe: false });
    expect((await hosts.list())[0]).toMatchObject({ state: 'recovering' });
  });

  it('is left to the next step where the probe was given up', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, { kind: 'none' });
    expect(await ask(hosts)).toMatchObject({ kind: 'go', isProbe: true });
  });

  it('is looked after: one step is released to probe, more and more once the host is back', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ store });
    await hosts.start();
    await open(hosts);
    store.waits.set(ORIGIN, 100_000);
    await hosts.look();
    expect(store.released).toEqual([]);
    time.now += 5000;
    await hosts.look();
    expect(store.released).toEqual([{ origin: ORIGIN, limit: 1, at: 5000 }]);
    await send(hosts, ANSWERED, { hasWaited: true });
    for (let second = 0; second < 12; second += 1) {
      await hosts.look();
      time.now += 1000;
    }
    expect(store.released.slice(1).map(({ limit }) => limit)).toEqual([
      2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2000, 2000,
    ]);
  });

  it('survives a restart', async () => {
    const store = sharedStore('sole');
    const before = setUp({ store });
    await open(before.hosts);
    await before.hosts.stop();
    const { hosts } = setUp({ store });
    await hosts.start();
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect((await hosts.list())[0]).toMatchObject({ lastError: { at: T0, error: 'ECONNREFUSED' } });
  });

  it('holds in all replicas, of which one probes', async () => {
    const store = sharedStore('one');
    const [one, two] = [setUp({ store, replicas: 2 }), setUp({ store: { ...store, replica: 'two' }, replicas: 2 })];
    await open(one.hosts);
    await two.hosts.look();
    expect(await ask(two.hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    one.time.now += 5000;
    two.time.now += 5000;
    const turns = await Promise.all([ask(one.hosts), ask(two.hosts)]);
    expect(turns.map((turn) => turn.kind).sort()).toEqual(['go', 'wait']);
    for (const turn of turns) if (turn.kind === 'go') turn.end(ANSWERED);
    await one.hosts.look();
    await two.hosts.look();
    for (const { hosts } of [one, two]) expect((await hosts.list())[0]).toMatchObject({ state: 'recovering' });
    expect(store.circuits.size).toBe(0);
  });

  it('is closed by hand', async () => {
    const store = sharedStore('sole');
    const { hosts } = setUp({ store });
    expect(await hosts.closeCircuit(ORIGIN)).toBe(false);
    await open(hosts);
    expect(await hosts.closeCircuit(ORIGIN)).toBe(true);
    expect(store.circuits.size).toBe(0);
    expect(await ask(hosts)).toMatchObject({ kind: 'go' });
  });

  it('stays as it is in this process while the store is away, and is stored when it is back', async () => {
    const store = sharedStore('sole');
    const { changeCircuit } = store;
    const { hosts } = setUp({ store });
    store.changeCircuit = () => Promise.reject(new Error('away'));
    await open(hosts);
    expect(await ask(hosts)).toMatchObject({ kind: 'wait' });
    expect(store.circuits.size).toBe(0);
    store.changeCircuit = changeCircuit;
    await hosts.look();
    expect(store.circuits.size).toBe(1);
  });

  it('is forgotten when nothing has waited for the host for an hour', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ store });
    await hosts.start();
    await open(hosts);
    time.now += 3_700_000;
    await hosts.look();
    await hosts.look();
    expect(store.circuits.size).toBe(0);
  });

  it('never opens where it is switched off', async () => {
    const { hosts } = setUp({ failures: 0 });
    for (let count = 0; count < 20; count += 1) expect((await send(hosts, FAILED)).kind).toBe('go');
    await send(hosts, { kind: 'refused', error: 'answered 429', forMs: 60_000 });
    expect(await ask(hosts)).toMatchObject({ kind: 'go' });
  });

  it('that an earlier process stored is over where it is switched off now', async () => {
    const store = sharedStore('sole');
    const before = setUp({ store });
    await open(before.hosts);
    await before.hosts.stop();
    const { hosts } = setUp({ store, failures: 0 });
    await hosts.start();
    await hosts.look();
    expect(await ask(hosts)).toMatchObject({ kind: 'go', isProbe: false });
    expect(store.circuits.size).toBe(0);
  });
});

describe('many hosts', () => {
  it('fill neither memory nor metrics: a thousand are remembered, fifty have a name of their own', async () => {
    const { hosts, time, metrics } = setUp({ store: sharedStore('sole') });
    for (let count = 0; count < 3000; count += 1) {
      await send(hosts, ANSWERED, { origin: `https://h${count}.example.com` });
      time.now += 50;
    }
    expect(await hosts.list()).toHaveLength(1000);
    const { values } = await metrics.outgoingRequests.get();
    expect(values).toHaveLength(51);
    expect(values.find(({ labels }) => labels.host === 'other')?.value).toBe(2950);
  });
});
