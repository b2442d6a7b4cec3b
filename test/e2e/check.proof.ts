import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeployOutcome } from '../../src/model/finding.ts';
import { noOp } from '../features/deploy-rules/samples.ts';
import { runCli } from './cli.ts';
import { createWorkspace, eventually, githubManifest, type Service, startService, type Workspace } from './service.ts';

const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a11';
const OTHER_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a12';
const WAITING_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a13';
const TOKEN = 'a-token-of-the-dashboard';
const env = { SLUICE_DASHBOARD_TOKEN: TOKEN };
/** With the running service's settings, because the command sends their credentials to no other service. */
const own = () => ({ ...env, SLUICE_PORT: new URL(service.url).port });

const steps = { a: noOp(), b: noOp('a'), c: noOp('b') };
const orders = (change: object = {}) => ({
  id: FLOW_ID,
  name: 'orders',
  version: '1',
  steps,
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'orders' } } },
  ...change,
});
const waiting = (change: object = {}) => ({
  id: WAITING_ID,
  name: 'waiting',
  version: '1',
  steps: { ask: { type: 'WaitForSignal', inputs: { signalName: 'go' } }, next: noOp('ask') },
  ...change,
});

let deployed: Workspace;
let service: Service;
let database: string;

beforeAll(async () => {
  deployed = await createWorkspace();
  await deployed.writeManifest('orders.json', orders());
  await deployed.writeManifest('reports.json', { ...orders({ triggers: {} }), id: OTHER_ID, name: 'reports' });
  await deployed.writeManifest('waiting.json', waiting());
  service = await startService(deployed, env);
  database = `sqlite:${join(deployed.folder, 'data', 'sluice.db')}`;
  const runs = await Promise.all([FLOW_ID, WAITING_ID].map(trigger));
  await eventually(
    () => run(runs[0]),
    ({ status }) => status === 'Succeeded',
  );
  await eventually(
    () => run(runs[1]),
    ({ steps: rows }) => rows.some(({ stepKey, status }) => stepKey === 'ask' && status === 'Pending'),
  );
}, 60_000);
afterAll(() => service.stop('SIGTERM'));

const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
async function trigger(id: string): Promise<string> {
  const response = await fetch(`${service.url}/flows/api/flows/${id}/trigger`, { method: 'POST', headers, body: '{}' });
  return ((await response.json()) as { runId: string }).runId;
}
async function run(id: string | undefined) {
  const response = await fetch(`${service.url}/flows/api/runs/${id}`, { headers });
  return (await response.json()) as { status: string; steps: { stepKey: string; status: string }[] };
}

/** Checks a folder of changed manifests against one of the targets. */
async function check(manifests: readonly object[], target: 'database' | 'service', ...args: string[]) {
  const folder = await createWorkspace();
  try {
    for (const [index, manifest] of manifests.entries()) await folder.writeManifest(`${index}.json`, manifest);
    const against = target === 'database' ? database : service.url;
    return await runCli(folder, ['check', 'manifests', '--against', against, ...args], { env: own() });
  } finally {
    await folder.remove();
  }
}

