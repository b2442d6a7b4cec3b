import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import type { SettingsInput } from '../../../src/config/settings-schema.ts';
import type { TokenEntry } from '../../../src/config/tokens.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { newKey } from '../../../src/store/sealed-body.ts';
import { deliveryStores, isOnPostgres } from '../../database.ts';
import { FLOW_ID, GITHUB_SECRET } from '../../e2e/service.ts';
import { useFolderApp } from '../../folder-app.ts';
import { FakeClock } from '../../webhooks/samples.ts';

const BODY = '{"canary":"bytes of a refused body"}';
const HOUR_MS = 3_600_000;
const LISTED: WebhookInputs = { webhookIpAllowList: ['127.0.0.1'] };
const UNLISTED: WebhookInputs = { webhookIpAllowList: ['192.0.2.1'] };

const workspace = useFolderApp({ listens: false });
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
});

/** Starts the service on the workspace's database with one trigger; stops an earlier one. */
async function deploy(inputs: WebhookInputs, settings: SettingsInput = {}): Promise<SluiceApp> {
  const hook = { webhookSlug: 'hook', webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET, ...inputs };
  const triggers = { hook: { type: 'webhook', inputs: hook } };
  await workspace.writeManifest('hook.json', { id: FLOW_ID, version: randomUUID(), triggers, steps: {} });
  return workspace.start(settings, { clock, allow: ['access'] });
}

const post = async ({ fastify }: SluiceApp, url: string, options: { headers?: object; body?: string } = {}) =>
  (
    await fastify.inject({
      method: 'POST',
      url,
      body: options.body ?? '',
      headers: { 'content-type': 'application/json', ...options.headers },
    })
  ).json();
const get = async ({ fastify }: SluiceApp, url: string) => (await fastify.inject(url)).json();
const signed = (nonce = 'n-1', body = BODY) => ({
  body,
  headers: {
    'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`,
    'x-github-delivery': nonce,
  },
});
const deliver = (app: SluiceApp, delivery = signed()) => post(app, '/flows/api/webhook/hook', delivery);
const newestId = async (app: SluiceApp): Promise<string> => (await get(app, '/flows/api/webhooks/recent?take=1'))[0].id;
const redeliver = (app: SluiceApp, id: string, body = {}) =>
  post(app, `/flows/api/webhooks/${id}/redeliver`, { body: JSON.stringify(body) });

describe('a delivery that was refused for its address', () => {
  const nonce = { webhookNonceHeader: 'X-GitHub-Delivery', webhookReplayToleranceSeconds: 300 };

  it('is told from a forged one, and accepted once the list is right', async () => {
    const wrong = await deploy(UNLISTED);
    await deliver(wrong);
    const id = await newestId(wrong);
    const { hints, gateResults } = await get(wrong, `/flows/api/webhooks/${id}`);
    expect(hints).toEqual([expect.stringMatching(/^The signature is valid, but .* is not on the allow list/)]);
    expect(gateResults.find(({ gate }: { gate: string }) => gate === 'signature')).toMatchObject({
      outcome: 'not evaluated',
    });
    const right = await deploy(LISTED);
    clock.advance(HOUR_MS);
    expect(await redeliver(right, id)).toMatchObject({ outcome: 'accepted', reason: null });
  });

  it('starts no second run when its publisher sent it again meanwhile, not by force, not after the nonce expired', async () => {
    const wrong = await deploy({ ...UNLISTED, ...nonce });
    await deliver(wrong);
    const id = await newestId(wrong);
    const right = await deploy({ ...LISTED, ...nonce });
    clock.advance(10_000);
    const { runId } = await deliver(right);
    await deliver(right);
    const replay = await newestId(right);
    clock.advance(72 * HOUR_MS);
    expect(await redeliver(right, replay, { force: true })).toMatchObject({ reason: 'nonce_replayed', runId });
    for (const body of [{}, { force: true }]) {
      expect(await redeliver(right, id, body)).toMatchObject({ outcome: 'refused', reason: 'nonce_replayed', runId });
    }
    expect(await get(right, '/flows/api/runs')).toHaveLength(1);
  });

  it('uses its nonce up, so that what the publisher sends again later is a replay', async () => {
    const wrong = await deploy({ ...UNLISTED, ...nonce });
    await deliver(wrong);
    const id = await newestId(wrong);
    const right = await deploy({ ...LISTED, ...nonce });
    clock.advance(72 * HOUR_MS);
    const { runId } = await redeliver(right, id);
    expect(runId).toEqual(expect.any(String));
    expect(await deliver(right)).toMatchObject({ statusCode: 409, reason: 'nonce_replayed' });
    expect(await get(right, '/flows/api/runs')).toHaveLength(1);
  });
});

