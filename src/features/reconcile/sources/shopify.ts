import type { Reconcile } from '../log-schema.ts';
import type { Source } from '../source.ts';
import { listSource } from './list.ts';

type ShopifyConfig = Extract<Reconcile, { from: 'shopify' }>;

/** Without this filter, a list omits closed and cancelled orders. */
const FILTERS: Readonly<Record<ShopifyConfig['topic'], string>> = {
  'orders/create': '&status=any',
  'customers/create': '',
  'products/create': '',
};

/**
 * Shopify has no log of its deliveries, but a delivery contains the resource as in the REST Admin API, which can list
 * resources by creation time: shopify.dev/docs/api/admin-rest and its page on pagination, read 2026-11. Contents are
 * those of now.
 */
export function shopifySource({ shop, topic, token, version, baseUrl = `https://${shop}` }: ShopifyConfig): Source {
  const [resource] = topic.split('/');
  const window = 'created_at_min={since}&created_at_max={until}';
  return listSource({
    url: `${baseUrl.replace(/\/$/, '')}/admin/api/${version}/${resource}.json?limit=250&${window}${FILTERS[topic]}`,
    requestHeaders: { 'x-shopify-access-token': token },
    items: `response.body.${resource}`,
    id: 'item.admin_graphql_api_id',
    time: 'item.created_at',
    headers: { 'x-shopify-topic': JSON.stringify(topic), 'x-shopify-shop-domain': JSON.stringify(shop) },
    next: 'link',
  });
}
