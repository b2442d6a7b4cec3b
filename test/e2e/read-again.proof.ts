import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { runCli } from './cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  type Service,
  sendPush,
  startService,
  type Workspace,
  written,
} from './service.ts';

let workspace: Workspace;
let service: Service;
beforeEach(async () => {
  workspace = await createWorkspace();
});
afterEach(() => service.stop('SIGTERM'));

const inFolder = (name: string) => join(workspace.folder, name);
const pushBy = (reference: string) => ({
  id: FLOW_ID,
  name: 'push',
  version: '1',
  triggers: {
    hook: {
      type: 'webhook',
      inputs: { webhookSlug: 'push', webhookSignatureScheme: 'GitHub', webhookHmacKey: reference },
    },
  },
  steps: { first: { type: 'NoOp' } },
});

const deliver = async (key: string) => (await sendPush(service, JSON.stringify({ id: randomUUID() }), { key })).status;
const reload = async () => (await fetch(`${service.url}/flows/api/flows/reload`, { method: 'POST' })).status;
const start = async (env: Record<string, string> = {}) => {
  service = await startService(workspace, { SLUICE_ENFORCEMENT_MODE: 'Enforce', ...env });
};

describe('.env', () => {
  it('is read again on reload and on SIGHUP: a new webhook needs no restart', async () => {
    await start();
    await workspace.writeManifest('push.json', pushBy('env:PUSH_KEY'));
    expect(await reload()).toBe(409);
    expect(await deliver('first key')).toBe(503);
    await writeFile(inFolder('.env'), 'PUSH_KEY=first key\n');
    expect(await reload()).toBe(200);
    expect(await deliver('first key')).toBe(200);
    await writeFile(inFolder('.env'), 'PUSH_KEY=second key\n');
    service.child.kill('SIGHUP');
    await eventually(
      () => deliver('second key'),
      (status) => status === 200,
    );
    expect(await deliver('first key')).toBe(401);
    await eventually(
      async () => service.output(),
      (output) => output.includes('The value of env:PUSH_KEY changed.'),
    );
    expect(service.output()).not.toMatch(/first key|second key/);
    await writeFile(inFolder('.env'), '');
    expect(await reload()).toBe(409);
    expect(await deliver('second key')).toBe(503);
  });

  it('takes a token away that is no longer in it, also the one of the start', async () => {
    const [first, second, named] = ['first-token-of-16-bytes', 'second-token-of-16-bytes', 'named-token-of-16-bytes'];
    await writeFile(inFolder('tokens.json'), JSON.stringify([{ name: 'ci', token: named, scopes: ['read'] }]));
    const variables = (token: string) => `SLUICE_TOKENS=tokens.json\nSLUICE_DASHBOARD_TOKEN=${token}\n`;
    await writeFile(inFolder('.env'), variables(first));
    await start();
    const statusOf = async (token: string) =>
      (await fetch(`${service.url}/flows/api/flows`, { headers: { authorization: `Bearer ${token}` } })).status;
    const statuses = () => Promise.all([first, second, named].map(statusOf));
    expect(await statuses()).toEqual([200, 401, 200]);
    await writeFile(inFolder('.env'), variables(second));
    service.child.kill('SIGHUP');
    await eventually(statuses, ([, status]) => status === 200);
    await writeFile(inFolder('.env'), 'SLUICE_TOKENS=tokens.json\n');
    service.child.kill('SIGHUP');
    expect(await eventually(statuses, ([, status]) => status === 401)).toEqual([401, 401, 200]);
  });

  it('tells of what is in force from the next start on, and of nothing else', async () => {
    await writeFile(
      inFolder('.env'),
      'PUSH_KEY=first key\nSLUICE_VAR_REGION=eu\nSLUICE_DASHBOARD_TOKEN=first-token-of-16-bytes\n',
    );
    await start();
    await writeFile(
      inFolder('.env'),
      'PUSH_KEY=second key\nSLUICE_VAR_REGION=us\nSLUICE_DASHBOARD_TOKEN=next-token-of-16-bytes\n',
    );
    service.child.kill('SIGHUP');
    await written(service, 'changed and in force from the next start on: SLUICE_VAR_');
    expect(service.output()).not.toMatch(/from the next start on: .*,/);
  });

  it('gives way to the environment on a reload as at a start, and stays where it cannot be read', async () => {
    await writeFile(inFolder('.env'), 'PUSH_KEY=of the file\nOWN_KEY=of the file\n');
    await workspace.writeManifest('push.json', pushBy('env:PUSH_KEY'));
    await start({ PUSH_KEY: 'of the environment' });
    await writeFile(inFolder('.env'), 'PUSH_KEY=of the file again\n');
    expect(await reload()).toBe(200);
    expect(await deliver('of the environment')).toBe(200);
    await rm(inFolder('.env'));
    const response = await fetch(`${service.url}/flows/api/flows/reload`, { method: 'POST' });
    expect(response.status).toBe(409);
    const { warnings } = (await response.json()) as { warnings: string[] };
    const mistake = expect.stringMatching(/^error \.env: there is no such file; the former variables stay in force$/);
    expect(warnings).toContainEqual(mistake);
    expect(await deliver('of the environment')).toBe(200);
    await written(service, 'the variables could not be read again; they stay as they were');
  });
});

