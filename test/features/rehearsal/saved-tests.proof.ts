import { once } from 'node:events';
import { link, lstat, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CliResult, runCli } from '../../e2e/cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  githubManifest,
  type Service,
  sendPush,
  startService,
  type Workspace,
} from '../../e2e/service.ts';

const API_TOKEN = 'Bearer of-the-shop-0123456789';
const SESSION = 'session-of-the-shop-9876543210';
const SUB_ID = '1c8f3055-7d2e-4a1f-8b62-4f1f9e2d3b21';
const ASKING_ID = '2d904166-8e3f-4b20-9c73-502a0f3e4c32';
const LARGE = 'é'.repeat(100_000);

let workspace: Workspace;
let service: Service;
let shop: Server;
beforeAll(async () => {
  workspace = await createWorkspace();
  let asked = 0;
  shop = createServer(({ headers, url }, response) => {
    asked += 1;
    response.statusCode = asked === 1 ? 503 : 200;
    response.setHeader('set-cookie', `sid=${SESSION}`);
    response.setHeader('content-type', 'application/json');
    const note = url === '/large' ? LARGE : `for ${SESSION}`;
    response.end(JSON.stringify({ echo: headers.authorization ?? null, access_token: SESSION, note }));
  }).listen(0, '127.0.0.1');
  await once(shop, 'listening');
  const inputs = { webhookEnforcementMode: 'Enforce' };
  await workspace.writeManifest('orders.json', githubManifest({ inputs, steps: stepsAt(7) }));
  await workspace.writeManifest('sub.json', {
    id: SUB_ID,
    name: 'sub',
    version: '1',
    steps: { large: callTo('/large', {}) },
  });
  await workspace.writeManifest('asking.json', {
    id: ASKING_ID,
    name: 'asking',
    version: '1',
    triggers: { byHand: { type: 'manual' } },
    steps: { ask: { type: 'WaitForSignal', inputs: { signalName: 'never' } } },
  });
  const CHARGE_URL = `http://127.0.0.1:${portOfShop()}/charge`;
  service = await startService(workspace, { API_TOKEN, CHARGE_URL, SLUICE_EGRESS_ALLOW: '127.0.0.1' });
}, 60_000);
afterAll(async () => {
  await service.stop('SIGTERM');
  shop.close();
});

const portOfShop = () => (shop.address() as AddressInfo).port;

function callTo(path: string, rest: object) {
  const port = portOfShop();
  const headers = { authorization: 'env:API_TOKEN' };
  const url = path === '/charge' ? 'env:CHARGE_URL' : `http://127.0.0.1:${port}${path}`;
  return { type: 'HttpRequest', inputs: { method: 'POST', url, headers, ...rest } };
}

function stepsAt(discount: number) {
  const body = { total: `\${trigger.body.total - ${discount}.0}`, key: `\${trigger.body.issue.key}` };
  return {
    charge: { ...callTo('/charge', { body }), retry: { maxAttempts: 2, backoffSeconds: 0.01 } },
    ask: { type: 'WaitForSignal', inputs: { signalName: 'decision' }, runAfter: { charge: ['Succeeded'] } },
    go: { type: 'RunFlow', inputs: { flow: SUB_ID }, runAfter: { ask: { when: 'steps.ask.output.approved' } } },
    each: {
      type: 'ForEach',
      forEach: `\${trigger.body.lines}`,
      steps: { book: callTo('/book', { body: `\${loop.item}` }) },
      runAfter: { go: ['Succeeded'] },
    },
  };
}

const sluice = (...args: string[]): Promise<CliResult> => runCli(workspace, args);
const save = (...args: string[]) => sluice('test', 'save', ...args, '--to', service.url);
const path = (name: string) => join(workspace.folder, name);

async function runOfDelivery(): Promise<string> {
  const body = JSON.stringify({ total: 50, issue: { key: 'PROJECT-17' }, lines: [{ sku: 'A' }, { sku: 'B' }] });
  const response = await sendPush(service, body);
  const { runId } = (await response.json()) as { runId: string };
  const decision = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"approved":true}' };
  await fetch(`${service.url}/flows/api/runs/${runId}/signals/decision`, decision);
  await ended(runId);
  return runId;
}

