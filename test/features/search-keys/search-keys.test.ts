import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ORDERS_ID, useDashboard } from '../../dashboard/fixture.ts';

const KEY = 'a key that only the publisher has';
const order = { id: 820982911946154, name: 'SO-1010', customer: { id: 7 } };

function flow(slug: string, end: string, { inputs = {}, ...trigger }: { inputs?: object; searchKeys?: object } = {}) {
  return {
    id: `0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2b${end}`,
    name: slug,
    version: '1',
    triggers: {
      byHand: { type: 'manual', searchKeys: { order: 'body.name' } },
      hook: {
        type: 'webhook',
        inputs: { webhookSlug: slug, webhookHmacKey: KEY, webhookEnforcementMode: 'Enforce', ...inputs },
        ...trigger,
      },
    },
    steps: { only: { type: 'NoOp' } },
  };
}

const github = { webhookSignatureScheme: 'GitHub' };
const MANIFESTS = [
  flow('named', '01', {
    inputs: github,
    searchKeys: { order: 'body.name', customer: 'body.customer.id', typo: 'body.nmae' },
  }),
  flow('plain', '02', { inputs: github }),
  flow('none', '03', { inputs: github, searchKeys: {} }),
  flow('stripe', '04', { inputs: { webhookSignatureScheme: 'Stripe', webhookEnforcementMode: 'Audit' } }),
  flow('event', '05', { inputs: github, searchKeys: { event: 'body.name' } }),
  flow('denied', '06', { inputs: { ...github, webhookIpDenyList: ['127.0.0.1'] }, searchKeys: { order: 'body.name' } }),
];

const dashboard = useDashboard('all', {}, MANIFESTS);

async function deliver(slug: string, payload: unknown, key = KEY) {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const answer = await dashboard.app.inject({
    method: 'POST',
    url: `/flows/api/webhook/${slug}`,
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': 'd-1',
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
    },
    payload: body,
  });
  const { items } = await dashboard.store.listDeliveries({ skip: 0, take: 1 });
  return { statusCode: answer.statusCode, runId: answer.json().runId as string, delivery: items[0] };
}

describe('search keys', () => {
  it('are kept with an accepted delivery and its run; what has none is told in the gate results', async () => {
    const { statusCode, runId, delivery } = await deliver('named', order);
    const searchKeys = { event: 'push', id: 'd-1', order: 'SO-1010', customer: '7' };
    expect([statusCode, delivery?.searchKeys]).toEqual([200, searchKeys]);
    expect((await dashboard.store.findRun(runId))?.searchKeys).toEqual(searchKeys);
    expect(delivery?.gateResults?.at(-1)).toEqual({
      gate: 'searchKeys',
      outcome: 'not evaluated',
      reason: null,
      detail: 'typo: expression "body.nmae": there is no body.nmae (at character 6)',
      facts: {},
    });
  });

  it('are kept with a refused delivery too', async () => {
    const { statusCode, delivery } = await deliver('named', order, 'another key');
    expect([statusCode, delivery?.runId, delivery?.searchKeys?.order]).toEqual([401, null, 'SO-1010']);
  });

  it.each(['{"name":', '[]', '"text"', '', `{"name":"${'x'.repeat(70_000)}"}`])(
    'never refuse a delivery that has none: %s',
    async (payload) => {
      const { statusCode, delivery } = await deliver('named', payload);
      expect(statusCode).toBe(payload === '{"name":' ? 400 : 200);
      expect(delivery?.searchKeys?.event).toBe('push');
    },
  );

  it('are the type and id that the publisher sends unless the manifest names others, or none', async () => {
    expect((await deliver('plain', order)).delivery?.searchKeys).toEqual({ event: 'push', id: 'd-1' });
    expect((await deliver('none', order)).delivery?.searchKeys).toBeUndefined();
    expect((await deliver('event', order)).delivery?.searchKeys).toEqual({ event: 'SO-1010', id: 'd-1' });
    const event = { id: 'evt_1', type: 'payment_intent.succeeded', data: {} };
    expect((await deliver('stripe', event)).delivery?.searchKeys).toEqual({ id: event.id, event: event.type });
    const { delivery } = await deliver('stripe', { type: { no: 'text' } });
    expect(delivery?.searchKeys).toBeUndefined();
    expect(delivery?.gateResults?.some(({ gate }) => gate === 'searchKeys')).toBe(false);
  });

  it('are not read from the body of a delivery that a flood’s gates refuse', async () => {
    const { statusCode, delivery } = await deliver('denied', order);
    expect([statusCode, delivery?.searchKeys]).toEqual([403, { event: 'push', id: 'd-1' }]);
  });

  it('of a run that is started by hand, and of its re-run, are those of its body', async () => {
    const url = `/flows/api/flows/${MANIFESTS[0]?.id}/trigger`;
    const started = (await dashboard.app.inject({ method: 'POST', url, payload: { name: 'SO-2020' } })).json();
    const again = await dashboard.app.inject({ method: 'POST', url: `/flows/api/runs/${started.runId}/rerun` });
    for (const runId of [started.runId, again.json().runId]) {
      expect((await dashboard.store.findRun(runId))?.searchKeys).toEqual({ order: 'SO-2020' });
    }
  });

  it('are shown, searched and filtered by over the API', async () => {
    const get = async (url: string) => (await dashboard.app.inject(`/flows/api/${url}`)).json();
    const { runId, delivery } = await deliver('named', { ...order, name: 'SO-7777' });
    for (const query of ['search=so-77', 'search=order:so-7777', 'searchKeys=order:so-7777']) {
      expect(await get(`runs?${query}`)).toMatchObject([
        { id: runId, searchKeys: { order: 'SO-7777', event: 'push' } },
      ]);
      expect(await get(`webhooks/recent?${query}`)).toMatchObject([
        { id: delivery?.id, searchKeys: { customer: '7' } },
      ]);
    }
    expect(await get('runs?searchKeys=order:so-77')).toEqual([]);
    const colon = await deliver('named', { ...order, name: 'order:created' });
    expect(await get('runs?search=order:created')).toMatchObject([{ id: colon.runId }]);
    expect(await get('webhooks/recent?search=order:cre')).toMatchObject([{ id: colon.delivery?.id }]);
    expect(await get('runs?searchKeys=customer:SO-7777')).toEqual([]);
    const { message } = await get('runs?searchKeys=SO-7777');
    expect(message).toContain('expected a name, a colon and the whole value, such as order:SO-1010');
    expect(await get(`runs?flowId=${ORDERS_ID}&search=so-77`)).toEqual([]);
    const detail = await get(`webhooks/${delivery?.id}`);
    expect(detail.gateResults).toContainEqual(
      expect.objectContaining({ gate: 'searchKeys', outcome: 'not evaluated' }),
    );
  });
});
