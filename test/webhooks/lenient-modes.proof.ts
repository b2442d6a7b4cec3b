import { createHash, createHmac } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { deliveryStores } from '../database.ts';
import { FLOW_ID, GITHUB_SECRET } from '../e2e/service.ts';
import { eventually } from '../eventually.ts';
import { useFolderApp } from '../folder-app.ts';
import { FakeClock } from './samples.ts';

const BODY = '{"order":1}';
const URL_SIGNED = 'https://hooks.example.com/flows/api/webhook/hook?shop=1';

const workspace = useFolderApp({ listens: false });
let app: SluiceApp | undefined;
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
});

interface Given {
  readonly mode: EnforcementMode;
  readonly deliveryStore: 'database' | 'memory';
  readonly inputs?: WebhookInputs;
}

async function start({ mode, deliveryStore, inputs = {} }: Given): Promise<SluiceApp> {
  const hook = { webhookSlug: 'hook', webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET, ...inputs };
  const triggers = { hook: { type: 'webhook', inputs: hook } };
  await workspace.writeManifest('hook.json', { id: FLOW_ID, version: '1', triggers, steps: {} });
  app = await workspace.start({ enforcementMode: mode, deliveryStore }, { clock });
  return app;
}

async function post(url: string, body: string, headers: Record<string, string> = {}) {
  const answer = await app?.fastify.inject({
    method: 'POST',
    url,
    body,
    headers: { 'content-type': 'application/json', ...headers },
  });
  return answer?.json();
}
const deliver = (body: string, headers = signed(), query = '') =>
  post(`/flows/api/webhook/hook${query}`, body, headers);
const get = async (url: string) => (await app?.fastify.inject(url))?.json();
const newest = async () => {
  const [{ id }] = await get('/flows/api/webhooks/recent?take=1');
  return get(`/flows/api/webhooks/${id}`);
};

function signed(body = BODY, nonce = 'n-1'): Record<string, string> {
  const digest = createHmac('sha256', GITHUB_SECRET).update(body).digest('hex');
  return { 'x-hub-signature-256': `sha256=${digest}`, 'x-github-delivery': nonce };
}
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

const everywhere = (['Off', 'Audit', 'Enforce'] as const).flatMap((mode) =>
  deliveryStores().map((deliveryStore) => ({ mode, deliveryStore })),
);
const lenient = everywhere.filter(({ mode }) => mode !== 'Enforce');

describe.each(everywhere)('under $mode, with the log in $deliveryStore, a marked delivery', (where) => {
  it('names the mistake, the signed bytes and the keys', async () => {
    await start(where);
    await deliver(`${BODY}\n`);
    const { hints, signature, rejected } = await newest();
    expect(rejected).toBe(true);
    expect(hints).toEqual([expect.stringMatching(/^The signature matches without the trailing newline: /)]);
    expect(signature).toMatchObject({
      signedBytes: { length: BODY.length + 1, sha256: sha256(`${BODY}\n`) },
      keys: { current: expect.stringMatching(/^[0-9a-f]{8}$/), previous: null },
    });
  });

  it('tells a wrong address from a forgery', async () => {
    await start({ ...where, inputs: { webhookIpAllowList: ['192.0.2.1'] } });
    await deliver(BODY);
    expect((await newest()).hints).toEqual([
      expect.stringMatching(/^The signature is valid, but .* is not on the allow list/),
    ]);
  });

  it('tells a signed timestamp that is off from a forgery, and how far off it is', async () => {
    await start({ ...where, inputs: { webhookSignatureScheme: 'Slack', webhookReplayToleranceSeconds: 300 } });
    const time = String(clock.now() / 1000 - 400);
    const digest = createHmac('sha256', GITHUB_SECRET).update(`v0:${time}:${BODY}`).digest('hex');
    await deliver(BODY, { 'x-slack-signature': `v0=${digest}`, 'x-slack-request-timestamp': time });
    expect((await newest()).hints).toEqual([
      expect.stringMatching(
        /^The signature is valid, but its timestamp is 400 s behind this clock: the delivery arrived late/,
      ),
    ]);
  });

  it('is judged by the URL that the publisher called', async () => {
    const scheme: WebhookInputs = {
      webhookSignatureScheme: 'Custom',
      webhookSignatureHeader: 'X-Sign',
      webhookSignedPayloadStrategy: 'UrlPlusBody',
      webhookPublicUrl: URL_SIGNED.split('?', 1).join(''),
    };
    await start({ ...where, inputs: scheme });
    const digest = createHmac('sha256', GITHUB_SECRET)
      .update(`http${URL_SIGNED.slice(5)}${BODY}`)
      .digest('hex');
    await deliver(BODY, { 'x-sign': digest }, '?shop=1');
    const { hints, signature } = await newest();
    expect(hints).toEqual([expect.stringMatching(/^The signature matches if the URL starts with http: /)]);
    expect(signature.signedBytes.sha256).toBe(sha256(URL_SIGNED + BODY));
  });

  it('needs no hint if the delivery is a replay, and is still judged again', async () => {
    await start({ ...where, inputs: { webhookNonceHeader: 'X-GitHub-Delivery' } });
    await deliver(BODY);
    const first = await newest();
    expect(first.repeats).toBeNull();
    await deliver(BODY);
    const { hints, signature, reason, repeats } = await newest();
    expect(repeats).toEqual({ deliveryId: first.id, runId: first.runId });
    expect(reason).toBe('nonce_replayed');
    expect(hints).toEqual([]);
    expect(signature).toMatchObject({ signedBytes: { sha256: sha256(BODY) } });
  });
});

