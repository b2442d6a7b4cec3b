import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  CANARIES,
  NOW,
  ORDERS_ID,
  orderDelivery,
  startDashboard,
  UNKNOWN_ID,
  useDashboard,
} from '../../dashboard/fixture.ts';

const dashboard = useDashboard('each');
const { get } = dashboard;
const post = async (url: string, body: object = {}) => (await dashboard.ask('POST', url, body)).body;
const newest = async () => (await get('/flows/api/webhooks/recent?take=1'))[0];
const outcomes = (gateResults: { gate: string; outcome: string }[]) =>
  gateResults.map(({ gate, outcome }) => `${gate}: ${outcome}`);

async function refuse(body: string, options: Parameters<typeof orderDelivery>[1] = { key: 'wrong' }): Promise<string> {
  await dashboard.app.inject(orderDelivery(body, options));
  return (await newest()).id;
}

describe('the gate results of a delivery', () => {
  it('shows the result of every gate and what the signature covers', async () => {
    const id = await refuse('{"order":1}');
    const { gateResults, hints, signature, redeliveredAs } = await get(`/flows/api/webhooks/${id}`);
    expect(outcomes(gateResults)).toEqual([
      'bodyCap: passed',
      'address: passed',
      'ip: not configured',
      'rateLimit: not configured',
      'signature: failed',
      'replay: not configured',
      'body: not evaluated',
    ]);
    expect(gateResults[4].configured).toEqual({ webhookSignatureScheme: 'github' });
    expect(gateResults[4]).toMatchObject({
      reason: 'signature_mismatch',
      facts: { scheme: 'GitHub', isVerified: false },
    });
    expect(hints).toEqual([]);
    expect(signature).toMatchObject({
      layout: 'RawBody',
      candidates: 1,
      signedBytes: { length: 11 },
      keys: { current: expect.stringMatching(/^[0-9a-f]{8}$/), previous: null },
    });
    expect(redeliveredAs).toBeNull();
  });

  it('names the mistake that explains a failure', async () => {
    const delivery = orderDelivery('{"order":1}');
    await dashboard.app.inject({ ...delivery, body: '{"order":1}\n' });
    const { id } = await newest();
    expect((await get(`/flows/api/webhooks/${id}`)).hints).toEqual([
      expect.stringMatching(/^The signature matches without the trailing newline: /),
    ]);
  });

  it('says which address was called where no webhook has it, the values of its query masked', async () => {
    await dashboard.app.inject({ ...orderDelivery('{}'), url: '/flows/api/webhook/ordres?token=hunter2' });
    const delivery = await newest();
    expect(delivery.reason).toBe('unknown_flow');
    expect(delivery.requestUrl).toMatch(/\/flows\/api\/webhook\/ordres\?token=\*\*\*$/);
  });

  it('says whether a refused delivery can be redelivered at all', async () => {
    const possible = async (id: string) => (await get(`/flows/api/webhooks/${id}`)).redelivery;
    expect(await possible(await refuse('{"order":1}'))).toMatchObject({ possible: true });
    await dashboard.app.inject({ ...orderDelivery('{}'), url: '/flows/api/webhook/nowhere' });
    expect(await possible((await newest()).id)).toMatchObject({ possible: false });
    await dashboard.app.inject(orderDelivery('{"order":2}'));
    expect(await possible((await newest()).id)).toBeNull();
  });

  it('of an accepted delivery passes every stage', async () => {
    await dashboard.app.inject(orderDelivery('{"order":1}'));
    const { gateResults, hints, signature } = await get(`/flows/api/webhooks/${(await newest()).id}`);
    const current = createHash('sha256').update(CANARIES.key).digest('hex').slice(0, 8);
    expect(signature).toEqual({ scheme: 'GitHub', keys: { current, previous: null } });
    expect(gateResults.filter(({ outcome }: { outcome: string }) => outcome === 'failed')).toEqual([]);
    expect(gateResults.at(-1)).toMatchObject({ gate: 'body', outcome: 'passed' });
    expect(hints).toEqual([]);
  });

  it('says that a body was never kept', async () => {
    await dashboard.app.inject({ ...orderDelivery('{}'), body: 'x'.repeat(1_048_577) });
    const { gateResults, hints } = await get(`/flows/api/webhooks/${(await newest()).id}`);
    expect(outcomes(gateResults)).toContain('bodyCap: failed');
    expect(hints).toEqual(['The delivery cannot be judged again: none of its bytes were stored.']);
  });
});

