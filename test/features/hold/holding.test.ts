import { createHmac, randomUUID } from 'node:crypto';
import pino from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import type { SettingsInput } from '../../../src/config/settings-schema.ts';
import type { Store } from '../../../src/store/store.ts';
import { buildApp, openEmptyStore } from '../../database.ts';
import { createWorkspace, eventually, GITHUB_SECRET, githubManifest, type Workspace } from '../../e2e/service.ts';

/** The flow of the test. */
let id: string;
let slug: string;
beforeEach(() => {
  id = randomUUID();
  slug = `push-${id}`;
});

const manifestOf = (inputs: object = {}, steps: object = { first: { type: 'NoOp' } }) => ({
  ...githubManifest({ inputs: { webhookSlug: slug, ...inputs }, steps }),
  id,
  name: slug,
});

let shared: SluiceApp;
let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
  shared = await build(workspace);
});
afterAll(async () => {
  await shared.close();
  await workspace.remove();
});

/** The service of all tests that need no other; its flow can hold deliveries. */
async function open(): Promise<SluiceApp> {
  await put(shared, manifestOf());
  return shared;
}

async function build({ folder }: Workspace, settings: SettingsInput = {}, store?: Store): Promise<SluiceApp> {
  const app = await buildApp({
    settings: { enforcementMode: 'Enforce', port: 0, holdDeliveries: true, ...settings },
    folder,
    logger: pino({ level: 'silent' }),
    ...(store && { store }),
  });
  await app.listen();
  return app;
}

/** A service for one test, which can stop it and start it again in its folder. */
async function start(settings: SettingsInput = {}, inputs: object = {}, store?: Store) {
  const own = await createWorkspace();
  await own.writeManifest('push.json', manifestOf(inputs));
  let app = await build(own, settings, store);
  onTestFinished(async () => {
    await app.close();
    await own.remove();
  });
  const restart = async () => {
    await app.close();
    app = await build(own, settings);
    return app;
  };
  return { app, restart };
}

const put = async ({ fastify }: SluiceApp, manifest: object) => {
  const url = `${flowUrl()}?allow=breaking`;
  expect((await fastify.inject({ method: 'PUT', url, payload: JSON.stringify(manifest) })).statusCode).toBe(200);
};
const flowUrl = () => `/flows/api/flows/${id}`;
const get = async ({ fastify }: SluiceApp, url: string) => (await fastify.inject(url)).json();
const act = async ({ fastify }: SluiceApp, what: string, body: object = {}) =>
  (await fastify.inject({ method: 'POST', url: `${flowUrl()}/${what}`, payload: body })).json();

async function deliver(
  { fastify }: SluiceApp,
  nonce: string,
  options: { key?: string; headers?: object; body?: string } = {},
) {
  const body = JSON.stringify({ nonce: options.body ?? nonce });
  const signature = createHmac('sha256', options.key ?? GITHUB_SECRET)
    .update(body)
    .digest('hex');
  const response = await fastify.inject({
    method: 'POST',
    url: `/flows/api/webhook/${slug}`,
    payload: body,
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': `sha256=${signature}`,
      'x-github-delivery': nonce,
      ...options.headers,
    },
  });
  return { status: response.statusCode, answer: response.json() };
}

interface ListedRun {
  readonly id: string;
  readonly status: string;
  readonly revision: number;
}
const runsOf = (app: SluiceApp): Promise<ListedRun[]> => get(app, `/flows/api/runs?flowId=${id}&take=500`);
const released = (app: SluiceApp, count: number) =>
  eventually(
    () => runsOf(app),
    (runs) => runs.length === count && runs.every(({ status }) => status === 'Succeeded'),
  );

