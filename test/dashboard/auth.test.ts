import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loginDelays } from '../../src/dashboard/login-delays.ts';
import type { DashboardAccess } from '../../src/dashboard/services.ts';
import { ORDERS_ID, orderDelivery, startDashboard, type TestDashboard } from './fixture.ts';

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
const USER = 'ops';
const PASSWORD = 'pass:wörd';
const TOKEN = 'token-1234';

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
    ['POST', `/flows/api/runs/${ORDERS_ID}/steps/{key}/retry`],
    ['POST', `/flows/api/runs/${ORDERS_ID}/signals/{name}`],
    ['GET', '/flows/api/schedules'],
    ['GET', '/flows/api/schedules/preview'],
    ['POST', '/flows/api/schedules/{jobId}/pause'],
    ['POST', '/flows/api/schedules/{jobId}/resume'],
    ['POST', '/flows/api/schedules/{jobId}/trigger'],
    ['PUT', '/flows/api/schedules/{jobId}/cron'],
    ['GET', '/flows/api/events/stream'],
    ['GET', `/flows/api/flows/${ORDERS_ID}/mermaid`],
    ['GET', '/flows/api/flows'],
    ['GET', `/flows/api/flows/${ORDERS_ID}`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/enable`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/disable`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/trigger`],
    ['DELETE', `/flows/api/flows/${ORDERS_ID}/triggers/{triggerKey}/learned-key`],
    ['PUT', `/flows/api/flows/${ORDERS_ID}`],
    ['POST', '/flows/api/flows/reload'],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions/{revision}`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/revisions/{from}/diff/{to}`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['GET', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['DELETE', `/flows/api/flows/${ORDERS_ID}/drain`],
    ['POST', `/flows/api/flows/${ORDERS_ID}/resume`],
    ['GET', '/flows/api/handlers'],
    ['GET', '/flows/api/schemes'],
    ['GET', '/flows/api/attention'],
    ['GET', '/metrics'],
    ['GET', '/flows/api/openapi.json'],
    ['GET', '/flows/api/docs'],
    ['GET', '/flows/api/runs?take=0'],
    ['GET', '/nobody/has/this'],
  ] as const;
  it.each(guarded)('%s %s is refused without them, before its input is looked at', async (method, url) => {
    expect((await ask('both', { method, url })).statusCode).toBe(401);
  });

  it('every operation of the OpenAPI document but health is in the list above', async () => {
    const document = (
      await ask('token', { url: '/flows/api/openapi.json', headers: { authorization: `Bearer ${TOKEN}` } })
    ).json();
    const operations = Object.entries<object>(document.paths)
      .filter(([path]) => !path.startsWith('/health/'))
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    const listed = guarded.map(
      ([method, url]) =>
        `${method} ${url.replace(`/webhooks/${ORDERS_ID}`, '/webhooks/{deliveryId}').replace(ORDERS_ID, '{id}')}`,
    );
    expect(listed).toEqual(expect.arrayContaining(operations));
  });

  it('health and the receive endpoint need none', async () => {
    const dashboard = dashboards.get('both');
    expect((await ask('both', { url: '/health/live' })).statusCode).toBe(200);
    expect((await ask('both', { url: '/health/ready' })).statusCode).toBe(200);
    expect((await dashboard?.app.inject(orderDelivery('{}')))?.statusCode).toBe(200);
  });

  it('a wrong login waits longer each time, a missing one never, and a right one starts anew', async () => {
    const wrong = { url: '/flows/api/runs', headers: { authorization: basic(USER, 'guess') } };
    await ask('basic', { url: '/flows/api/runs', headers: { authorization: basic(USER, PASSWORD) } });
    waits.length = 0;
    await ask('basic', wrong);
    await ask('basic', { url: '/flows/api/runs' });
    await ask('basic', wrong);
    await ask('basic', wrong);
    await ask('basic', { url: '/flows/api/runs', headers: { authorization: basic(USER, PASSWORD) } });
    await ask('basic', wrong);
    expect(waits).toEqual([100, 200, 400, 100]);
  });

  it('a browser that has a login stored cannot be made to change something by another site', async () => {
    const headers = { authorization: basic(USER, PASSWORD), 'sec-fetch-site': 'cross-site' };
    const response = await ask('basic', { method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/disable`, headers });
    expect(response.json()).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    expect(dashboards.get('basic')?.catalog.find(ORDERS_ID)?.record.isEnabled).toBe(true);
  });
});

describe('delays of failed logins', () => {
  it('double up to two seconds, each address for itself, and are forgotten after a quarter of an hour', () => {
    let now = 0;
    const delays = loginDelays({ now: () => 0, monotonic: () => now });
    const first = Array.from({ length: 7 }, () => delays.afterFailure('192.0.2.1'));
    expect(first).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
    expect(delays.afterFailure('192.0.2.2')).toBe(100);
    now += 15 * 60_000;
    expect(delays.afterFailure('192.0.2.1')).toBe(2000);
    now += 15 * 60_000 + 1;
    expect(delays.afterFailure('192.0.2.1')).toBe(100);
  });

  it('remember so many addresses and no more', () => {
    const delays = loginDelays({ now: () => 0, monotonic: () => 0 });
    delays.afterFailure('first');
    for (let each = 0; each < 10_000; each += 1) delays.afterFailure(`address ${each}`);
    expect(delays.afterFailure('address 9999')).toBe(200);
    expect(delays.afterFailure('first')).toBe(100);
  });
});