describe('a run that is saved as a test', () => {
  let runId: string;
  let saved: CliResult;
  beforeAll(async () => {
    runId = await runOfDelivery();
    saved = await save(runId, '--keep', 'key');
    await writeFile(path('orders.test.json'), saved.stdout);
  }, 60_000);

  it('has what started it, the answers of all attempts, of loops and of sub-runs, and what it did', () => {
    expect(saved.code).toBe(0);
    const test = JSON.parse(saved.stdout);
    expect(test).toMatchObject({
      sluiceTest: 1,
      flow: FLOW_ID,
      trigger: {
        key: 'github',
        type: 'webhook',
        contentType: 'application/json',
        body: { issue: { key: 'PROJECT-17' } },
      },
      signals: [{ step: 'ask', name: 'decision', body: { approved: true } }],
      expected: {
        end: 'Succeeded',
        path: { charge: 'Succeeded', 'each.1.book': 'Succeeded', 'go/large': 'Succeeded' },
        requests: { charge: [{ body: { total: 43, key: 'PROJECT-17' } }, {}], 'each.1.book': [{ body: { sku: 'B' } }] },
      },
    });
    expect(test.answers.charge).toMatchObject([{ output: { status: 503 } }, { output: { status: 200 } }]);
    expect(test.answers['go/large'][0].output.body.note).toBe(LARGE);
  });

  it('has no secret, no credential by its name, and neither wherever else it is', () => {
    expect(saved.stdout).not.toContain(API_TOKEN.slice(7));
    expect(saved.stdout).not.toContain(SESSION);
    expect(saved.stdout).not.toContain('sha256=');
    const { headers, body } = JSON.parse(saved.stdout).answers.charge[1].output;
    expect({ headers, body }).toMatchObject({
      headers: { 'set-cookie': '***' },
      body: { note: 'for ***', echo: '***' },
    });
    expect(saved.stderr).toContain('masked: answers.charge[].output.headers.set-cookie');
  });

  it('is the same until the flow does something else, and then says what; an update takes that over', async () => {
    expect(await sluice('test')).toMatchObject({
      code: 0,
      stdout: 'same     orders.test.json\n\n1 test: 1 same.\n',
    });

    const inputs = { webhookEnforcementMode: 'Enforce' };
    await workspace.writeManifest('orders.json', githubManifest({ inputs, steps: stepsAt(8) }));
    const differing = await sluice('test');
    expect(differing.code).toBe(1);
    expect(differing.stdout).toContain('differs  orders.test.json\n  requests.charge[0].body.total\n    43 -> 42\n');
    const json = await sluice('test', 'orders.test.json', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject([
      { file: 'orders.test.json', result: 'differs', differences: [{ before: 43, after: 42 }, {}], lacking: [] },
    ]);

    const before = await readFile(path('orders.test.json'), 'utf8');
    const updated = await sluice('test', '--update');
    expect(updated).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('updated  orders.test.json\n  requests'),
    });
    expect(await readFile(path('orders.test.json'), 'utf8')).toBe(before.replaceAll('"total": 43', '"total": 42'));
    expect((await sluice('test')).code).toBe(0);
  }, 60_000);

  it('is run through the folder that is named, whatever the environment says', async () => {
    const env = { SLUICE_MANIFESTS: 'manifests' };
    const none = await runCli(workspace, ['test', 'orders.test.json', '--manifests', 'none'], { env });
    expect(none).toMatchObject({ code: 2, stdout: expect.stringContaining('flow no manifest has this id') });
    expect(none.stderr).toContain('none: cannot be read: ENOENT');
  });

  it('is replaced as a whole, through a link to where that leads, or not at all', async () => {
    await mkdir(path('kept'));
    const { expected: _, ...test } = JSON.parse(saved.stdout);
    await writeFile(path('kept/real.test.json'), JSON.stringify({ ...test, expected: {} }), { mode: 0o640 });
    await link(path('kept/real.test.json'), path('kept/former.json'));
    await symlink('kept/real.test.json', path('linked.test.json'));
    const updated = await sluice('test', 'linked.test.json', '--update');
    expect(updated).toMatchObject({ code: 0, stdout: expect.stringContaining('updated  linked.test.json') });
    expect((await lstat(path('linked.test.json'))).isSymbolicLink()).toBe(true);
    expect((await stat(path('kept/real.test.json'))).mode & 0o777).toBe(0o640);
    expect(JSON.parse(await readFile(path('kept/real.test.json'), 'utf8')).expected.end).toBe('Succeeded');
    // Another link to the old file still has its contents: it was not overwritten, which a stop could leave half done.
    expect(JSON.parse(await readFile(path('kept/former.json'), 'utf8')).expected).toEqual({});
    expect((await readdir(path('kept'))).sort()).toEqual(['former.json', 'real.test.json']);
    await rm(path('kept'), { recursive: true });
    await rm(path('linked.test.json'));
  }, 60_000);

  it('has the inputs that its steps took from a later revision', async () => {
    const after = (text: string) => ({
      ask: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
      each: {
        type: 'ForEach',
        forEach: [1, 2],
        steps: { call: callTo('/later', { body: text }) },
        runAfter: { ask: ['Succeeded'] },
      },
      note: { type: 'Transform', inputs: { value: text }, runAfter: { each: ['Succeeded'] } },
    });
    const flow = (text: string) => ({
      id: LATER_ID,
      name: 'later',
      version: text,
      triggers: BY_HAND,
      steps: after(text),
    });
    await deploy(flow('before'));
    const later = await start(LATER_ID, null);
    await eventually(
      () => getJson<{ waitingFor: object[] }>(`${service.url}/flows/api/runs/${later}`),
      ({ waitingFor }) => waitingFor.length > 0,
    );
    await deploy(flow('after'));
    await fetch(`${service.url}/flows/api/runs/${later}/signals/go`, { method: 'POST' });
    await ended(later);
    const { code, stdout } = await save(later);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).expected).toMatchObject({
      requests: { 'each.0.call': [{ body: 'after' }], 'each.1.call': [{ body: 'after' }] },
      outputs: { note: 'after' },
    });
  });

  it('says which masked field makes it do something else than the run', async () => {
    const known = { type: 'NoOp', runAfter: { late: { when: 'trigger.body.key.startsWith("PROJECT-")' } } };
    const steps = { late: { type: 'NoOp' }, known };
    await deploy({ id: KEYED_ID, name: 'keyed', version: '1', triggers: BY_HAND, steps });
    const keyed = await start(KEYED_ID, { key: 'PROJECT-17' });
    await ended(keyed);
    const masked = await save(keyed);
    expect(masked.code).toBe(1);
    expect(masked.stderr).toContain('masked: trigger.body.key\n');
    expect(masked.stderr).toMatch(/path\.known\n +"Succeeded" -> "Skipped"\nIf that is for .* --keep/);
    expect(await save(keyed, '--keep', 'KEY')).toMatchObject({ code: 0, stderr: '' });
  });
});

