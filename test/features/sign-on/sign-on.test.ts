import { request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Credentials } from '../../../src/config/credentials.ts';
import { readSettings } from '../../../src/config/settings.ts';
import { createLogins } from '../../../src/dashboard/logins.ts';
import type { DashboardServices } from '../../../src/dashboard/services.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { clientAddressReader } from '../../../src/webhooks/read-delivery.ts';
import {
  CANARIES,
  NOW,
  ORDERS_ID,
  orderDelivery,
  sharedDashboards,
  startDashboard,
  type TestDashboard,
} from '../../dashboard/fixture.ts';
import { eventually } from '../../eventually.ts';

const api = '/flows/api';
const BOT = { name: 'deploy-bot', token: 'deploy-bot-4f1c9d7ab2', scopes: ['read'] } as const;
const access: Credentials = {
  kind: 'credentials',
  tokens: [BOT],
  groups: [
    { group: 'shop', scopes: ['read'], flows: ['ord*'] },
    { group: 'shop on call', scopes: ['operate'], flows: ['ord*'] },
    { group: 'hooks on call', scopes: ['operate'], flows: ['hook only'] },
    { group: 'everybody', scopes: ['read'] },
    { group: 'deployers', scopes: ['deploy'] },
  ],
};
/** Names the headers; the tests choose the proxy, and who has access. */
const settings = readSettings({
  SLUICE_AUTH_USER_HEADER: 'Remote-User',
  SLUICE_AUTH_GROUPS_HEADER: 'Remote-Groups',
  SLUICE_TRUSTED_PROXIES: '10.0.0.9',
});
const ANNA = { 'remote-user': 'anna@example.com' };

type Headers = Readonly<Record<string, string | readonly string[]>>;

let dashboard: TestDashboard | undefined;
const shared = sharedDashboards();

/** The service behind a proxy on this machine, or on another one. */
async function open(overrides: Partial<DashboardServices> = {}, trustedProxies = ['127.0.0.1']) {
  const senderAddress = clientAddressReader({ trustedProxies, forwardedHeaderDepth: 0 });
  const start = async () => {
    const started = await startDashboard({ access, settings, senderAddress, ...overrides });
    await started.app.listen({ port: 0, host: '127.0.0.1' });
    return started;
  };
  const isUsual = Object.keys(overrides).length === 0;
  const opened = await shared(isUsual ? trustedProxies.join() : start, start);
  dashboard = opened;
  const { port } = opened.app.server.address() as AddressInfo;
  return (path: string, headers: Headers, method = 'GET', body = '') =>
    new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>((resolve, reject) => {
      const sent = send({ port, host: '127.0.0.1', method, path, headers: { ...headers } as never }, (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text, headers: answer.headers }));
      });
      sent.on('error', reject);
      sent.end(body);
    });
}

const grouped = (...groups: string[]) => ({ ...ANNA, 'remote-groups': groups.join(',') });
const start = `${api}/flows/${ORDERS_ID}/trigger`;

/** As on the wire. */
const inUtf8 = (text: string) => Buffer.from(text).toString('latin1');

