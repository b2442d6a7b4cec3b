import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DashboardAccess } from '../../src/config/settings.ts';
import { loginDelays } from '../../src/dashboard/auth.ts';
import { ORDERS_ID, orderDelivery, startDashboard, type TestDashboard } from './fixture.ts';

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
const USER = 'ops';
const PASSWORD = 'pass:wörd';
const TOKEN = 'token-1234-5678-9abc';

const accesses: Record<'basic' | 'token' | 'both', DashboardAccess> = {
  basic: { kind: 'credentials', basic: { user: USER, password: PASSWORD } },
  token: { kind: 'credentials', token: TOKEN },
  both: { kind: 'credentials', basic: { user: USER, password: PASSWORD }, token: TOKEN },
};

interface Question {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly headers?: Record<string, string>;
}

describe('credentials', () => {
  const waits: number[] = [];
  const dashboards = new Map<string, TestDashboard>();
  const ask = async (access: keyof typeof accesses, request: Question) => {
    const dashboard = dashboards.get(access);
    if (dashboard === undefined) throw new Error(access);
    return dashboard.app.inject({ method: 'GET', ...request });
  };

  beforeAll(async () => {
    for (const [name, access] of Object.entries(accesses)) {
      dashboards.set(
        name,
        await startDashboard({
          access,
          listener: { host: '0.0.0.0', port: 3000 },
          wait: async (ms) => {
            waits.push(ms);
            dashboards.get(name)?.clock.advance(ms);
          },
        }),
      );
    }
  });
  afterAll(async () => {
    for (const dashboard of dashboards.values()) await dashboard.close();
  });

  it.each([
    ['basic', basic(USER, PASSWORD), 200],
    ['basic', basic(USER, PASSWORD).replace('Basic', 'bASIC '), 200],
    ['basic', basic(USER, 'wrong'), 401],
    ['basic', basic('other', PASSWORD), 401],
    ['basic', basic('', ''), 401],
    ['basic', basic(USER, ''), 401],
    ['basic', `Basic ${Buffer.from(USER).toString('base64')}`, 401],
    ['basic', `Bearer ${PASSWORD}`, 401],
    ['basic', 'Bearer ', 401],
    ['basic', 'Bearer undefined', 401],
    ['basic', '', 401],
    ['basic', 'Basic', 401],
    ['basic', 'Digest username="ops"', 401],
    ['basic', undefined, 401],
    ['token', `Bearer ${TOKEN}`, 200],
    ['token', `bearer ${TOKEN} `, 200],
    ['token', `Bearer ${TOKEN}x`, 401],
    ['token', 'Bearer', 401],
    ['token', basic('', TOKEN), 401],
    ['token', basic('', ''), 401],
    ['token', basic('undefined', 'undefined'), 401],
    ['token', undefined, 401],
    ['both', `Bearer ${TOKEN}`, 200],
    ['both', basic(USER, PASSWORD), 200],
    ['both', basic(USER, TOKEN), 401],
    ['both', `Bearer ${PASSWORD}`, 401],
  ] as const)('where %s is set, %s is answered %i', async (access, authorization, statusCode) => {
    const headers = authorization === undefined ? {} : { authorization };
    const response = await ask(access, { url: '/flows/api/runs', headers });
    expect(response.statusCode).toBe(statusCode);
    if (statusCode === 401) expect(response.json()).toMatchObject({ statusCode, error: 'Unauthorized' });
  });

  it.each([
    ['basic', ['Basic realm="Sluice", charset="UTF-8"']],
    ['token', ['Bearer realm="Sluice"']],
    ['both', ['Basic realm="Sluice", charset="UTF-8"', 'Bearer realm="Sluice"']],
  ] as const)('a refusal names what is accepted where %s is set', async (access, challenges) => {
    const response = await ask(access, { url: '/metrics' });
    expect([response.headers['www-authenticate']].flat()).toEqual(challenges);
  });

  const guarded = [
    ['GET', '/flows/api/webhooks/recent'],
    ['GET', '/flows/api/webhooks/stats'],
    ['GET', `/flows/api/webhooks/${ORDERS_ID}`],
    ['GET', `/flows/api/webhooks/${ORDERS_ID}/body`],
    ['GET', `/flows/api/webhooks/${ORDERS_ID}/evidence`],
    ['GET', '/flows/api/webhooks/readiness'],
    ['GET', '/flows/api/webhooks/timeseries'],
    ['POST', '/flows/api/webhooks/dry-run/{idOrSlug}'],
    ['POST', '/flows/api/webhooks/redeliver'],
    ['POST', `/flows/api/webhooks/${ORDERS_ID}/redeliver`],
    ['GET', '/flows/api/runs'],
    ['GET', '/flows/api/runs/active'],
    ['GET', `/flows/api/runs/${ORDERS_ID}`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/steps`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/steps/{key}`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/steps/{key}/input`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/steps/{key}/output`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/outline`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/iterations`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/trigger`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/control`],
    ['GET', '/flows/api/runs/stats'],
    ['GET', '/flows/api/runs/timeseries'],
    ['GET', `/flows/api/runs/${ORDERS_ID}/events`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/lineage`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/outline`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/trigger`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/steps/{key}`],
    ['GET', `/flows/api/runs/${ORDERS_ID}/iterations`],
    ['POST', `/flows/api/runs/${ORDERS_ID}/cancel`],
    ['POST', `/flows/api/runs/${ORDERS_ID}/rerun`],
    ['POST', '/flows/api/runs/cancel'],
    ['POST', '/flows/api/runs/retry'],
    ['POST', '/flows/api/runs/rerun'],
    ['POST', `/flows/api/runs/${ORDERS_ID}/steps/{key}/retry`],
    ['POST', `/flows/api/runs/${ORDERS_ID}/signals/{name}`],
    ['GET', '/flows/api/replicas'],
    ['GET', '/flows/api/hosts'],
    ['POST', '/flows/api/hosts/https%3A%2F%2Fa.example.com/close-circuit'],
    ['GET', '/flows/api/alerts'],
    ['GET', '/flows/api/manifest-schema'],
    ['GET', '/flows/api/schedules'],
    ['GET', '/flows/api/schedules/preview'],
    ['POST', '/flows/api/schedules/{jobId}/pause'],
    ['POST', '/flows/api/schedules/{jobId}/resume'],
    ['POST', '/flows/api/schedules/{jobId}/trigger'],
    ['PUT', '/flows/api/schedules/{jobId}/cron'],
    ['GET', '/flows/api/events/stream'],
    ['GET', `/flows/api/flows/${ORDERS_ID}/mermaid`],
    ['GET', '/flows/api/flows'],
    ['PUT', '/flows/api/flows'],
    ['GET', `/flows/api/flows/${ORDERS_ID}`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/enable`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/disable`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/trigger`],
    ['DELETE', `/flows/api/flows/${ORDERS_ID}/triggers/{triggerKey}/learned-key`],
    ['PUT', `/flows/api/flows/${ORDERS_ID}`],
    ['POST', '/flows/api/flows/reload'],
    ['GET', `/flows/api/flows/${ORDERS_ID}/paths`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions/{revision}`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions/{from}/diff/{to}`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/revisions/{revision}/restore`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['DELETE', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/resume`],
    ['GET', '/flows/api/handlers'],
    ['GET', '/flows/api/schemes'],
    ['GET', '/flows/api/attention'],
    ['GET', '/flows/api/activity'],
    ['GET', '/flows/api/keys'],
    ['GET', '/metrics'],
    ['GET', '/flows/api/openapi.json'],
    ['GET', '/flows/api/docs'],
    ['GET', '/flows/api/runs?take=0'],
    ['GET', '/nobody/has/this'],
  ] as const;
  it.each(guarded)('%s %s is refused without them, before its input is looked at', async (method, url) => {
    expect((await ask('both', { method, url })).statusCode).toBe(401);
  });

  it('the list above has every operation of the OpenAPI document except health and the receive endpoint', async () => {
    const document = (
      await ask('token', { url: '/flows/api/openapi.json', headers: { authorization: `Bearer ${TOKEN}` } })
    ).json();
    const operations = Object.entries<object>(document.paths)
      .filter(([path]) => !/^\/(health|flows\/api\/webhook)\//.test(path))
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    const listed = guarded.map(
      ([method, url]) =>
        `${method} ${url
          .replace(`/webhooks/${ORDERS_ID}`, '/webhooks/{deliveryId}')
          .replace(ORDERS_ID, '{id}')
          .replace(encodeURIComponent('https://a.example.com'), '{origin}')}`,
    );
    expect(listed).toEqual(expect.arrayContaining(operations));
  });

  it('health and the receive endpoint need none', async () => {
    const dashboard = dashboards.get('both');
    expect((await ask('both', { url: '/health/live' })).statusCode).toBe(200);
    expect((await ask('both', { url: '/health/ready' })).statusCode).toBe(200);
    expect((await dashboard?.app.inject(orderDelivery('{}')))?.statusCode).toBe(200);
  });

  it('after a wrong login the next one waits longer each time; a missing one never waits, a right one resets the delay', async () => {
    const wrong = { url: '/flows/api/runs', headers: { authorization: basic(USER, 'guess') } };
    dashboards.get('basic')?.clock.advance(16 * 60_000);
    await ask('basic', { url: '/flows/api/runs', headers: { authorization: basic(USER, PASSWORD) } });
    waits.length = 0;
    await ask('basic', wrong);
    await ask('basic', { url: '/flows/api/runs' });
    await ask('basic', wrong);
    await ask('basic', wrong);
    await ask('basic', { url: '/flows/api/runs', headers: { authorization: basic(USER, PASSWORD) } });
    await ask('basic', wrong);
    await ask('basic', wrong);
    expect(waits).toEqual([100, 200, 400, 100]);
  });

  it('another site cannot make a browser with a stored login change something', async () => {
    const headers = { authorization: basic(USER, PASSWORD), 'sec-fetch-site': 'cross-site' };
    const response = await ask('basic', { method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/disable`, headers });
    expect(response.json()).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    expect(dashboards.get('basic')?.catalog.find(ORDERS_ID)?.record.isEnabled).toBe(true);
  });
});

