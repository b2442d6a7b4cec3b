import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DashboardAccess } from '../../src/config/credentials.ts';
import { wrongAnswerDelays } from '../../src/dashboard/auth.ts';
import { createServiceClock } from '../../src/model/clock.ts';
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
    ['basic', basic(USER, PASSWORD).replace('Basic', 'Digest'), 401],
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

  it.each(['/metrics', '/flows/api/openapi.json', '/flows/api/docs', '/nobody/has/this'])(
    '%s is refused without them',
    async (url) => {
      expect((await ask('both', { url })).statusCode).toBe(401);
    },
  );

  it('health and the receive endpoint need none', async () => {
    const dashboard = dashboards.get('both');
    expect((await ask('both', { url: '/health/live' })).statusCode).toBe(200);
    expect((await ask('both', { url: '/health/ready' })).statusCode).toBe(200);
    expect((await dashboard?.app.inject(orderDelivery('{}')))?.statusCode).toBe(200);
  });

  it('the answer to a wrong login waits longer each time; a missing one and a right one never do', async () => {
    const wrong = { url: '/flows/api/runs', headers: { authorization: basic(USER, 'guess') } };
    const right = { url: '/flows/api/runs', headers: { authorization: basic(USER, PASSWORD) } };
    dashboards.get('basic')?.clock.advance(16 * 60_000);
    waits.length = 0;
    for (const question of [right, wrong, { url: '/flows/api/runs' }, wrong, right, wrong]) {
      await ask('basic', question);
    }
    expect(waits).toEqual([100, 200, 400]);
  });

  it('another site cannot make a browser with a stored login change something', async () => {
    const headers = { authorization: basic(USER, PASSWORD), 'sec-fetch-site': 'cross-site' };
    const response = await ask('basic', { method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/disable`, headers });
    expect(response.json()).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    expect(dashboards.get('basic')?.catalog.find(ORDERS_ID)?.record.isEnabled).toBe(true);
  });
});

it('wrong logins that wait for their answers hold up nobody who knows the password', async () => {
  const dashboard = await startDashboard({ access: accesses.both, wait: () => new Promise(() => {}) });
  const base = await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
  const stop = new AbortController();
  const statuses: number[] = [];
  const ask = (authorization: string) =>
    fetch(`${base}/flows/api/runs`, { headers: { authorization }, signal: stop.signal });
  await new Promise<void>((done) => {
    for (let guess = 0; guess < 40; guess += 1) {
      ask(guess % 2 === 0 ? basic(USER, `guess-${guess}`) : `Bearer guess-${guess}`).then(
        // Sixteen wait; the others get an answer that tells them to retry.
        ({ status }) => void (statuses.push(status) === 40 - 16 && done()),
        () => {},
      );
    }
  });
  expect(new Set(statuses)).toEqual(new Set([429]));
  expect((await ask(basic(USER, PASSWORD))).status).toBe(200);
  expect((await ask(`Bearer ${TOKEN}`)).status).toBe(200);
  const form = new URLSearchParams({ user: USER, password: PASSWORD });
  const page = await fetch(`${base}/flows/login`, { method: 'POST', body: form, redirect: 'manual' });
  expect(page.status).toBe(303);
  stop.abort();
});

describe('the delay of an answer to a wrong login', () => {
  function delays() {
    const waits: number[] = [];
    let now = 0;
    const delay = wrongAnswerDelays({
      clock: createServiceClock({ now: () => 0, monotonic: () => now }),
      wait: async (ms) => void waits.push(ms),
    });
    const delayOf = async (address: string) => {
      const delayed = delay(address);
      await delayed;
      return delayed === 'too many' ? delayed : waits.at(-1);
    };
    const pass = (ms: number) => {
      now += ms;
    };
    return { delayOf, pass };
  }

  it('doubles up to two seconds, each address for itself, and starts over after a quarter of an hour', async () => {
    const { delayOf, pass } = delays();
    for (const ms of [100, 200, 400, 800, 1600, 2000, 2000]) expect(await delayOf('192.0.2.1')).toBe(ms);
    expect(await delayOf('192.0.2.2')).toBe(100);
    pass(15 * 60_000);
    expect(await delayOf('192.0.2.1')).toBe(2000);
    pass(15 * 60_000 + 1);
    expect(await delayOf('192.0.2.1')).toBe(100);
  });

  it('counts an IPv6 /64 as one address', async () => {
    const { delayOf } = delays();
    expect(await delayOf('2001:db8::1')).toBe(100);
    expect(await delayOf('2001:db8::2')).toBe(200);
    expect(await delayOf('2001:db8:0:1::1')).toBe(100);
  });

  it('is kept for a bounded number of addresses', async () => {
    const { delayOf } = delays();
    await delayOf('192.0.2.1');
    for (let each = 0; each < 10_000; each += 1) await delayOf(`10.0.${each >> 8}.${each & 255}`);
    expect(await delayOf('192.0.2.1')).toBe(100);
  });

  it('is given again to an address whose answers have all been sent', async () => {
    const { delayOf } = delays();
    for (let each = 0; each < 40; each += 1) expect(await delayOf('192.0.2.1')).toBeLessThanOrEqual(2000);
  });
});