it('a signed timestamp is judged as of when the delivery came', async () => {
  const slack = { webhookSignatureScheme: 'Slack', webhookReplayToleranceSeconds: 300 };
  const wrong = await deploy({ ...slack, ...UNLISTED });
  const time = String(clock.now() / 1000);
  const signature = `v0=${createHmac('sha256', GITHUB_SECRET).update(`v0:${time}:${BODY}`).digest('hex')}`;
  await deliver(wrong, {
    body: BODY,
    headers: { 'x-slack-signature': signature, 'x-slack-request-timestamp': time },
  } as unknown as ReturnType<typeof signed>);
  const id = await newestId(wrong);
  const right = await deploy({ ...slack, ...LISTED });
  clock.advance(24 * HOUR_MS);
  expect(await redeliver(right, id)).toMatchObject({ outcome: 'accepted' });
});

it('a rate limit that refused a delivery is not used up by judging it again', async () => {
  const limited = { webhookRateLimitPermitsPerSecond: 0.001 };
  const app = await deploy(limited);
  await deliver(app, signed('n-1'));
  await deliver(app, signed('n-2'));
  const id = await newestId(app);
  expect(await redeliver(app, id)).toMatchObject({ outcome: 'refused', reason: 'rate_limited' });
  clock.advance(1000 * 1000);
  expect(await redeliver(app, id)).toMatchObject({ outcome: 'accepted' });
  expect(await deliver(app, signed('n-3'))).toMatchObject({ runId: expect.any(String) });
});

it('a signature that stood in Authorization was never kept, and the answer says so', async () => {
  const teams = { webhookSignatureScheme: 'MicrosoftTeams', webhookHmacKey: Buffer.from('key').toString('base64') };
  const wrong = await deploy({ ...teams, ...UNLISTED });
  const signature = createHmac('sha256', 'key').update(BODY).digest('base64');
  await deliver(wrong, {
    body: BODY,
    headers: { authorization: `HMAC ${signature}` },
  } as unknown as ReturnType<typeof signed>);
  const id = await newestId(wrong);
  const right = await deploy({ ...teams, ...LISTED });
  const why = 'cannot be judged again by the contents of authorization: credentials are never stored';
  expect((await get(right, `/flows/api/webhooks/${id}`)).hints).toEqual([`The delivery ${why}.`]);
  expect(await redeliver(right, id)).toMatchObject({ outcome: 'refused', message: why });
  expect(await redeliver(right, id, { force: true })).toMatchObject({ outcome: 'accepted' });
});

it.skipIf(isOnPostgres())(
  'with a store key no byte of a refused body is readable in the file, and it can be judged again',
  async () => {
    const settings = { storeKey: newKey() };
    const wrong = await deploy(UNLISTED, settings);
    await deliver(wrong);
    const id = await newestId(wrong);
    expect((await get(wrong, `/flows/api/webhooks/${id}`)).body).toBe(BODY);
    const other = await deploy(LISTED, { storeKey: newKey() });
    const sealed = 'cannot be judged again: its body is sealed with another key';
    expect(await redeliver(other, id)).toMatchObject({ outcome: 'not possible', message: sealed });
    const right = await deploy(LISTED, settings);
    await right.close();
    expect(readFileSync(join(workspace.folder, 'data', 'sluice.db')).includes('bytes of a refused body')).toBe(false);
    expect(await redeliver(await deploy(LISTED, settings), id)).toMatchObject({ outcome: 'accepted' });
  },
);

it.each(deliveryStores())('judges a delivery again, once, with the records in the %s', async (deliveryStore) => {
  const app = await deploy({ webhookRateLimitPermitsPerSecond: 0.001 }, { deliveryStore });
  await deliver(app, signed('n-1'));
  await deliver(app, signed('n-2'));
  const id = await newestId(app);
  const answers = await Promise.all([1, 2, 3].map(() => redeliver(app, id, { force: true })));
  expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
  expect(await get(app, '/flows/api/runs')).toHaveLength(2);
  expect(await get(app, '/flows/api/webhooks/stats')).toMatchObject({ accepted: 1, rejected: 2, total: 3 });
});

