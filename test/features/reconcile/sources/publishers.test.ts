import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { compileEventId, deliveryData, evaluateEventId } from '../../../../src/expressions/delivery-expressions.ts';
import { ArrivingBody } from '../../../../src/expressions/trigger-body.ts';
import { RECONCILE_RULES, type Reconcile, reconcileSchema } from '../../../../src/features/reconcile/log-schema.ts';
import type { SentDelivery, SourceItem } from '../../../../src/features/reconcile/source.ts';
import { sourceOf } from '../../../../src/features/reconcile/sources/index.ts';
import type { Json } from '../../../../src/model/json.ts';
import { fakeGraph, type GraphMessage } from '../fakes/graph.ts';
import { fakeShopify, orderBody, type ShopifyOrder } from '../fakes/shopify.ts';
import { fakeStripe, type StripeEvent } from '../fakes/stripe.ts';
import { asking, readAll } from '../read-all.ts';

const START = Date.parse('2026-11-26T00:00:00Z');
const WINDOW = { since: START, until: START + 86_400_000 };

const configOf = (written: Json): Reconcile => reconcileSchema.parse(written);

/** The event's identity as a delivery's trigger would read it. */
function identityOf(from: Reconcile['from'], { headers, bodies: [body] }: SentDelivery): unknown {
  const compiled = compileEventId(RECONCILE_RULES[from].eventId ?? '');
  if (typeof compiled === 'string') return compiled;
  return evaluateEventId(
    compiled.expression,
    deliveryData(headers, new ArrivingBody(Buffer.from(String(body)), { contentType: 'application/json' })),
  );
}

const idsOf = (items: readonly SourceItem[]) => items.map(({ id }) => id).toSorted();

describe('Stripe', () => {
  const stripe = { from: 'stripe', token: 'rk_test' };
  const eventAt = (id: string, seconds: number, more: Partial<StripeEvent> = {}): StripeEvent => ({
    id,
    type: 'payment_intent.succeeded',
    created: START / 1000 + seconds,
    ...more,
  });

  it('has the events of the window that an endpoint did not accept', () => {
    const events = [
      eventAt('evt_before', -1),
      eventAt('evt_first', 0),
      eventAt('evt_got', 5, { isDelivered: true }),
      eventAt('evt_last', 86_400),
      eventAt('evt_after', 86_401),
    ];
    const { items, sent } = readAll(sourceOf(configOf(stripe)), WINDOW, asking(fakeStripe('rk_test', () => events)));
    expect(idsOf(items)).toEqual(['evt_first', 'evt_last']);
    expect(items[0]?.sentAt).toBe(WINDOW.until);
    expect(sent[0]?.headers).toEqual({ 'content-type': 'application/json' });
    expect(JSON.parse(String(sent[0]?.bodies[0]))).toMatchObject({ id: 'evt_last', object: 'event' });
  });

  it('has those of the types that are named', () => {
    const events = [eventAt('evt_1', 1), eventAt('evt_2', 2, { type: 'invoice.paid' })];
    const config = configOf({ ...stripe, types: ['invoice.paid', 'invoice.voided'] });
    const { items } = readAll(sourceOf(config), WINDOW, asking(fakeStripe('rk_test', () => events)));
    expect(idsOf(items)).toEqual(['evt_2']);
  });

  it('is read to its end while new events come first', () => {
    const events = Array.from({ length: 250 }, (_, index) => eventAt(`evt_${index}`, index));
    const expected = idsOf(events.map(({ id }) => ({ id, sentAt: 0, headers: {} })));
    const api = asking(fakeStripe('rk_test', () => events));
    const { items, pages } = readAll(sourceOf(configOf(stripe)), WINDOW, (request) => {
      const answer = api(request);
      events.push(eventAt(`evt_new_${events.length}`, 80_000));
      return answer;
    });
    expect(pages).toBe(3);
    expect(idsOf(items)).toEqual(expected);
  });
});

