import { describe, expect, it } from 'vitest';
import { CAPTURED } from '../../src/webhooks/schemes/spec.ts';
import { aRun } from '../store/samples.ts';
import { HOOK_ONLY_ID, NOW, ORDERS_ID, startDashboard, useDashboard } from './fixture.ts';

const dashboard = useDashboard();
const { get } = dashboard;
const post = (url: string, request: object = {}) => dashboard.app.inject({ method: 'POST', url, ...request });
const triggerUrl = `/flows/api/flows/${ORDERS_ID}/trigger`;
const json = { 'content-type': 'application/json' };

const orders = {
  id: ORDERS_ID,
  name: 'orders',
  version: '1.2.0',
  revision: 1,
  isEnabled: true,
  builtIn: false,
  createdAt: '2026-11-21T12:00:00.000Z',
  updatedAt: '2026-11-21T12:00:00.000Z',
  drainingSince: null,
  held: 0,
  triggers: [
    { key: 'byHand', type: 'manual', enabled: true },
    { key: 'hourly', type: 'cron', enabled: true },
    {
      key: 'shop',
      type: 'webhook',
      enabled: true,
      slug: 'orders',
      url: 'http://127.0.0.1:3000/flows/api/webhook/orders',
      scheme: 'GitHub',
      grade: 'D',
      captured: CAPTURED.D,
      eventId: null,
      coalesce: null,
      reconcile: null,
      signals: null,
      mode: 'Enforce',
      holdsDeliveries: false,
      lastDeliveryAt: null,
      toCheck: expect.arrayContaining([expect.stringContaining('signs as GitHub')]),
      sendCommand: 'npx sluice send orders --to http://127.0.0.1:3000',
    },
    {
      key: 'unreachable',
      type: 'webhook',
      enabled: true,
      slug: null,
      url: null,
      scheme: null,
      grade: 'F',
      captured: CAPTURED.F,
      eventId: null,
      coalesce: null,
      reconcile: null,
      signals: null,
      mode: 'Audit',
      holdsDeliveries: false,
      lastDeliveryAt: null,
      toCheck: expect.arrayContaining(['The trigger has no address: give it a webhookSlug.']),
      sendCommand: null,
    },
  ],
  runs: { running: 0, since: '2026-11-20T12:00:00.000Z', succeeded: 0, failed: 0, cancelled: 0, skipped: 0 },
};

const hookOnlyTrigger = {
  key: 'hook',
  type: 'webhook',
  enabled: true,
  slug: null,
  url: `http://127.0.0.1:3000/flows/api/webhook/${HOOK_ONLY_ID}`,
  scheme: null,
  mode: 'Audit',
  holdsDeliveries: false,
  sendCommand: `npx sluice send ${HOOK_ONLY_ID} --to http://127.0.0.1:3000`,
};

describe('flows', () => {
  it('shows each webhook as it is in force: its address, scheme and mode', async () => {
    const [hookOnly, listed] = await get('/flows/api/flows');
    expect(hookOnly).toMatchObject({ id: HOOK_ONLY_ID, triggers: [hookOnlyTrigger] });
    expect(listed).toEqual(orders);
  });

  it('shows one with its manifest, secrets masked', async () => {
    const { manifest, ...flow } = await get(`/flows/api/flows/${ORDERS_ID.toUpperCase()}`);
    expect(flow).toEqual(orders);
    expect(manifest).toMatchObject({ id: ORDERS_ID, steps: { validate: { type: 'NoOp' } } });
    expect(manifest.triggers.shop.inputs).toMatchObject({ webhookSlug: 'orders', webhookHmacKey: '***' });
  });

  it.each([
    ['https://hooks.example.com/base', 'https://hooks.example.com/base/flows/api/webhook/orders'],
    ['https://u:hunter2@hooks.example.com', 'https://hooks.example.com/flows/api/webhook/orders'],
    [undefined, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/flows\/api\/webhook\/orders$/],
  ])('names the public URL %s, else the socket that listens, in a webhook', async (publicUrl, expected) => {
    const other = await startDashboard({ publicUrl, listener: { host: '127.0.0.1', port: 0 } });
    try {
      await other.app.listen({ host: '127.0.0.1', port: 0 });
      const { triggers } = (await other.app.inject(`/flows/api/flows/${ORDERS_ID}`)).json();
      expect(triggers[2].url).toMatch(expected);
      expect(triggers[2].url).not.toContain(':0/');
    } finally {
      await other.close();
    }
  });
});

describe('the run counts of a flow', () => {
  it('counts those in flight and those that ended in the last day, each flow for itself', async () => {
    const ids = [1, 2, 3].map((n) => `019aa000-0000-7000-8000-00000000000${n}`);
    const started = { flowId: ORDERS_ID, startedAt: NOW - 3_600_000 };
    for (const [n, end] of [
      {},
      { status: 'TimedOut' as const, completedAt: NOW },
      { flowId: HOOK_ONLY_ID },
    ].entries()) {
      await dashboard.store.accept({ run: aRun({ ...started, id: ids[n] ?? '', ...end }) });
    }
    const [hookOnly, listed] = await get('/flows/api/flows');
    expect(listed.runs).toMatchObject({ running: 1, failed: 1, succeeded: 0 });
    expect(hookOnly.runs).toMatchObject({ running: 1, failed: 0 });
  });
});

describe('a command to send a sample with', () => {
  it.each([
    ['https://hooks.example.com/base', 'npx sluice send orders --to https://hooks.example.com/base'],
    ["https://a.example/it's", "npx sluice send orders --to 'https://a.example/it'\\''s'"],
  ])('goes to %s and survives a shell', async (publicUrl, command) => {
    const other = await startDashboard({ publicUrl });
    expect((await other.app.inject(`/flows/api/flows/${ORDERS_ID}`)).json().triggers[2].sendCommand).toBe(command);
    await other.close();
  });
});

