import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { createWorkspace, FLOW_ID, GITHUB_SECRET, getJson, githubManifest, startService } from '../e2e/service.ts';
import { sign } from '../oracles/octokit.ts';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Features that the mission needs, at most eight: the page's own screens show their answers. */
const NEEDED: readonly string[] = ['deliveries', 'deploys', 'flows', 'review', 'revisions', 'runs', 'schemes'];

const names = readdirSync(join(ROOT, 'src/features'), { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() && !NEEDED.includes(entry.name) ? [entry.name] : [],
);

/** Features that add a route: without the feature, the route is missing. */
const ROUTES: Readonly<Record<string, string>> = {
  activity: '/flows/api/activity',
  attention: '/flows/api/attention',
  books: '/flows/api/books',
  hosts: '/flows/api/hosts',
  keys: '/flows/api/keys',
  replicas: '/flows/api/replicas',
  schedules: '/flows/api/schedules',
};

/** Other differences without a feature, at a service whose flow has taken a delivery. */
const ELSE: Readonly<Record<string, (url: string, send: () => Promise<Response>) => Promise<void>>> = {
  async 'access-record'() {
    const workspace = await createWorkspace();
    const token = 'all-0f1e2d3c4b5a6978';
    const { url, stop, output } = await startService(workspace, { SLUICE_DASHBOARD_TOKEN: token }, tree);
    const ask = (given: string) => fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${given}` } });
    expect([(await ask('wrong')).status, (await fetch(`${url}/metrics`)).status]).toEqual([401, 401]);
    const metrics = await ask(token);
    expect(metrics.status).toBe(200);
    expect(await metrics.text()).not.toContain('sluice_logins_total');
    const login = { method: 'POST', body: new URLSearchParams({ token }), redirect: 'manual' } as const;
    expect((await fetch(`${url}/flows/login`, login)).status).toBe(303);
    await stop('SIGTERM');
    expect(output()).not.toMatch(/LoginSucceeded|LoginFailed/);
  },
  async activity(url) {
    const disabled = await fetch(`${url}/flows/api/flows/${FLOW_ID}/disable`, { method: 'POST' });
    expect([disabled.status, await disabled.json()]).toMatchObject([200, { isEnabled: false }]);
  },
  async 'deploy-rules'(url) {
    const open = githubManifest({ inputs: { webhookEnforcementMode: 'Off' } });
    const body = JSON.stringify({ ...open, name: 'other' });
    const answer = await fetch(`${url}/flows/api/flows/${FLOW_ID}`, { method: 'PUT', body });
    const refused = { action: 'refused', class: 'caution', access: 'wider' };
    expect([answer.status, await answer.json()]).toMatchObject([409, refused]);
  },
  async hold(url, send) {
    const flow = `${url}/flows/api/flows/${FLOW_ID}`;
    const closed = await fetch(`${flow}/disable`, { method: 'POST', body: '{"hold":true}' });
    expect(await closed.json()).toMatchObject({ isEnabled: false, held: 0, triggers: [{ holdsDeliveries: false }] });
    expect((await send()).status).toBe(403);
    expect((await fetch(`${flow}/held/discard`, { method: 'POST', body: '{"reason":"moved"}' })).status).toBe(404);
    await fetch(`${flow}/enable`, { method: 'POST' });
    expect((await send()).status).toBe(200);
  },
  async 'learned-keys'(url) {
    const inputs = { webhookSlug: 'tasks', webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    const manifest = { ...githubManifest(), id: OTHER_ID, triggers: { tasks: { type: 'webhook', inputs } } };
    const deployed = await fetch(`${url}/flows/api/flows/${OTHER_ID}`, {
      method: 'PUT',
      body: JSON.stringify(manifest),
    });
    expect(deployed.status).toBe(200);
    const headers = { 'x-hook-secret': 'b537207f20cbfa02357cf448134da559' };
    const answer = await fetch(`${url}/flows/api/webhook/tasks`, { method: 'POST', headers, body: '{}' });
    expect([answer.status, answer.headers.get('x-hook-secret')]).toEqual([401, null]);
  },
  async login() {
    const workspace = await createWorkspace();
    const password = { SLUICE_DASHBOARD_USER: 'ops', SLUICE_DASHBOARD_PASSWORD: 'a-good-password' };
    for (const settings of [password, { SLUICE_DASHBOARD_TOKEN: 'all-0f1e2d3c4b5a6978' }]) {
      const { url, stop } = await startService(workspace, settings, tree);
      const ask = async (path: string, init: RequestInit = {}) =>
        (await fetch(url + path, { redirect: 'manual', ...init })).status;
      const right =
        settings === password
          ? `Basic ${Buffer.from('ops:a-good-password').toString('base64')}`
          : 'Bearer all-0f1e2d3c4b5a6978';
      expect(await ask('/flows/api/flows', { headers: { authorization: right } })).toBe(200);
      const body = new URLSearchParams({ user: 'ops', password: 'a-good-password', token: 'all-0f1e2d3c4b5a6978' });
      for (const path of ['/flows/api/flows', '/flows', '/metrics', '/flows/login']) {
        expect(await ask(path, { headers: { 'sec-fetch-mode': 'navigate' } }), path).toBe(401);
      }
      for (const path of ['/flows/login', '/flows/logout']) expect(await ask(path, { method: 'POST', body })).toBe(401);
      await stop('SIGTERM');
    }
  },
  async loops(url) {
    const each = { type: 'ForEach', forEach: [1, 2], steps: { child: { type: 'NoOp' } } };
    const { issues } = await refusedDeploy(url, { steps: { each } });
    expect(issues[0]).toMatchObject({
      path: 'steps.each.type',
      message: expect.stringMatching(/^is not a known step type/),
    });
  },
  async 'on-failure'(url) {
    const { issues } = await refusedDeploy(url, { onFailure: OTHER_ID });
    expect(issues[0]).toMatchObject({ path: 'onFailure', message: expect.stringMatching(/^is not known here/) });
  },
  async order(url) {
    const { issues } = await refusedDeploy(url, { serialize: 'trigger.key' });
    expect(issues[0]).toMatchObject({ path: 'serialize', message: expect.stringMatching(/^is not known/) });
  },
  async 'search-keys'(url) {
    const [delivery] = await getJson<{ searchKeys: object }[]>(`${url}/flows/api/webhooks/recent`);
    expect(delivery?.searchKeys).toEqual({});
    const { issues } = await refusedDeploy(url, {
      triggers: { byHand: { type: 'manual', searchKeys: { n: 'body.n' } } },
    });
    expect(issues[0]).toMatchObject({
      path: 'triggers.byHand.searchKeys',
      message: expect.stringMatching(/^is not known/),
    });
  },
  async 'sign-on'() {
    const headers = { SLUICE_AUTH_USER_HEADER: 'Remote-User', SLUICE_AUTH_GROUPS_HEADER: 'Remote-Groups' };
    await refusedStart(
      { ...headers, SLUICE_TRUSTED_PROXIES: '10.0.0.1' },
      /SLUICE_AUTH_USER_HEADER: no such setting[\s\S]*SLUICE_AUTH_GROUPS_HEADER: no such setting/,
    );
    const groups = JSON.stringify([{ group: 'staff', scopes: ['read'] }]);
    await refusedStart({ SLUICE_TOKENS: 'tokens.json' }, /nothing in this build says who is of one/, groups);
  },
  async 'sub-flows'(url) {
    const { issues } = await refusedDeploy(url, { steps: { other: { type: 'RunFlow', inputs: { flow: OTHER_ID } } } });
    expect(issues[0]).toMatchObject({
      path: 'steps.other.type',
      message: expect.stringMatching(/^is not a known step type/),
    });
  },
};

const OTHER_ID = 'b0f6d2c7-5f0f-4f0e-9a51-3f0f8d1c2a10';

async function refusedDeploy(url: string, changed: object): Promise<{ issues: readonly object[] }> {
  const body = JSON.stringify({ ...githubManifest(), ...changed });
  const answer = await fetch(`${url}/flows/api/flows/${FLOW_ID}`, { method: 'PUT', body });
  expect(answer.status).toBe(400);
  return (await answer.json()) as { issues: readonly object[] };
}

/** A service that this build would protect less than its settings say must not start. */
async function refusedStart(settings: Record<string, string>, line: RegExp, tokens = '[]'): Promise<void> {
  const workspace = await createWorkspace();
  writeFileSync(join(workspace.folder, 'tokens.json'), tokens);
  await expect(startService(workspace, settings, tree)).rejects.toThrow(line);
}

const needsOf = (name: string): readonly string[] =>
  /^- Needs: (.*)\.$/m.exec(readFileSync(join(ROOT, 'src/features', name, 'README.md'), 'utf8'))?.[1]?.split(', ') ??
  [];

/** The feature, and those that need it. */
function goneWith(name: string): readonly string[] {
  const others = names.filter((other) => needsOf(other).includes(name));
  return [name, ...others.flatMap(goneWith)];
}

let tree: string;
beforeAll(() => {
  tree = temporaryFolder('features');
  for (const name of ['src', 'scripts', 'docs', 'dist', 'package.json', 'package-lock.json', 'tsconfig.json']) {
    cpSync(join(ROOT, name), join(tree, name), { recursive: true, filter: (path) => !path.includes('compile-cache') });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
});

/** Gives the copy all features, then deletes or adds some. Compiles and bundles service, command line and page. */
function build(change: (features: string) => void): void {
  const features = join(tree, 'src/features');
  rmSync(features, { recursive: true });
  cpSync(join(ROOT, 'src/features'), features, { recursive: true });
  change(features);
  execFileSync(process.execPath, ['scripts/features.mjs'], { cwd: tree });
  execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: tree, stdio: 'pipe', encoding: 'utf8' });
}

/** How many features are deleted, one after the other; `test/features/lists.test.ts` checks the imports of all. */
const SAMPLE = Number(process.env.TEST_DELETED_FEATURES ?? names.length);
const sample = names.filter(
  (_, at) => Math.floor((at * SAMPLE) / names.length) !== Math.floor(((at - 1) * SAMPLE) / names.length),
);

test('with all of them, each route is there', async () => {
  const workspace = await createWorkspace();
  const { url, stop } = await startService(workspace);
  onTestFinished(() => void stop('SIGKILL'));
  for (const [name, route] of Object.entries(ROUTES)) expect((await fetch(url + route)).status, name).toBe(200);
});

/** Files of the recipe in CONTRIBUTING.md, by name. */
function recipe(): ReadonlyMap<string, string> {
  const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
  const [, steps = ''] = /## Recipe: add a feature\n([\s\S]*?)\n## /.exec(text) ?? [];
  const files = [...steps.matchAll(/^\d\. (?:`([\w.]+)`|The (README)):[\s\S]*?```\w+\n([\s\S]*?)\n {3}```$/gm)];
  return new Map(files.map(([, name, readme, code = '']) => [name ?? `${readme}.md`, code.replace(/^ {3}/gm, '')]));
}

test('one folder adds a feature with a verb, a field, a route, a panel and a command', async () => {
  build((features) => {
    mkdirSync(join(features, 'senders'));
    for (const [name, code] of recipe()) writeFileSync(join(features, 'senders', name), `${code}\n`);
  });
  const workspace = await createWorkspace();
  const inputs = { webhookSlug: 'quiet', webhookEnforcementMode: 'Off', webhookCountSenders: false };
  await workspace.writeManifest('quiet.json', { ...githubManifest(), triggers: { on: { type: 'webhook', inputs } } });
  const { url, stop } = await startService(workspace, {}, tree);
  onTestFinished(() => void stop('SIGKILL'));
  for (const slug of ['quiet', 'push']) await fetch(`${url}/flows/api/webhook/${slug}`, { method: 'POST', body: '{}' });
  const senders = [{ clientIp: '127.0.0.1', deliveries: 1 }];
  expect(await getJson(`${url}/flows/api/senders`)).toEqual(senders);
  const cli = [join(tree, 'dist/cli.js'), 'senders', '--to', url];
  expect(JSON.parse(execFileSync(process.execPath, cli, { encoding: 'utf8' }))).toEqual(senders[0]);
  const page = brotliDecompressSync(readFileSync(join(tree, 'dist/page/main.js.br')));
  expect(page.toString('utf8')).toContain('/senders');
});

test.each(sample)('without %s all else is built, and a signed delivery starts its run', async (name) => {
  build((features) => {
    for (const gone of goneWith(name)) rmSync(join(features, gone), { recursive: true, force: true });
  });
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const { url, stop } = await startService(workspace, {}, tree);
  onTestFinished(() => void stop('SIGKILL'));
  const body = '{"ref":"refs/heads/main"}';
  const signature = await sign(GITHUB_SECRET, body);
  const send = (id: string) => {
    const headers = { 'x-hub-signature-256': signature, 'x-github-delivery': id };
    return fetch(`${url}/flows/api/webhook/push`, { method: 'POST', headers, body });
  };
  expect((await send('one')).status).toBe(200);
  expect(await getJson(`${url}/flows/api/webhooks/recent`)).toMatchObject([{ statusCode: 200, violations: [] }]);
  const route = ROUTES[name];
  if (route !== undefined) expect((await fetch(url + route)).status).toBe(404);
  await ELSE[name]?.(url, () => send('two'));
});
