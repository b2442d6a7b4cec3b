import { createHmac } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import { eventually, FLOW_ID } from '../../e2e/service.ts';
import { useFolderApp } from '../../folder-app.ts';
import { FakeClock } from '../../webhooks/samples.ts';
import { type FakeApi, json, serveApi, tooMany } from './fakes/fake-api.ts';
import { fakeGraph } from './fakes/graph.ts';
import { fakeShopify, orderBody } from './fakes/shopify.ts';
import { fakeStripe } from './fakes/stripe.ts';

const KEY = 'a signing key of more than sixteen bytes';
const TOKEN = 'a-token-of-the-api-0123456789';
const MINUTE_MS = 60_000;
const APP = { tenant: 'example.com', clientId: '11111111-2222-4333-8444-555555555555', clientSecret: TOKEN };

interface Sent {
  readonly id: number;
  readonly at: number;
}

interface Original {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** One publisher: its trigger, its log, and a delivery that arrives late. */
interface Publisher {
  readonly inputs: object;
  readonly reconcile: (baseUrl: string) => object;
  readonly api: (sent: () => readonly Sent[]) => FakeApi;
  readonly original: (sent: Sent, now: number) => Original;
  readonly isVerified: boolean;
}

const hmac = (text: string, encoding: 'hex' | 'base64') => createHmac('sha256', KEY).update(text).digest(encoding);

const pushOf = ({ id, at }: Sent): Original => {
  const body = `{ "push": ${id}, "at": ${at}, "price": 1.10 }`;
  return {
    headers: { 'x-hub-signature-256': `sha256=${hmac(body, 'hex')}`, 'x-github-delivery': `push-${id}` },
    body,
  };
};

const PUBLISHERS: Readonly<Record<string, Publisher>> = {
  stripe: {
    inputs: { webhookSignatureScheme: 'Stripe' },
    reconcile: (baseUrl) => ({ from: 'stripe', token: 'env:TOKEN', baseUrl, acceptUnsigned: true }),
    api: (sent) =>
      fakeStripe(TOKEN, () =>
        sent().map(({ id, at }) => ({ id: `evt_${id}`, type: 'invoice.paid', created: at / 1000 })),
      ),
    original: ({ id }, now) => {
      const body = `{\n  "id": "evt_${id}",\n  "object": "event"\n}`;
      const seconds = Math.floor(now / 1000);
      return { headers: { 'stripe-signature': `t=${seconds},v1=${hmac(`${seconds}.${body}`, 'hex')}` }, body };
    },
    isVerified: false,
  },
  shopify: {
    inputs: { webhookSignatureScheme: 'Shopify', webhookNonceHeader: 'X-Shopify-Webhook-Id' },
    reconcile: (baseUrl) => ({
      ...{
        from: 'shopify',
        shop: 'example.myshopify.com',
        topic: 'orders/create',
        token: 'env:TOKEN',
        version: '2026-10',
      },
      ...{ baseUrl, acceptUnsigned: true },
    }),
    api: (sent) => fakeShopify(TOKEN, () => sent().map(({ id, at }) => ({ id, createdAt: at }))),
    original: ({ id, at }) => {
      const body = orderBody({ id, createdAt: at });
      return {
        headers: {
          'x-shopify-hmac-sha256': hmac(body, 'base64'),
          'x-shopify-topic': 'orders/create',
          'x-shopify-webhook-id': `webhook-${id}`,
        },
        body,
      };
    },
    isVerified: false,
  },
  graph: {
    inputs: { webhookSignatureScheme: 'MicrosoftGraph' },
    reconcile: (baseUrl) => ({
      ...{ from: 'graph', resource: 'users/ada@example.com/messages', changeType: 'created', ...APP },
      ...{ clientSecret: 'env:TOKEN', baseUrl, loginUrl: baseUrl, acceptUnsigned: true },
    }),
    api: (sent) =>
      fakeGraph(
        APP,
        () => sent().map(({ id, at }) => ({ id: `m${id}`, etag: `W/"${id}"`, createdAt: at, changedAt: at })),
        40,
      ),
    original: ({ id }) => {
      const resourceData = { '@odata.type': '#Microsoft.Graph.Message', '@odata.etag': `W/"${id}"`, id: `m${id}` };
      const item = {
        clientState: KEY,
        changeType: 'created',
        resource: `Users/622eaaff/Messages/m${id}`,
        resourceData,
      };
      return { headers: {}, body: JSON.stringify({ value: [item] }) };
    },
    isVerified: false,
  },
  list: {
    inputs: { webhookSignatureScheme: 'GitHub', webhookNonceHeader: 'X-GitHub-Delivery', webhookEventId: 'body.push' },
    reconcile: (baseUrl) => ({
      ...{
        from: 'list',
        url: `${baseUrl}/sent?since={since}&until={until}`,
        requestHeaders: { 'X-Api-Key': 'env:TOKEN' },
      },
      ...{ items: 'response.body', id: 'item.headers["x-github-delivery"]', time: 'item.at' },
      ...{ body: 'item.raw', headers: 'item.headers', next: 'link' },
    }),
    api:
      (sent) =>
      ({ url, headers }) => {
        if (headers['x-api-key'] !== TOKEN) return { status: 401, body: '{}' };
        const [since, until] = ['since', 'until'].map((name) => Date.parse(url.searchParams.get(name) ?? ''));
        const found = sent().filter(({ at }) => at >= Number(since) && at <= Number(until));
        const page = Number(url.searchParams.get('page') ?? 0);
        const next = new URL(url);
        next.searchParams.set('page', String(page + 1));
        const items: object[] = found.slice(page * 5, page * 5 + 5).map((each) => {
          const { headers: signed, body } = pushOf(each);
          return { at: each.at, headers: { 'Content-Type': 'application/json', ...signed }, raw: body };
        });
        // An item with too little data does not keep the others from being read.
        if (page === 0) items.push({ at: Number(since), headers: { 'x-github-delivery': 'unreadable' } });
        return json(items, page * 5 + 5 < found.length ? { link: `<${next}>; rel="next"` } : {});
      },
    original: pushOf,
    isVerified: true,
  },
};

const LOST = 12;

const workspace = useFolderApp();
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
});

