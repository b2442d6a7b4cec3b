import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { eventually } from '../eventually.ts';
import { type Gateway, type Sent, startGateway } from '../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const FIRST = '0a000000-0000-4000-8000-000000000001';
const SECOND = '0b000000-0000-4000-8000-000000000002';
const HOOK: WebhookInputs = {
  webhookSlug: 'hook',
  webhookShared: true,
  webhookSignatureScheme: 'GitHub',
  webhookHmacKey: KEY,
  webhookNonceHeader: 'X-GitHub-Delivery',
};

const manifestOf = (hook: WebhookInputs, more: object = {}) => ({
  id: SECOND,
  name: 'second',
  version: '1',
  triggers: { other: { type: 'webhook', inputs: { ...HOOK, ...hook } } },
  steps: { only: { type: 'NoOp' } },
  ...more,
});

/** Two flows that share a slug. */
async function open(
  first: WebhookInputs = {},
  second: WebhookInputs = {},
  settings: SettingsInput = {},
): Promise<Gateway> {
  return startGateway({
    flowId: FIRST,
    triggers: { hook: { ...HOOK, ...first } },
    others: { second: manifestOf(second) },
    settings: { refusedDeploys: 'fail', ...settings },
  });
}

function push(value: unknown, id = 'id-1'): Sent {
  const body = JSON.stringify(value);
  const signature = `sha256=${createHmac('sha256', KEY).update(body).digest('hex')}`;
  const headers = { 'content-type': 'application/json', 'x-hub-signature-256': signature, 'x-github-delivery': id };
  return { headers, body };
}

const sendTo = async ({ deliver }: Gateway, sent: Sent, to = 'hook') => {
  const { status, text } = await deliver(to, sent);
  return { status, ...JSON.parse(text) };
};

const post = async ({ url }: Gateway, path: string, body: object = {}, method = 'POST') => {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
  return { status: response.status, body: JSON.parse(await response.text()) };
};

const listed = async ({ get }: Gateway, flowId: string) =>
  JSON.parse(await get(`/flows/api/webhooks/recent?flowId=${flowId}`)).map(({ id }: { id: string }) => id);

const runOf = (flowId: string, triggerKey: string) => ({ flowId, triggerKey, runId: expect.any(String) });

