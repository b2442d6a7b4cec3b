import { type FakeApi, refused } from './fake-api.ts';

export interface ShopifyOrder {
  readonly id: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly isCancelled?: boolean;
}

/** An order as in the Admin API and in webhooks, in the shop's local time. */
export function orderBody({ id, createdAt }: ShopifyOrder): string {
  const local = new Date(createdAt - 5 * 3_600_000).toISOString().replace(/\.\d+Z$/, '-05:00');
  return `{"id":${id},"admin_graphql_api_id":"gid://shopify/Order/${id}","created_at":"${local}","total_price":"10.00","weight":1.10}`;
}

/**
 * `GET /admin/api/VERSION/orders.json`: shopify.dev/docs/api/admin-rest and its page on pagination, read 2026-11. The
 * URL of a further page has no other parameter than limit.
 */
export function fakeShopify(token: string, orders: () => readonly ShopifyOrder[]): FakeApi {
  return ({ method, url, headers }) => {
    if (method !== 'GET' || !/^\/admin\/api\/\d{4}-\d\d\/orders\.json$/.test(url.pathname))
      return refused(404, 'Not Found');
    if (headers['x-shopify-access-token'] !== token) return refused(401, 'Invalid API key or access token');
    const query = url.searchParams;
    const pageInfo = query.get('page_info');
    if (pageInfo !== null && [...query.keys()].some((name) => name !== 'limit' && name !== 'page_info')) {
      return refused(400, 'created_at_min cannot be passed when page_info is present');
    }
    const { filter, start }: { filter: string; start: number } =
      pageInfo === null ? { filter: url.search, start: 0 } : JSON.parse(Buffer.from(pageInfo, 'base64url').toString());
    const filters = new URLSearchParams(filter);
    const limit = Number(query.get('limit') ?? 50);
    if (!(limit >= 1 && limit <= 250)) return refused(400, 'limit must be less than 250');
    const found = orders()
      .filter(({ createdAt }) => createdAt >= Date.parse(filters.get('created_at_min') ?? ''))
      .filter(({ createdAt }) => createdAt <= Date.parse(filters.get('created_at_max') ?? ''))
      .filter(({ isCancelled = false }) => filters.get('status') === 'any' || !isCancelled);
    const page = found.slice(start, start + limit);
    const link = (at: number, rel: string) => {
      const cursor = Buffer.from(JSON.stringify({ filter, start: at })).toString('base64url');
      return `<${url.origin}${url.pathname}?limit=${limit}&page_info=${cursor}>; rel="${rel}"`;
    };
    const links = [
      ...(start > 0 ? [link(Math.max(0, start - limit), 'previous')] : []),
      ...(start + limit < found.length ? [link(start + limit, 'next')] : []),
    ];
    return {
      status: 200,
      headers: { 'x-shopify-shop-api-call-limit': '1/40', ...(links.length > 0 && { link: links.join(', ') }) },
      body: `{"orders":[${page.map(orderBody).join(',')}]}`,
    };
  };
}
