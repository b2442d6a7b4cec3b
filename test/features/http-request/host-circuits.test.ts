import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ANSWERED, ask, BROKEN, FAILED, ORIGIN, open, send, setUp, sharedStore, slowDown, T0 } from './host-table.ts';

describe('the circuit of a host', () => {
  it('makes steps wait that would have called it, and says for what', async () => {
    const { hosts } = setUp();
    await open(hosts);
    const turn = await ask(hosts);
    expect(turn).toMatchObject({
      kind: 'wait',
      why: 'circuit',
      message: `${new URL(ORIGIN).host} is down since 2026-11-22T00:00:00Z: connection refused, 3 requests in a row`,
    });
    expect(await ask(hosts, { origin: 'https://b.example.com' })).toMatchObject({ kind: 'go' });
  });

  it('lets one step probe it when it is time, and those that come meanwhile wait', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    const probe = await ask(hosts, { waitedIn: ORIGIN });
    expect(probe).toMatchObject({ kind: 'go', probed: ORIGIN });
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    if (probe.kind === 'go') probe.end(ANSWERED);
    expect(await ask(hosts)).toMatchObject({ kind: 'go', probed: undefined });
    expect((await hosts.list())[0]).toMatchObject({ circuits: [], isFailing: false });
  });

  it('stays open for longer where a probe found no host', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, { kind: 'none', error: 'ENOTFOUND' });
    expect((await hosts.list())[0]).toMatchObject({ circuits: [{ state: 'open', until: T0 + 15_000 }] });
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', message: expect.stringContaining('its name is unknown') });
  });

  it('is left to the next step where the probe was given up', async () => {
    const { hosts, time } = setUp();
    await open(hosts);
    time.now += 5000;
    await send(hosts, { kind: 'none' });
    expect(await ask(hosts)).toMatchObject({ kind: 'go', probed: ORIGIN });
  });

  it('is probed by the step that has waited longest, before all that come meanwhile', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ store });
    await open(hosts);
    await ask(hosts);
    time.now += 5000;
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go', probed: ORIGIN });
  });

  it('is looked after: one step is released to probe, and the others at a steady rate once the host is back', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ store });
    await hosts.start();
    await open(hosts);
    store.waits.set(ORIGIN, 100_000);
    await hosts.look();
    expect(store.released).toEqual([]);
    time.now += 5000;
    await hosts.look();
    expect(store.released).toEqual([{ queue: ORIGIN, limit: 1, at: 5000 }]);
    await send(hosts, ANSWERED, { waitedIn: ORIGIN });
    for (let second = 0; second < 3; second += 1) {
      await hosts.look();
      time.now += 1000;
    }
    expect(store.released.slice(1).map(({ limit }) => limit)).toEqual([120, 100, 100]);
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
    for (const { hosts } of [one, two]) expect((await hosts.list())[0]).toMatchObject({ circuits: [] });
    expect(store.circuits.size).toBe(0);
  });

  it('keeps its last state where it changes while an earlier one is being stored', async () => {
    const store = sharedStore('one');
    const { changeCircuit } = store;
    const { hosts, time } = setUp({ store, replicas: 2 });
    const late = await ask(hosts);
    await open(hosts, BROKEN);
    await hosts.look();
    time.now += 5000;
    const slow = slowDown(store, changeCircuit);
    const probing = ask(hosts);
    await slow.asked;
    // The answer to an earlier request, sent before the circuit opened, asks for time.
    if (late.kind === 'go') late.end({ kind: 'refused', error: 'answered 429', forMs: 1000 });
    const looking = hosts.look();
    slow.goOn();
    const probe = await probing;
    expect(probe).toMatchObject({ kind: 'go', probed: expect.stringContaining(ORIGIN) });
    if (probe.kind === 'go') probe.end(ANSWERED);
    await looking;
    await hosts.look();
    expect((await hosts.list())[0]).toMatchObject({ circuits: [] });
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
    // It reads the stored state before it closes the circuit.
    await setImmediate();
    slow.goOn();
    await Promise.all([looking, closing]);
    expect((await hosts.list())[0]).toMatchObject({ circuits: [] });
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
    expect(await ask(hosts)).toMatchObject({ kind: 'go', probed: undefined });
    expect(store.circuits.size).toBe(0);
  });
});