describe('a person whom the proxy in front signed in', () => {
  it('may do what the groups may, and the activity has the name', async () => {
    const ask = await open();
    expect((await ask(`${api}/flows`, grouped('nobody', ' everybody '))).status).toBe(200);
    expect((await ask(start, grouped('shop on call', 'everybody'), 'POST')).status).toBe(200);
    const [row] = JSON.parse((await ask(`${api}/activity?action=triggerFlow`, grouped('everybody'))).body);
    expect(row).toMatchObject({ actor: 'anna@example.com', action: 'triggerFlow', clientIp: '127.0.0.1' });
  });

  it('may do with a flow only what one group may do with it', async () => {
    const ask = await open();
    const both = grouped('shop', 'hooks on call');
    expect(JSON.parse((await ask(`${api}/flows`, both)).body)).toEqual([expect.objectContaining({ name: 'orders' })]);
    expect((await ask(start, both, 'POST')).status).toBe(404);
    expect((await ask(start, grouped('shop', 'shop on call'), 'POST')).status).toBe(200);
    expect((await ask(`${api}/flows/reload`, both, 'POST')).status).toBe(403);
    expect((await ask(`${api}/flows/reload?dryRun=true`, grouped('deployers'), 'POST')).status).toBe(200);
  });

  it('has the name in the letters that it is written in', async () => {
    const ask = await open();
    const headers = { 'remote-user': inUtf8('zoë 李 علی\u200cرضا'), 'remote-groups': 'shop on call' };
    expect((await ask(start, headers, 'POST')).status).toBe(200);
    const [row] =
      (await dashboard?.store.of(activityStore).listInterventions({ action: 'triggerFlow', skip: 0, take: 1 }))
        ?.items ?? [];
    expect(row?.actor).toBe('zoë 李 علی\u200cرضا');
  });

  it('is not asked to log in, and gets the page with the buttons of the scopes', async () => {
    const ask = await open();
    const page = await ask('/flows', { ...grouped('everybody', 'shop on call'), 'sec-fetch-mode': 'navigate' });
    expect(page.body).toContain('data-scopes="operate read"');
  });

  it('of no group that may do anything gets 403, and a session all the same', async () => {
    const ask = await open();
    for (const groups of ['', 'Everybody', 'every', 'everybody|shop', 'every body']) {
      const answer = await ask(`${api}/flows`, { ...ANNA, 'remote-groups': groups });
      expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 403, reason: 'insufficient_scope' });
    }
    expect((await ask(`${api}/flows`, ANNA)).status).toBe(403);
    const login = await ask('/flows/login', ANNA, 'POST', `token=${BOT.token}`);
    const cookie = String(login.headers['set-cookie']).split(';')[0] ?? '';
    expect((await ask(`${api}/flows`, { ...ANNA, cookie })).status).toBe(200);
  });

  it('is the person, whatever old session the browser has; a token of the request comes first', async () => {
    const ask = await open();
    const login = await ask('/flows/login', {}, 'POST', `token=${BOT.token}`);
    const cookie = String(login.headers['set-cookie']).split(';')[0] ?? '';
    expect((await ask(start, { ...grouped('shop on call'), cookie }, 'POST')).status).toBe(200);
    const authorization = `Bearer ${BOT.token}`;
    expect((await ask(start, { ...grouped('shop on call'), authorization }, 'POST')).status).toBe(403);
    expect((await ask(start, { ...grouped('shop on call'), authorization: 'Bearer wrong' }, 'POST')).status).toBe(401);
  });

  it.each(['deploy-bot', 'anyone', 'unknown', 'sluice', 'Deploy-Bot', 'ANYONE', inUtf8('ｓluice')])(
    'is not let in under the name %s',
    async (name) => {
      const ask = await open();
      expect((await ask(`${api}/flows`, { ...grouped('everybody'), 'remote-user': name })).status).toBe(403);
    },
  );

  it('changes nothing for another site’s page', async () => {
    const ask = await open();
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ]) {
      const answer = await ask(start, { ...grouped('shop on call'), ...headers }, 'POST');
      expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    }
  });

  it('loses what the groups lose as soon as the file is read again, and the open stream with it', async () => {
    const clock = { ledger: () => NOW };
    const store = { noteCredentials: async () => {} };
    const logins = createLogins(access, { store, clock });
    const ask = await open({ logins });
    const stream = ask(`${api}/events/stream`, grouped('everybody'));
    const other = ask(`${api}/events/stream`, grouped('shop'));
    // A stream answers only when it ends, so the metric shows that it has begun.
    await eventually(
      async () => (await ask('/metrics', grouped('everybody'))).body,
      (metrics) => /sluice_event_readers 2\b/.test(metrics),
    );
    logins.credentials.replace({
      ...access,
      groups: (access.groups ?? []).filter(({ group }) => group !== 'everybody'),
    });
    expect((await stream).status).toBe(200);
    expect((await ask(`${api}/flows`, grouped('everybody'))).status).toBe(403);
    logins.credentials.replace({ ...access, groups: [] });
    await other;
  });
});