describe.each(['drain', 'disable'])('while a flow cannot start runs because of %s', (how) => {
  const again = how === 'drain' ? 'resume' : 'enable';

  it('a delivery that passes the gates is taken, and its run starts when the flow does again', async () => {
    const app = await open();
    await act(app, how);
    const held = await deliver(app, 'n-1');
    expect(held).toEqual({
      status: 200,
      answer: { runId: expect.any(String), deliveryId: expect.any(String), held: true },
    });
    expect(await runsOf(app)).toEqual([]);
    expect(await get(app, flowUrl())).toMatchObject({ held: 1 });
    expect(await (await app.fastify.inject('/metrics')).body).toContain(`sluice_deliveries_held{flow="${id}"} 1`);
    expect(await get(app, `/flows/api/webhooks/${held.answer.deliveryId}`)).toMatchObject({
      runId: held.answer.runId,
      statusCode: 200,
      rejected: false,
    });
    await act(app, again);
    const [run] = await released(app, 1);
    expect(run?.id).toBe(held.answer.runId);
    expect(await get(app, flowUrl())).toMatchObject({ held: 0 });
    expect(await get(app, `/flows/api/runs/${run?.id}`)).toMatchObject({
      triggerBody: { nonce: 'n-1' },
      deliveryId: held.answer.deliveryId,
    });
    expect((await deliver(app, 'n-2')).answer).not.toHaveProperty('held');
  });

  it('who closes the flow says whether it holds, whatever its trigger says, until it is open or closed anew', async () => {
    const { app, restart } = await start({}, { webhookHoldDeliveries: false });
    await act(app, how, { hold: true, reason: 'the shop is being moved' });
    expect(await get(app, flowUrl())).toMatchObject({ triggers: [{ holdsDeliveries: true }] });
    expect(await deliver(app, 'delivery-1')).toMatchObject({ status: 200, answer: { held: true } });
    const restarted = await restart();
    expect(await deliver(restarted, 'delivery-2')).toMatchObject({ status: 200, answer: { held: true } });
    await act(restarted, again);
    await released(restarted, 2);
    await act(restarted, how);
    expect(await deliver(restarted, 'delivery-3')).toMatchObject({ status: 403 });
    await act(restarted, how, { hold: true });
    await act(restarted, how, { hold: false });
    expect(await deliver(restarted, 'delivery-3')).toMatchObject({ status: 403 });
  });
});

describe('while a flow is disabled', () => {
  it('the metrics name it from the first delivery that is held on', async () => {
    const app = await open();
    const metrics = async () => (await app.fastify.inject('/metrics')).body;
    await act(app, 'disable');
    await act(app, 'enable');
    expect(await metrics()).not.toContain(`sluice_deliveries_held{flow="${id}"`);
    await act(app, 'disable');
    await deliver(app, 'n-1');
    await act(app, 'enable');
    await released(app, 1);
    await eventually(metrics, (text) => text.includes(`sluice_deliveries_held{flow="${id}"} 0`));
  });

  it('gates judge as usual, and nonces count', async () => {
    const app = await open();
    await act(app, 'disable');
    expect((await deliver(app, 'n-1', { key: 'wrong' })).status).toBe(401);
    await deliver(app, 'n-1');
    expect(await deliver(app, 'n-1')).toMatchObject({ status: 409, answer: { reason: 'nonce_replayed' } });
    expect(await get(app, flowUrl())).toMatchObject({ held: 1 });
  });

  it('an idempotency key that is known names the held run', async () => {
    const app = await open();
    await act(app, 'disable');
    const headers = { 'idempotency-key': 'once' };
    const first = await deliver(app, 'n-1', { headers });
    expect((await deliver(app, 'n-2', { headers, body: 'n-1' })).answer).toMatchObject({
      runId: first.answer.runId,
      duplicate: true,
    });
    expect(await deliver(app, 'n-3', { headers })).toMatchObject({
      status: 409,
      answer: { reason: 'idempotency_conflict' },
    });
  });

  it('held deliveries survive a restart, in their order', async () => {
    const { app, restart } = await start();
    await act(app, 'disable');
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push((await deliver(app, `n-${n}`)).answer.runId);
    const next = await restart();
    expect(await get(next, flowUrl())).toMatchObject({ held: 5 });
    await act(next, 'enable');
    const runs = await released(next, 5);
    expect(runs.map(({ id }) => id).reverse()).toEqual(ids);
  });

  it('a flow that holds nothing refuses', async () => {
    const { app } = await start({ holdDeliveries: false });
    await act(app, 'disable');
    expect(await deliver(app, 'n-1')).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
  });
});

