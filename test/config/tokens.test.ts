import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { readSettings, SettingsError } from '../../src/config/settings.ts';
import { buildApp } from '../database.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-tokens-'));
const folderOfManifests = join(folder, 'manifests');
mkdirSync(folderOfManifests);
afterAll(() => rmSync(folder, { recursive: true }));

const ONCALL = { name: 'oncall', token: 'oncall-4f1c9d7ab2e8', scopes: ['read', 'operate'] };
const CI = { name: 'ci', token: 'env:CI_TOKEN', scopes: ['deploy'] };
const environment = { CI_TOKEN: 'ci-77aa01be93c4d5f6' };

function readFile(content: unknown) {
  const file = join(folder, 'tokens.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return readSettings({ ...environment, SLUICE_TOKENS: file });
}

function linesOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof SettingsError) return error.lines;
    throw error;
  }
  return [];
}

describe('a file of tokens', () => {
  it('names tokens and what they may do; a token may be a reference', () => {
    expect(readFile([ONCALL, CI]).tokens).toEqual([ONCALL, { ...CI, token: environment.CI_TOKEN }]);
  });

  it('may be a list of the config module instead', () => {
    expect(readSettings(environment, { tokens: [ONCALL] }).tokens).toEqual([ONCALL]);
    expect(readSettings(environment).tokens).toEqual([]);
  });

  it('counts as credentials: the dashboard may then listen on other addresses', () => {
    const host = { SLUICE_HOST: '0.0.0.0' };
    expect(linesOf(() => readSettings(host))).toEqual([expect.stringContaining('has no credentials')]);
    expect(readSettings(host, { tokens: [ONCALL] }).tokens).toHaveLength(1);
  });

  it.each([
    ['no list', { tokens: [] }, 'the list is an object; an array is accepted'],
    ['no JSON', '[', 'is not JSON'],
    ['a token without scopes', [{ ...ONCALL, scopes: [] }], '0.scopes is empty'],
    [
      'an unknown scope',
      [{ ...ONCALL, scopes: ['reed'] }],
      '0.scopes.0 is not one of read, operate, deploy, metrics; did you',
    ],
    ['a misspelt field', [{ ...ONCALL, scope: 'read' }], '0.scope is not known here'],
    ['a name with spaces', [{ ...ONCALL, name: 'on call' }], '0.name is not a name of 1 to 64'],
    ['a short token', [{ ...ONCALL, token: 'hunter2' }], 'the token of oncall has fewer than 16 bytes'],
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

describe('a reload', () => {
  const logged: string[] = [];
  const start = async (content: unknown) => {
    const file = join(folder, 'reloaded.json');
    const write = (next: unknown) => writeFileSync(file, typeof next === 'string' ? next : JSON.stringify(next));
    write(content);
    const app = await buildApp({
      settings: { databaseUrl: 'sqlite::memory:', manifests: folderOfManifests },
      environment: { ...environment, SLUICE_TOKENS: file, SLUICE_HOST: '0.0.0.0' },
      logger: pino({ level: 'info' }, { write: (line) => logged.push(line) }),
    });
    onTestFinished(() => app.close());
    const status = async ({ token }: { token: string }) =>
      (await app.fastify.inject({ url: '/flows/api/runs', headers: { authorization: `Bearer ${token}` } })).statusCode;
    const reload = (next: unknown) => {
      write(next);
      return app.reload();
    };
    return { status, reload };
  };
  const NEW = { name: 'new', token: 'new-0f1e2d3c4b5a6978', scopes: ['read'] };

  it('lets in the tokens that were added, and those no more that were taken away', async () => {
    const { status, reload } = await start([ONCALL]);
    await reload([NEW]);
    expect([await status(ONCALL), await status(NEW)]).toEqual([401, 200]);
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
