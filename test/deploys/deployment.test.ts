import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { DeploysRefusedError } from '../../src/errors.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { eventually, FLOW_ID, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { ask, push, useFolderApp } from '../folder-app.ts';
import { PLAN } from '../store/samples.ts';

const workspace = useFolderApp();
const start = workspace.start;

const wait = { first: { type: 'WaitForSignal', inputs: { signalName: 'go' } } };
const quick = { first: { type: 'NoOp' } };
const write = (manifest: object) => workspace.writeManifest('push.json', manifest);

const flowUrl = `/flows/${FLOW_ID}`;
const flowOf = async (app: SluiceApp) => (await ask(app, 'GET', flowUrl)).answer;

describe('a deploy over the API of a flow that names another for its failures', () => {
  it('is refused unless that flow is deployed or comes with it', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    const alarm = { id: randomUUID(), name: 'Alarm', version: '1', steps: quick };
    const orders = { id: randomUUID(), name: 'Orders', version: '1', steps: quick, onFailure: alarm.id };
    const alone = await ask(app, 'PUT', `/flows/${orders.id}`, orders);
    expect(alone).toMatchObject({ status: 409, answer: { refusal: expect.stringContaining(alarm.id) } });
    const together = await ask(app, 'PUT', '/flows', [orders, alarm]);
    expect(together).toMatchObject({ status: 200 });
    expect(app.catalog.find(orders.id)?.prepared.onFailure).toBe(alarm.id);
  });

  it('a flow is deployed with the flows that it runs, or after them, and never so that it runs itself', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    const inner = { id: randomUUID(), name: 'Inner', version: '1', steps: quick };
    const runs = (flow: string) => ({ go: { type: 'RunFlow', inputs: { flow } } });
    const outer = { id: randomUUID(), name: 'Outer', version: '1', steps: runs(inner.id) };
    const alone = await ask(app, 'PUT', `/flows/${outer.id}`, outer);
    expect(alone).toMatchObject({ status: 409, answer: { refusal: expect.stringContaining(inner.id) } });
    expect(await ask(app, 'PUT', '/flows', [outer, inner])).toMatchObject({ status: 200 });
    const back = { ...inner, version: '2', steps: runs(outer.id) };
    const cycle = await ask(app, 'PUT', `/flows/${inner.id}`, back);
    expect(cycle).toMatchObject({ status: 409, answer: { refusal: expect.stringContaining('Inner → Outer → Inner') } });
    expect(app.catalog.find(inner.id)?.record.version).toBe('1');
  });

  it('a flow is not deployed so that it runs itself by a flow that another process has deployed at once', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    const [one, two] = ['One', 'Two'].map((name) => ({ id: randomUUID(), name, version: '1', steps: quick }));
    if (one === undefined || two === undefined) throw new Error('two flows were expected');
    expect(await ask(app, 'PUT', '/flows', [one, two])).toMatchObject({ status: 200 });
    const runs = ({ id }: typeof two) => ({ version: '2', steps: { go: { type: 'RunFlow', inputs: { flow: id } } } });
    const [half, other] = [
      { ...one, ...runs(two) },
      { ...two, ...runs(one) },
    ];
    // Deployed like another process, so that this one is not told.
    const stored = (await app.store.findRevision(one.id, 1))?.snapshot as { steps: { first: JsonObject } };
    const steps = { go: { ...stored.steps.first, ...half.steps.go } };
    const deploy = { ...PLAN, ...half, snapshot: { ...stored, steps }, hash: 'half', at: Date.now() };
    expect(await app.store.applyDeploys([{ ...deploy, basedOn: 1, source: 'api' }])).toMatchObject({ kind: 'applied' });
    const answer = { refusal: expect.stringContaining('Two → One → Two') };
    expect(await ask(app, 'PUT', `/flows/${two.id}`, other)).toMatchObject({ status: 409, answer });
    expect(app.catalog.find(one.id)?.record.version).toBe('2');
  });

  it('a flow may not run another where a flow far above it would then stand on too long a chain', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    const ids = Array.from({ length: 9 }, () => randomUUID());
    const flowAt = (n: number, next = ids[n + 1]) => ({
      id: ids[n],
      name: `Flow ${n}`,
      version: '1',
      steps: next === undefined ? quick : { go: { type: 'RunFlow', inputs: { flow: next } } },
    });
    const last = { ...flowAt(7), steps: quick };
    const first = Array.from({ length: 7 }, (_, n) => flowAt(n));
    expect(await ask(app, 'PUT', '/flows', [...first, last, flowAt(8)])).toMatchObject({ status: 200 });
    const longer = { ...flowAt(7), version: '2' };
    const refusal = expect.stringContaining('Flow 0 → Flow 1 → Flow 2');
    const refused = { status: 409, answer: { refusal } };
    expect(await ask(app, 'PUT', `/flows/${ids[7]}`, longer)).toMatchObject(refused);
    // The deploy includes the change that makes room; a change that lengthens no chain is not checked.
    const shorter = { ...flowAt(0), version: '2', steps: quick };
    expect(await ask(app, 'PUT', '/flows?allow=caution', [longer, shorter])).toMatchObject({ status: 200 });
    const renamed = { ...longer, version: '3', name: 'Last but one' };
    expect(await ask(app, 'PUT', `/flows/${ids[7]}`, renamed)).toMatchObject({ status: 200 });
  });
});