/** Headers that only the proxy may set, sent directly to the service. */
const SPOOFED: readonly (readonly [what: string, headers: Headers])[] = [
  ['by somebody else', grouped('everybody')],
  ['in other letters', { 'REMOTE-USER': 'anna', 'Remote-Groups': 'everybody' }],
  [
    'with the address of the proxy',
    { ...grouped('everybody'), 'x-forwarded-for': '10.0.0.1', 'x-real-ip': '10.0.0.1' },
  ],
];

/** Headers of clients that a sign-in proxy may pass on, or may write wrongly. */
const AMBIGUOUS: readonly (readonly [what: string, headers: Headers])[] = [
  ['without a name', { 'remote-groups': 'everybody' }],
  ['with an empty name', { 'remote-user': '', 'remote-groups': 'everybody' }],
  ['with a blank name', { 'remote-user': '  ', 'remote-groups': 'everybody' }],
  ['with two names', { 'remote-user': ['anna', 'bert'], 'remote-groups': 'everybody' }],
  ['with one name twice', { 'remote-user': ['anna', 'anna'], 'remote-groups': 'everybody' }],
  ['with an empty name before another', { 'remote-user': ['', 'bert'], 'remote-groups': 'everybody' }],
  ['with two lists of groups', { 'remote-user': 'anna', 'remote-groups': ['nobody', 'everybody'] }],
  ['with a name that is too long', { 'remote-user': 'a'.repeat(129), 'remote-groups': 'everybody' }],
  ['with a name that looks like another', { 'remote-user': inUtf8('an\u200bna'), 'remote-groups': 'everybody' }],
  ['with a name that turns the text', { 'remote-user': inUtf8('anna\u202e'), 'remote-groups': 'everybody' }],
  ['with a name that ends with a joiner', { 'remote-user': inUtf8('anna\u200d'), 'remote-groups': 'everybody' }],
  ['under names that only look alike', { remote_user: 'anna', remote_groups: 'everybody' }],
];

describe('a header that names a person', () => {
  it.each(SPOOFED)('is not believed if it was written %s', async (_what, headers) => {
    const ask = await open({}, ['10.0.0.1']);
    const answer = await ask(`${api}/flows`, headers);
    expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 401, reason: 'unauthorized' });
  });

  it('signs in who has a name of 128 characters', async () => {
    const ask = await open();
    const headers = { 'remote-user': 'a'.repeat(128), 'remote-groups': 'everybody' };
    expect((await ask(`${api}/flows`, headers)).status).toBe(200);
  });

  it.each(AMBIGUOUS)('signs nobody in %s', async (_what, headers) => {
    const ask = await open();
    expect((await ask(`${api}/flows`, headers)).status).toBe(401);
  });

  it('is asked of no one where none is set', async () => {
    const ask = await open({ settings: readSettings({}) });
    expect((await ask(`${api}/flows`, grouped('everybody'))).status).toBe(401);
  });

  it.each([
    ['the proxy', ['127.0.0.1']],
    ['a stranger', ['10.0.0.1']],
  ])('is kept neither with a delivery of %s nor with its run', async (_whose, proxies) => {
    const ask = await open({}, proxies);
    const { url, headers, body } = orderDelivery('{"order":1}', { headers: grouped('canary-group') });
    const { runId } = JSON.parse((await ask(url, headers, 'POST', body)).body);
    const refused = orderDelivery('{"order":2}', { key: 'wrong', headers: grouped('canary-group') });
    await ask(refused.url, refused.headers, 'POST', refused.body);
    const run = await dashboard?.store.findRun(runId);
    const { items } = (await dashboard?.store.listDeliveries({ skip: 0, take: 9 })) ?? { items: [] };
    expect(items).toHaveLength(2);
    const kept = JSON.stringify([run?.trigger.headers, items]);
    expect(kept).toContain('x-hub-signature-256');
    expect(kept).not.toMatch(/remote-|anna|canary-group/);
    expect(kept).not.toContain(CANARIES.authorization);
  });
});