describe('a delivery to a slug that two flows share', () => {
  it('starts a run of each, with one record that is found under both', async () => {
    const gateway = await open();
    const answer = await sendTo(gateway, push({ n: 1 }));
    const runs = [runOf(FIRST, 'hook'), runOf(SECOND, 'other')];
    expect(answer).toEqual({ status: 200, runId: answer.runs[0].runId, deliveryId: answer.deliveryId, runs });
    expect(await gateway.countRuns()).toBe(2);
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({ id: answer.deliveryId, flowId: FIRST, runId: answer.runId });
    expect(record).toHaveProperty(
      'runs',
      answer.runs.map((run: object) => ({ ...run, outcome: null })),
    );
    expect([await listed(gateway, FIRST), await listed(gateway, SECOND)]).toEqual([[record.id], [record.id]]);
    for (const { runId, triggerKey } of answer.runs) {
      const run = JSON.parse(await gateway.get(`/flows/api/runs/${runId}`));
      expect(run).toMatchObject({ deliveryId: record.id, triggerKey });
    }
    const books = JSON.parse(await gateway.get('/flows/api/books'));
    expect(books).toMatchObject({ accepted: 1, runs: 1, unaccounted: 0 });
  });

  it('is refused as a replay at the slug and at either id, and starts nothing', async () => {
    const gateway = await open();
    await sendTo(gateway, push({ n: 1 }));
    for (const to of ['hook', FIRST, SECOND]) {
      expect(await sendTo(gateway, push({ n: 1 }), to)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
    }
    expect(await gateway.countRuns()).toBe(2);
  });

  it('goes to one flow by its id, and its nonce is then known at the slug', async () => {
    const gateway = await open();
    const alone = await sendTo(gateway, push({ n: 1 }), SECOND);
    expect(alone).toEqual({ status: 200, runId: expect.any(String), deliveryId: expect.any(String) });
    expect(await sendTo(gateway, push({ n: 1 }))).toMatchObject({ status: 409 });
    expect(await gateway.countRuns()).toBe(1);
    expect(await listed(gateway, FIRST)).toHaveLength(1);
  });

  it('is filtered for each flow by itself, and told as filtered where it is for both', async () => {
    const gateway = await open({ webhookWhen: 'body.n > 1' }, { webhookWhen: 'body.n > 0' });
    const one = await sendTo(gateway, push({ n: 1 }, 'one'));
    expect(one.runs).toEqual([runOf(SECOND, 'other')]);
    expect(one.runId).toBe(one.runs[0].runId);
    expect(one).not.toHaveProperty('filtered');
    expect(await gateway.latestDelivery()).toMatchObject({ flowId: SECOND, runId: one.runId });
    const none = await sendTo(gateway, push({ n: 0 }, 'none'));
    expect(none).toEqual({ status: 200, deliveryId: expect.any(String), runs: [], filtered: true });
    const metrics = await gateway.get('/metrics');
    expect(metrics).toContain(`webhook_filtered_total{flow="${FIRST}"} 2`);
    expect(metrics).toContain(`webhook_filtered_total{flow="${SECOND}"} 1`);
    expect(await sendTo(gateway, push({ n: 1 }, 'one'))).toMatchObject({ status: 409 });
  });

  it('is refused where all flows are disabled while its gates run, and starts its runs once they are enabled', async () => {
    let isFirst = true;
    const ask = (id: string, what: string) => post(gateway, `/flows/api/flows/${id}/${what}`);
    const gateway: Gateway = await startGateway({
      flowId: FIRST,
      triggers: { hook: HOOK },
      others: { second: manifestOf({}) },
      settings: { refusedDeploys: 'fail', holdDeliveries: false },
      extensions: {
        gates: [
          {
            name: 'disabling',
            prepare: () => ({
              name: 'disabling',
              async check() {
                if (isFirst) for (const id of [FIRST, SECOND]) await ask(id, 'disable');
                isFirst = false;
                return { passed: true };
              },
            }),
          },
        ],
      },
    });
    expect(await sendTo(gateway, push({ n: 1 }))).toMatchObject({ status: 403, reason: 'flow_disabled' });
    for (const id of [FIRST, SECOND]) await ask(id, 'enable');
    expect(await sendTo(gateway, push({ n: 1 }))).toMatchObject({ status: 200, runs: [{}, {}] });
  });

  it('tells of an event that each flow knows for itself', async () => {
    const webhookEventId = 'string(body.n)';
    const gateway = await open({ webhookEventId });
    const first = await sendTo(gateway, push({ n: 1 }, 'one'));
    const again = await sendTo(gateway, push({ n: 1 }, 'two'));
    expect(again.runs).toEqual([runOf(SECOND, 'other'), first.runs[0]]);
    expect(again.runId).not.toBe(first.runId);
    expect(await gateway.countRuns()).toBe(3);
    const both = await open({ webhookEventId }, { webhookEventId });
    const [one, two] = [await sendTo(both, push({ n: 1 }, 'one')), await sendTo(both, push({ n: 1 }, 'two'))];
    expect(two).toMatchObject({ duplicate: true, runId: one.runId, runs: one.runs });
  });

  it('is taken while one flow is closed, and gets 403 where both are', async () => {
    const gateway = await open();
    await post(gateway, `/flows/api/flows/${FIRST}/disable`);
    expect((await sendTo(gateway, push({ n: 1 }, 'one'))).runs).toEqual([runOf(SECOND, 'other')]);
    expect(await gateway.latestDelivery()).toHaveProperty('runs.1', {
      ...{ flowId: FIRST, triggerKey: 'hook', runId: null },
      outcome: 'closed',
    });
    await post(gateway, `/flows/api/flows/${SECOND}/disable`);
    expect(await sendTo(gateway, push({ n: 1 }, 'two'))).toMatchObject({ status: 403, reason: 'flow_disabled' });
    await post(gateway, `/flows/api/flows/${FIRST}/enable`);
    // The closed flow also stored the nonce of the delivery that the other one took.
    expect(await sendTo(gateway, push({ n: 1 }, 'one'))).toMatchObject({ status: 409 });
    expect(await sendTo(gateway, push({ n: 1 }, 'one'), FIRST)).toMatchObject({ status: 409 });
  });

  it('is held for each flow that is closed and holds, with one record', async () => {
    const gateway = await open();
    for (const id of [FIRST, SECOND]) await post(gateway, `/flows/api/flows/${id}/disable`, { hold: true });
    const answer = await sendTo(gateway, push({ n: 1 }));
    expect(answer).toMatchObject({ status: 200, held: true, runs: [runOf(FIRST, 'hook'), runOf(SECOND, 'other')] });
    expect([await listed(gateway, FIRST), await listed(gateway, SECOND)]).toEqual([
      [answer.deliveryId],
      [answer.deliveryId],
    ]);
    expect(await gateway.latestDelivery()).toMatchObject({ held: true, body: '{"n":1}' });
    for (const id of [FIRST, SECOND]) await post(gateway, `/flows/api/flows/${id}/enable`);
    await eventually(
      () => gateway.countRuns(),
      (count) => count === 2,
    );
    expect(await listed(gateway, FIRST)).toEqual([answer.deliveryId]);
    const books = JSON.parse(await gateway.get('/flows/api/books'));
    expect(books).toMatchObject({ accepted: 1, held: 0, unaccounted: 0 });
  });

  it('is held for a closed flow that holds, and starts its run later', async () => {
    const gateway = await open({}, { webhookHoldDeliveries: true });
    await post(gateway, `/flows/api/flows/${SECOND}/disable`);
    const answer = await sendTo(gateway, push({ n: 1 }, 'one'));
    expect(answer).toMatchObject({ status: 200, runs: [runOf(FIRST, 'hook'), runOf(SECOND, 'other')] });
    expect(answer).not.toHaveProperty('held');
    expect(await gateway.countRuns()).toBe(1);
    expect(await gateway.get('/metrics')).toContain(`sluice_deliveries_held{flow="${SECOND}"} 1`);
    await post(gateway, `/flows/api/flows/${SECOND}/enable`);
    await eventually(
      () => gateway.countRuns(),
      (runs) => runs > 1,
    );
    expect(await gateway.countRuns()).toBe(2);
    const held = JSON.parse(await gateway.get(`/flows/api/runs/${answer.runs[1].runId}`));
    expect(held).toMatchObject({ flowId: SECOND, deliveryId: answer.deliveryId });
  });

  it('has a record without the search keys of another flow that holds it', async () => {
    const inputs = { ...HOOK, webhookHoldDeliveries: true };
    const second = {
      ...manifestOf({}),
      triggers: { other: { type: 'webhook', inputs, searchKeys: { own: 'body.n' } } },
    };
    const gateway = await startGateway({ flowId: FIRST, triggers: { hook: HOOK }, others: { second } });
    await post(gateway, `/flows/api/flows/${SECOND}/disable`);
    await sendTo(gateway, push({ n: 1 }));
    expect(await gateway.latestDelivery()).not.toHaveProperty('searchKeys.own');
  });

  it('is refused under both flows where a gate refuses it', async () => {
    const gateway = await open();
    expect(await sendTo(gateway, { body: '{}' })).toMatchObject({ status: 401 });
    const { id } = await gateway.latestDelivery();
    expect([await listed(gateway, FIRST), await listed(gateway, SECOND)]).toEqual([[id], [id]]);
  });

  it('that both filtered starts the runs of each once, when it is delivered again', async () => {
    const gateway = await open({ webhookWhen: 'body.n > 1' }, { webhookWhen: 'body.n > 1' });
    const { deliveryId } = await sendTo(gateway, push({ n: 1 }));
    const path = `/flows/api/webhooks/${deliveryId}/redeliver`;
    expect((await post(gateway, path)).body).toMatchObject({ outcome: 'filtered' });
    await post(gateway, '/flows/api/flows', [manifestOf({ webhookWhen: 'body.n > 0' })], 'PUT');
    const again = (await post(gateway, path)).body;
    expect(again).toMatchObject({ outcome: 'accepted', runId: expect.any(String) });
    expect((await post(gateway, path)).body).toMatchObject({ outcome: 'accepted before', runId: again.runId });
    expect(await gateway.countRuns()).toBe(1);
    expect(await sendTo(gateway, push({ n: 1 }))).toMatchObject({ status: 409 });
  });
});

describe('a folder', () => {
  it.each<[string, WebhookInputs, WebhookInputs, string]>([
    ['only one says that it shares', { webhookShared: false }, {}, 'is shared only where both say'],
    [
      'the keys differ',
      {},
      { webhookHmacKey: 'another key of enough bytes' },
      'not the same for both: signature, keys',
    ],
    ['the modes differ', {}, { webhookEnforcementMode: 'Audit' }, 'not the same for both: mode'],
    ['a list differs', {}, { webhookIpAllowList: ['10.0.0.0/8'] }, 'not the same for both: ip'],
    ['a limit differs', {}, { webhookRateLimitPermitsPerSecond: 1 }, 'not the same for both: rateLimit'],
    ['the answers differ', {}, { webhookDuplicateResponse: 'acknowledge' }, 'webhookDuplicateResponse'],
    ['the slug is none', { webhookSlug: undefined }, {}, 'has no effect without webhookSlug'],
  ])('is refused where %s', async (_, first, second, message) => {
    await expect(open(first, second)).rejects.toThrow(message);
  });

  it('may have filters, events, and search keys that differ', async () => {
    const own = { webhookWhen: 'true', webhookEventId: 'string(body.n)', webhookEventIdDays: 3 };
    await expect(open(own, { webhookHoldDeliveries: true })).resolves.toBeDefined();
  });
});

describe('a deploy', () => {
  const put = (gateway: Gateway, manifests: readonly object[], query = '') =>
    post(gateway, `/flows/api/flows${query}`, manifests, 'PUT');
  const firstOf = (hook: WebhookInputs) => ({
    ...manifestOf(hook, { id: FIRST, name: 'publishers' }),
    triggers: { hook: { type: 'webhook', inputs: { ...HOOK, ...hook } } },
  });

  it('changes the gates of both together, and never of one alone', async () => {
    const gateway = await open();
    const stricter = { webhookIpAllowList: ['127.0.0.0/8'] };
    const alone = await put(gateway, [manifestOf(stricter)]);
    expect(JSON.stringify(alone.body)).toContain('deploy both together');
    const together = await put(gateway, [firstOf(stricter), manifestOf(stricter)], '?allow=caution');
    expect(together.body.outcomes).toMatchObject([{ action: 'updated' }, { action: 'updated' }]);
    expect((await sendTo(gateway, push({ n: 1 }))).runs).toHaveLength(2);
  });

  it('brings no other flow to a slug unless both say so, and tells of one that comes', async () => {
    const gateway = await startGateway({ flowId: FIRST, triggers: { hook: { ...HOOK, webhookShared: false } } });
    const stranger = await put(gateway, [manifestOf({})]);
    expect(JSON.stringify(stranger.body)).toContain('belongs to the deployed flow');
    const opening = await put(gateway, [firstOf({})]);
    expect(opening.body.outcomes).toMatchObject([{ action: 'refused', access: 'wider' }]);
    expect(await put(gateway, [firstOf({})], '?allow=access')).toMatchObject({
      body: { outcomes: [{ action: 'updated' }] },
    });
    const unsaid = await put(gateway, [manifestOf({ webhookShared: false })]);
    expect(JSON.stringify(unsaid.body)).toContain('belongs to the deployed flow');
    const joined = await put(gateway, [manifestOf({})]);
    expect(joined.body.outcomes).toMatchObject([{ action: 'created', access: 'wider' }]);
    expect(JSON.stringify(joined.body)).toContain('start runs of publishers, and of this flow too');
    expect((await sendTo(gateway, push({ n: 1 }))).runs).toHaveLength(2);
  });

  it('lets one of them leave: what was accepted stays known to the other', async () => {
    const gateway = await open();
    await sendTo(gateway, push({ n: 1 }, 'one'));
    const left = await put(gateway, [firstOf({ webhookSlug: 'elsewhere' })], '?allow=access,caution');
    expect(left.body.outcomes).toMatchObject([{ action: 'updated' }]);
    expect(await sendTo(gateway, push({ n: 1 }, 'one'))).toMatchObject({ status: 409 });
    const alone = await sendTo(gateway, push({ n: 1 }, 'two'));
    expect(alone).toEqual({ status: 200, runId: expect.any(String), deliveryId: expect.any(String) });
  });
});
