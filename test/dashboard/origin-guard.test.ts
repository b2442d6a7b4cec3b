import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ORDERS_ID, startDashboard, type TestDashboard } from './fixture.ts';

describe('without credentials', () => {
  const access = { loopback: { kind: 'loopback' }, open: { kind: 'open' } } as const;
  const open = new Map<string, TestDashboard>();
  const services = {
    'loopback on 127.0.0.1': { access: access.loopback, listener: { host: '127.0.0.1', port: 3000 } },
    'loopback on ::1': { access: access.loopback, listener: { host: '::1', port: 3000 } },
    'open on 127.0.0.1': { access: access.open, listener: { host: '127.0.0.1', port: 3000 } },
    'open on 0.0.0.0': { access: access.open, listener: { host: '0.0.0.0', port: 3000 } },
  } as const;
  const ask = async (name: keyof typeof services, method: 'GET' | 'POST', headers: Record<string, string>) => {
    const dashboard = open.get(name);
    if (dashboard === undefined) throw new Error(name);
    const url = method === 'GET' ? '/flows/api/runs' : `/flows/api/flows/${ORDERS_ID}/enable`;
    const response = await dashboard.app.inject({ method, url, headers });
    return { statusCode: response.statusCode, ...response.json() };
  };

  beforeAll(async () => {
    for (const [name, overrides] of Object.entries(services)) {
      open.set(name, await startDashboard({ ...overrides, publicUrl: 'https://hooks.example.com' }));
    }
  });
  afterAll(async () => {
    for (const dashboard of open.values()) await dashboard.close();
  });

  it.each([
    ['loopback on 127.0.0.1', 'localhost', 200],
    ['loopback on 127.0.0.1', 'LOCALHOST:3000', 200],
    ['loopback on 127.0.0.1', '127.0.0.1:3000', 200],
    ['loopback on 127.0.0.1', '127.8.9.10', 200],
    ['loopback on 127.0.0.1', '[::1]:3000', 200],
    ['loopback on ::1', '[::1]', 200],
    ['loopback on 127.0.0.1', 'evil.example', 403],
    ['loopback on 127.0.0.1', 'evil.example:3000', 403],
    ['loopback on ::1', 'evil.example', 403],
    ['loopback on 127.0.0.1', 'localhost.evil.example', 403],
    ['loopback on 127.0.0.1', '127.0.0.1.evil.example', 403],
    ['loopback on 127.0.0.1', '127.0.0.1@evil.example', 403],
    ['loopback on 127.0.0.1', '10.0.0.1', 403],
    ['loopback on 127.0.0.1', 'hooks.example.com', 403],
    ['open on 127.0.0.1', 'localhost', 200],
    ['open on 127.0.0.1', 'evil.example', 403],
    ['open on 127.0.0.1', 'hooks.example.com', 200],
    ['open on 0.0.0.0', 'sluice.lan:3000', 200],
  ] as const)('%s: a request to the host %j is answered %i', async (name, host, statusCode) => {
    const answer = await ask(name, 'GET', { host });
    expect(answer.statusCode).toBe(statusCode);
    if (statusCode === 403) {
      expect(answer).toMatchObject({
        reason: 'host_not_allowed',
        message: expect.stringContaining('SLUICE_DASHBOARD_TOKEN'),
      });
    }
  });

  it.each([
    'forwarded',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-forwarded-anything',
    'x-real-ip',
    'via',
    'cf-connecting-ip',
    'cf-ray',
    'true-client-ip',
    'x-client-ip',
    'fastly-client-ip',
    'x-cluster-client-ip',
    'x-original-for',
    'x-original-host',
    'cdn-loop',
    'client-ip',
    'fly-client-ip',
    'x-vercel-forwarded-for',
    'x-proxyuser-ip',
    'x-amzn-trace-id',
    'x-host',
    'x-rewrite-url',
    'x_forwarded_for',
  ])('a loopback listener refuses what a proxy brings in: %s', async (header) => {
    const headers = { host: 'localhost', [header]: 'for=203.0.113.7' };
    expect(await ask('loopback on 127.0.0.1', 'GET', headers)).toMatchObject({
      statusCode: 403,
      reason: 'proxy_not_allowed',
      message: expect.stringContaining(header),
    });
    expect((await ask('open on 127.0.0.1', 'GET', headers)).statusCode).toBe(200);
  });

  it.each([
    ['nothing, as curl sends', {}, 200],
    ['its own page', { 'sec-fetch-site': 'same-origin', origin: 'http://localhost:3000' }, 200],
    ['the address bar', { 'sec-fetch-site': 'none' }, 200],
    ['its own origin alone', { origin: 'http://localhost:3000' }, 200],
    ['its own host behind TLS', { origin: 'https://localhost:3000' }, 200],
    ['the public URL', { origin: 'https://hooks.example.com' }, 200],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['another host of the same site', { 'sec-fetch-site': 'same-site' }, 403],
    ['another origin', { origin: 'https://evil.example' }, 403],
    ['another port', { origin: 'http://localhost:4000' }, 403],
    ['a page without an origin', { origin: 'null' }, 403],
    [
      'another origin that claims to be its own',
      { 'sec-fetch-site': 'same-origin', origin: 'http://evil.example' },
      403,
    ],
  ])('what changes something and comes from %s is answered as it should', async (_from, headers, statusCode) => {
    const answer = await ask('loopback on 127.0.0.1', 'POST', { host: 'localhost:3000', ...headers });
    expect(answer.statusCode).toBe(statusCode);
    if (statusCode === 403) expect(answer.reason).toBe('cross_site');
  });

  it('reading from another site is left to the browser, which shows it nothing', async () => {
    const headers = { host: 'localhost:3000', 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    expect((await ask('loopback on 127.0.0.1', 'GET', headers)).statusCode).toBe(200);
  });

  it('health answers to any host name, because probes use addresses', async () => {
    const response = await open
      .get('loopback on 127.0.0.1')
      ?.app.inject({ url: '/health/live', headers: { host: 'pod-7' } });
    expect(response?.statusCode).toBe(200);
  });

  it('accepts requests as browsers and command lines send them', async () => {
    const headers = {
      host: 'localhost:3000',
      accept: '*/*',
      'accept-encoding': 'gzip',
      'accept-language': 'en',
      'cache-control': 'no-cache',
      cookie: 'a=b',
      dnt: '1',
      priority: 'u=0',
      referer: 'http://localhost:3000/flows',
      'sec-ch-ua': '"Chromium"',
      'sec-fetch-mode': 'navigate',
      'sec-gpc': '1',
      'upgrade-insecure-requests': '1',
      'user-agent': 'curl/8',
      'x-requested-with': 'XMLHttpRequest',
      'viaduct-id': '1',
    };
    expect((await ask('loopback on 127.0.0.1', 'GET', headers)).statusCode).toBe(200);
  });

  it('refuses a rebound name and a proxied request on a real socket', async () => {
    const dashboard = await startDashboard();
    try {
      await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
      const address = dashboard.app.server.address();
      if (address === null || typeof address === 'string') throw new Error('not listening');
      const first = (host: string, version = '1.1') =>
        new Promise<string>((resolve, reject) => {
          const socket = connect(address.port, '127.0.0.1');
          socket.once('data', (data) => {
            resolve(String(data).split('\r\n', 1)[0] ?? '');
            socket.destroy();
          });
          socket.once('error', reject);
          socket.write(`GET /flows/api/runs HTTP/${version}\r\nHost: ${host}\r\n\r\n`);
        });
      expect(await first(`127.0.0.1:${address.port}`)).toBe('HTTP/1.1 200 OK');
      expect(await first('rebound.example')).toBe('HTTP/1.1 403 Forbidden');
      expect(await first('')).toBe('HTTP/1.1 403 Forbidden');
      expect(await first('localhost', '1.0')).toBe('HTTP/1.1 403 Forbidden');
    } finally {
      await dashboard.close();
    }
  });
});