describe('a dry run', () => {
  const dryRun = (delivery: ReturnType<typeof orderDelivery>, name = 'orders') =>
    dashboard.app.inject({ ...delivery, url: `/flows/api/webhooks/dry-run/${name}` });

  it('judges the request and creates nothing', async () => {
    expect((await dryRun(orderDelivery('{"order":1}'))).json()).toMatchObject({
      flowId: ORDERS_ID,
      triggerKey: 'shop',
      mode: 'Enforce',
      statusCode: 200,
      reason: null,
      violations: [],
    });
    const wrong = (await dryRun(orderDelivery('{"order":1}', { key: 'wrong' }), ORDERS_ID)).json();
    expect(wrong).toMatchObject({ statusCode: 401, reason: 'signature_mismatch', hints: [] });
    const broken = (await dryRun(orderDelivery('{"order":'))).json();
    expect(broken).toMatchObject({ statusCode: 400, reason: 'invalid_json' });
    expect(await get('/flows/api/webhooks/recent')).toEqual([]);
    expect(await get('/flows/api/runs')).toEqual([]);
    expect((await get('/flows/api/webhooks/stats')).total).toBe(0);
  });

  it('says that the flow is disabled', async () => {
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    expect((await dryRun(orderDelivery('{}'))).json()).toMatchObject({ statusCode: 403, reason: 'flow_disabled' });
  });
});

describe('a mistake that explains why signatures do not match', () => {
  it.each([
    [
      'a newline that something added',
      ({ body, ...sent }: ReturnType<typeof orderDelivery>) => ({ ...sent, body: `${body}\n` }),
      /without the trailing newline/,
    ],
    [
      'a signature from before the compression',
      ({ body, headers, ...sent }: ReturnType<typeof orderDelivery>) => ({
        ...sent,
        headers: { ...headers, 'content-encoding': 'gzip' },
        body: gzipSync(body),
      }),
      /signed before compression/,
    ],
  ])('is told of rising refusals, in the sentence of the delivery: %s', async (_what, change, told) => {
    for (let each = 0; each < 20; each += 1) {
      await dashboard.app.inject(change(orderDelivery(`{"order":${each}}`)));
      dashboard.clock.advance(1000);
    }
    const { hints } = await get(`/flows/api/webhooks/${(await newest()).id}`);
    expect(hints.join(' ')).toMatch(told);
    const [item] = await get('/flows/api/attention');
    expect(item).toMatchObject({ kind: 'refusals_rising', message: expect.stringMatching(told) });
  });
});