describe.each(['database', 'service'] as const)('sluice check against the %s of a service that runs', (target) => {
  it.each<[string, object, number, string]>([
    ['a leaf', { steps: { ...steps, d: noOp('c') } }, 0, 'steps.d (step-added)'],
    [
      'another type',
      { steps: { ...steps, c: { ...noOp('b'), type: 'Delay', inputs: { seconds: 0 } } } },
      1,
      'steps.c.type (type-changed)',
    ],
    ['no step', { steps: { a: noOp(), b: noOp('a') } }, 2, 'Keep `c`, but make it do nothing'],
    ['another id', { id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a19' }, 2, 'id (flow-id-changed)'],
    ['what cannot be loaded', { steps: { a: { type: 'Nope' } } }, 2, 'steps.a.type: is not a known step type'],
  ])('says what comes of %s', async (_, change, code, text) => {
    const result = await check([orders(change)], target);
    expect(result.stderr).toBe('');
    expect(result.stdout).toContain(text);
    expect(result.code).toBe(code);
  });

  it('names the runs in flight that a caution waits for, and what is deployed and not in the folder', async () => {
    const changed = waiting({
      steps: {
        ask: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
        next: { ...noOp('ask'), runAfter: { ask: { when: 'true' } } },
      },
    });
    const { code, stdout } = await check([changed], target);
    expect(stdout).toContain('1 run has not reached `next` (1 waits in `ask`)');
    expect(stdout).toContain('Refused: 1 run is in flight');
    expect(stdout).toContain(`deployed but not in the folder: reports (${OTHER_ID})`);
    expect(code).toBe(1);
  });

  it('prints JSON, and takes what is allowed for granted', async () => {
    const removed = orders({ steps: { a: noOp(), c: noOp('a') } });
    const { code, stdout } = await check([removed], target, '--json', '--allow', 'breaking');
    const { outcomes, notInFolder } = JSON.parse(stdout) as {
      outcomes: DeployOutcome[];
      notInFolder: { id: string }[];
    };
    expect(
      outcomes.map((outcome) => [outcome.action, outcome.class, outcome.findings.map(({ rule }) => rule)]),
    ).toEqual([['updated', 'breaking', ['step-removed', 'run-after-changed']]]);
    expect(notInFolder.map(({ id }) => id)).toContain(OTHER_ID);
    expect(code).toBe(1);
    expect((await check([removed], target, '--allow', 'breaking', '--allow', 'caution')).code).toBe(0);
  });

  it('changes nothing', async () => {
    await check([orders({ version: '2' })], target);
    const flow = await fetch(`${service.url}/flows/api/flows/${FLOW_ID}`, { headers });
    expect(await flow.json()).toMatchObject({ version: '1', revision: 1 });
  });
});

describe('sluice check', () => {
  it('finds the database of the settings, also while no service runs', async () => {
    const folder = await createWorkspace();
    await folder.writeManifest('orders.json', orders());
    const before = await runCli(folder, ['check']);
    expect(before).toMatchObject({ code: 0, stderr: '' });
    expect(before.stdout).toContain('1 flows can be deployed, 0 errors, 1 warnings; compared with nothing');
    const own = await startService(folder);
    await own.stop('SIGTERM');
    await folder.writeManifest('orders.json', orders({ steps: { a: noOp(), b: noOp('a') } }));
    const after = await runCli(folder, ['check']);
    expect(after).toMatchObject({ code: 1, stderr: '' });
    expect(after.stdout).toContain('no stored run did anything in it');
  });

  it.each([
    ['a database that is not there', ['sqlite:nowhere.db'], 'nowhere.db cannot be read: there is no such file'],
    ['a file that is not a database', ['sqlite:text.db'], 'text.db cannot be read: it is not a database'],
    ['another kind of target', ['mysql://localhost/x'], 'expected the URL of a service, sqlite:PATH or postgres://'],
    [
      'a PostgreSQL that does not run',
      ['postgres://u:hunter2@127.0.0.1:9/x'],
      'postgres://***@127.0.0.1:9/x cannot be read',
    ],
    ['a PostgreSQL that would be read in the open', ['postgres://u:hunter2@db.example/x'], 'without TLS'],
    ['a service that does not run', ['http://127.0.0.1:9'], 'is the service running?'],
    ['a class that cannot be allowed', ['http://127.0.0.1:9', '--allow', 'safe'], 'expected one of caution, breaking'],
  ])('says what is wrong with %s', async (_, [target = '', ...args], message) => {
    const folder = await createWorkspace();
    await folder.writeManifest('orders.json', orders());
    await writeFile(join(folder.folder, 'text.db'), 'this is a text and no database, and long enough to be told apart');
    const { code, stdout, stderr } = await runCli(folder, ['check', '--against', target, ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
    expect(stderr).not.toContain('    at ');
  });

  it('says how to give credentials where the service asks for them', async () => {
    const folder = await createWorkspace();
    await folder.writeManifest('orders.json', orders());
    const wrong = await runCli(folder, ['check', '--against', service.url, '--token', 'a-wrong-token']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('SLUICE_DASHBOARD_TOKEN');
    expect(wrong.stderr).not.toContain('a-wrong-token');
    const right = await runCli(folder, ['check', '--against', service.url, '--token', TOKEN]);
    expect(right).toMatchObject({ code: 0, stderr: '' });
  });
});

it('says what lets more in though no manifest changed: a gate that the config module no longer has', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const module = join(workspace.folder, 'sluice.config.mjs');
  const gate = "{ name: 'office', prepare: () => ({ name: 'office', check: () => ({ passed: true }) }) }";
  await writeFile(module, `export default { gates: [${gate}] };`);
  const enforced = { SLUICE_ENFORCEMENT_MODE: 'Enforce' };
  const { stop } = await startService(workspace, enforced);
  await stop('SIGTERM');
  const checked = async () => (await runCli(workspace, ['check'], { env: enforced })).stdout;
  expect(await checked()).not.toContain('pass than so far');
  await rm(module);
  expect(await checked()).toMatch(
    /warning push: more deliveries to .* pass than so far: No gate of the operator judges\./,
  );
  await workspace.remove();
});
