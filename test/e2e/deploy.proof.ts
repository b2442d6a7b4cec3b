import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CliResult, runCli } from './cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  GITHUB_SECRET,
  getJson,
  type Service,
  sendPush,
  startService,
  type Workspace,
} from './service.ts';

let workspace: Workspace;
let service: Service;

const step = (type: string, after: object = {}, inputs: object = {}) => ({ type, inputs, runAfter: after });
const succeeded = (key: string) => ({ [key]: ['Succeeded'] });
const ask = step('WaitForSignal', {}, { signalName: 'go' });
const manifestOf = (steps: object, change: object = {}) => ({
  id: FLOW_ID,
  name: 'push',
  version: '1',
  triggers: {
    hourly: { type: 'cron', inputs: { cronExpression: '0 * * * *' } },
    nightly: { type: 'cron', inputs: { cronExpression: '0 1 * * *' } },
    github: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'push',
        webhookSignatureScheme: 'GitHub',
        webhookHmacKey: GITHUB_SECRET,
        webhookNonceHeader: 'X-GitHub-Delivery',
        webhookEnforcementMode: 'Enforce',
      },
    },
  },
  steps,
  ...change,
});

async function serve(manifest: object, env: Record<string, string> = {}): Promise<void> {
  await workspace.writeManifest('push.json', manifest);
  service = await startService(workspace, env);
}

beforeEach(async () => {
  workspace = await createWorkspace();
});
afterEach(async () => {
  await service.stop('SIGKILL');
});

const flowUrl = () => `${service.url}/flows/api/flows/${FLOW_ID}`;
const post = (path: string) => fetch(`${service.url}/flows/api/${path}`, { method: 'POST', body: 'null' });
const sluice = (...args: string[]): Promise<CliResult> => runCli(workspace, [...args, '--to', service.url]);

async function put(
  manifest: object,
  query = '',
): Promise<{ action: string; class: string; findings: { rule: string }[] }> {
  const response = await fetch(`${flowUrl()}${query}`, { method: 'PUT', body: JSON.stringify(manifest) });
  return (await response.json()) as Awaited<ReturnType<typeof put>>;
}

async function deliver(nonce: string = randomUUID()): Promise<{ status: number; runId: string }> {
  const response = await sendPush(service, JSON.stringify({ nonce }), { id: nonce });
  return { status: response.status, ...((await response.json()) as { runId: string }) };
}

interface RunView {
  readonly status: string;
  readonly revision: number;
  readonly steps: readonly { readonly stepKey: string; readonly status: string }[];
}
const runOf = (runId: string) => getJson<RunView>(`${service.url}/flows/api/runs/${runId}`);
const endOf = (runId: string) =>
  eventually(
    () => runOf(runId),
    ({ status }) => status !== 'Running',
  );
const statuses = ({ steps }: RunView) => Object.fromEntries(steps.map(({ stepKey, status }) => [stepKey, status]));

