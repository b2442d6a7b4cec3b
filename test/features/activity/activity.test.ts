import { resolve } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { DashboardAccess } from '../../../src/config/credentials.ts';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { ACTIONS } from '../../../src/features/activity/page/words.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { NOW, ORDERS_ID, startDashboard, type TestDashboard, useDashboard } from '../../dashboard/fixture.ts';

const TOKENS = {
  reader: { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] },
  oncall: { name: 'oncall', token: 'oncall-77aa01be93c4', scopes: ['read', 'operate'] },
  ci: { name: 'ci', token: 'ci-5d6e7f8091a2b3c4', scopes: ['deploy'] },
  prometheus: { name: 'prometheus', token: 'prometheus-1a2b3c4d', scopes: ['metrics'] },
} as const;
const ALL = 'all-0f1e2d3c4b5a6978';
const access: DashboardAccess = { kind: 'credentials', token: ALL, tokens: Object.values(TOKENS) };

interface Question {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly payload?: string;
  readonly headers?: Record<string, string>;
}

function asker(dashboard: () => Pick<TestDashboard, 'app'>) {
  return async (who: keyof typeof TOKENS | 'all', { headers, ...question }: Question) => {
    const token = who === 'all' ? ALL : TOKENS[who].token;
    const response = await dashboard().app.inject({
      method: 'GET',
      ...question,
      headers: { ...headers, authorization: `Bearer ${token}` },
    });
    return { status: response.statusCode, json: response.json() };
  };
}

const FLOW = `/flows/api/flows/${ORDERS_ID}`;
const MANIFEST = JSON.stringify({ id: ORDERS_ID, name: 'orders', version: '9', steps: { a: { type: 'NoOp' } } });

describe('a named token', () => {
  const dashboard = useDashboard('all', { access });
  const ask = asker(() => dashboard);

  it.each([
    ['reader', 'GET', '/flows/api/runs', 200],
    ['reader', 'GET', '/metrics', 200],
    ['reader', 'GET', '/flows', 200],
    ['reader', 'POST', '/flows/api/webhooks/dry-run/orders', 200],
    ['reader', 'POST', `${FLOW}/disable`, 403],
    ['reader', 'PUT', `${FLOW}?dryRun=true`, 403],
    ['oncall', 'POST', `${FLOW}/enable`, 200],
    ['oncall', 'PUT', `${FLOW}?dryRun=true`, 403],
    ['oncall', 'POST', '/flows/api/flows/reload', 403],
    ['ci', 'PUT', `${FLOW}?dryRun=true`, 200],
    ['ci', 'GET', '/flows/api/runs', 403],
    ['ci', 'POST', `${FLOW}/disable`, 403],
    ['ci', 'GET', '/metrics', 403],
    ['prometheus', 'GET', '/metrics', 200],
    ['prometheus', 'GET', '/flows/api/runs', 403],
    ['prometheus', 'GET', '/flows', 403],
    ['prometheus', 'POST', `${FLOW}/disable`, 403],
    ['all', 'POST', `${FLOW}/enable`, 200],
    ['all', 'PUT', `${FLOW}?dryRun=true`, 200],
  ] as const)('%s that asks %s %s is answered %i', async (who, method, url, status) => {
    const payload = method === 'PUT' ? MANIFEST : '';
    const response = await dashboard.app.inject({
      method,
      url,
      ...(payload && { payload }),
      headers: { authorization: `Bearer ${who === 'all' ? ALL : TOKENS[who].token}` },
    });
    expect(response.statusCode).toBe(status);
    if (status === 403) expect(response.json()).toMatchObject({ reason: 'insufficient_scope' });
  });

  it('is told which scope it lacks, in words that quote no token', async () => {
    const { json } = await ask('reader', { method: 'POST', url: `${FLOW}/disable` });
    expect(json.message).toBe('This needs the scope operate; reader has read');
  });
});