describe('a redelivery', () => {
  it('ends what is told of the refusals, which is told since the first of them', async () => {
    const told = async () =>
      (await get('/flows/api/attention')).filter(({ kind }: { kind: string }) => /refus|disabled/.test(kind));
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    dashboard.clock.advance(58_210);
    const first = new Date(dashboard.clock.now()).toISOString().replace(/\.\d+Z$/, 'Z');
    const ids: string[] = [];
    for (let each = 0; each < 20; each += 1) {
      ids.push(await refuse(`{"order":${each}}`, {}));
      dashboard.clock.advance(1000);
    }
    expect(await told()).toMatchObject([
      { kind: 'refusals_rising', message: expect.stringContaining(`since ${first};`) },
      { kind: 'deliveries_to_disabled_flow', message: expect.stringContaining(`since ${first})`) },
    ]);
    await dashboard.catalog.setEnabled(ORDERS_ID, true);
    for (const id of ids) await post(`/flows/api/webhooks/${id}/redeliver`);
    expect(await told()).toEqual([]);
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    expect(await told()).toEqual([]);
  });

  it('accepts a delivery that passes now, once, with its exact bytes, and refers to the first', async () => {
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    const body = '{"n":12345678901234567890,  "é":1}';
    const id = await refuse(body, {});
    await dashboard.catalog.setEnabled(ORDERS_ID, true);
    dashboard.clock.advance(60_000);

    const first = await post(`/flows/api/webhooks/${id}/redeliver`);
    expect(first).toMatchObject({ redeliveredFrom: id, outcome: 'accepted', message: 'redelivered' });
    expect(await get(`/flows/api/webhooks/${first.deliveryId}`)).toMatchObject({
      redeliveredFrom: id,
      runId: first.runId,
      body,
      rejected: false,
      statusCode: 200,
      detail: 'redelivered',
      receivedAt: new Date(NOW + 60_000).toISOString(),
    });
    expect(await get(`/flows/api/webhooks/${id}`)).toMatchObject({ runId: null, redeliveredAs: first.deliveryId });
    const { trigger } = (await dashboard.store.findRun(first.runId)) ?? {};
    expect(Buffer.from(trigger?.body ?? []).toString()).toBe(body);

    const again = await post(`/flows/api/webhooks/${id}/redeliver`, { force: true });
    expect(again).toMatchObject({ outcome: 'accepted before', runId: first.runId, deliveryId: first.deliveryId });
    expect(await get('/flows/api/runs')).toHaveLength(1);
  });

  it('refuses a delivery that still fails; force accepts it, and its record says so', async () => {
    const id = await refuse('{"order":1}');
    const refused = await post(`/flows/api/webhooks/${id}/redeliver`);
    expect(refused).toMatchObject({ outcome: 'refused', reason: 'signature_mismatch', runId: null });
    expect(await get('/flows/api/runs')).toEqual([]);

    const forced = await post(`/flows/api/webhooks/${id}/redeliver`, { force: true });
    expect(forced).toMatchObject({ outcome: 'accepted', reason: 'signature_mismatch' });
    expect(await get(`/flows/api/webhooks/${forced.deliveryId}`)).toMatchObject({
      rejected: true,
      enforced: false,
      reason: 'signature_mismatch',
      detail: expect.stringMatching(/^redelivered by force: /),
    });
  });

  it('starts one run for concurrent requests', async () => {
    const id = await refuse('{"order":1}');
    const asked = Array.from({ length: 8 }, () => post(`/flows/api/webhooks/${id}/redeliver`, { force: true }));
    const answers = await Promise.all(asked);
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(1);
    expect(await get('/flows/api/runs')).toHaveLength(1);
  });

  it('never forces an unreadable delivery, nor one to a disabled flow', async () => {
    const broken = await refuse('{"order":', {});
    const id = await refuse('{"order":1}');
    expect(await post(`/flows/api/webhooks/${broken}/redeliver`, { force: true })).toMatchObject({
      outcome: 'refused',
      reason: 'invalid_json',
    });
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    expect(await post(`/flows/api/webhooks/${id}/redeliver`, { force: true })).toMatchObject({
      outcome: 'refused',
      reason: 'flow_disabled',
      message: 'The flow behind this webhook is disabled',
    });
  });

  it('that only force would accept is told as such', async () => {
    const id = await refuse('{"order":1}');
    const { redelivery } = await get(`/flows/api/webhooks/${id}`);
    expect(redelivery).toEqual({ possible: true, message: 'only by force: its gates refuse it' });
  });

  it('is refused for accepted deliveries', async () => {
    await dashboard.app.inject(orderDelivery('{}'));
    const { id, runId } = await newest();
    expect(await post(`/flows/api/webhooks/${id}/redeliver`)).toMatchObject({ outcome: 'not possible', runId });
  });

  it.each([
    [{ force: 'yes' }, 'force: '],
    [{ farce: true }, 'body.farce: there is no such field; did you mean "force"?'],
  ])('with the body %j is a 400 that names the field', async (body, message) => {
    const id = await refuse('{}');
    const answer = await post(`/flows/api/webhooks/${id}/redeliver`, body);
    expect(answer).toMatchObject({ statusCode: 400, message: expect.stringContaining(message) });
  });

  it('with the body null is a 400, of one delivery and of many', async () => {
    const id = await refuse('{}');
    for (const url of [`/flows/api/webhooks/${id}/redeliver`, '/flows/api/webhooks/redeliver']) {
      const headers = { 'content-type': 'application/json' };
      const { statusCode } = await dashboard.app.inject({ method: 'POST', url, headers, body: 'null' });
      expect(statusCode).toBe(400);
    }
  });

  it('of many is planned first, then done, oldest first', async () => {
    await dashboard.catalog.setEnabled(ORDERS_ID, false);
    const right = [await refuse('{"order":1}', {}), await refuse('{"order":2}', {})];
    const wrong = await refuse('{"order":3}');
    await dashboard.catalog.setEnabled(ORDERS_ID, true);

    const plan = await post('/flows/api/webhooks/redeliver', {
      flowId: ORDERS_ID.toUpperCase(),
      reason: 'flow_disabled',
    });
    const outcomesOf = ({ items }: typeof plan) =>
      items.map((item: { redeliveredFrom: string; outcome: string }) => [item.redeliveredFrom, item.outcome]);
    expect(plan.plan).toBe(true);
    expect(outcomesOf(plan)).toEqual([...right.map((id) => [id, 'would be accepted']), [wrong, 'refused']]);
    expect(await get('/flows/api/runs')).toEqual([]);

    const done = await post('/flows/api/webhooks/redeliver', { plan: false, until: new Date(NOW + 1).toISOString() });
    expect(outcomesOf(done)).toEqual([...right.map((id) => [id, 'accepted']), [wrong, 'refused']]);
    expect(await get('/flows/api/runs')).toHaveLength(2);
    expect((await post('/flows/api/webhooks/redeliver', { limit: 1 })).items).toHaveLength(1);
    expect((await post('/flows/api/webhooks/redeliver', { since: new Date(NOW + 1).toISOString() })).items).toEqual([]);
  });
});