describe('Shopify', () => {
  const shopify = {
    from: 'shopify',
    shop: 'example.myshopify.com',
    topic: 'orders/create',
    token: 'shpat_test',
    version: '2026-10',
  };

  it('has the orders of the window, cancelled ones too, as the webhook has them', () => {
    const orders: ShopifyOrder[] = [
      { id: 1, createdAt: START - 1000 },
      { id: 2, createdAt: START },
      { id: 3, createdAt: START + 5000, isCancelled: true },
      { id: 4, createdAt: WINDOW.until + 1000 },
    ];
    const api = asking(fakeShopify('shpat_test', () => orders));
    const { items, sent } = readAll(sourceOf(configOf(shopify)), WINDOW, api);
    expect(idsOf(items)).toEqual(['gid://shopify/Order/2', 'gid://shopify/Order/3']);
    expect(items.map(({ sentAt }) => sentAt)).toEqual([START, START + 5000]);
    expect(sent[0]?.headers).toEqual({
      'content-type': 'application/json',
      'x-shopify-topic': 'orders/create',
      'x-shopify-shop-domain': 'example.myshopify.com',
    });
    expect(sent.map(({ bodies }) => String(bodies[0]))).toEqual(orders.slice(1, 3).map(orderBody));
  });

  it('is read over all pages', () => {
    const orders = Array.from({ length: 601 }, (_, index) => ({ id: index + 1, createdAt: START + index * 1000 }));
    const api = asking(fakeShopify('shpat_test', () => orders));
    const { items, pages } = readAll(sourceOf(configOf(shopify)), WINDOW, api);
    expect([pages, new Set(idsOf(items)).size]).toEqual([3, 601]);
  });

  it('has one identity for an order that is listed and its own delivery', () => {
    const order = { id: 7, createdAt: START };
    const api = asking(fakeShopify('shpat_test', () => [order]));
    const [listed] = readAll(sourceOf(configOf(shopify)), WINDOW, api).sent;
    const delivered: SentDelivery = {
      headers: { 'x-shopify-topic': 'orders/create', 'x-shopify-event-id': 'e', 'x-shopify-webhook-id': 'w' },
      bodies: [Buffer.from(orderBody(order))],
    };
    expect(listed && identityOf('shopify', listed)).toBe('orders/create gid://shopify/Order/7');
    expect(identityOf('shopify', delivered)).toBe('orders/create gid://shopify/Order/7');
  });

  it('tells two updates of one order apart', () => {
    const updated = (event: string): SentDelivery => ({
      headers: { 'x-shopify-topic': 'orders/updated', 'x-shopify-event-id': event },
      bodies: [Buffer.from(orderBody({ id: 7, createdAt: START }))],
    });
    expect(identityOf('shopify', updated('e1'))).not.toBe(identityOf('shopify', updated('e2')));
  });
});

describe('Microsoft Graph', () => {
  const app = {
    tenant: 'example.com',
    clientId: '11111111-2222-4333-8444-555555555555',
    clientSecret: 'a secret & more',
  };
  const graph = { from: 'graph', resource: 'users/ada@example.com/messages', changeType: 'created', ...app };
  const message = (id: string, createdAt: number, changedAt = createdAt): GraphMessage => ({
    id,
    etag: `W/"${id}-${changedAt}"`,
    createdAt,
    changedAt,
  });
  const messages = [
    message('A', START - 1000),
    message('B', START),
    message('C', START + 5000, START + 60_000),
    message('D', WINDOW.until + 1000),
  ];

  test.each([
    ['created', ['B', 'C'], START + 5000],
    ['updated', ['B W/"B-1795651200000"', 'C W/"C-1795651260000"'], START + 60_000],
  ])('has what was %s in the window', (changeType, ids, lastAt) => {
    const source = sourceOf(configOf({ ...graph, changeType }));
    const { items } = readAll(source, WINDOW, asking(fakeGraph(app, () => messages)));
    expect(idsOf(items)).toEqual(ids);
    expect(items.at(-1)?.sentAt).toBe(lastAt);
  });

  it('has each item as the notification of a subscription', () => {
    const subscriptionId = '76619225-ff6b-4489-96ca-4ef547e78b22';
    const source = sourceOf(configOf({ ...graph, subscriptionId }));
    const [sent] = readAll(source, WINDOW, asking(fakeGraph(app, () => messages))).sent;
    expect(JSON.parse(String(sent?.bodies[0]))).toEqual({
      value: [
        {
          subscriptionId,
          changeType: 'created',
          resource: 'users/ada@example.com/messages/B',
          resourceData: { id: 'B', '@odata.etag': 'W/"B-1795651200000"' },
        },
      ],
    });
  });

  it('is read over pages of any size, empty ones too', () => {
    const api = fakeGraph(app, () => messages, 1);
    const { items, pages } = readAll(
      sourceOf(configOf(graph)),
      WINDOW,
      asking((request) => {
        const answer = api(request);
        return request.url.searchParams.get('$skip') === '1'
          ? { ...answer, body: answer.body.replace(/"value":.*/, '"value":[]}') }
          : answer;
      }),
    );
    expect([pages, items.length]).toEqual([2, 1]);
  });

  test.each<[string, Json]>([
    ['nothing', null],
    ['no token', { expires_in: 3599 }],
    ['a token that would add a header', { access_token: 'a\r\nx: y', expires_in: 3599 }],
    ['no lifetime', { access_token: 'abc' }],
  ])('is not asked where the sign-in gives %s', (_, answer) => {
    const { signIn } = sourceOf(configOf(graph));
    const text = JSON.stringify(answer);
    expect(() => signIn?.read({ status: 200, headers: {}, text, json: answer })).toThrow(
      'the sign-in answered without',
    );
  });

  it.each(['created', 'updated'])(
    'has one identity for an item that is listed and its own notification, %s',
    (changeType) => {
      const source = sourceOf(configOf({ ...graph, changeType }));
      const [listed] = readAll(source, WINDOW, asking(fakeGraph(app, () => messages))).sent;
      const notification = {
        subscriptionId: '76619225-ff6b-4489-96ca-4ef547e78b22',
        clientState: '-',
        changeType,
        resource: 'Users/622eaaff/Messages/B',
        resourceData: { '@odata.type': '#Microsoft.Graph.Message', '@odata.etag': 'W/"B-1795651200000"', id: 'B' },
      };
      const delivered: SentDelivery = { headers: {}, bodies: [Buffer.from(JSON.stringify({ value: [notification] }))] };
      const identity = identityOf('graph', delivered);
      expect(identity).toEqual(expect.stringContaining(`${changeType} B`));
      expect(listed && identityOf('graph', listed)).toBe(identity);
    },
  );

  it('gives a lifecycle notification no identity, so that none is taken for a repetition', () => {
    const body = { value: [{ subscriptionId: 's', lifecycleEvent: 'missed' }] };
    const missed: SentDelivery = { headers: {}, bodies: [Buffer.from(JSON.stringify(body))] };
    expect(identityOf('graph', missed)).toHaveProperty('error');
  });
});