it('of a hundred concurrent wrong logins one is compared, a few wait, the others are told to come back', async () => {
  const dashboard = await startDashboard({ access: accesses.token, wait: () => new Promise(() => {}) });
  const base = await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
  const stop = new AbortController();
  const statuses: number[] = [];
  await new Promise<void>((done) => {
    for (let guess = 0; guess < 100; guess += 1) {
      const headers = { authorization: `Bearer guess-${guess}` };
      fetch(`${base}/flows/api/runs`, { headers, signal: stop.signal }).then(
        (response) => {
          if (statuses.push(response.status) === 100 - 16) done();
        },
        // The ones that wait are left behind.
        () => {},
      );
    }
  });
  stop.abort();
  expect(statuses.filter((status) => status === 401)).toHaveLength(1);
  expect(statuses.filter((status) => status === 429)).toHaveLength(83);
  // Who has the token is not locked out by others at the same address.
  const rightful = await fetch(`${base}/flows/api/runs`, { headers: { authorization: `Bearer ${TOKEN}` } });
  expect(rightful.status).toBe(200);
  await dashboard.close();
});

describe('delays of failed logins', () => {
  /** Time that passes only when somebody waits, in the order of the deadlines. */
  function waitingRoom() {
    let now = 0;
    const waiters: { at: number; wake: () => void }[] = [];
    const room = loginDelays({
      clock: { now: () => 0, monotonic: () => now },
      wait: (ms) => new Promise((wake) => waiters.push({ at: now + ms, wake })),
    });
    let looks = 0;
    const guess = (address: string, account = 'ops', isRight = false) =>
      room.attempt({ address, account }, () => {
        looks += 1;
        return isRight;
      });
    return {
      guess,
      looks: () => looks,
      /** Lets so much time pass; everybody whose time has come goes on, one after the other. */
      async pass(ms: number) {
        const until = now + ms;
        await settle();
        for (;;) {
          waiters.sort((a, b) => a.at - b.at);
          const next = waiters[0];
          if (next === undefined || next.at > until) break;
          waiters.shift();
          now = Math.max(now, next.at);
          next.wake();
          await settle();
        }
        now = until;
      },
    };
  }
  const settle = () => new Promise((done) => setImmediate(done));

  it('double up to two seconds, each address for itself, and are forgotten after a quarter of an hour', async () => {
    const { guess, pass, looks } = waitingRoom();
    await guess('192.0.2.1');
    for (const ms of [100, 200, 400, 800, 1600, 2000, 2000]) {
      const before = looks();
      void guess('192.0.2.1');
      await pass(ms - 1);
      expect([ms, looks()]).toEqual([ms, before]);
      await pass(1);
      expect([ms, looks()]).toEqual([ms, before + 1]);
    }
    expect(await guess('192.0.2.2')).toBe('wrong');
    await pass(15 * 60_000 + 1);
    await guess('192.0.2.1');
    void guess('192.0.2.1');
    const before = looks();
    await pass(100);
    expect(looks()).toBe(before + 1);
  });

  it('apply to concurrent guesses: one is compared, the others wait for their turn', async () => {
    const { guess, pass, looks } = waitingRoom();
    const guesses = Array.from({ length: 200 }, () => guess('192.0.2.1'));
    await pass(0);
    expect(looks()).toBe(1);
    await pass(60_000);
    const outcomes = await Promise.all(guesses);
    expect(outcomes.filter((outcome) => outcome === 'too many').length).toBeGreaterThanOrEqual(183);
    expect(looks()).toBeLessThanOrEqual(17);
  });

  it('limit each address across accounts, and count an IPv6 /64 as one address', async () => {
    const inAMinute = async (address: (n: number) => string) => {
      const { guess, pass, looks } = waitingRoom();
      for (let second = 0; second < 60; second += 1) {
        for (let n = 0; n < 20; n += 1) void guess(address(n), `user ${second} ${n}`);
        await pass(1000);
      }
      return looks();
    };
    // 21 at once, 5 while the delay grows, then one in two seconds.
    expect(await inAMinute(() => '192.0.2.1')).toBeLessThanOrEqual(21 + 5 + 29);
    expect(await inAMinute((n) => `2001:db8::${n + 1}`)).toBeLessThanOrEqual(21 + 5 + 29);
  });

  it('do not hold up another account of the address, nor a right login once its turn has come', async () => {
    const { guess, pass } = waitingRoom();
    await guess('192.0.2.1', 'scraper');
    expect(await guess('192.0.2.1', 'ops', true)).toBe('right');
    await guess('192.0.2.1', 'ops');
    const right = guess('192.0.2.1', 'ops', true);
    await pass(100);
    expect(await right).toBe('right');
    expect(await guess('192.0.2.1', 'ops', true)).toBe('right');
  });

  it('are not shortened when others at the same address log in', async () => {
    const { guess, pass, looks } = waitingRoom();
    for (let n = 0; n < 30; n += 1) {
      void guess('192.0.2.1', 'ops');
      await pass(2000);
    }
    const before = looks();
    let rights = 0;
    for (let second = 0; second < 20; second += 1) {
      void guess('192.0.2.1', 'ops');
      void guess('192.0.2.1', 'ops', true).then((outcome) => {
        rights += outcome === 'right' ? 1 : 0;
      });
      await pass(1000);
    }
    expect(rights).toBeGreaterThan(0);
    expect(looks() - before - rights).toBeLessThanOrEqual(11);
  });

  it('remember a bounded number of addresses', async () => {
    const { guess, pass, looks } = waitingRoom();
    await guess('first');
    for (let each = 0; each < 10_000; each += 1) await guess(`address ${each}`);
    const before = looks();
    void guess('first');
    await pass(0);
    expect(looks()).toBe(before + 1);
  });
});