async function start(triggers: object): Promise<SluiceApp> {
  await workspace.writeManifest('hook.json', { id: FLOW_ID, version: '1', triggers, steps: {} });
  const settings = { host: '127.0.0.1', egressAllow: ['127.0.0.0/8'] };
  return workspace.start(settings, { environment: { TOKEN }, clock, allow: ['access'] });
}

interface Delivered {
  readonly triggerKey: string;
  readonly runId: string | null;
  readonly detail: string | null;
}

const get = async ({ fastify }: SluiceApp, url: string) => (await fastify.inject(url)).json();
const runsOf = async (app: SluiceApp) => (await get(app, '/flows/api/runs?take=200')).length as number;
const deliver = async ({ fastify }: SluiceApp, slug: string, { headers, body }: Original) => {
  const given = { 'content-type': 'application/json', ...headers };
  return (await fastify.inject({ method: 'POST', url: `/flows/api/webhook/${slug}`, body, headers: given })).statusCode;
};

it('makes one run of each delivery that any publisher sent in vain, and none of a late original', async () => {
  const sent: Sent[] = [];
  const names = Object.keys(PUBLISHERS);
  const logs = await Promise.all(Object.values(PUBLISHERS).map(({ api }) => serveApi(api(() => sent))));
  const triggers = Object.entries(PUBLISHERS).map(([name, { inputs, reconcile }], at) => [
    name,
    {
      type: 'webhook',
      inputs: { webhookSlug: name, webhookHmacKey: KEY, ...inputs },
      reconcile: { every: 'PT1S', lookback: 'P1D', ...reconcile(logs[at]?.url ?? '') },
    },
  ]);
  const asked = () => Math.min(...logs.map(({ received }) => received.length));
  const first = await start(Object.fromEntries(triggers));
  await eventually(
    async () => asked(),
    (requests) => requests > 0,
  );
  clock.advance(MINUTE_MS);
  const arrived: Sent = { id: 1000, at: clock.now() };
  sent.push(arrived);
  for (const [name, { original }] of Object.entries(PUBLISHERS)) {
    expect(await deliver(first, name, original(arrived, clock.now()))).toBe(200);
  }
  await first.close();

  for (let id = 1; id <= LOST; id += 1) {
    clock.advance(MINUTE_MS);
    sent.push({ id, at: clock.now() });
  }
  clock.advance(MINUTE_MS);
  for (const { failures } of logs) failures.push(tooMany('2.0'));
  const second = await start(Object.fromEntries(triggers));
  const all = names.length * (LOST + 1);
  await eventually(
    async () => clock.advance(1000) ?? (await runsOf(second)),
    (runs) => runs >= all,
  );
  for (const [name, { original }] of Object.entries(PUBLISHERS)) {
    const [, lost = arrived] = sent;
    expect([200, 409]).toContain(await deliver(second, name, original(lost, clock.now())));
  }
  const seen = asked();
  await eventually(
    async () => clock.advance(1000) ?? asked(),
    (requests) => requests > seen + 3,
  );
  expect(await runsOf(second)).toBe(all);

  const deliveries: Delivered[] = await get(second, '/flows/api/webhooks/recent?take=200');
  for (const [name, { isVerified }] of Object.entries(PUBLISHERS)) {
    const told = `reconciled from ${name}, ${isVerified ? 'verified' : 'not verified'}`;
    const found = deliveries.filter(
      ({ triggerKey, detail }) => triggerKey === name && detail?.startsWith(told) === true,
    );
    expect([name, found.length]).toEqual([name, LOST]);
  }
  const shown = await Promise.all(
    ['flows', 'attention', 'activity', `flows/${FLOW_ID}`].map((path) => get(second, `/flows/api/${path}`)),
  );
  expect(JSON.stringify([deliveries, ...shown])).not.toContain(TOKEN);
});