describe('held deliveries', () => {
  it('start runs of the revision that is deployed when they start', async () => {
    const app = await open();
    await act(app, 'drain');
    await deliver(app, 'n-1');
    await put(app, manifestOf({}, { other: { type: 'NoOp' } }));
    await act(app, 'resume');
    const [run] = await released(app, 1);
    expect(run?.revision).toBe(2);
    const steps = await get(app, `/flows/api/runs/${run?.id}/steps`);
    expect(steps.map(({ stepKey }: { stepKey: string }) => stepKey)).toEqual(['other']);
  });

  it('each start one run, before deliveries that arrive during the release', async () => {
    const app = await open();
    await act(app, 'drain');
    const taken: string[] = [];
    const send = async (nonce: string) => {
      const { status, answer } = await deliver(app, nonce);
      expect(status).toBe(200);
      taken.push(answer.runId);
    };
    for (let n = 0; n < 150; n += 1) await send(`before-${n}`);
    const resumed = act(app, 'resume');
    await Promise.all(Array.from({ length: 50 }, (_, n) => send(`during-${n}`)));
    await resumed;
    const runs = await released(app, 200);
    expect(new Set(runs.map(({ id }) => id))).toEqual(new Set(taken));
    expect(
      runs
        .map(({ id }) => id)
        .reverse()
        .slice(0, 150),
    ).toEqual(taken.slice(0, 150));
  });

  it.each([
    [{ webhookHoldDeliveries: true }, { holdDeliveries: false }, 200],
    [{ webhookHoldDeliveries: false }, { holdDeliveries: true }, 403],
  ])('depend on the trigger: %j under %j', async (inputs, settings, status) => {
    const { app } = await start(settings, inputs);
    await act(app, 'drain');
    expect((await deliver(app, 'n-1')).status).toBe(status);
  });

  it('are reported by a dry run as accepted', async () => {
    const app = await open();
    await act(app, 'drain');
    const body = '{}';
    const response = await app.fastify.inject({
      method: 'POST',
      url: `/flows/api/webhooks/dry-run/${slug}`,
      payload: body,
      headers: {
        'content-type': 'application/json',
        'x-github-delivery': 'n-1',
        'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`,
      },
    });
    expect(response.json()).toMatchObject({ statusCode: 200, reason: null });
  });
});

describe('the bounds of what is held', () => {
  it('refuse more than so many bytes, and accept again once there is room', async () => {
    // Each takes 1024 bytes in addition to its headers and body, and a flow may use half.
    const held = { maxRows: Number.POSITIVE_INFINITY, maxBytes: 6000 };
    const { app } = await start({}, {}, await openEmptyStore({ held }));
    await act(app, 'drain');
    const statuses = [];
    for (const nonce of ['n-1', 'n-2', 'n-3']) statuses.push((await deliver(app, nonce)).status);
    expect(statuses).toEqual([200, 200, 503]);
    expect(await deliver(app, 'n-3')).toMatchObject({ answer: { reason: 'store_unavailable' } });
    expect(await get(app, flowUrl())).toMatchObject({ held: 2 });
    await act(app, 'resume');
    await released(app, 2);
    expect((await deliver(app, 'n-3')).status).toBe(200);
  });
});

describe('held deliveries that an operator discards', () => {
  const discard = ({ fastify }: SluiceApp, body: object) =>
    fastify
      .inject({ method: 'POST', url: `${flowUrl()}/held/discard`, payload: body })
      .then((response) => ({ status: response.statusCode, answer: response.json() }));

  it('start no run, and the activity and their records say who did it and why', async () => {
    const app = await open();
    await act(app, 'disable');
    for (const nonce of ['n-1', 'n-2']) await deliver(app, nonce);
    for (const body of [{}, { reason: ' ' }, { reason: 'x', before: 'yesterday' }]) {
      expect(await discard(app, body)).toMatchObject({ status: 400 });
    }
    expect(await discard(app, { reason: 'too old', before: '2001-01-01T00:00:00Z' })).toMatchObject({
      status: 200,
      answer: { discarded: 0, left: 2 },
    });
    expect(await discard(app, { reason: 'done by hand' })).toMatchObject({ answer: { discarded: 2, left: 0 } });
    expect(await get(app, flowUrl())).toMatchObject({ held: 0 });
    const kept = await get(app, `/flows/api/activity?target=${id}&action=discardHeld&take=1`);
    expect(kept).toMatchObject([{ actor: 'anyone', reason: 'done by hand', statusCode: 200 }]);
    const records = await get(app, `/flows/api/webhooks/recent?flowId=${id}`);
    const detail = 'held, and discarded by anyone: done by hand';
    expect(records).toMatchObject([{ detail }, { detail }]);
    await act(app, 'enable');
    expect(await deliver(app, 'n-1')).toMatchObject({ status: 409, answer: { reason: 'nonce_replayed' } });
    expect(await deliver(app, 'n-3')).toMatchObject({ status: 200 });
    await released(app, 1);
  });
});
