import { type FakeApi, json, refused } from './fake-api.ts';

export interface StripeEvent {
  readonly id: string;
  readonly type: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** Whether every endpoint has answered 2xx. */
  readonly isDelivered?: boolean;
}

/** `GET /v1/events`, newest first: docs.stripe.com/api/events/list and docs.stripe.com/api/pagination, read 2026-11. */
export function fakeStripe(token: string, events: () => readonly StripeEvent[]): FakeApi {
  return ({ method, url, headers }) => {
    if (method !== 'GET' || url.pathname !== '/v1/events') return refused(404, 'Unrecognized request URL');
    if (headers.authorization !== `Bearer ${token}`) return refused(401, 'Invalid API Key provided');
    const query = url.searchParams;
    const limit = Number(query.get('limit') ?? 10);
    if (!(limit >= 1 && limit <= 100)) return refused(400, 'Invalid integer: limit');
    const types = query.getAll('types[]');
    if (types.length > 20) return refused(400, 'Array too long: types');
    const found = events()
      .filter(({ created }) => created >= Number(query.get('created[gte]') ?? 0))
      .filter(({ created }) => created <= Number(query.get('created[lte]') ?? Number.POSITIVE_INFINITY))
      .filter(({ type }) => types.length === 0 || types.includes(type))
      .filter(({ isDelivered = false }) => query.get('delivery_success') !== String(!isDelivered))
      .toSorted((one, other) => other.created - one.created);
    const after = query.get('starting_after');
    const start = after === null ? 0 : found.findIndex(({ id }) => id === after) + 1;
    if (after !== null && start === 0) return refused(404, `No such event: '${after}'`);
    const page = found.slice(start, start + limit);
    const data = page.map(({ id, type, created }) => ({
      id,
      object: 'event',
      api_version: '2026-09-30',
      created,
      data: { object: { id: `pi_${id}`, object: 'payment_intent', amount: 4200 } },
      livemode: false,
      pending_webhooks: 1,
      type,
    }));
    return json({ object: 'list', url: '/v1/events', has_more: start + page.length < found.length, data });
  };
}
