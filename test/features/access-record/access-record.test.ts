import { afterEach, expect, it, vi } from 'vitest';
import type { DashboardAccess } from '../../../src/config/credentials.ts';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { ORDERS_ID, startDashboard, type TestDashboard } from '../../dashboard/fixture.ts';

const READER = { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] } as const;
const BASIC = { user: 'ops', password: 'pass:wörd' };
const ALL = 'all-0f1e2d3c4b5a6978';
const CREDENTIALS: DashboardAccess = { kind: 'credentials', basic: BASIC, token: ALL, tokens: [READER] };

let dashboard: TestDashboard | undefined;
afterEach(async () => {
  await dashboard?.close();
  dashboard = undefined;
});

async function open(access: DashboardAccess = CREDENTIALS) {
  const opened = await startDashboard({ access });
  dashboard = opened;
  const ask = (method: 'GET' | 'POST', url: string, headers: Record<string, string> = {}) =>
    opened.app.inject({ method, url, headers });
  const logIn = (form: Record<string, string>, headers: Record<string, string> = {}) =>
    opened.app.inject({
      method: 'POST',
      url: '/flows/login',
      payload: new URLSearchParams(form).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    });
  const events = () => opened.logged.filter(({ eventId }) => Number(eventId) > 5000);
  const activity = async () => (await opened.store.of(activityStore).listInterventions({ skip: 0, take: 500 })).items;
  const counts = async () => {
    const { body } = await ask('GET', '/metrics', access.kind === 'credentials' ? bearer(ALL) : {});
    return [...body.matchAll(/^sluice_logins_total\{result="(\w+)"\} (\d+)$/gm)].map(([, result, n]) => [result, n]);
  };
  return { opened, ask, logIn, events, activity, counts };
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const cookieOf = ({ headers }: { headers: Record<string, unknown> }) => ({
  cookie: String(headers['set-cookie']).split(';')[0] ?? '',
});

it('tells a login and a log-out: an event, a count and an entry of the activity list', async () => {
  const { ask, logIn, events, activity, counts } = await open();
  expect(await counts()).toEqual([
    ['succeeded', '0'],
    ['failed', '0'],
  ]);
  const session = cookieOf(await logIn({ token: READER.token }));
  await ask('POST', '/flows/logout', session);
  await ask('POST', '/flows/logout', session);
  expect(events()).toMatchObject([
    { eventId: 5001, level: 30, actor: 'reader', credential: 'named reader', clientIp: '127.0.0.1' },
    { eventId: 5003, level: 30, actor: 'reader', clientIp: '127.0.0.1' },
  ]);
  expect(await activity()).toMatchObject([
    { action: 'logOut', actor: 'reader', statusCode: 303 },
    { action: 'logIn', actor: 'reader', statusCode: 303, clientIp: '127.0.0.1' },
  ]);
  expect(await counts()).toContainEqual(['succeeded', '1']);
});

it('tells a wrong login, on the page and of a request, and nothing of what was given', async () => {
  const { opened, ask, logIn, events, activity, counts } = await open();
  await logIn({ user: 'typed-into-the-wrong-field', password: 'hunter2-hunter2' });
  await ask('GET', '/flows/api/runs', bearer('hunter2-hunter2'));
  await ask('GET', '/flows/api/runs');
  expect(events()).toMatchObject([
    { eventId: 5002, level: 40, account: 'user', statusCode: 401, clientIp: '127.0.0.1' },
    { eventId: 5002, level: 40, account: 'token', statusCode: 401 },
  ]);
  expect(await activity()).toMatchObject([
    { action: 'logIn', actor: 'unknown', statusCode: 401, details: { account: 'token' } },
    { action: 'logIn', actor: 'unknown', statusCode: 401, details: { account: 'user' } },
  ]);
  expect(await counts()).toContainEqual(['failed', '2']);
  expect(JSON.stringify([opened.logged, await activity()])).not.toMatch(/hunter2|wrong-field/);
});

it('lists sixty wrong logins an hour, then says of how many it has not; the log has all, and 403s their own sixty', async () => {
  const { opened, ask, events, activity } = await open();
  for (let n = 0; n < 65; n += 1) await ask('GET', '/flows/api/runs', bearer(`guess-${n}`));
  expect([events().length, (await activity()).length]).toEqual([65, 60]);
  await ask('POST', `/flows/api/flows/${ORDERS_ID}/disable`, bearer(READER.token));
  expect((await activity())[0]?.action).toBe('denyAccess');
  opened.clock.advance(3_600_000);
  await ask('GET', '/flows/api/runs', bearer('guess'));
  expect((await activity())[0]).toMatchObject({ action: 'logIn', details: { unlisted: '5' } });
});

it.each([
  [
    'insufficient_scope',
    'reader',
    'disableFlow',
    'POST',
    `/flows/api/flows/${ORDERS_ID}/disable`,
    bearer(READER.token),
  ],
  [
    'cross_site',
    'unknown',
    'disableFlow',
    'POST',
    `/flows/api/flows/${ORDERS_ID}/disable`,
    { 'sec-fetch-site': 'cross-site' },
  ],
  ['cross_site', 'unknown', 'POST /flows/login', 'POST', '/flows/login', { 'sec-fetch-site': 'cross-site' }],
] as const)('tells a 403 for %s, of %s who asked for %s', async (reason, actor, operation, method, url, headers) => {
  const { ask, events, activity } = await open();
  expect((await ask(method, url, headers)).statusCode).toBe(403);
  expect(events()).toMatchObject([{ eventId: 5004, level: 40, actor, operation, reason, clientIp: '127.0.0.1' }]);
  expect(await activity()).toMatchObject([
    { action: 'denyAccess', actor, statusCode: 403, details: { operation, because: reason } },
  ]);
});

it('tells a 403 where there are no credentials, and calls the party anyone', async () => {
  const { ask, events } = await open({ kind: 'loopback' });
  await ask('GET', '/flows/api/runs', { 'x-forwarded-for': '203.0.113.9' });
  expect(events()).toMatchObject([{ eventId: 5004, actor: 'anyone', reason: 'proxy_not_allowed' }]);
});

it('does not call a flow that is disabled a denial', async () => {
  const { ask, events } = await open();
  await ask('POST', `/flows/api/flows/${ORDERS_ID}/disable`, bearer(ALL));
  expect((await ask('POST', `/flows/api/flows/${ORDERS_ID}/trigger`, bearer(ALL))).statusCode).toBe(403);
  expect(events()).toEqual([]);
});

it('lets nobody log in unseen, and answers the wrong ones all the same, while the store is away', async () => {
  const { opened, logIn, events } = await open();
  vi.spyOn(opened.store.of(activityStore), 'beginIntervention').mockRejectedValue(new StoreUnavailableError('away'));
  const right = await logIn({ token: READER.token });
  expect([right.statusCode, right.headers['set-cookie']]).toEqual([503, undefined]);
  expect((await logIn({ token: 'wrong' })).statusCode).toBe(401);
  expect(events().map(({ eventId }) => eventId)).toEqual([5002]);
});
