import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { dashboardAccess } from '../../../src/config/credentials.ts';
import { readSettings, settingsWarnings } from '../../../src/config/settings.ts';
import { linesOf } from '../../config/lines.ts';
import { buildApp } from '../../database.ts';
import { temporaryFolder } from '../../temporary.ts';

const ONCALL = { name: 'oncall', token: 'oncall-4f1c9d7ab2e8', scopes: ['read', 'operate'] };
const TEAM = { group: 'team shop', scopes: ['read', 'operate'], flows: ['orders-*'] };
const SIGN_ON = {
  SLUICE_AUTH_USER_HEADER: 'Remote-User',
  SLUICE_AUTH_GROUPS_HEADER: 'Remote-Groups',
  SLUICE_TRUSTED_PROXIES: '10.0.0.1',
};

describe('signing on by a proxy', () => {
  const { SLUICE_AUTH_USER_HEADER, SLUICE_AUTH_GROUPS_HEADER, SLUICE_TRUSTED_PROXIES } = SIGN_ON;

  it.each<[string, Record<string, string>, readonly unknown[], string]>([
    ['without a proxy', { SLUICE_AUTH_USER_HEADER, SLUICE_AUTH_GROUPS_HEADER }, [TEAM], 'SLUICE_TRUSTED_PROXIES alone'],
    ['by any address', { ...SIGN_ON, SLUICE_TRUSTED_PROXIES: '0.0.0.0/0' }, [TEAM], 'includes every public address'],
    [
      'by any address',
      { ...SIGN_ON, SLUICE_TRUSTED_PROXIES: '::/1,8000::/1' },
      [TEAM],
      'includes every public address',
    ],
    ['without groups', { SLUICE_AUTH_USER_HEADER, SLUICE_TRUSTED_PROXIES }, [ONCALL], 'set both or neither'],
    ['of nobody', { SLUICE_AUTH_GROUPS_HEADER, SLUICE_TRUSTED_PROXIES }, [TEAM], 'set both or neither'],
    ['with groups that nothing tells', { SLUICE_TRUSTED_PROXIES }, [TEAM], 'nothing says who is of one'],
    ['by one header', { ...SIGN_ON, SLUICE_AUTH_GROUPS_HEADER: 'REMOTE-USER' }, [TEAM], 'is the same header'],
    ['of an open dashboard', { ...SIGN_ON, SLUICE_DASHBOARD_AUTH: 'none' }, [TEAM], 'none contradicts the dashboard'],
    ['by a misspelt setting', { ...SIGN_ON, SLUICE_AUTH_USERS_HEADER: 'x' }, [TEAM], 'no such setting; did you mean'],
  ])('stops the start %s', (_what, variables, tokens, line) => {
    const lines = linesOf(() => readSettings(variables, { tokens: tokens as never }));
    expect(lines).toEqual([expect.stringContaining(line)]);
  });

  it.each([
    '',
    ' ',
    'Remote User',
    'Remote-User:',
    'Authorization',
    'cookie',
    'X-Forwarded-For',
    'Host',
    'sec-fetch-site',
  ])('stops the start if its header is “%s”', (name) => {
    const lines = linesOf(() =>
      readSettings({ ...SIGN_ON, SLUICE_AUTH_USER_HEADER: name }, { tokens: [TEAM as never] }),
    );
    expect(lines).toEqual([
      expect.stringMatching(/^SLUICE_AUTH_USER_HEADER: .* is not accepted; expected the name of a/),
    ]);
  });

  it('warns if no group may do anything, because a reload may take the last one away', () => {
    expect(settingsWarnings(readSettings(SIGN_ON, { tokens: [ONCALL as never] }))).toEqual([
      expect.stringContaining('SLUICE_AUTH_GROUPS_HEADER: SLUICE_TOKENS names no group'),
    ]);
    expect(settingsWarnings(readSettings(SIGN_ON, { tokens: [TEAM as never] }))).toEqual([]);
  });

  it('needs no token for anyone: the dashboard may listen on other addresses', () => {
    const settings = readSettings({ ...SIGN_ON, SLUICE_HOST: '0.0.0.0' }, { tokens: [TEAM as never] });
    expect(dashboardAccess(settings).kind).toBe('credentials');
  });
});

it('says on a reload that other headers are believed only from the next start on', async () => {
  const logged: string[] = [];
  const environment: Record<string, string> = { ...SIGN_ON };
  const app = await buildApp({
    settings: { databaseUrl: 'sqlite::memory:', manifests: temporaryFolder('sign-on'), tokens: [TEAM as never] },
    environment,
    logger: pino({ level: 'warn' }, { write: (line) => logged.push(line) }),
  });
  const statusOf = async (user: string, groups: string) => {
    const headers = { [user]: 'anna', [groups]: TEAM.group };
    return (await app.fastify.inject({ url: '/flows/api/runs', headers, remoteAddress: '10.0.0.1' })).statusCode;
  };
  environment.SLUICE_AUTH_USER_HEADER = 'X-User';
  environment.SLUICE_AUTH_GROUPS_HEADER = 'X-Groups';
  await app.reload();
  expect([await statusOf('remote-user', 'remote-groups'), await statusOf('x-user', 'x-groups')]).toEqual([200, 401]);
  expect(logged.join()).toContain(
    'in force from the next start on: SLUICE_AUTH_USER_HEADER, SLUICE_AUTH_GROUPS_HEADER',
  );
});
