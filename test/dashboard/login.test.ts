import { afterEach, describe, expect, it } from 'vitest';
import type { DashboardAccess } from '../../src/config/settings.ts';
import { createSessions } from '../../src/dashboard/session.ts';
import { FakeClock } from '../webhooks/samples.ts';
import { ORDERS_ID, startDashboard, type TestDashboard } from './fixture.ts';

type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;
const READER = { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] } as const;
const BASIC = { user: 'ops', password: 'pass:wörd' };
const TOKENS: Credentials = { kind: 'credentials', tokens: [READER] };
const BOTH: Credentials = { ...TOKENS, basic: BASIC };

let dashboard: TestDashboard | undefined;
afterEach(async () => {
  await dashboard?.close();
  dashboard = undefined;
});

async function open(access: Credentials, publicUrl?: string) {
  dashboard = await startDashboard({ access, ...(publicUrl === undefined ? {} : { publicUrl }) });
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

  it('is where a browser at the address of the service comes to; others learn nothing', async () => {
    const { get } = await open(TOKENS);
    const answer = await get('/', { 'sec-fetch-mode': 'navigate' });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/flows/login?next=%2F']);
    expect((await get('/flows/login?next=%2F')).body).toContain('value="/flows"');
    expect((await get('/')).statusCode).toBe(401);
  });

  it('sends its cookie over TLS alone where the service is reached over TLS', async () => {
    const { logIn } = await open(TOKENS, 'https://hooks.example.com');
    const answer = await logIn({ token: READER.token });
    expect(answer.headers['set-cookie']).toMatch(/; Secure$/);
  });

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

  it('is left by the way out, which takes the cookie away', async () => {
    const { post } = await open(TOKENS);
    const answer = await post('/flows/logout', {});
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/flows/login']);
    expect(answer.headers['set-cookie']).toContain('sluice-session=; Max-Age=0');
  });
});

describe('a session', () => {
  const clock = new FakeClock();
  const sessions = createSessions(BOTH, clock);
  const cookie = `sluice-session=${sessions.begin({ name: 'reader', scopes: ['read'] })}`;

  it('is valid at another process with the same credentials, and after a restart', () => {
    expect(createSessions(TOKENS, clock).find(cookie)).toEqual({ name: 'reader', scopes: ['read'] });
  });

  it('ends when its token is taken away, or replaced', () => {
    const replaced: Credentials = { kind: 'credentials', tokens: [{ ...READER, token: 'another-4f1c9d7ab2' }] };
    expect(createSessions(replaced, clock).find(cookie)).toBeUndefined();
    expect(createSessions({ kind: 'credentials', basic: BASIC }, clock).find(cookie)).toBeUndefined();
  });

  it('ends after twelve hours', () => {
    const later = new FakeClock();
    later.advance(12 * 3_600_000 - 1);
    expect(createSessions(BOTH, later).find(cookie)).toBeDefined();
    later.advance(1);
    expect(createSessions(BOTH, later).find(cookie)).toBeUndefined();
  });

  it('is not found once any character of it is changed', () => {
    const value = cookie.slice('sluice-session='.length);
    for (let at = 0; at < value.length; at += 1) {
      const other = value[at] === 'A' ? 'B' : 'A';
      const changed = `${value.slice(0, at)}${other}${value.slice(at + 1)}`;
      // The last character of base64url has bits that mean nothing.
      const isSame = Buffer.from(changed.split('.')[2] ?? '', 'base64url').equals(
        Buffer.from(value.split('.')[2] ?? '', 'base64url'),
      );
      if (isSame && changed.split('.', 2).join() === value.split('.', 2).join()) continue;
      expect(sessions.find(`sluice-session=${changed}`), changed).toBeUndefined();
    }
  });

  it.each(['', 'sluice-session=', 'sluice-session=a.b.c', `sluice-session=.${9e15}.`, 'x=1', `other-${cookie}`])(
    'is not found in %s',
    (text) => {
      expect(sessions.find(text)).toBeUndefined();
    },
  );
});