it('a secret of a file is read again on reload, of a flow that came over the API too', async () => {
  await writeFile(inFolder('key'), 'first key');
  await start({ SLUICE_MANIFEST_SECRETS: `file:${inFolder('key')}` });
  const response = await fetch(`${service.url}/flows/api/flows/${FLOW_ID}`, {
    method: 'PUT',
    body: JSON.stringify(pushBy(`file:${inFolder('key')}`)),
  });
  expect(response.status).toBe(200);
  await writeFile(inFolder('key'), 'second key');
  expect(await deliver('second key')).toBe(401);
  expect(await reload()).toBe(200);
  expect(await deliver('second key')).toBe(200);
  expect(await deliver('first key')).toBe(401);
});

it('a reload that cannot read the tokens ends with 2, and says that the former ones stay in force', async () => {
  const [admin, former] = ['admin-token-0123456789abcd', 'former-token-0123456789abcd'];
  const write = (...tokens: object[]) => writeFile(inFolder('tokens.json'), JSON.stringify(tokens));
  const own = { name: 'admin', token: admin, scopes: ['read', 'operate', 'deploy'] };
  await write(own, { name: 'former', token: former, scopes: ['read'] });
  await start({ SLUICE_TOKENS: 'tokens.json' });
  const statusOf = async (token: string) =>
    (await fetch(`${service.url}/flows/api/runs`, { headers: { authorization: `Bearer ${token}` } })).status;
  const args = ['reload', '--to', service.url, '--token', admin];
  await write({ ...own, scopes: ['read', 'operate', 'deploi'] });
  const { code, stdout } = await runCli(workspace, args);
  expect(stdout).toMatch(/^error SLUICE_TOKENS: .*; the former settings and credentials stay in force$/m);
  expect(code).toBe(2);
  expect(await statusOf(former)).toBe(200);
  await write(own);
  expect((await runCli(workspace, args)).code).toBe(0);
  expect(await statusOf(former)).toBe(401);
});

describe('targets of alerts', () => {
  it('are read again on reload, the first one too', async () => {
    const told: string[] = [];
    const server = createServer((request, response) => {
      request.on('data', (chunk) => told.push(`${request.url} ${chunk}`));
      request.on('end', () => response.end());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as { port: number };
    const target = (path: string) => ({ type: 'slack', url: `http://127.0.0.1:${port}${path}`, intervalSeconds: 1 });
    const write = (targets: object) => writeFile(inFolder('alerts.json'), JSON.stringify({ targets }));
    await write({});
    await start({ SLUICE_ALERTS: inFolder('alerts.json'), SLUICE_EGRESS_ALLOW: '127.0.0.1' });
    await write({ one: target('/one') });
    await workspace.writeManifest('push.json', pushBy('env:PUSH_KEY'));
    expect(await reload()).toBe(409);
    await eventually(
      async () => told,
      (lines) => lines.some((line) => line.startsWith('/one')),
    );
    expect(told.join()).toContain('PUSH_KEY is not set');
    await write({ two: target('/two') });
    expect(await reload()).toBe(409);
    const names = async () =>
      ((await (await fetch(`${service.url}/flows/api/alerts`)).json()) as { name: string }[]).map(({ name }) => name);
    await eventually(names, (found) => found.join() === 'two');
    await writeFile(inFolder('alerts.json'), '{');
    expect(await reload()).toBe(409);
    expect(await names()).toEqual(['two']);
    await written(service, 'the former credentials and targets of alerts stay in force');
  });
});