it('finds all of a window that Stripe lists, once each, whatever the events', () => {
  const second = fc.integer({ min: -100, max: 86_500 });
  fc.assert(
    fc.property(
      fc.array(second, { maxLength: 300 }),
      fc.array(fc.boolean(), { minLength: 1 }),
      (seconds, delivered) => {
        const events = seconds.map(
          (each, index): StripeEvent => ({
            id: `evt_${index}`,
            type: 'invoice.paid',
            created: START / 1000 + each,
            isDelivered: delivered[index % delivered.length] === true,
          }),
        );
        const { items } = readAll(
          sourceOf(configOf({ from: 'stripe', token: 't' })),
          WINDOW,
          asking(fakeStripe('t', () => events)),
        );
        const missed = events.filter(
          ({ created, isDelivered }) => !isDelivered && created * 1000 >= START && created * 1000 <= WINDOW.until,
        );
        expect(idsOf(items)).toEqual(missed.map(({ id }) => id).toSorted());
      },
    ),
    { numRuns: 50 },
  );
});

const ID = '11111111-2222-4333-8444-555555555555';
const CONFIGS: Readonly<Record<Reconcile['from'], { readonly config: Json; readonly page: (entries: Json) => Json }>> =
  {
    github: { config: { from: 'github', repo: 'a/b', hook: 1, token: 't' }, page: (entries) => entries },
    stripe: { config: { from: 'stripe', token: 't' }, page: (data) => ({ data, has_more: false }) },
    shopify: {
      config: {
        ...{ from: 'shopify', shop: 'a.myshopify.com', version: '2026-10' },
        ...{ topic: 'orders/create', token: 't' },
      },
      page: (orders) => ({ orders }),
    },
    graph: {
      config: {
        ...{ from: 'graph', tenant: 'example.com', clientId: ID, clientSecret: 's' },
        ...{ resource: 'users/ada@example.com/messages', changeType: 'created' },
      },
      page: (value) => ({ value }),
    },
    list: {
      config: {
        ...{ from: 'list', url: 'https://api.example/sent?since={since}' },
        ...{ items: 'response.body', id: 'item.id', time: 'item.at' },
      },
      page: (entries) => entries,
    },
  };

it.each(Object.entries(CONFIGS))('%s reads no entry of a page with more than a thousand', (_from, { config, page }) => {
  let reads = 0;
  const entry = new Proxy({}, { get: () => (reads += 1) });
  const json = page(Array.from({ length: 1001 }, () => entry) as Json);
  const source = sourceOf(configOf(config));
  expect(() => source.read({ status: 200, headers: {}, text: '', json }, WINDOW)).toThrow(
    'a page has 1001 entries; at most 1000 are read',
  );
  expect(reads).toBe(0);
});
