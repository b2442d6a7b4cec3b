import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { NOW, ORDERS_ID, orderDelivery, startDashboard, type TestDashboard, useDashboard } from './fixture.ts';

const dashboard = useDashboard();

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
  });
});

describe('a replica that shares its database', () => {
  const heartbeatOf = (change: object = {}) => {
    const state = { beatAt: 0, replicas: 3, clockOffsetMs: 0, ...change };
    return { isFit: () => true, state: () => state };
  };
  const telling = (name: string, secrets: Record<string, string | null>) => {
    return { name, fingerprint: { storeKey: null, secrets, settings: {}, extensions: [] } };
  };
  const ownName = () => dashboard.store.replica;

  it.each([
    ['has not had its first heartbeat', { beatAt: undefined }, 0, 'heartbeat_overdue'],
    ['had its last heartbeat 10 s ago', {}, 10_000, undefined],
    ['had its last heartbeat longer ago', {}, 10_001, 'heartbeat_overdue'],
    ['has a clock that is 5 s ahead', { clockOffsetMs: 5000 }, 0, undefined],
    ['has a clock that is further ahead', { clockOffsetMs: 5001 }, 0, 'clock_offset'],
    ['works with a release that its database has outgrown', { misfit: 'the schema is newer' }, 0, 'schema_outgrown'],
    ['has a clock that is further behind', { clockOffsetMs: -5001 }, 0, 'clock_offset'],
  ])('that %s is ready only if nothing speaks against it', async (_, state, passedMs, reason) => {
    const replica = await startDashboard({ heartbeat: heartbeatOf(state) });
    replica.clock.advance(passedMs);
    const response = await replica.app.inject('/health/ready');
    expect([response.statusCode, response.json().reason]).toEqual([reason === undefined ? 200 : 503, reason]);
    const metrics = (await replica.app.inject('/metrics')).body;
    expect(metrics).toContain(`sluice_ready ${reason === undefined ? 1 : 0}\n`);
    expect(metrics).toContain('sluice_cluster_replicas 3\n');
    expect(metrics).toMatch(/^sluice_build_info\{.*service="Sluice"\} 1$/m);
    expect(metrics).toMatch(/^sluice_database_file_bytes \d+$/m);
    expect(metrics).toMatch(/^sluice_purge_age_seconds 0$/m);
  });

  it.each([
    [30_000, undefined],
    [30_001, 'changes_unseen'],
  ])('that has not seen what others changed for %i ms is ready only within 30 s', async (unseenMs, reason) => {
    const store = { ...dashboard.store, changes: { ...dashboard.store.changes, unseenMs: () => unseenMs } };
    const replica = await startDashboard({ store, heartbeat: heartbeatOf() });
    const response = await replica.app.inject('/health/ready');
    expect([response.statusCode, response.json().reason]).toEqual([reason === undefined ? 200 : 503, reason]);
  });

  it.each([
    ['a secret that no other reads either', [{ X: null }, { X: null }], undefined],
    [
      'a secret that another one reads',
      [
        { X: null, Y: '1' },
        { X: 'readable', Y: '1' },
      ],
      'secrets_unreadable',
    ],
    ['a secret of a flow that others do not have yet', [{ X: null }, {}], undefined],
    // If both were taken out, no replica would take deliveries.
    [
      'one secret, while the other lacks another one',
      [
        { X: null, Y: '1' },
        { X: '1', Y: null },
      ],
      undefined,
    ],
  ])('that cannot read %s is ready unless another one could stand in', async (_, [own = {}, others = {}], reason) => {
    const told = [telling(ownName(), own), telling('other', others)];
    const replica = await startDashboard({ heartbeat: heartbeatOf({ told }) });
    const response = await replica.app.inject('/health/ready');
    expect([response.statusCode, response.json().reason]).toEqual([reason === undefined ? 200 : 503, reason]);
  });

  it('counts what is not the same in all of them', async () => {
    const { store } = dashboard;
    const told = (value: string) => ({ storeKey: null, secrets: {}, settings: { SLUICE_X: value }, extensions: [] });
    const one = { name: 'a', version: '2', startedAt: NOW, seenAt: NOW, clockOffsetMs: 0, steps: 0 };
    const listReplicas = async () => ['1', '2'].map((value) => ({ ...one, name: value, fingerprint: told(value) }));
    const replica = await startDashboard({ heartbeat: heartbeatOf(), store: { ...store, listReplicas } });
    expect((await replica.app.inject('/metrics')).body).toContain('sluice_cluster_differences 1\n');
    expect((await dashboard.app.inject('/metrics')).body).toContain('sluice_cluster_differences 0\n');
  });

  it('is one of the replicas that are listed, and says which one', async () => {
    const { store } = dashboard;
    const other = {
      name: 'b',
      version: '2',
      startedAt: NOW,
      seenAt: NOW,
      clockOffsetMs: 0.4,
      fingerprint: 'x',
      steps: 4,
    };
    const listReplicas = async () => [other, { ...other, name: store.replica, steps: 0 }];
    const replica = await startDashboard({ store: { ...store, listReplicas } });
    const at = new Date(NOW).toISOString();
    const seen = { name: 'b', version: '2', startedAt: at, seenAt: at, clockOffsetMs: 0, stepsRunning: 4, self: false };
    expect((await replica.app.inject('/flows/api/replicas')).json()).toEqual([
      seen,
      { ...seen, name: store.replica, stepsRunning: 0, self: true },
    ]);
  });
});

describe('metrics', () => {
  it('say whether the service is ready', async () => {
    const readyOf = async ({ app }: Pick<TestDashboard, 'app'>) =>
      /^sluice_ready (\d)$/m.exec((await app.inject('/metrics')).body)?.[1];
    const ping = () => Promise.reject(new StoreUnavailableError('disk full'));
    const broken = await startDashboard({ store: { ...dashboard.store, ping } });
    expect([await readyOf(dashboard), await readyOf(broken)]).toEqual(['1', '0']);
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
