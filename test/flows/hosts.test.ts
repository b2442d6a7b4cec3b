import { describe, expect, it } from 'vitest';
import { ANSWERED, ask, ORIGIN, send, setUp, sharedStore, T0, untilOf } from './host-table.ts';

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

  it('of a step is one, whatever rates an expression gives it: each request keeps the next one waiting as its own says', async () => {
    const { hosts, time } = setUp();
    const rates = Array.from({ length: 50 }, (_, index) => 2 + index / 100);
    const turns = [];
    for (const perSecond of rates) turns.push(untilOf(await send(hosts, ANSWERED, { own: { perSecond } })));
    expect(turns.filter((turn) => turn === 'go')).toHaveLength(1);
    expect(turns.at(-1)).toBeGreaterThan(20_000);
    expect(await send(hosts, ANSWERED, { own: { perSecond: 2 }, step: 'other' })).toMatchObject({ kind: 'go' });
    expect(await send(hosts, ANSWERED, { own: {}, step: 'other' })).toMatchObject({ kind: 'go' });
    time.now += 500;
    expect(await send(hosts, ANSWERED, { own: { perSecond: 1 }, hasWaited: true })).toMatchObject({ kind: 'go' });
    time.now += 900;
    const next = await send(hosts, ANSWERED, { own: { perSecond: 100 }, hasWaited: true, patienceMs: 0 });
    expect(next).toMatchObject({ kind: 'wait', why: 'rate' });
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
