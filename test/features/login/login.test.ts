import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { DashboardAccess } from '../../../src/config/credentials.ts';
import { createLogins } from '../../../src/dashboard/logins.ts';
import type { DashboardServices } from '../../../src/dashboard/services.ts';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { createSessions } from '../../../src/features/login/session.ts';
import { loginStore } from '../../../src/features/login/store.ts';
import type { Store } from '../../../src/store/store.ts';
import { clientAddressReader } from '../../../src/webhooks/read-delivery.ts';
import { ORDERS_ID, sharedDashboards, startDashboard, type TestDashboard } from '../../dashboard/fixture.ts';
import { fakeClock, followed, openStore } from '../../flows/fixture.ts';
import { openKind } from '../../store/stores.ts';
import { FakeClock } from '../../webhooks/samples.ts';

type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;
const READER = { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] } as const;
const BASIC = { user: 'ops', password: 'pass:wörd' };
const TOKENS: Credentials = { kind: 'credentials', tokens: [READER] };
const BOTH: Credentials = { ...TOKENS, basic: BASIC };

let dashboard: TestDashboard | undefined;
const shared = sharedDashboards();

async function open(access: Credentials, { publicUrl, ...services }: Partial<DashboardServices> = {}) {
  const start = () => startDashboard({ access, ...services, ...(publicUrl === undefined ? {} : { publicUrl }) });
  const isUsual = publicUrl === undefined && Object.keys(services).length === 0;
  dashboard = await shared(isUsual ? access : start, start);
  const { app } = dashboard;
  return {
    get: (url: string, headers: Record<string, string> = {}) => app.inject({ url, headers }),
    logIn: (form: Record<string, string>, headers: Record<string, string> = {}) =>
      app.inject({
        method: 'POST',
        url: '/flows/login',
        payload: new URLSearchParams(form).toString(),
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      }),
    post: (url: string, headers: Record<string, string>) => app.inject({ method: 'POST', url, headers }),
  };
}

const never = () => {
  throw new Error('no dashboard is open');
};
const cookieOf = ({ headers }: { headers: Record<string, unknown> }) =>
  String(headers['set-cookie']).split(';')[0] ?? '';

