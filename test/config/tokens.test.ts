import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { dashboardAccess } from '../../src/config/credentials.ts';
import { readSettings } from '../../src/config/settings.ts';
import { ORDERS_ID } from '../dashboard/fixture.ts';
import { buildApp } from '../database.ts';
import { temporaryFolder } from '../temporary.ts';
import { linesOf } from './lines.ts';

const folder = temporaryFolder('tokens');
const folderOfManifests = join(folder, 'manifests');
mkdirSync(folderOfManifests);

const ONCALL = { name: 'oncall', token: 'oncall-4f1c9d7ab2e8', scopes: ['read', 'operate'] };
const CI = { name: 'ci', token: 'env:CI_TOKEN', scopes: ['deploy'] };
const environment = { CI_TOKEN: 'ci-77aa01be93c4d5f6' };

function readFile(content: unknown) {
  const file = join(folder, 'tokens.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return readSettings({ ...environment, SLUICE_TOKENS: file });
}

describe('a file of tokens', () => {
  it('names tokens and what they may do; a token may be a reference', () => {
    expect(readFile([ONCALL, CI]).tokens).toEqual([ONCALL, { ...CI, token: environment.CI_TOKEN }]);
  });

  it('may be a list of the config module instead', () => {
    expect(readSettings(environment, { tokens: [ONCALL] }).tokens).toEqual([ONCALL]);
    expect(readSettings(environment).tokens).toEqual([]);
  });

  it.each([
    ['the list itself', JSON.stringify([ONCALL]), 'SLUICE_TOKENS: is what a file would hold; write its path'],
    [
      'the list behind a comment',
      `// x\n${JSON.stringify([ONCALL])}`,
      'SLUICE_TOKENS: is what a file would hold; write its path',
    ],
    ['a token', ONCALL.token, 'SLUICE_TOKENS: the file cannot be read: ENOENT'],
  ])('is not quoted where it is %s instead of a path', (_what, given, line) => {
    expect(linesOf(() => readSettings({ SLUICE_TOKENS: given }))).toEqual([line]);
  });

  it('counts as credentials, as each other setting does that lets somebody in', () => {
    const kindOf = (variables: Record<string, string>, tokens: object[] = []) =>
      dashboardAccess(readSettings(variables, { tokens: tokens as never })).kind;
    const user = { SLUICE_DASHBOARD_USER: 'ops', SLUICE_DASHBOARD_PASSWORD: 'a-good-password' };
    const admitting = [
      kindOf({}, [ONCALL]),
      kindOf(user),
      kindOf({ SLUICE_DASHBOARD_TOKEN: 'all-0f1e2d3c4b5a6978' }),
      kindOf(SIGN_ON),
    ];
    expect(admitting).toEqual(admitting.map(() => 'credentials'));
    expect([kindOf({}), kindOf({ SLUICE_DASHBOARD_AUTH: 'none' })]).toEqual(['loopback', 'open']);
  });

  it('counts as credentials: the dashboard may then listen on other addresses', () => {
    const host = { SLUICE_HOST: '0.0.0.0' };
    expect(linesOf(() => readSettings(host))).toEqual([expect.stringContaining('has no credentials')]);
    expect(readSettings(host, { tokens: [ONCALL] }).tokens).toHaveLength(1);
  });

  it.each([
    ['no list', { tokens: [] }, 'the list is an object; an array is accepted'],
    ['no JSON', '[', 'is not JSON'],
    [
      'scopes twice',
      `[{"name":"ci","token":"${ONCALL.token}","scopes":["read"],"scopes":["deploy"]}]`,
      '[0].scopes is given twice, again on line 1 in the file',
    ],
    ['a token without scopes', [{ ...ONCALL, scopes: [] }], '0.scopes is empty'],
    [
      'an unknown scope',
      [{ ...ONCALL, scopes: ['reed'] }],
      '0.scopes.0 is not one of read, operate, deploy, metrics; did you',
    ],
    ['a misspelt field', [{ ...ONCALL, scope: 'read' }], '0.scope is not known here'],
    ['a name with spaces', [{ ...ONCALL, name: 'on call' }], '0.name is not a name of 1 to 64'],
    ['a short token', [{ ...ONCALL, token: 'hunter2' }], 'the token of oncall has fewer than 16 bytes'],
    ['a token of one byte', [{ ...ONCALL, token: 'x'.repeat(40) }], 'the token of oncall repeats one byte: it can be'],
    ['a placeholder', [{ ...ONCALL, token: 'changeme' }], 'the token of oncall is a placeholder'],
    ['a variable that is not set', [{ ...CI, token: 'env:NOPE' }], 'the token of ci: the environment variable NOPE'],
    ['one name twice', [ONCALL, { ...CI, name: 'oncall' }], 'oncall has the same name as another entry'],
    ['one token twice', [ONCALL, { ...ONCALL, name: 'b' }], 'b has the same token as another entry'],
  ])('stops the start if it has %s, and quotes no token', (_what, content, line) => {
    const lines = linesOf(() => readFile(content));
    expect(lines).toEqual([expect.stringContaining(`SLUICE_TOKENS: `)]);
    expect(lines[0]).toContain(line);
    expect(lines[0]).not.toMatch(/hunter2|oncall-4f|changeme/);
  });

  it.each([
    [
      'SLUICE_DASHBOARD_USER',
      { SLUICE_DASHBOARD_USER: 'oncall', SLUICE_DASHBOARD_PASSWORD: 'a-good-password' },
      ONCALL,
    ],
    ['SLUICE_DASHBOARD_TOKEN', { SLUICE_DASHBOARD_TOKEN: 'all-0f1e2d3c4b5a6978' }, { ...ONCALL, name: 'token' }],
    ['SLUICE_DASHBOARD_TOKEN', { SLUICE_DASHBOARD_TOKEN: ONCALL.token }, ONCALL],
    ['parties without credentials', {}, { ...ONCALL, name: 'anyone' }],
    ['parties without credentials', {}, { ...ONCALL, name: 'unknown' }],
  ])('stops the start if a token has the name or the value of %s', (variable, credential, token) => {
    const lines = linesOf(() => readSettings({ ...credential }, { tokens: [token] }));
    expect(lines).toEqual([expect.stringMatching(`^SLUICE_TOKENS: the token ${token.name} has .*${variable}; choose`)]);
    expect(lines[0]).not.toMatch(/oncall-4f|all-0f/);
  });

  it('stops the start if the user has the name that the activity list has for the token of the settings', () => {
    const user = { SLUICE_DASHBOARD_USER: 'token', SLUICE_DASHBOARD_PASSWORD: 'a-good-password' };
    expect(readSettings(user).dashboardUser).toBe('token');
    expect(linesOf(() => readSettings({ ...user, SLUICE_DASHBOARD_TOKEN: 'all-0f1e2d3c4b5a6978' }))).toEqual([
      expect.stringContaining('SLUICE_DASHBOARD_USER: has the name under which'),
    ]);
  });

  it('stops the start if it is not there', () => {
    expect(linesOf(() => readSettings({ SLUICE_TOKENS: join(folder, 'nope') }))).toEqual([
      expect.stringMatching(/^SLUICE_TOKENS: the file .*nope cannot be read: ENOENT$/),
    ]);
  });
});

const TEAM = { group: 'team shop', scopes: ['read', 'operate'], flows: ['orders-*', 'Order to cash'] };
const SIGN_ON = {
  SLUICE_AUTH_USER_HEADER: 'Remote-User',
  SLUICE_AUTH_GROUPS_HEADER: 'Remote-Groups',
  SLUICE_TRUSTED_PROXIES: '10.0.0.1',
};

describe('groups and flows in a file of tokens', () => {
  it('are read, and the headers that name a person by any case', () => {
    const token = { ...ONCALL, flows: ['*-shop', ORDERS_ID] };
    const settings = readSettings(SIGN_ON, { tokens: [TEAM, token] });
    expect(settings.tokens).toEqual([TEAM, token]);
    expect(dashboardAccess(settings)).toMatchObject({
      kind: 'credentials',
      tokens: [token],
      groups: [TEAM],
    });
    expect(settings).toMatchObject({ authUserHeader: 'remote-user', authGroupsHeader: 'remote-groups' });
  });

  it.each([
    ['no flows', { ...ONCALL, flows: [] }, '0.flows is empty'],
    ['a text for flows', { ...ONCALL, flows: 'orders-*' }, '0.flows is a string; an array is accepted'],
    ['a blank flow', { ...ONCALL, flows: [''] }, '0.flows.0 is empty'],
    ['a flow with white space around it', { ...ONCALL, flows: ['orders '] }, '0.flows.0 begins or ends with white'],
    ['another wildcard', { ...ONCALL, flows: ['orders-?'] }, '0.flows.0 has another wildcard than *'],
    ['a class of characters', { ...ONCALL, flows: ['orders-[ab]'] }, '0.flows.0 has another wildcard than *'],
    ['an exception', { ...ONCALL, flows: ['!orders-*'] }, '0.flows.0 has another wildcard than *'],
    ['flows that are misspelt', { ...ONCALL, flow: ['orders-*'] }, '0.flow is not known here'],
    ['deploys of some flows', { ...CI, flows: ['orders-*'] }, 'the token ci has the scope deploy, which is about all'],
    ['metrics of some flows', { ...CI, scopes: ['metrics'], flows: ['*'] }, 'the token ci has the scope metrics'],
    ['a group that deploys some flows', { ...TEAM, scopes: ['deploy'] }, 'the group team shop has the scope deploy'],
    ['a group with a token', { ...TEAM, token: ONCALL.token }, '0.token is not known here'],
    ['a group with a name', { ...TEAM, name: 'team' }, '0.name is not known here'],
    ['a blank group', { ...TEAM, group: ' ' }, '0.group is not a group'],
    ['two groups in one', { ...TEAM, group: 'a,b' }, '0.group is not a group'],
    ['a number for a group', { ...TEAM, group: 7 }, '0.group is a number; a string is accepted'],
    ['a group without scopes', { group: 'shop' }, '0.scopes is missing'],
    ['nothing', null, '0 is null'],
  ])('stop the start if an entry has %s', (_what, entry, line) => {
    const lines = linesOf(() => readSettings({ ...environment, ...SIGN_ON }, { tokens: [entry, TEAM] as never }));
    expect(lines).toEqual([expect.stringContaining(`SLUICE_TOKENS: ${line}`)]);
    expect(lines[0]).not.toMatch(/oncall-4f/);
  });
});

describe('a reload', () => {
  const logged: string[] = [];
  const start = async (content: unknown, variables: Record<string, string> = {}) => {
    const file = join(folder, 'reloaded.json');
    const write = (next: unknown) => writeFileSync(file, typeof next === 'string' ? next : JSON.stringify(next));
    write(content);
    const app = await buildApp({
      settings: { databaseUrl: 'sqlite::memory:', manifests: folderOfManifests },
      environment: { ...environment, ...variables, SLUICE_TOKENS: file, SLUICE_HOST: '0.0.0.0' },
      logger: pino({ level: 'info' }, { write: (line) => logged.push(line) }),
    });
    const status = async ({ token }: { token: string }) =>
      (await app.fastify.inject({ url: '/flows/api/runs', headers: { authorization: `Bearer ${token}` } })).statusCode;
    const reload = (next: unknown) => {
      write(next);
      return app.reload();
    };
    const signedIn = async (group: string) => {
      const headers = { 'remote-user': 'anna', 'remote-groups': group };
      const sent = { url: '/flows/api/runs', headers, remoteAddress: '10.0.0.1' };
      return (await app.fastify.inject(sent)).statusCode;
    };
    return { status, signedIn, reload };
  };
  const NEW = { name: 'new', token: 'new-0f1e2d3c4b5a6978', scopes: ['read'] };

  it('lets in the tokens that were added, and those no more that were taken away', async () => {
    const { status, reload } = await start([ONCALL]);
    await reload([NEW]);
    expect([await status(ONCALL), await status(NEW)]).toEqual([401, 200]);
  });

  it('lets in nobody by a group that was taken away, though it was the last', async () => {
    const { signedIn, reload } = await start([TEAM, ONCALL], SIGN_ON);
    expect(await signedIn('team shop')).toBe(200);
    await reload([]);
    expect(await signedIn('team shop')).toBe(403);
  });

  it('leaves the former tokens in force where the file has a mistake, and quotes none', async () => {
    const { status, reload } = await start([ONCALL]);
    await reload([{ ...NEW, token: 'hunter2' }]);
    expect([await status(ONCALL), await status({ token: 'hunter2' })]).toEqual([200, 401]);
    expect(logged.join('')).toContain('the token of new has fewer than 16 bytes');
    expect(logged.join('')).not.toMatch(/hunter2|oncall-4f/);
  });

  it('lets nobody in where no token is left, on any address', async () => {
    const { status, reload } = await start([ONCALL]);
    await reload([]);
    expect([await status(ONCALL), await status({ token: '' })]).toEqual([401, 401]);
  });
});