describe.each(lenient)('under $mode, with the log in $deliveryStore, a marked delivery', (where) => {
  it('that was held can be judged again, before and after its run began', async () => {
    await start({ ...where, inputs: { webhookHoldDeliveries: true } });
    await post(`/flows/api/flows/${FLOW_ID}/disable`, '');
    await deliver(`${BODY}\n`);
    const { id, hints, held } = await newest();
    expect(held).toBe(true);
    expect((await get('/flows/api/webhooks/recent'))[0]).toMatchObject({ id, held: true });
    expect(hints).toEqual([expect.stringMatching(/^The signature matches without the trailing newline: /)]);
    await post(`/flows/api/flows/${FLOW_ID}/enable`, '');
    await eventually(
      () => get('/flows/api/runs'),
      ({ length }) => length > 0,
    );
    expect(await get('/flows/api/runs')).toHaveLength(1);
    expect((await get(`/flows/api/webhooks/${id}`)).held).toBe(false);
    expect((await get(`/flows/api/webhooks/${id}`)).hints).toEqual([
      expect.stringMatching(/^The signature matches without the trailing newline: /),
    ]);
  });

  it('is not redelivered, not by force and not among many, because its run has begun', async () => {
    await start(where);
    await deliver(`${BODY}\n`);
    const { id, runId, rejected, enforced } = await newest();
    expect({ rejected, enforced }).toEqual({ rejected: true, enforced: false });
    for (const body of ['{}', '{"force":true}']) {
      expect(await post(`/flows/api/webhooks/${id}/redeliver`, body)).toEqual({
        redeliveredFrom: id,
        outcome: 'not possible',
        reason: null,
        deliveryId: null,
        runId,
        message: 'the delivery was accepted when it arrived and has a run; re-run that run instead',
      });
    }
    for (const plan of [true, false]) {
      const many = await post('/flows/api/webhooks/redeliver', JSON.stringify({ plan, reason: 'signature_mismatch' }));
      expect(many.items).toEqual([]);
    }
    expect(await get('/flows/api/runs')).toHaveLength(1);
  });
});

it('a repetition that was acknowledged says whose bytes it had', async () => {
  const inputs: WebhookInputs = {
    webhookNonceHeader: 'X-GitHub-Delivery',
    webhookDuplicateResponse: 'acknowledge',
  };
  await start({ mode: 'Enforce', deliveryStore: 'database', inputs });
  await deliver(BODY);
  const first = await newest();
  await deliver(BODY);
  const { hints, reason, statusCode, repeats } = await newest();
  expect(repeats).toEqual({ deliveryId: first.id, runId: first.runId });
  expect({ reason, statusCode }).toEqual({ reason: 'nonce_replayed', statusCode: 200 });
  expect(hints).toEqual([
    'It passed every gate. Its bytes were not stored again, because they equal those of a delivery that was already accepted.',
  ]);
});