describe('the login page', () => {
  it('takes a token, sets a cookie that scripts and other sites do not see, and goes where one came from', async () => {
    const { get, logIn } = await open(TOKENS);
    const page = await get('/flows/login?next=/flows/runs%3Fstatus%3DFailed%26take%3D5');
    expect(page.statusCode).toBe(200);
    expect(page.body).toContain('value="/flows/runs?status=Failed&amp;take=5"');
    const answer = await logIn({ token: READER.token, next: '/flows/runs?status=Failed' });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/flows/runs?status=Failed']);
    expect(answer.headers['set-cookie']).toMatch(/; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(answer.headers['set-cookie']).not.toContain(READER.token);
    expect((await get('/flows/api/runs', { cookie: `a=b; ${cookieOf(answer)}` })).statusCode).toBe(200);
  });

  it('leads on to a list with its filter and time, as links in alerts do, and says what the service is called', async () => {
    const { get, logIn } = await open(TOKENS, { serviceName: 'shop <prod>' });
    const next = '/flows/deliveries?reason=signature_mismatch&since=2026-11-21T11:00Z';
    const page = await get(`/flows/login?next=${encodeURIComponent(next)}`);
    expect(page.body).toContain(`value="${next.replace('&', '&amp;')}"`);
    expect(page.body).toContain('<title>Log in · shop &#60;prod&#62;</title>');
    expect((await logIn({ token: READER.token, next })).headers.location).toBe(next);
  });

  it('is where a browser at the address of the service comes to; others learn nothing', async () => {
    const { get } = await open(TOKENS);
    const answer = await get('/', { 'sec-fetch-mode': 'navigate' });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/flows/login?next=%2F']);
    expect((await get('/flows/login?next=%2F')).body).toContain('value="/flows"');
    expect((await get('/')).statusCode).toBe(401);
  });

  it('is not where a browser comes to that can ask for the name and the password by itself', async () => {
    const { get } = await open(BOTH);
    const answer = await get('/', { 'sec-fetch-mode': 'navigate' });
    expect([answer.statusCode, answer.headers['www-authenticate']]).toEqual([
      401,
      expect.arrayContaining([expect.stringMatching(/^Basic /)]),
    ]);
  });

  it.each([
    ['the public URL is https', { publicUrl: 'https://hooks.example.com' }, {}, true],
    ['a trusted proxy says https', { trusted: ['127.0.0.1'] }, { 'x-forwarded-proto': 'http, https' }, true],
    ['a trusted proxy says http', { trusted: ['127.0.0.1'] }, { 'x-forwarded-proto': 'https, http' }, false],
    [
      'the proxy that the browser called says https',
      { trusted: ['127.0.0.1', '10.0.0.0/8'] },
      { 'x-forwarded-for': '192.0.2.1, 10.0.0.1', 'x-forwarded-proto': 'https, http' },
      true,
    ],
    ['a stranger says https', {}, { 'x-forwarded-proto': 'https' }, false],
  ])(
    'where %s, the cookie is one that no neighbour can set, and the only one that counts: %o %o %s',
    async (_where, { publicUrl, trusted = [] }: { publicUrl?: string; trusted?: string[] }, headers: Record<
      string,
      string
    >, isSecure) => {
      const senderAddress = clientAddressReader({ trustedProxies: trusted, forwardedHeaderDepth: 0 });
      const { get, logIn } = await open(TOKENS, { publicUrl, senderAddress });
      const answer = await logIn({ token: READER.token }, headers);
      const set = String(answer.headers['set-cookie']);
      expect([set.startsWith('__Host-sluice-session='), set.endsWith('; Secure')]).toEqual([isSecure, isSecure]);
      expect((await get('/flows/api/runs', { ...headers, cookie: cookieOf(answer) })).statusCode).toBe(200);
      const other = isSecure ? cookieOf(answer).replace('__Host-', '') : `__Host-${cookieOf(answer)}`;
      expect((await get('/flows/api/runs', { ...headers, cookie: other })).statusCode).toBe(401);
    },
  );

  it('takes name and password where they are set', async () => {
    const { get, logIn } = await open(BOTH);
    expect((await get('/flows/login')).body).toContain('name="password"');
    const answer = await logIn(BASIC);
    expect((await get('/flows/api/runs', { cookie: cookieOf(answer) })).statusCode).toBe(200);
  });

  it('keeps the scopes of the token, and its name for the activity list', async () => {
    const { logIn, post } = await open(TOKENS);
    const answer = await logIn({ token: READER.token });
    const disabled = await post(`/flows/api/flows/${ORDERS_ID}/disable`, { cookie: cookieOf(answer) });
    expect(disabled.json()).toMatchObject({ reason: 'insufficient_scope' });
  });

  it.each([
    [{ token: 'reader-4f1c9d7ab2e9' }],
    [{ token: '' }],
    [{}],
    [{ user: BASIC.user, password: '' }],
    [{ user: '', password: '' }],
  ])('says that %o is wrong, sets no cookie and repeats nothing of it', async (form) => {
    const { logIn } = await open(BOTH);
    const answer = await logIn({ ...form, next: '/flows/runs' });
    expect(answer.statusCode).toBe(401);
    expect(answer.headers['set-cookie']).toBeUndefined();
    expect(answer.body).toContain('role="alert"');
    expect(answer.body).not.toContain('reader-4f1c');
  });

  it.each([
    'https://evil.example/',
    '//evil.example',
    '/flows//evil',
    '/flows/runs"><script>',
    '/metrics',
    '/flowsevil',
  ])('goes to the overview instead of %s', async (next) => {
    const { logIn, get } = await open(TOKENS);
    expect((await logIn({ token: READER.token, next })).headers.location).not.toContain('evil.example');
    expect((await get(`/flows/login?next=${encodeURIComponent(next)}`)).body).not.toContain('<script>');
  });

  it('is refused to another site’s form', async () => {
    const { logIn } = await open(TOKENS);
    expect((await logIn({ token: READER.token }, { 'sec-fetch-site': 'cross-site' })).statusCode).toBe(403);
  });

  it('is where a browser without a session is sent, and programs are told 401', async () => {
    const { get } = await open(TOKENS);
    const browser = await get('/flows/runs?take=5', { 'sec-fetch-mode': 'navigate' });
    expect([browser.statusCode, browser.headers.location]).toEqual([
      303,
      '/flows/login?next=%2Fflows%2Fruns%3Ftake%3D5',
    ]);
    const program = await get('/flows/api/runs');
    expect([program.statusCode, program.headers['www-authenticate']]).toEqual([401, ['Bearer realm="Sluice"']]);
  });

  it('is left by the way out, which takes the cookie away and ends the session for every copy of it', async () => {
    const { get, logIn, post } = await open(TOKENS);
    const cookie = cookieOf(await logIn({ token: READER.token }));
    const answer = await post('/flows/logout', { cookie });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/flows/login']);
    expect(answer.headers['set-cookie']).toContain('sluice-session=; Max-Age=0');
    expect((await get('/flows/api/runs', { cookie })).statusCode).toBe(401);
  });

  it('says that a log-out failed where the store could not keep it', async () => {
    const { logIn, post } = await open(TOKENS);
    const cookie = cookieOf(await logIn({ token: READER.token }));
    vi.spyOn((dashboard?.store ?? never()).of(loginStore), 'endSession').mockRejectedValueOnce(
      new StoreUnavailableError('away'),
    );
    const answer = await post('/flows/logout', { cookie });
    expect([answer.statusCode, answer.headers['set-cookie']]).toEqual([503, undefined]);
  });
});

type Services = Parameters<typeof createSessions>[1];
type CredentialStore = Parameters<typeof createLogins>[1]['store'];

describe('a session', () => {
  const ended = new Set<string>();
  const store = {
    endSession: async ({ id }: { id: string }) => void ended.add(id),
    isSessionEnded: async ({ id }: { id: string }) => ended.has(id),
  };
  const NAME = 'sluice-session';
  const clock = new FakeClock();
  const noNotes: CredentialStore = { noteCredentials: async () => {} };
  const at = (credentials: Credentials, now: Services['clock'] = clock, kept?: Store) => {
    const logins = createLogins(credentials, { store: kept ?? noNotes, clock: now });
    return { ...logins, sessions: createSessions(logins, { store: kept?.of(loginStore) ?? store, clock: now }) };
  };
  const readerOf = (logins: ReturnType<typeof at>) => {
    const actor = logins.credentials.prove({ user: '', password: '', token: READER.token });
    if (actor === undefined) throw new Error('the token proves nobody');
    return actor;
  };
  const { sessions, ...logins } = at(BOTH);
  const cookie = `${NAME}=${sessions.begin(readerOf({ sessions, ...logins }))}`;

  it('is valid at another process with the same credentials, and after a restart', async () => {
    expect(await at(TOKENS).sessions.find(cookie, NAME)).toMatchObject({
      name: 'reader',
      grants: [{ scopes: ['read'] }],
    });
  });

  it.each([
    ['the user', { basic: { user: 'reader', password: 'pass' } }],
    ['the token of the settings', { token: 'all-0f1e2d3c4b5a6978', tokens: [{ ...READER, name: 'token' }] }],
    ['two users', { basic: { user: 'reader', password: 'pass' }, token: 'all-0f1e2d3c4b5a6978' }],
  ])('has the scopes of the credential that was proven, though %s has its name', async (_who, others) => {
    const here = at({ ...TOKENS, ...others });
    const found = await here.sessions.find(`${NAME}=${here.sessions.begin(readerOf(here))}`, NAME);
    expect(found?.grants).toEqual([{ scopes: ['read'] }]);
  });

  it('ends when its token is taken away, or replaced', async () => {
    const replaced: Credentials = { kind: 'credentials', tokens: [{ ...READER, token: 'another-4f1c9d7ab2' }] };
    expect(await at(replaced).sessions.find(cookie, NAME)).toBeUndefined();
    expect(await at({ kind: 'credentials', basic: BASIC }).sessions.find(cookie, NAME)).toBeUndefined();
    const here = at(BOTH);
    here.credentials.replace({ kind: 'credentials', basic: BASIC });
    expect(await here.sessions.find(cookie, NAME)).toBeUndefined();
  });

  it.each<[string, Credentials]>([
    ['was taken away', { kind: 'credentials', basic: BASIC }],
    ['was replaced', { ...BOTH, tokens: [{ ...READER, token: 'another-4f1c9d7ab2' }] }],
  ])('does not come back with its token that %s, read again or by a restart', async (_how, between) => {
    const kept = await openKind('log in the database', ':memory:');
    onTestFinished(() => kept.close());
    const now = new FakeClock();
    const start = async (credentials: Credentials) => {
      now.advance(1);
      const started = at(credentials, now, kept);
      await started.note();
      return started;
    };
    const read = async ({ credentials, note }: Awaited<ReturnType<typeof start>>, next: Credentials) => {
      now.advance(1);
      credentials.replace(next);
      await note();
    };
    const cookieFrom = (from: Awaited<ReturnType<typeof start>>) => `${NAME}=${from.sessions.begin(readerOf(from))}`;

    const here = await start(BOTH);
    const first = cookieFrom(here);
    await read(here, between);
    await read(here, BOTH);
    expect(await here.sessions.find(first, NAME)).toBeUndefined();
    const second = cookieFrom(here);
    for (const from of [here, await start(BOTH)]) expect(await from.sessions.find(second, NAME)).toBeDefined();
    await start(between);
    const again = await start(BOTH);
    expect(await again.sessions.find(second, NAME)).toBeUndefined();
    expect(await again.sessions.find(cookieFrom(again), NAME)).toBeDefined();
  });

  it('has fewer scopes as soon as its token has', async () => {
    const wide: Credentials = { kind: 'credentials', tokens: [{ ...READER, scopes: ['read', 'deploy'] }] };
    const here = at(wide);
    const wideCookie = `${NAME}=${here.sessions.begin(readerOf(here))}`;
    here.credentials.replace(TOKENS);
    expect((await here.sessions.find(wideCookie, NAME))?.grants).toEqual([{ scopes: ['read'] }]);
  });

  it('is ended by a log-out everywhere, and no other session with it', async () => {
    const other = `${NAME}=${sessions.begin(readerOf(at(BOTH)))}`;
    const { session } = (await sessions.find(other, NAME)) ?? {};
    if (session === undefined) throw new Error('there is no session');
    await sessions.end(session);
    for (const process of [sessions, at(BOTH).sessions]) {
      expect(await process.find(other, NAME)).toBeUndefined();
      expect(await process.find(cookie, NAME)).toBeDefined();
    }
  });

  it('may not go on, at a process that let it in, once another has ended it or its time is over', async () => {
    const later = new FakeClock();
    const [here, there] = [at(BOTH, later), at(BOTH, later)];
    const enter = async () => {
      const actor = await here.sessions.find(`${NAME}=${here.sessions.begin(readerOf(here))}`, NAME);
      if (actor?.session === undefined) throw new Error('there is no session');
      return { ...actor, session: actor.session };
    };
    const [ended, lasting] = [await enter(), await enter()];
    await there.sessions.end(ended.session);
    expect(await Promise.all([ended, lasting, readerOf(here)].map((actor) => here.holds(actor)))).toEqual([
      false,
      true,
      true,
    ]);
    later.advance(12 * 3_600_000);
    expect(await here.holds(lasting)).toBe(false);
  });

  it('that was logged out stays so, though a clock was set ahead, others were logged out then, and it was set back', async () => {
    const machine = fakeClock();
    const here = at(BOTH, followed(machine), await openStore()).sessions;
    const enter = async () => {
      const value = `${NAME}=${here.begin(readerOf(at(BOTH)))}`;
      const session = (await here.find(value, NAME))?.session;
      if (session === undefined) throw new Error('there is no session');
      return { value, session };
    };
    const stolen = await enter();
    await here.end(stolen.session);
    machine.set(24 * 3_600_000);
    await here.end((await enter()).session);
    machine.set(-24 * 3_600_000);
    expect(await here.find(stolen.value, NAME)).toBeUndefined();
    // Set back further, after the session's time.
    machine.pass(13 * 3_600_000);
    await here.end((await enter()).session);
    machine.set(-24 * 3_600_000);
    expect(await here.find(stolen.value, NAME)).toBeUndefined();
  });

  it('ends after twelve hours', async () => {
    const later = new FakeClock();
    later.advance(12 * 3_600_000 - 1);
    expect(await at(BOTH, later).sessions.find(cookie, NAME)).toBeDefined();
    later.advance(1);
    expect(await at(BOTH, later).sessions.find(cookie, NAME)).toBeUndefined();
  });

  it('is not found once any character of it is changed', async () => {
    const value = cookie.slice(`${NAME}=`.length);
    for (let place = 0; place < value.length; place += 1) {
      const other = value[place] === 'A' ? 'B' : 'A';
      const changed = `${value.slice(0, place)}${other}${value.slice(place + 1)}`;
      // The last base64url character has bits without meaning.
      const isSame = Buffer.from(changed.split('.')[3] ?? '', 'base64url').equals(
        Buffer.from(value.split('.')[3] ?? '', 'base64url'),
      );
      if (isSame && changed.split('.', 3).join() === value.split('.', 3).join()) continue;
      expect(await sessions.find(`${NAME}=${changed}`, NAME), changed).toBeUndefined();
    }
  });

  it.each(['', `${NAME}=`, `${NAME}=a.b.c.d`, `${NAME}=..${9e15}.`, 'x=1', `other-${cookie}`, `__Host-${cookie}`])(
    'is not found in %s',
    async (text) => {
      expect(await sessions.find(text, NAME)).toBeUndefined();
    },
  );
});