describe('inserting a step into a path with a run in flight', () => {
  const before = manifestOf({ ask, done: step('NoOp', succeeded('ask')) });
  const after = manifestOf(
    { ask, between: step('NoOp', succeeded('ask')), done: step('NoOp', succeeded('between')) },
    { version: '2' },
  );
  const folder = () => join(workspace.folder, 'manifests');

  it('is refused, then drained, deployed and resumed by one command, with operators’ pauses kept', async () => {
    await serve(before);
    await post(`schedules/flow-${FLOW_ID}-nightly/pause`);
    const { runId } = await deliver();
    await eventually(
      () => runOf(runId),
      ({ steps }) => steps.length > 0,
    );
    await workspace.writeManifest('push.json', after);
    const refused = await sluice('deploy', folder());
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain(runId);

    const draining = sluice('drain', 'push', '--deploy', folder(), '--resume');
    await eventually(
      () => getJson<{ draining: boolean }>(`${flowUrl()}/drain`),
      (drain) => drain.draining,
    );
    expect((await deliver()).status).toBe(403);
    const paused = await getJson<{ paused: boolean }[]>(`${service.url}/flows/api/schedules`);
    expect(paused.map((schedule) => schedule.paused)).toEqual([true, true]);
    await post(`runs/${runId}/signals/go`);
    const { code, stderr, stdout } = await draining;
    expect({ code, stderr, stdout }).toMatchObject({ code: 0 });
    expect(stderr).toMatch(/1 in flight: .* in ask\n/);
    expect(stderr).toMatch(/no run is in flight\npush starts runs again\n$/);
    expect(statuses(await runOf(runId))).toEqual({ ask: 'Succeeded', done: 'Succeeded' });
    const resumed = await getJson<{ triggerKey: string; paused: boolean }[]>(`${service.url}/flows/api/schedules`);
    expect(resumed.filter((schedule) => schedule.paused).map(({ triggerKey }) => triggerKey)).toEqual(['nightly']);

    const next = await deliver();
    await post(`runs/${next.runId}/signals/go`);
    expect(statuses(await endOf(next.runId))).toEqual({ ask: 'Succeeded', between: 'Succeeded', done: 'Succeeded' });
  }, 40_000);

  it('outlasts a restart while it is drained, and an interrupt of the command', async () => {
    await serve(before);
    const { runId } = await deliver();
    const drained = await sluice('drain', FLOW_ID);
    expect(drained).toMatchObject({ code: 0 });
    await service.stop('SIGKILL');
    service = await startService(workspace);
    expect((await deliver()).status).toBe(403);
    await post(`runs/${runId}/signals/go`);
    expect((await sluice('drain', 'push', '--wait')).stderr).toContain('no run is in flight');
    expect(await put(after)).toMatchObject({ action: 'updated', class: 'caution' });
    expect((await sluice('drain', 'push', '--resume')).code).toBe(0);
    expect((await deliver()).status).toBe(200);
  }, 40_000);

  it('keeps what arrives meanwhile where the service is told to hold it', async () => {
    await serve(before, { SLUICE_HOLD_DELIVERIES: 'true' });
    const { runId } = await deliver();
    await sluice('drain', 'push');
    const held = await deliver();
    await service.stop('SIGKILL');
    service = await startService(workspace, { SLUICE_HOLD_DELIVERIES: 'true' });
    await post(`runs/${runId}/signals/go`);
    await workspace.writeManifest('push.json', after);
    const { code, stderr } = await sluice('drain', 'push', '--deploy', folder(), '--resume');
    expect({ code, stderr }).toMatchObject({ code: 0 });
    await eventually(
      () => getJson<{ id: string }[]>(`${service.url}/flows/api/runs`),
      (runs) => runs.some(({ id }) => id === held.runId),
    );
    await post(`runs/${held.runId}/signals/go`);
    expect(statuses(await endOf(held.runId))).toMatchObject({ between: 'Succeeded' });
  }, 40_000);
});

describe('a step with history', () => {
  const before = manifestOf({ first: step('NoOp'), old: step('NoOp', succeeded('first')) });

  it('is renamed by the recipe: the new key added, the old one guarded', async () => {
    await serve(before);
    const early = await endOf((await deliver()).runId);
    expect(statuses(early)).toEqual({ first: 'Succeeded', old: 'Succeeded' });
    const renamed = { first: step('NoOp'), fresh: step('NoOp', succeeded('first')) };
    expect(await put(manifestOf(renamed))).toMatchObject({ action: 'refused', class: 'breaking' });
    const guarded = { ...renamed, old: step('NoOp', { first: { statuses: ['Succeeded'], when: 'false' } }) };
    const outcome = await put(manifestOf(guarded));
    expect(outcome.action).toBe('updated');
    const { runId } = await deliver();
    expect(statuses(await endOf(runId))).toEqual({ first: 'Succeeded', fresh: 'Succeeded', old: 'Skipped' });
  }, 30_000);

  it('is removed by the recipe: kept, and pointed at a handler that does nothing', async () => {
    await serve(manifestOf({ entry: step('LogMessage', {}, { message: 'hello' }), other: step('NoOp') }));
    await endOf((await deliver()).runId);
    expect(await put(manifestOf({ other: step('NoOp') }))).toMatchObject({ action: 'refused', class: 'breaking' });
    const idle = manifestOf({ entry: step('NoOp'), other: step('NoOp') });
    expect((await put(idle)).action).toBe('updated');
    const { runId } = await deliver();
    expect(statuses(await endOf(runId))).toEqual({ entry: 'Succeeded', other: 'Succeeded' });
  }, 30_000);
});