describe('readiness', () => {
  it('counts by trigger and gate what Enforce refuses, with examples', async () => {
    const id = await refuse('{"order":1}');
    await dashboard.app.inject(orderDelivery('{"order":2}'));
    const [shop, unreachable, hook] = await get('/flows/api/webhooks/readiness?hours=1');
    expect(shop).toMatchObject({
      flowId: ORDERS_ID,
      triggerKey: 'shop',
      watchedSince: new Date(NOW).toISOString(),
      total: 2,
      clean: 1,
      refused: 1,
      safeToEnforce: true,
      reason: 'it is already enforced',
    });
    expect(shop.gates[2]).toEqual({
      gate: 'signature',
      isConfigured: true,
      refused: 1,
      reasons: [{ reason: 'signature_mismatch', count: 1, examples: [id] }],
    });
    for (const open of [unreachable, hook]) {
      expect(open).toMatchObject({
        safeToEnforce: false,
        reason: 'no gate is configured: there is nothing to enforce',
      });
    }
    expect(await get(`/flows/api/webhooks/readiness?flowId=${UNKNOWN_ID}`)).toEqual([]);
  });
});

it('no answer about a delivery holds a key or the signature that would have been right', async () => {
  const right = orderDelivery('{"order":1}').headers['x-hub-signature-256']?.slice('sha256='.length) ?? '';
  const id = await refuse('{"order":1}', { key: 'wrong', headers: { authorization: CANARIES.authorization } });
  const answers = await Promise.all([
    dashboard.app.inject(`/flows/api/webhooks/${id}`),
    dashboard.app.inject({
      ...orderDelivery('{"order":1}', { key: 'wrong' }),
      url: '/flows/api/webhooks/dry-run/orders',
    }),
    dashboard.app.inject({ method: 'POST', url: '/flows/api/webhooks/redeliver' }),
  ]);
  for (const { body, statusCode } of answers) {
    expect(statusCode).toBe(200);
    for (const secret of [CANARIES.key, CANARIES.authorization, right]) expect(body).not.toContain(secret);
  }
});

it('shows the beginning of the SHA-256 of a key, and nothing of a key that could be guessed', async () => {
  const hook = (slug: string, key: string) => ({
    type: 'webhook',
    inputs: { webhookSlug: slug, webhookSignatureScheme: 'GitHub', webhookHmacKey: key },
  });
  const long = 'a key of 16 byte';
  // GitLab's token has another form than its signing key, and is still a token as the previous key.
  const rotated = {
    ...hook('rotated', 'whsec_dGhlIGtleSBvZiBhIHNpZ25hdHVyZQ==').inputs,
    webhookSignatureScheme: 'GitLab',
  };
  const token = { type: 'webhook', inputs: { ...rotated, webhookHmacKeyPrevious: 'a token that is long enough' } };
  const keys = await startDashboard({}, [
    {
      id: ORDERS_ID,
      name: 'keys',
      version: '1',
      triggers: {
        long: hook('long', long),
        short: hook('short', long.slice(1)),
        hex: hook('hex', 'ab'.repeat(15)),
        token,
      },
      steps: {},
    } as { name: string },
  ]);
  const shownFor = async (slug: string, role = 'current') => {
    const { signature } = (
      await keys.app.inject({ method: 'POST', url: `/flows/api/webhooks/dry-run/${slug}`, body: {} })
    ).json();
    return signature.keys[role];
  };
  expect(await shownFor('long')).toBe(createHash('sha256').update(long).digest('hex').slice(0, 8));
  expect(await shownFor('short')).toBe('too short to show');
  expect(await shownFor('hex')).toBe('too short to show');
  expect(await shownFor('rotated', 'previous')).toBe('a token, which is not shown');
  await keys.close();
});
