import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { ORDERS_ID, orderDelivery, startDashboard, type TestDashboard } from './fixture.ts';

let dashboard: TestDashboard;

beforeAll(async () => {
  dashboard = await startDashboard();
});
afterAll(() => dashboard.close());

describe('health', () => {
  it('is live and ready while the store is writable', async () => {
    expect((await dashboard.app.inject('/health/live')).json()).toEqual({ status: 'live' });
    expect((await dashboard.app.inject('/health/ready?probe=1')).json()).toEqual({ status: 'ready' });
  });

  it('is not ready once a stop has begun, and still live', async () => {
    let isStopping = false;
    const stopping = await startDashboard({ isLeaving: () => isStopping });
    isStopping = true;
    const response = await stopping.app.inject('/health/ready');
    expect(response.statusCode).toBe(503);
    expect(response.json()).toMatchObject({ statusCode: 503, error: 'Service Unavailable', reason: 'stopping' });
    expect((await stopping.app.inject('/health/live')).statusCode).toBe(200);
    await stopping.close();
  });

  it('is not ready while the store is not writable, and says so', async () => {
    const ping = () => Promise.reject(new StoreUnavailableError('disk full'));
    const broken = await startDashboard({ store: { ...dashboard.store, ping } });
    const response = await broken.app.inject('/health/ready');
    expect(response.statusCode).toBe(503);
    expect(response.json()).toMatchObject({ reason: 'store_unavailable' });
    await broken.app.close();
  });
});

describe('metrics', () => {
  it('say whether the service is ready', async () => {
    const readyOf = async ({ app }: TestDashboard) =>
      /^sluice_ready (\d)$/m.exec((await app.inject('/metrics')).body)?.[1];
    const ping = () => Promise.reject(new StoreUnavailableError('disk full'));
    const broken = await startDashboard({ store: { ...dashboard.store, ping } });
    expect([await readyOf(dashboard), await readyOf(broken)]).toEqual(['1', '0']);
    await broken.app.close();
  });

  it('are in the Prometheus text format and count events', async () => {
    await dashboard.app.inject(orderDelivery('{}'));
    const response = await dashboard.app.inject('/metrics');
    expect(response.headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(response.body).toContain(`webhook_received_total{flow="${ORDERS_ID}",result="accepted",scheme="GitHub"} 1`);
  });
});

describe('every answer', () => {
  it.each([
    ['/flows/api/runs', 200],
    ['/flows/api/runs?take=0', 400],
    ['/nope', 404],
    ['/metrics', 200],
    ['/health/live', 200],
  ])('%s carries the security headers', async (url, statusCode) => {
    const response = await dashboard.app.inject(url);
    expect(response.statusCode).toBe(statusCode);
    expect(response.headers).toMatchObject({
      'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    });
  });

  it('a refused login carries them too', async () => {
    const response = await dashboard.app.inject({ url: '/flows/api/runs', headers: { host: 'evil.example' } });
    expect(response.statusCode).toBe(403);
    expect(response.headers['x-content-type-options']).toBe('nosniff');
  });
});

describe('lists of what flows may use', () => {
  it('names each step type with the schema of its inputs and its secrets', async () => {
    const handlers = (await dashboard.app.inject('/flows/api/handlers')).json();
    expect(handlers).toContainEqual({
      type: 'HttpRequest',
      inputs: expect.objectContaining({
        type: 'object',
        properties: expect.objectContaining({ url: expect.anything() }),
      }),
      secretInputs: expect.arrayContaining(['headers.*']),
    });
  });

  it('names each signature scheme and how it signs', async () => {
    const schemes = (await dashboard.app.inject('/flows/api/schemes')).json();
    expect(schemes).toContainEqual(
      expect.objectContaining({ name: 'GitHub', kind: 'builtIn', headers: ['X-Hub-Signature-256'], prefix: 'sha256=' }),
    );
    expect(schemes).toContainEqual(expect.objectContaining({ name: 'Custom', kind: 'custom' }));
  });
});