const KEYED_ID = '3ea15277-9f40-4c31-8d84-613b1f4f5d43';
const LATER_ID = '3ea15277-9f40-4c31-8d84-613b1f4f5d44';
const BY_HAND = { byHand: { type: 'manual' } };
const json = { 'content-type': 'application/json' };

async function deploy(manifest: { readonly id: string; readonly [field: string]: unknown }): Promise<void> {
  const put = { method: 'PUT', headers: json, body: JSON.stringify(manifest) };
  const response = await fetch(`${service.url}/flows/api/flows/${manifest.id}?allow=caution`, put);
  expect(response.status, await response.text()).toBe(200);
}

async function start(flowId: string, body: unknown): Promise<string> {
  const post = { method: 'POST', headers: json, body: JSON.stringify(body) };
  const response = await fetch(`${service.url}/flows/api/flows/${flowId}/trigger`, post);
  return ((await response.json()) as { runId: string }).runId;
}

const ended = (runId: string) =>
  eventually(
    () => getJson<{ status: string }>(`${service.url}/flows/api/runs/${runId}`),
    ({ status }) => status !== 'Running',
  );

describe('what is no test', () => {
  it('ends with 2, and is named', async () => {
    await writeFile(path('broken.test.json'), '{"sluiceTest": 1, "flow": 7}');
    await writeFile(path('other.test.json'), '{"suites": []}');
    const named = await sluice('test', 'other.test.json', 'broken.test.json', 'gone.test.json');
    expect(named.code).toBe(2);
    expect(named.stdout).toContain('error    other.test.json\n  is not a saved test\n');
    expect(named.stdout).toContain(
      'error    broken.test.json\n  name is missing; a string is accepted\n  flow is a number',
    );
    expect(named.stdout).toContain('error    gone.test.json\n  cannot be read: ENOENT\n');
    const all = await sluice('test');
    expect(all.code).toBe(2);
    expect(all.stdout).not.toContain('other.test.json');
    await writeFile(path('broken.test.json'), '{"suites": []}');
  });

  it('is a run in flight, a run that there is not, and anything else', async () => {
    expect(await save(await start(ASKING_ID, null))).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('is in flight'),
    });
    expect(await save(ASKING_ID)).toMatchObject({ code: 2, stderr: expect.stringContaining('There is no run') });
    expect(await save('orders')).toMatchObject({ code: 2, stderr: expect.stringContaining('not the id of a run') });
  });
});