it('a deploy over the API of a flow with one slug twice is refused in every way, and leaves the other flows as they are', async () => {
  await write(githubManifest({ steps: quick }));
  const app = await start();
  const hook = (webhookSlug: string, webhookShared: boolean) => ({
    type: 'webhook',
    inputs: { webhookSlug, ...(webhookShared && { webhookShared }) },
  });
  const id = randomUUID();
  const path = 'triggers.two.inputs.webhookSlug';
  for (const isShared of [false, true]) {
    const triggers = { one: hook('orders', isShared), two: { ...hook('ORDERS', isShared), enabled: false } };
    const flow = { id, name: 'Orders', version: '1', steps: quick, triggers };
    for (const [url, manifest] of [
      [`/flows/${id}?dryRun=true`, flow],
      [`/flows/${id}?allow=access`, flow],
      ['/flows', [flow]],
    ] as const) {
      const refused = { status: 400, answer: { issues: expect.arrayContaining([expect.objectContaining({ path })]) } };
      expect(await ask(app, 'PUT', url, manifest)).toMatchObject(refused);
    }
  }
  expect(app.catalog.find(id)).toBeUndefined();
});

describe('a start whose folder holds a change that is refused', () => {
  const changed = (steps: object, inputs = {}) => ({ ...githubManifest({ steps, inputs }), version: '2' });

  async function startWithRunInFlight(): Promise<string> {
    await write(githubManifest({ steps: wait }));
    return (await push(await start())).answer.runId;
  }

  it('goes on with the deployed revision and its written-out key', async () => {
    const runId = await startWithRunInFlight();
    await write(changed({ first: { type: 'NoOp' } }));
    const app = await start();
    expect(app.warnings.join('\n')).toContain(runId);
    expect(await flowOf(app)).toMatchObject({ version: '1', revision: 1 });
    const taken = await push(app);
    expect(taken.status).toBe(200);
    expect((await ask(app, 'GET', `/runs/${taken.answer.runId}`)).answer).toMatchObject({ revision: 1 });
    expect((await push(app, { key: 'another key' })).status).toBe(401);
  });

  it('fails where the settings say so, and leaves everything as it was', async () => {
    await startWithRunInFlight();
    await write(changed({ first: { type: 'NoOp' } }));
    await expect(start({ refusedDeploys: 'fail' })).rejects.toThrow(DeploysRefusedError);
    await write(githubManifest({ steps: wait }));
    expect(await flowOf(await start({ refusedDeploys: 'fail' }))).toMatchObject({ revision: 1, version: '1' });
  });

  it('deploys the other flows', async () => {
    await startWithRunInFlight();
    await write(changed({ first: { type: 'NoOp' } }));
    const id = randomUUID();
    await workspace.writeManifest('other.json', { id, version: '1', steps: quick });
    const app = await start();
    expect((await ask(app, 'GET', `/flows/${id}`)).status).toBe(200);
  });

  it('deploys the change once no run is in flight', async () => {
    const runId = await startWithRunInFlight();
    await write(changed({ first: { type: 'NoOp' } }));
    const app = await start();
    await ask(app, 'POST', `/runs/${runId}/cancel`);
    await app.reload();
    expect(await flowOf(app)).toMatchObject({ version: '2', revision: 2 });
  });
});