describe('a delivery that webhookWhen filtered', () => {
  const NONE = "body.canary == 'none'";
  const nonce = { webhookNonceHeader: 'X-GitHub-Delivery', webhookReplayToleranceSeconds: 300 };

  it.each(deliveryStores())(
    'starts one run once the expression lets it, with records in the %s',
    async (deliveryStore) => {
      const app = await deploy({ ...nonce, webhookWhen: NONE }, { deliveryStore });
      expect(await deliver(app)).toEqual({ deliveryId: expect.any(String), filtered: true });
      const id = await newestId(app);
      const still = { outcome: 'filtered', runId: null, deliveryId: null };
      for (const body of [{}, { force: true }]) expect(await redeliver(app, id, body)).toMatchObject(still);
      expect((await get(app, `/flows/api/webhooks/${id}`)).redelivery).toMatchObject({ possible: false });
      const manifest = { id: FLOW_ID, version: '2', triggers: { hook: hookWith({ ...nonce }) }, steps: {} };
      const put = await app.fastify.inject({ method: 'PUT', url: `/flows/api/flows/${FLOW_ID}`, payload: manifest });
      expect(put.statusCode, put.body).toBe(200);
      expect((await get(app, `/flows/api/webhooks/${id}`)).redelivery).toMatchObject({ possible: true });
      const { runId } = await redeliver(app, id);
      expect(runId).toEqual(expect.any(String));
      expect(await redeliver(app, id)).toMatchObject({ outcome: 'accepted before', runId });
      expect(await deliver(app)).toMatchObject({ statusCode: 409 });
      expect(await get(app, '/flows/api/runs')).toHaveLength(1);
    },
  );

  it('is planned and redelivered with many, apart from refused ones', async () => {
    const app = await deploy({ ...nonce, webhookWhen: NONE });
    for (const n of ['n-1', 'n-2']) await deliver(app, signed(n));
    const plan = async (filtered: boolean) =>
      (await post(app, '/flows/api/webhooks/redeliver', { body: JSON.stringify({ filtered }) })).items;
    expect(await plan(false)).toEqual([]);
    expect(await plan(true)).toMatchObject([{ outcome: 'filtered' }, { outcome: 'filtered' }]);
  });
});

