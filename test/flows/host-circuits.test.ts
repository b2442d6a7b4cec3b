import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ANSWERED, ask, FAILED, ORIGIN, open, send, setUp, sharedStore, slowDown, T0, untilOf } from './host-table.ts';

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

  it('stays open for longer where a probe found no host', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, { kind: 'none', error: 'ENOTFOUND' });
    expect((await hosts.list())[0]).toMatchObject({ state: 'open', circuit: { probeAt: T0 + 15_000 } });
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', message: expect.stringContaining('ENOTFOUND') });
  });

  it('is left to the next step where the probe was given up', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, { kind: 'none' });
    expect(await ask(hosts)).toMatchObject({ kind: 'go', isProbe: true });
  });

  it('is probed three times by the same step, which goes before all that come meanwhile, and then by another one', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    for (const probes of [0, 1]) {
      await send(hosts, FAILED, { hasWaited: true, probes });
      time.now += 5000;
      expect(await ask(hosts, { hasWaited: true, probes: 0 })).toMatchObject({ kind: 'wait', why: 'circuit' });
    }
    await send(hosts, FAILED, { hasWaited: true, probes: 2 });
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    time.now += 10_000;
    expect(await ask(hosts)).toMatchObject({ kind: 'go', isProbe: true });
  });

  it('is left to another step where the one that is to probe again does not come, or asks too early', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, FAILED, { hasWaited: true, probes: 0 });
    expect(untilOf(await ask(hosts, { hasWaited: true, probes: 1 }))).toBe(5000 + 5000 + 5000);
    time.now += 15_000;
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

  it('keeps its last state where it changes while an earlier one is being stored', async () => {
    const store = sharedStore('one');
    const { changeCircuit } = store;
    const { hosts, time } = setUp({ store, replicas: 2 });
    const late = await ask(hosts);
    await open(hosts);
    await hosts.look();
    time.now += 5000;
    const slow = slowDown(store, changeCircuit);
    const probing = ask(hosts);
    await slow.asked;
    // One that was sent before the circuit opened asks for time.
    if (late.kind === 'go') late.end({ kind: 'refused', error: 'answered 429', forMs: 1000 });
    const looking = hosts.look();
    slow.goOn();
    const probe = await probing;
    expect(probe).toMatchObject({ kind: 'go', isProbe: true });
    if (probe.kind === 'go') probe.end(ANSWERED);
    await looking;
    await hosts.look();
    expect((await hosts.list())[0]).toMatchObject({ state: 'recovering' });
    expect(store.circuits.size).toBe(0);
  });

  it('that closes while an earlier state is being stored is closed for all', async () => {
    const store = sharedStore('one');
    const { changeCircuit } = store;
    const { hosts } = setUp({ store, replicas: 2 });
    store.changeCircuit = () => Promise.reject(new Error('away'));
    await open(hosts);
    const slow = slowDown(store, changeCircuit);
    const looking = hosts.look();
    await slow.asked;
    const closing = hosts.closeCircuit(ORIGIN);
    // It reads what is stored before it closes the circuit.
    await setImmediate();
    slow.goOn();
    await Promise.all([looking, closing]);
    expect((await hosts.list())[0]).toMatchObject({ state: 'recovering' });
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