describe('a flow whose manifest is gone', () => {
  const renamed = () => ({ ...githubManifest({ steps: quick }), id: '00000000-0000-4000-8000-00000000000a' });

  it('stays deployed over a reload and a restart, which say so', async () => {
    await write(githubManifest({ steps: quick, inputs: { webhookHmacKey: 'env:KEY' } }));
    const options = { environment: { KEY: GITHUB_SECRET } };
    const app = await start({}, options);
    await rm(join(workspace.folder, 'manifests', 'push.json'));
    await app.reload();
    expect((await push(app)).status).toBe(200);
    const again = await start({}, options);
    expect(again.warnings.join('\n')).toContain('has no manifest in the folder');
    expect((await push(again)).status).toBe(200);
    await ask(again, 'POST', `${flowUrl}/disable`);
    expect((await push(again)).status).toBe(403);
  });

  it('is not replaced by the same flow under a new id unless that is allowed', async () => {
    await write(githubManifest({ steps: quick }));
    await start();
    await write(renamed());
    const app = await start();
    expect(app.warnings.join('\n')).toMatch(/refused push: .*\n.*id/);
    expect((await ask(app, 'GET', `/flows/${renamed().id}`)).status).toBe(404);
    // The old flow's key was written in a manifest that is gone, but it was stored, sealed.
    expect((await push(app)).status).toBe(200);

    const { status, answer } = await ask(app, 'POST', '/flows/reload?allow=breaking,access');
    expect(status).toBe(200);
    expect(answer.outcomes).toMatchObject([{ flowId: renamed().id, action: 'created', class: 'breaking' }]);
    const taken = await push(app);
    expect((await ask(app, 'GET', `/runs/${taken.answer.runId}`)).answer.flowId).toBe(renamed().id);
    const again = await start();
    expect((await push(again)).status).toBe(200);
    expect((await ask(again, 'GET', flowUrl)).answer.triggers[0].url ?? null).toBeNull();
  });
});