describe('disable and enable', () => {
  it('answer the flow as it is then, and again the same, without a body or a content type', async () => {
    dashboard.clock.advance(60_000);
    const url = `/flows/api/flows/${HOOK_ONLY_ID}`;
    const disabled = (await post(`${url}/disable`)).json();
    expect(disabled).toMatchObject({
      id: HOOK_ONLY_ID,
      isEnabled: false,
      updatedAt: new Date(NOW + 60_000).toISOString(),
      triggers: [hookOnlyTrigger],
    });
    dashboard.clock.advance(60_000);
    expect((await post(`${url.toUpperCase().replace('/FLOWS/API/FLOWS', '/flows/api/flows')}/disable`)).json()).toEqual(
      disabled,
    );
    expect(await get(url)).toMatchObject({ isEnabled: false });
    expect((await post(`${url}/enable`, { headers: json })).json()).toMatchObject({ isEnabled: true });
    expect((await post(`${url}/enable`, { headers: json, body: '{}' })).statusCode).toBe(200);
    expect(await get(url)).toMatchObject({ isEnabled: true });
  });
});

describe('a run by hand', () => {
  it.each([
    ['an object', '{"order":7}', { order: 7 }],
    ['a number', '7', 7],
    ['null', 'null', null],
    ['nothing', undefined, null],
  ])('gets %s as its body', async (_rule, body, expected) => {
    const response = await post(triggerUrl, { headers: json, body });
    expect(response.statusCode).toBe(200);
    const { runId } = response.json();
    expect(response.json()).toEqual({ runId });
    expect(await get(`/flows/api/runs/${runId}`)).toMatchObject({
      flowId: ORDERS_ID,
      triggerKey: 'byHand',
      triggerType: 'manual',
      triggerBody: expected,
      status: 'Running',
    });
  });

  it('needs no content type, and keeps the exact bytes', async () => {
    const { runId } = (await post(triggerUrl, { body: Buffer.from('{"id": 12345678901234567890}') })).json();
    const run = await dashboard.store.findRun(runId);
    expect(Buffer.from(run?.trigger.body ?? []).toString()).toBe('{"id": 12345678901234567890}');
  });

  it('is started once for an idempotency key', async () => {
    const headers = { ...json, 'idempotency-key': 'order-7' };
    const first = (await post(triggerUrl, { headers, body: '{}' })).json();
    expect((await post(triggerUrl, { headers, body: '{}' })).json()).toEqual({ runId: first.runId, duplicate: true });
    const other = (
      await post(triggerUrl, { headers: { ...headers, 'idempotency-key': 'order-8' }, body: '{}' })
    ).json();
    expect(other.runId).not.toBe(first.runId);
    const conflict = await post(triggerUrl, { headers, body: '{"n":2}' });
    expect([conflict.statusCode, conflict.json().reason]).toEqual([409, 'idempotency_conflict']);
    expect(await get(`/flows/api/runs/${first.runId}/control`)).toMatchObject({ idempotencyKey: 'order-7' });
  });

  it('can name the trigger', async () => {
    const { runId } = (await post(`${triggerUrl}?triggerKey=hourly`)).json();
    expect(await get(`/flows/api/runs/${runId}`)).toMatchObject({ triggerKey: 'hourly', triggerType: 'manual' });
  });

  it('is possible for a flow without a manual trigger', async () => {
    const response = await post(`/flows/api/flows/${HOOK_ONLY_ID}/trigger`);
    expect(response.statusCode).toBe(200);
    expect(await get(`/flows/api/runs/${response.json().runId}`)).toMatchObject({ triggerKey: 'manual' });
  });

  it('is refused while the flow is disabled', async () => {
    await post(`/flows/api/flows/${ORDERS_ID}/disable`);
    const response = await post(triggerUrl, { headers: json, body: '{}' });
    expect(response.statusCode).toBe(403);
    expect(response.json()).toMatchObject({ statusCode: 403, error: 'Forbidden', reason: 'flow_disabled' });
    await post(`/flows/api/flows/${ORDERS_ID}/enable`);
  });

  it.each([
    ['JSON that is none', json, '{"a":', 400, 'invalid_json', 'body: '],
    ['a body that is no UTF-8', json, Buffer.from([0xff]), 400, 'invalid_json', 'body: '],
    ['another content type', { 'content-type': 'text/plain' }, '{}', 415, undefined, 'content-type: "text/plain"'],
    ['a body over 1 MiB', json, `"${'x'.repeat(1_048_576)}"`, 413, undefined, ''],
    [
      'a long idempotency key',
      { 'idempotency-key': 'k'.repeat(256) },
      undefined,
      400,
      'invalid_request',
      'idempotency-key: ',
    ],
  ])('refuses %s', async (_rule, headers, body, statusCode, reason, message) => {
    const response = await post(triggerUrl, { headers, body });
    expect(response.json()).toMatchObject({ statusCode, message: expect.stringContaining(message) });
    expect(response.json().reason).toBe(reason);
    expect(response.statusCode).toBe(statusCode);
  });

  it('is refused for a trigger that the flow does not have, and says which it has', async () => {
    const { statusCode, message } = (await post(`${triggerUrl}?triggerKey=toString`)).json();
    expect(statusCode).toBe(400);
    expect(message).toMatch(/^triggerKey: "toString" .* byHand, hourly, shop, unreachable$/);
  });
});
