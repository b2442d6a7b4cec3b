import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { InternalFaultError } from '../../../src/flows/load-once.ts';
import { ANSWERED, ask, ORIGIN, runSteps, send, setUp, sharedStore } from './host-table.ts';

function setUpWith(limits: string[], replicas = 1) {
  const store = sharedStore('sole');
  return { store, ...setUp({ limits, replicas, store }) };
}

describe('the rate of a host', () => {
  it('lets steps pass one after another, those that wait in the order in which they began to', async () => {
    const table = setUpWith(['api.example.com=2/s']);
    await table.hosts.start();
    const sent = await runSteps(table, [0, 1, 2, 3, 4]);
    expect(sent.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4]);
    const gaps = sent.slice(1).map(({ at }, index) => at - (sent[index]?.at ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(475);
    expect(sent.at(-1)?.at).toBeLessThanOrEqual(3000);
  });

  it('lets a step that comes now go behind all that wait', async () => {
    const { hosts, store, time } = setUpWith(['*=2/s']);
    store.waits.set(ORIGIN, 3);
    await hosts.start();
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'rate', queue: ORIGIN });
    expect(await ask(hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go' });
    store.waits.clear();
    time.now += 1000;
    await hosts.look();
    expect(await ask(hosts)).toMatchObject({ kind: 'go' });
  });

  it('holds in any window of a second, but for one request, however late steps are claimed, and is used up', async () => {
    const table = setUpWith(['*=20/s']);
    await table.hosts.start();
    const sent = await runSteps(
      table,
      Array.from({ length: 100 }, (_, step) => step),
      { lateMs: (step) => step % 17 },
    );
    const windows = sent.map(({ at }) => sent.filter((other) => other.at >= at && other.at < at + 1000).length);
    expect(Math.max(...windows)).toBeLessThanOrEqual(21);
    expect(sent.at(-1)?.at).toBeLessThanOrEqual(6500);
  });

  it('is shared out among replicas, as limits of deliveries are', async () => {
    const { hosts, time } = setUp({ limits: ['*=4/s:4'], replicas: 2 });
    expect(await send(hosts, ANSWERED)).toMatchObject({ kind: 'go' });
    time.now += 399;
    expect(await send(hosts, ANSWERED, { mostWaitMs: 50 })).toMatchObject({
      kind: 'wait',
      message: expect.stringContaining('4/s'),
    });
    expect(await send(hosts, ANSWERED, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go' });
  });

  it.each([
    ['a stricter rate of the step counts', { perSecond: 1 }, '1/s'],
    ['a looser one does not', { perSecond: 100 }, '2/s'],
  ])('%s', async (_what, own, limit) => {
    const { hosts } = setUp({ limits: ['*=2/s'] });
    await send(hosts, ANSWERED, { own });
    const message = `${ORIGIN} is limited to ${limit}`;
    expect(await send(hosts, ANSWERED, { own })).toMatchObject({ kind: 'wait', why: 'rate', message });
  });

  it('of a step is one, whatever rates an expression gives it: each request keeps the next one waiting as its own says', async () => {
    const { hosts, time } = setUp();
    const turns = [];
    for (const perSecond of [2, 2.01, 2.02]) turns.push((await send(hosts, ANSWERED, { own: { perSecond } })).kind);
    expect(turns).toEqual(['go', 'wait', 'wait']);
    expect(await send(hosts, ANSWERED, { own: { perSecond: 2 }, step: 'other' })).toMatchObject({ kind: 'go' });
    expect(await send(hosts, ANSWERED, { own: {}, step: 'other' })).toMatchObject({ kind: 'go' });
    const waiting = await ask(hosts, { own: { perSecond: 2 } });
    const waitedIn = waiting.kind === 'wait' ? waiting.queue : '';
    time.now += 500;
    expect(await send(hosts, ANSWERED, { own: { perSecond: 1 }, waitedIn })).toMatchObject({ kind: 'go' });
    time.now += 850;
    expect(await send(hosts, ANSWERED, { own: { perSecond: 100 }, waitedIn })).toMatchObject({ kind: 'wait' });
  });

  it('of a step keeps only its own steps waiting, which are released at that rate', async () => {
    const { hosts, store } = setUpWith([]);
    await hosts.start();
    const own = { perSecond: 1 };
    await send(hosts, ANSWERED, { own });
    const waiting = await ask(hosts, { own });
    if (waiting.kind !== 'wait') throw new Error('it goes');
    store.waits.set(waiting.queue, 500);
    await hosts.look();
    expect(store.released).toEqual([{ queue: waiting.queue, limit: 1, at: 975 }]);
    expect(await ask(hosts)).toMatchObject({ kind: 'go' });
  });

  it('counts hosts apart, and a host without a limit not at all', async () => {
    const { hosts } = setUp({ limits: ['*=1/s', 'free.example.com=unlimited'] });
    for (const origin of [ORIGIN, 'https://b.example.com', 'https://free.example.com', 'https://free.example.com']) {
      expect(await send(hosts, ANSWERED, { origin })).toMatchObject({ kind: 'go' });
    }
    expect(await send(hosts, ANSWERED)).toMatchObject({ kind: 'wait', why: 'rate' });
  });

  it('makes steps due until the next look, evenly spaced and none twice', async () => {
    const { hosts, store, time } = setUpWith(['*=20/s']);
    store.waits.set(ORIGIN, 500);
    await hosts.start();
    for (let look = 0; look < 3; look += 1) {
      await hosts.look();
      time.now += 1000;
    }
    expect(store.released).toEqual([
      { queue: ORIGIN, limit: 25, at: 0 },
      { queue: ORIGIN, limit: 20, at: 1250 },
      { queue: ORIGIN, limit: 20, at: 2250 },
    ]);
  });
});

describe('requests at once', () => {
  it('are no more than the limit says; the next goes when one has ended', async () => {
    const { hosts } = setUp({ limits: ['*=:2'] });
    const [first, second] = [await ask(hosts), await ask(hosts)];
    expect(second.kind).toBe('go');
    const message = expect.stringContaining('2 requests at once');
    expect(await ask(hosts)).toMatchObject({ kind: 'wait', why: 'atOnce', message });
    // Ended twice, it counts once.
    if (first.kind === 'go') first.end(ANSWERED);
    if (first.kind === 'go') first.end(ANSWERED);
    expect(await ask(hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go' });
    expect(await ask(hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'wait' });
  });

  it('let a waiting step go as soon as one has ended, and no more than may go', async () => {
    const { hosts, store } = setUpWith(['*=:2']);
    const turns = [await ask(hosts), await ask(hosts)];
    store.waits.set(ORIGIN, 5);
    await hosts.start();
    await hosts.look();
    expect(store.released).toEqual([]);
    for (const turn of turns) {
      if (turn.kind === 'go') turn.end(ANSWERED);
      await setImmediate();
      expect(store.released.at(-1)).toMatchObject({ limit: 1 });
    }
    expect(store.released).toHaveLength(2);
  });

  it('are used up by steps that wait, in the order in which they began to', async () => {
    const table = setUpWith(['*=:2']);
    await table.hosts.start();
    const sent = await runSteps(
      table,
      Array.from({ length: 30 }, (_, step) => step),
      { lastsMs: 50, lateMs: () => 5 },
    );
    expect(sent.map(({ step }) => step)).toEqual(Array.from({ length: 30 }, (_, step) => step));
    expect(sent.at(-1)?.at).toBeLessThanOrEqual(1500);
  });
});

describe('requests at once of several replicas', () => {
  function setUpReplicas(limits: string[]) {
    const store = sharedStore('one');
    const replicas = ['one', 'two', 'three'].map((replica) => {
      const given = { ...store, replica };
      return setUp({ limits, replicas: 3, store: given });
    });
    const [one, two, three] = replicas;
    if (one === undefined || two === undefined || three === undefined) throw new Error('there are three');
    return { store, one, two, three };
  }

  it('are no more than the limit says, however many replicas there are', async () => {
    const { one, two, three } = setUpReplicas(['*=:2']);
    const [first, second] = [await ask(one.hosts), await ask(two.hosts)];
    expect([first.kind, second.kind]).toEqual(['go', 'go']);
    const message = expect.stringContaining('2 requests at once');
    expect(await ask(three.hosts)).toMatchObject({ kind: 'wait', why: 'atOnce', message, queue: ORIGIN });
    expect(await ask(one.hosts)).toMatchObject({ kind: 'wait', why: 'atOnce' });
    if (second.kind === 'go') second.end(ANSWERED);
    await setImmediate();
    await three.hosts.look();
    expect(await ask(three.hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go' });
  });

  it('may all be those of one replica', async () => {
    const { one } = setUpReplicas(['*=:2']);
    expect([(await ask(one.hosts)).kind, (await ask(one.hosts)).kind]).toEqual(['go', 'go']);
  });

  it('of a step with a limit of its own are counted apart, and take a place of the host too', async () => {
    const { one, two, three } = setUpReplicas(['*=:2']);
    const own = { own: { atOnce: 1 } };
    expect(await ask(one.hosts, own)).toMatchObject({ kind: 'go' });
    expect(await ask(two.hosts, own)).toMatchObject({
      kind: 'wait',
      why: 'atOnce',
      queue: expect.stringMatching(/ \w{16}$/),
    });
    expect(await ask(two.hosts)).toMatchObject({ kind: 'go' });
    expect(await ask(three.hosts)).toMatchObject({ kind: 'wait', why: 'atOnce', queue: ORIGIN });
  });

  it('of a replica that was killed leave their places at the latest when their time is over', async () => {
    const { one, two } = setUpReplicas(['*=:1']);
    expect(await ask(one.hosts, { answerMs: 30_000 })).toMatchObject({ kind: 'go' });
    expect(await ask(two.hosts)).toMatchObject({ kind: 'wait' });
    two.time.now += 40_000;
    await two.hosts.look();
    expect(await ask(two.hosts, { waitedIn: ORIGIN })).toMatchObject({ kind: 'go' });
  });

  it('are not sent while the store cannot count them, which is no fault of the host', async () => {
    const store = sharedStore('one');
    const { hosts } = setUp({ limits: ['*=:1'], store });
    const takeHostPlaces = store.takeHostPlaces;
    store.takeHostPlaces = async () => {
      throw new StoreUnavailableError('away');
    };
    await expect(ask(hosts)).rejects.toBeInstanceOf(InternalFaultError);
    store.takeHostPlaces = takeHostPlaces;
    expect(await ask(hosts)).toMatchObject({ kind: 'go' });
    expect(await hosts.list()).toMatchObject([{ inFlight: 1, isFailing: false }]);
  });

  it('release no more steps than places are free in all replicas', async () => {
    const { store, one, two } = setUpReplicas(['*=:3']);
    for (let count = 0; count < 2; count += 1) await ask(one.hosts);
    store.waits.set(ORIGIN, 5);
    await two.hosts.look();
    expect(store.released).toMatchObject([{ limit: 1 }]);
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