describe('a reload', () => {
  it('deploys what changed and says what it did', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    await write({ ...githubManifest({ steps: quick }), version: '1.1' });
    const planned = await ask(app, 'POST', '/flows/reload?dryRun=true');
    expect(planned.answer.outcomes).toMatchObject([{ action: 'updated', revision: 2 }]);
    expect(await flowOf(app)).toMatchObject({ revision: 1 });
    expect((await ask(app, 'POST', '/flows/reload')).answer).toEqual(planned.answer);
    expect(await flowOf(app)).toMatchObject({ revision: 2, version: '1.1' });
    expect((await ask(app, 'GET', `${flowUrl}/revisions`)).answer[0]).toMatchObject({ source: 'folder' });
  });

  it('changes nothing where any manifest has an error and that is to fail, says which, and goes on', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start({ refusedDeploys: 'fail' });
    await write({ ...githubManifest({ steps: quick }), version: '1.1' });
    await writeFile(join(workspace.folder, 'manifests', 'broken.json'), '{"id":');
    const { status, answer } = await ask(app, 'POST', '/flows/reload');
    expect(status).toBe(400);
    expect(answer.message).toContain('broken.json');
    await app.reload();
    expect(workspace.logged.join('')).toContain('broken.json');
    expect(await flowOf(app)).toMatchObject({ revision: 1 });
    expect((await push(app)).status).toBe(200);
  });

  it('applies a key that is written out and changed as a new revision, once that is allowed', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start();
    await write(githubManifest({ steps: quick, inputs: { webhookHmacKey: 'the next key' } }));
    await app.reload();
    expect((await push(app, { key: 'the next key' })).status).toBe(401);
    await ask(app, 'POST', '/flows/reload?allow=access');
    expect(await flowOf(app)).toMatchObject({ revision: 2 });
    expect((await push(app)).status).toBe(401);
    expect((await push(app, { key: 'the next key' })).status).toBe(200);
  });

  it('does not refill rate limits', async () => {
    const limited = { webhookRateLimitPermitsPerSecond: 0.001, webhookRateLimitBurstSize: 1 };
    await write(githubManifest({ steps: quick, inputs: limited }));
    const app = await start();
    expect((await push(app)).status).toBe(200);
    await write({ ...githubManifest({ steps: quick, inputs: limited }), version: '1.1' });
    await app.reload();
    expect(await flowOf(app)).toMatchObject({ revision: 2 });
    expect((await push(app)).status).toBe(429);
  });

  it('moves a slug from one flow to another', async () => {
    const other = {
      ...githubManifest({ steps: quick, inputs: { webhookSlug: 'other' } }),
      id: randomUUID(),
      name: 'a',
    };
    await write(githubManifest({ steps: quick }));
    await workspace.writeManifest('a.json', other);
    const app = await start();
    await write(githubManifest({ steps: quick, inputs: { webhookSlug: 'former' } }));
    await workspace.writeManifest('a.json', {
      ...githubManifest({ steps: quick }),
      id: other.id,
      name: 'a',
    });
    const { answer } = await ask(app, 'POST', '/flows/reload');
    expect(answer.outcomes.map(({ action }: { action: string }) => action)).toEqual(['updated', 'updated']);
    expect((await push(app)).status).toBe(200);
    expect((await push(app, { slug: 'former' })).status).toBe(200);
    expect((await push(app, { slug: 'other' })).status).toBe(404);
  });

  it('happens by itself where the folder is watched', async () => {
    await write(githubManifest({ steps: quick }));
    const app = await start({}, { watch: true });
    await write({ ...githubManifest({ steps: quick }), version: '1.1' });
    await eventually(
      () => flowOf(app),
      ({ version }) => version === '1.1',
    );
  });

  it('applies a new cron expression at once', async () => {
    const cron = (cronExpression: string) => ({
      ...githubManifest({ steps: quick }),
      triggers: { nightly: { type: 'cron', inputs: { cronExpression } } },
    });
    await write(cron('0 1 * * *'));
    const app = await start();
    await write(cron('0 2 * * *'));
    await app.reload();
    const [schedule] = (await ask(app, 'GET', '/schedules')).answer;
    expect(schedule).toMatchObject({ cron: '0 2 * * *' });
  });
});

describe('a flow that was deployed by a request', () => {
  it('survives a restart, and is compared with a manifest of the folder like any other', async () => {
    await write({ id: randomUUID(), version: '1', steps: quick });
    const app = await start();
    const manifest = githubManifest({ steps: quick, inputs: { webhookHmacKey: 'env:SECRET_KEY' } });
    const options = { environment: { SECRET_KEY: GITHUB_SECRET } };
    expect((await ask(app, 'PUT', flowUrl, manifest)).status).toBe(400);
    const informed = await start({}, options);
    expect((await ask(informed, 'PUT', flowUrl, manifest)).answer).toMatchObject({ action: 'created' });
    expect((await push(informed)).status).toBe(200);
    const again = await start({}, options);
    expect((await push(again)).status).toBe(200);
    await workspace.writeManifest('later.json', { ...manifest, version: '2' });
    expect(await flowOf(await start({}, options))).toMatchObject({ revision: 2, version: '2' });
  });
});