describe('a delivery with a body that a person edited', () => {
  const EDITED = '{"canary":"as a person wrote it: é"}';
  const nonce = { webhookNonceHeader: 'X-GitHub-Delivery', webhookReplayToleranceSeconds: 300 };

  it.each(deliveryStores())(
    'starts one run more, and never looks like what its publisher sent, with records in the %s',
    async (deliveryStore) => {
      const app = await deploy({ ...nonce, webhookEventId: 'body.event' }, { deliveryStore });
      const { runId: firstRun } = await deliver(app);
      const id = await newestId(app);
      const answers = await Promise.all(
        [1, 2, 3].map(() => redeliver(app, id, { body: EDITED, reason: 'the order was wrong' })),
      );
      expect(answers.map(({ outcome }) => outcome).sort()).toEqual(['accepted', 'accepted before', 'accepted before']);
      const { runId, deliveryId } = answers.find(({ outcome }) => outcome === 'accepted');
      expect(runId).not.toBe(firstRun);
      const sent = await get(app, `/flows/api/webhooks/${deliveryId}`);
      expect(sent).toMatchObject({
        edited: true,
        redeliveredFrom: id,
        body: EDITED,
        detail: 'redelivered with an edited body by anyone',
        headers: { 'x-github-delivery': 'n-1' },
      });
      expect(sent.headers).not.toHaveProperty('x-hub-signature-256');
      expect(sent.gateResults.find(({ gate }: { gate: string }) => gate === 'signature').outcome).toBe('not evaluated');
      expect(await get(app, `/flows/api/webhooks/${id}`)).toMatchObject({ edited: false, redeliveredAs: deliveryId });
      expect((await get(app, `/flows/api/runs/${runId}/trigger`)).triggerBody).toEqual(JSON.parse(EDITED));
      expect(await get(app, `/flows/api/runs/${runId}/lineage`)).toMatchObject({ edited: true });
      expect(await get(app, `/flows/api/runs/${firstRun}/lineage`)).toMatchObject({ edited: false });
      expect((await get(app, '/flows/api/activity?action=redeliverDelivery'))[0]).toMatchObject({
        target: { type: 'delivery', id },
        reason: 'the order was wrong',
        details: { edited: 'true' },
      });
      expect(JSON.stringify(await get(app, '/flows/api/activity'))).not.toContain('as a person wrote it');
      expect(await deliver(app)).toMatchObject({ statusCode: 409, reason: 'nonce_replayed' });
      expect(await get(app, '/flows/api/runs')).toHaveLength(2);
    },
  );

  it('is refused by its size, its schema, what is not JSON, a known event and a closed flow', async () => {
    const webhookBodySchema = { type: 'object', properties: { canary: { type: 'string' } }, required: ['canary'] };
    const app = await deploy({ ...nonce, webhookEventId: 'body.event', webhookBodySchema }, { maxBodyBytes: 200 });
    const { runId } = await deliver(app, signed('n-1', '{"canary":"first","event":"e-1"}'));
    const first = await newestId(app);
    await deliver(app, signed('n-2', '{"wrong":true}'));
    const id = await newestId(app);
    const send = (body: object) => redeliver(app, id, body);
    const padded = JSON.stringify({ canary: 'c'.repeat(200) });
    expect(await send({ body: padded })).toMatchObject({ outcome: 'refused', reason: 'body_too_large' });
    expect(await send({ body: '{"canary":1}' })).toMatchObject({ outcome: 'refused', reason: 'body_schema' });
    expect(await send({ body: '{"canary"' })).toMatchObject({ outcome: 'refused', reason: 'body_schema' });
    expect(await send({ body: '{"canary"', force: true })).toMatchObject({
      outcome: 'refused',
      reason: 'invalid_json',
    });
    expect(await send({ body: '{"wrong":true}' })).toMatchObject({ outcome: 'not possible' });
    expect(await send({ body: '{', bodyEncoding: 'base64' })).toMatchObject({ statusCode: 400 });
    expect(await send({ bodyEncoding: 'base64' })).toMatchObject({ statusCode: 400 });
    await post(app, `/flows/api/flows/${FLOW_ID}/disable`, { body: '{}' });
    expect(await send({ body: EDITED })).toMatchObject({ outcome: 'refused', reason: 'flow_disabled' });
    await post(app, `/flows/api/flows/${FLOW_ID}/enable`, { body: '{}' });
    expect(await send({ body: '{"canary":"c","event":"e-2"}' })).toMatchObject({ outcome: 'accepted' });
    expect(await deliver(app, signed('n-3', '{"canary":"d","event":"e-2"}'))).toMatchObject({ duplicate: true });
    expect(await redeliver(app, first, { body: '{"canary":"c","event":"e-1"}' })).toMatchObject({
      outcome: 'accepted before',
      message: 'a run was already started for this event; give the body another event id, or re-run that run',
      runId,
    });
    expect(await get(app, '/flows/api/runs')).toHaveLength(2);
  });

  it('is filtered as one that its publisher sends, and read in UTF-8 whatever the publisher declared', async () => {
    const app = await deploy({ webhookWhen: "body.canary == 'é'" });
    const { body, headers } = signed();
    await deliver(app, {
      body,
      headers: { ...headers, 'content-type': 'application/json; charset=iso-8859-1' },
    } as never);
    const id = await newestId(app);
    expect(await redeliver(app, id, { body: '{"canary":"e"}' })).toMatchObject({ outcome: 'filtered', runId: null });
    const { runId } = await redeliver(app, id, { body: '{"canary":"é"}' });
    expect((await get(app, `/flows/api/runs/${runId}/trigger`)).triggerBody).toEqual({ canary: 'é' });
  });

  it('is sent by who may operate alone', async () => {
    const reader: TokenEntry = { name: 'reader', token: 'reader-4f1c9d7ab2e8aaaa', scopes: ['read'] };
    const app = await deploy({}, { tokens: [reader] });
    await deliver(app);
    const headers = { authorization: 'Bearer reader-4f1c9d7ab2e8aaaa' };
    const [{ id }] = (await app.fastify.inject({ url: '/flows/api/webhooks/recent?take=1', headers })).json();
    const url = `/flows/api/webhooks/${id}/redeliver`;
    expect(await post(app, url, { headers, body: JSON.stringify({ body: EDITED }) })).toMatchObject({
      statusCode: 403,
      reason: 'insufficient_scope',
    });
  });
});

const hookWith = (inputs: WebhookInputs) => ({
  type: 'webhook',
  inputs: { webhookSlug: 'hook', webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET, ...inputs },
});
