import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Credentials } from '../../../src/config/credentials.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { HOUR_MS } from '../../../src/model/clock.ts';
import { ORDERS_ID, orderDelivery, startDashboard, type TestDashboard } from '../../dashboard/fixture.ts';
import { eventually } from '../../eventually.ts';

const ONE = { name: 'one', token: 'one-4f1c9d7ab2e80000', scopes: ['read', 'operate'] } as const;
const OTHER = { name: 'other', token: 'other-5d6e7f8091a2b3', scopes: ['read', 'operate'] } as const;
const access: Credentials = { kind: 'credentials', tokens: [ONE, OTHER] };

let dashboard: TestDashboard;

async function start(services: Parameters<typeof startDashboard>[0] = {}): Promise<TestDashboard> {
  const { createLogins } = await import('../../../src/dashboard/logins.ts');
  const started = await startDashboard({
    access,
    logins: createLogins(access, { store: { noteCredentials: async () => {} }, clock: { ledger: () => 0 } }),
    ...services,
  });
  onTestFinished(() => started.close());
  return started;
}

beforeEach(async () => {
  dashboard = await start();
});

async function post(
  url: string,
  body: object,
  { by = ONE, at = dashboard }: { by?: { token: string }; at?: TestDashboard } = {},
) {
  const headers = { authorization: `Bearer ${by.token}` };
  const response = await at.app.inject({
    method: 'POST',
    url: `/flows/api${url}`,
    headers,
    body: JSON.stringify(body),
  });
  return { status: response.statusCode, answer: response.json() };
}

async function startRun(): Promise<string> {
  return (await post(`/flows/${ORDERS_ID}/trigger`, {})).answer.runId;
}
const statusOf = async (runId: string) => (await dashboard.store.findRun(runId))?.status;

/** The token of a plan to cancel a run, with the ids of that run and of one outside the plan. */
async function planned() {
  const run = await startRun();
  const { token } = (await post('/runs/cancel', {})).answer;
  return { run, token: token as string, unplanned: await startRun() };
}

const isCancelled = (run: string) =>
  eventually(
    () => statusOf(run),
    (status) => status === 'Cancelled',
  );
const refused = { status: 400, answer: { message: expect.stringContaining('a plan that you asked for here') } };

describe('the token of a plan', () => {
  it('is good for who asked for the plan, and nobody else', async () => {
    const { run, token } = await planned();
    expect(await post('/runs/cancel', { plan: false, token }, { by: OTHER })).toMatchObject(refused);
    expect(await statusOf(run)).toBe('Running');
    expect((await post('/runs/cancel', { plan: false, token })).status).toBe(200);
    await isCancelled(run);
  });

  const headOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const ids = (...runs: string[]) => Buffer.from(runs.join('').replaceAll('-', ''), 'hex').toString('base64url');

  it.each<[string, (token: string, unplanned: string) => string]>([
    ['another run in it', (token, run) => token.replace(/\..*\./, `.${ids(run)}.`)],
    ['a further run in it', (token, run) => token.replace(/\.(.*)\./, (_, was) => `.${was}${ids(run)}.`)],
    ['no run in it', (token) => token.replace(/\..*\./, '..')],
    [
      'another filter in it',
      (token) => token.replace(/^[^.]*/, encoded({ ...headOf(token), filter: { flowId: 'x' } })),
    ],
    ['another plan named in it', (token) => token.replace(/^[^.]*/, encoded({ ...headOf(token), planId: ORDERS_ID }))],
    ['its code cut', (token) => token.slice(0, -2)],
    ['its code left out', (token) => token.replace(/\.[^.]*$/, '')],
    ['a part added', (token) => `${token}.x`],
  ])('is refused with %s, and nothing is done or kept of it', async (_what, change) => {
    const { run, token, unplanned } = await planned();
    const before = await dashboard.store.of(activityStore).listInterventions({ skip: 0, take: 50 });
    const changed = change(token, unplanned);
    expect(changed).not.toBe(token);
    expect(await post('/runs/cancel', { plan: false, token: changed })).toMatchObject(refused);
    expect(await Promise.all([run, unplanned].map(statusOf))).toEqual(['Running', 'Running']);
    expect(await dashboard.store.of(activityStore).listInterventions({ skip: 0, take: 50 })).toEqual(before);
  });

  it('is refused by another operation', async () => {
    const { token } = await planned();
    for (const url of ['/runs/rerun', '/runs/retry', '/webhooks/redeliver']) {
      expect(await post(url, { plan: false, token })).toMatchObject(refused);
    }
  });

  it('is good at every process on the same database, and at none on another', async () => {
    const { run, token } = await planned();
    expect(await post('/runs/cancel', { plan: false, token }, { at: await start() })).toMatchObject(refused);
    const replica = await start({ store: { ...dashboard.store, close: async () => {} } });
    expect((await post('/runs/cancel', { plan: false, token }, { at: replica })).status).toBe(200);
    await isCancelled(run);
  });

  it('is good for a day', async () => {
    const { token } = await planned();
    dashboard.clock.advance(24 * HOUR_MS);
    expect((await post('/runs/cancel', { plan: false, token })).status).toBe(200);
    dashboard.clock.advance(1);
    expect(await post('/runs/cancel', { plan: false, token })).toMatchObject({
      status: 400,
      answer: { message: expect.stringContaining('older than a day') },
    });
  });
});

it('a redelivery with the token of its plan takes what that found acceptable, and nothing that was refused since', async () => {
  const refuse = async (order: number) => {
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    expect((await dashboard.app.inject(orderDelivery(`{"order":${order}}`))).statusCode).toBe(403);
    await dashboard.catalog.setEnabled(ORDERS_ID, true);
  };
  await refuse(1);
  const { token, items } = (await post('/webhooks/redeliver', { reason: 'flow_disabled' })).answer;
  await refuse(2);
  expect(await post('/webhooks/redeliver', { plan: false, token }, { by: OTHER })).toMatchObject(refused);
  expect((await post('/webhooks/redeliver', { plan: false, token, flowId: ORDERS_ID })).status).toBe(400);
  const done = (await post('/webhooks/redeliver', { plan: false, token })).answer;
  expect(done).toMatchObject({
    token: null,
    items: [{ redeliveredFrom: items[0].redeliveredFrom, outcome: 'accepted' }],
  });
});