describe('sluice deploy', () => {
  it('says what would happen, deploys, and tells mistakes by its exit code', async () => {
    await serve(manifestOf({ first: step('NoOp') }));
    await endOf((await deliver()).runId);
    const folder = join(workspace.folder, 'manifests');
    await workspace.writeManifest('push.json', manifestOf({ first: step('NoOp') }, { version: '2' }));
    const planned = await sluice('deploy', folder, '--dry-run', '--json');
    expect(planned.code).toBe(0);
    expect(JSON.parse(planned.stdout)).toMatchObject([{ action: 'updated', version: '2' }]);
    expect(await getJson(flowUrl())).toMatchObject({ version: '1' });
    expect((await sluice('deploy', folder)).code).toBe(0);
    expect(await getJson(flowUrl())).toMatchObject({ version: '2' });

    await workspace.writeManifest('push.json', manifestOf({ first: step('NoOp') }));
    const older = await sluice('deploy', folder);
    expect(older).toMatchObject({ code: 2, stdout: expect.stringContaining('revision 1, older than revision 2') });
    expect((await runCli(workspace, ['check', folder, '--against', service.url])).code).toBe(2);
    expect(await getJson(flowUrl())).toMatchObject({ version: '2' });
    expect((await sluice('deploy', folder, '--allow', 'rollback')).code).toBe(0);
    expect(await getJson(flowUrl())).toMatchObject({ version: '1', revision: 3 });

    await workspace.writeManifest('push.json', manifestOf({ second: step('NoOp') }));
    expect((await sluice('deploy', folder)).code).toBe(2);
    expect((await sluice('deploy', folder, '--allow', 'breaking')).code).toBe(0);
    const revisions = await getJson<{ overrides: string[]; source: string }[]>(`${flowUrl()}/revisions`);
    expect(revisions[0]).toMatchObject({ overrides: ['breaking'], source: 'api' });

    await workspace.writeManifest('push.json', { ...manifestOf({}), steps: { a: { type: 'Nothing' } } });
    const invalid = await sluice('deploy', folder);
    expect(invalid).toMatchObject({ code: 2, stdout: '' });
    expect(invalid.stderr).toContain('steps.a.type');
    const told = await sluice('deploy', folder, '--json');
    const checked = await runCli(workspace, ['check', folder, '--against', service.url, '--json']);
    expect(told.code).toBe(2);
    expect(JSON.parse(told.stdout)).toEqual(JSON.parse(checked.stdout));
    expect(JSON.parse(told.stdout).issues[0]).toMatchObject({ severity: 'error', path: 'steps.a.type' });
    expect((await sluice('deploy', join(workspace.folder, 'nowhere'))).code).toBe(2);
    expect((await runCli(workspace, ['deploy', folder, '--to', 'http://127.0.0.1:9'])).code).toBe(2);
  }, 60_000);
});

describe('a slug that moves from one flow of a folder to another', () => {
  it('is checked and deployed as one change', async () => {
    const other = '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10';
    const hook = (webhookSlug: string) => ({ hook: { type: 'webhook', inputs: { webhookSlug } } });
    const flow = (slug: string, change = {}) =>
      manifestOf({ first: step('NoOp') }, { triggers: hook(slug), ...change });
    await workspace.writeManifest('a.json', flow('taken', { id: other, name: 'a' }));
    await serve(flow('given'));
    await workspace.writeManifest('a.json', flow('given', { id: other, name: 'a' }));
    await workspace.writeManifest('push.json', flow('taken'));
    const folder = join(workspace.folder, 'manifests');
    const checked = await runCli(workspace, ['check', folder, '--against', service.url]);
    expect(checked.stdout).not.toContain('efused');
    const deployed = await sluice('deploy', folder, '--json');
    expect(JSON.parse(deployed.stdout)).toMatchObject([{ action: 'updated' }, { action: 'updated' }]);
    const { triggers } = await getJson<{ triggers: { slug: string }[] }>(flowUrl());
    expect(triggers).toMatchObject([{ slug: 'taken' }]);
  }, 60_000);
});

describe('SIGHUP', () => {
  it('deploys what changed while deliveries keep coming, and loses none', async () => {
    await serve(manifestOf({ first: step('NoOp') }));
    const runIds: string[] = [];
    let isDone = false;
    const sender = async () => {
      while (!isDone) {
        const { status, runId } = await deliver();
        expect(status).toBe(200);
        runIds.push(runId);
      }
    };
    const senders = [sender(), sender(), sender()];
    for (let n = 2; n <= 6; n += 1) {
      await workspace.writeManifest('push.json', manifestOf({ first: step('NoOp') }, { version: String(n) }));
      service.child.kill('SIGHUP');
      await eventually(
        () => getJson<{ version: string }>(flowUrl()),
        ({ version }) => version === String(n),
      );
    }
    isDone = true;
    await Promise.all(senders);
    const runs = await Promise.all(runIds.map(endOf));
    expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(['Succeeded']));
    expect((await deliver()).status).toBe(200);
  }, 40_000);
});