describe('the activity', () => {
  let dashboard: TestDashboard;
  const ask = asker(() => dashboard);
  const activity = async (query = '') => (await ask('reader', { url: `/flows/api/activity${query}` })).json;
  beforeAll(async () => {
    dashboard = await startDashboard({ access });
  });

  it('has each request that changes something: who, when, what, why, and how it ended', async () => {
    const headers = { 'x-sluice-reason': 'the shop floods us' };
    await ask('oncall', { method: 'POST', url: `${FLOW}/disable`, headers });
    const [latest] = await activity();
    expect(latest).toEqual({
      id: expect.any(String),
      at: new Date(NOW).toISOString(),
      actor: 'oncall',
      clientIp: '127.0.0.1',
      action: 'disableFlow',
      target: { type: 'flow', id: ORDERS_ID },
      details: {},
      reason: 'the shop floods us',
      outcome: 'done',
      statusCode: 200,
    });
    const event = dashboard.logged.find(({ eventName }) => eventName === 'Intervention');
    expect(event).toMatchObject({ eventId: 5000, level: 30, actor: 'oncall', action: 'disableFlow', statusCode: 200 });
  });

  it('takes the reason of a cancelled run from the body, and what else the address names as details', async () => {
    await ask('all', { method: 'POST', url: `${FLOW}/enable` });
    const { json } = await ask('oncall', { method: 'POST', url: `${FLOW}/trigger?triggerKey=byHand` });
    const runId = json.runId ?? '0f0c5a52-7d0e-4f6a-9d53-8c4f1d2e3b4a';
    await ask('oncall', { method: 'POST', url: `/flows/api/runs/${runId}/steps/no-such/retry` });
    const payload = '{"reason":"ordered twice"}';
    await ask('oncall', { method: 'POST', url: `/flows/api/runs/${runId}/cancel`, payload });
    expect(await activity(`?target=${runId}`)).toMatchObject([
      { action: 'cancelRun', reason: 'ordered twice' },
      { action: 'retryStep', details: { key: 'no-such' }, outcome: 'refused', statusCode: 404 },
    ]);
  });

  it.each([
    ['the body', { payload: '{"reason":"asked by the shop"}' }],
    ['a header', { headers: { 'x-sluice-reason': 'asked by the shop' } }],
  ])('takes the reason of any command from %s', async (_, said) => {
    for (const verb of ['disable', 'enable', 'drain', 'resume']) {
      await ask('oncall', { method: 'POST', url: `${FLOW}/${verb}`, ...said });
      expect((await activity())[0]).toMatchObject({ action: `${verb}Flow`, reason: 'asked by the shop' });
    }
  });

  it('has no reading, no plan, no dry run, and nothing that no route takes', async () => {
    const before = await activity();
    await ask('oncall', { url: '/flows/api/runs' });
    await ask('ci', { method: 'PUT', url: `${FLOW}?dryRun=true`, payload: MANIFEST });
    await ask('oncall', { method: 'POST', url: '/flows/api/webhooks/redeliver', payload: '{"plan":true}' });
    await ask('oncall', { method: 'POST', url: '/flows/api/runs/cancel', payload: '{}' });
    await ask('reader', { method: 'POST', url: '/flows/api/webhooks/dry-run/orders', payload: '{}' });
    await ask('oncall', { method: 'POST', url: '/flows/api/no-such' });
    expect(await activity()).toEqual(before);
  });

  it('is filtered by actor, action, target and time', async () => {
    await ask('ci', { method: 'PUT', url: FLOW, payload: MANIFEST });
    await ask('oncall', { method: 'POST', url: `${FLOW}/disable` });
    expect(await activity('?actor=ci')).toMatchObject([{ action: 'deployFlow', statusCode: 409, outcome: 'refused' }]);
    for (const each of await activity('?action=disableFlow')) expect(each.action).toBe('disableFlow');
    expect(await activity(`?since=${NOW + 1}`)).toEqual([]);
    expect(await activity(`?until=${new Date(NOW + 1).toISOString()}&take=1&includeTotal=true`)).toMatchObject({
      items: [{ action: 'disableFlow' }],
      total: (await activity()).length,
    });
  });

  it('lets nothing happen that it cannot keep', async () => {
    const full = new StoreUnavailableError('disk full');
    vi.spyOn(dashboard.store.of(activityStore), 'beginIntervention').mockRejectedValueOnce(full);
    expect((await ask('oncall', { method: 'POST', url: `${FLOW}/enable` })).status).toBe(503);
    expect((await ask('reader', { url: FLOW })).json).toMatchObject({ isEnabled: false });
  });
});

/** The parts of the page. When they load, they read what a browser knows: the address, and what the service wrote into the page. */
async function loadPageParts(): Promise<readonly { readonly actions?: object }[]> {
  vi.stubGlobal('location', { pathname: '/', search: '' });
  const element = { dataset: {} };
  vi.stubGlobal('document', { documentElement: element, querySelector: () => null, addEventListener: () => {} });
  try {
    // The page needs a browser's types, and tests are checked with those of Node.
    return (await import(resolve(import.meta.dirname, '../../../src/features/page.ts'))).pageParts;
  } finally {
    vi.unstubAllGlobals();
  }
}

it('has words on the page for every operation that it may list, and for no other', async () => {
  const dashboard = await startDashboard();
  const { paths } = (await dashboard.app.inject('/flows/api/openapi.json')).json();
  const operations = Object.entries<Record<string, { operationId: string }>>(paths)
    .filter(([path]) => !/\/(webhook|dry-run)\/|\/(advance|rehearse)$/.test(path))
    .flatMap(([, methods]) => Object.entries(methods))
    .filter(([method]) => method !== 'get')
    .map(([, { operationId }]) => operationId);
  const ofFeatures = (await loadPageParts()).flatMap(({ actions = {} }) => Object.keys(actions));
  const named = [...Object.keys(ACTIONS), ...ofFeatures];
  expect(named.sort()).toEqual(
    [
      ...operations,
      'answerByLink',
      'logIn',
      'changeActivityKey',
      'logOut',
      'denyAccess',
      'deployRevision',
      'widenAccess',
      'changeSecret',
    ].sort(),
  );
});

it('calls everybody anyone where the dashboard has no credentials', async () => {
  const dashboard = await startDashboard();
  await dashboard.app.inject({ method: 'POST', url: `${FLOW}/disable` });
  const response = await dashboard.app.inject('/flows/api/activity');
  expect(response.json()).toMatchObject([{ actor: 'anyone', action: 'disableFlow' }]);
});