describe('the circuit of an endpoint', () => {
  const other = { caller: 'flow 2', endpoint: 'step b' };
  /** The same caller's other endpoint. */
  const elsewhere = { endpoint: 'step c' };
  const asked = { kind: 'refused', error: 'answered 429', forMs: 3_600_000 } as const;

  it('opens where the host answers it with errors, and keeps nobody else waiting', async () => {
    const { hosts } = setUp();
    await open(hosts, BROKEN);
    const message = expect.stringContaining(`${new URL(ORIGIN).host} fails for step a since`);
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit', message });
    expect(await ask(hosts, other)).toMatchObject({ kind: 'go', probed: undefined });
    expect(await ask(hosts, elsewhere)).toMatchObject({ kind: 'go', probed: undefined });
    expect(await hosts.list()).toMatchObject([{ circuits: [{ caller: 'step a', failures: 3 }] }]);
  });

  it('opens where the host asks it for a pause, and keeps nobody else waiting', async () => {
    const { hosts } = setUp();
    await send(hosts, asked);
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, other)).toMatchObject({ kind: 'go' });
    expect(await ask(hosts, elsewhere)).toMatchObject({ kind: 'go' });
  });

  it('is that of the whole host where the host is away', async () => {
    const { hosts } = setUp();
    await open(hosts, FAILED);
    expect(await ask(hosts, other)).toMatchObject({ kind: 'wait', why: 'circuit', queue: ORIGIN });
  });

  it('is that of the whole host where requests of several callers fail in a row', async () => {
    const { hosts } = setUp();
    await send(hosts, BROKEN);
    await send(hosts, BROKEN);
    await send(hosts, BROKEN, other);
    expect(await ask(hosts, { caller: 'flow 3', endpoint: 'step d' })).toMatchObject({
      kind: 'wait',
      why: 'circuit',
      queue: ORIGIN,
    });
  });

  it('is all that opens where requests of one caller fail at several endpoints', async () => {
    const { hosts } = setUp();
    for (let count = 0; count < 4; count += 1) {
      await send(hosts, BROKEN);
      await send(hosts, BROKEN, elsewhere);
    }
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, elsewhere)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, { endpoint: 'step d' })).toMatchObject({ kind: 'go' });
  });

  it('explains its failures: the first failure of another caller does not open that of the host', async () => {
    const { hosts } = setUp();
    await open(hosts, BROKEN);
    await send(hosts, BROKEN, other);
    expect(await ask(hosts, { caller: 'flow 3', endpoint: 'step d' })).toMatchObject({ kind: 'go' });
  });

  it('is probed by one of its own steps, and closes for itself', async () => {
    const { hosts, time } = setUp();
    await open(hosts, BROKEN);
    await open(hosts, BROKEN, other);
    const waits = await ask(hosts);
    const waitedIn = waits.kind === 'wait' ? waits.queue : '';
    time.now += 5000;
    expect(await send(hosts, ANSWERED, { waitedIn })).toMatchObject({ kind: 'go', probed: waitedIn });
    expect(await hosts.list()).toMatchObject([{ circuits: [{ caller: 'step b' }] }]);
  });

  it('is not probed while that of the host is open, and releases nobody', async () => {
    const store = sharedStore('sole');
    const { hosts, time } = setUp({ store });
    await hosts.start();
    await send(hosts, { ...asked, forMs: 1000 });
    const waits = await ask(hosts);
    store.waits.set(waits.kind === 'wait' ? waits.queue : '', 7);
    await open(hosts, FAILED, other);
    time.now += 2000;
    await hosts.look();
    expect(store.released).toEqual([]);
    time.now += 3000;
    await hosts.look();
    expect(store.released).toMatchObject([{ limit: 1 }]);
  });

  it('is what a step waits for where a limit would keep it waiting too, and where it opens while the step waits for that', async () => {
    const store = sharedStore('sole');
    const { hosts } = setUp({ store, limits: ['*=20/s'] });
    const [first, second] = [await ask(hosts), ask(hosts)];
    if (first.kind === 'go') first.end(asked);
    expect(await second).toMatchObject({ kind: 'wait', why: 'circuit' });
    store.waits.set(ORIGIN, 1);
    await hosts.look();
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, other)).toMatchObject({ kind: 'wait', why: 'rate' });
  });

  it('survives a restart, and is closed by hand with the others of the host', async () => {
    const store = sharedStore('sole');
    const before = setUp({ store });
    await open(before.hosts, BROKEN);
    await before.hosts.stop();
    const { hosts } = setUp({ store });
    await hosts.start();
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'circuit' });
    expect(await ask(hosts, other)).toMatchObject({ kind: 'go' });
    expect(await hosts.closeCircuit(ORIGIN)).toBe(true);
    expect(await ask(hosts)).toMatchObject({ kind: 'go', probed: undefined });
    expect(store.circuits.size).toBe(0);
  });
});
