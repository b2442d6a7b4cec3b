import type { Reconcile } from '../log-schema.ts';
import type { Source } from '../source.ts';
import { listSource } from './list.ts';

type StripeConfig = Extract<Reconcile, { from: 'stripe' }>;

/**
 * Events of the last 30 days that an endpoint has not answered with 2xx, newest first: docs.stripe.com/api/events/list
 * and docs.stripe.com/webhooks/process-undelivered-events, read 2026-11. Their data is as of their creation, but never
 * the bytes that were signed.
 */
export function stripeSource({ token, types = [], baseUrl = 'https://api.stripe.com' }: StripeConfig): Source {
  const window = 'created[gte]={since:seconds}&created[lte]={until:seconds}';
  const ofTypes = types.map((type) => `&types[]=${type}`).join('');
  return listSource({
    url: `${baseUrl.replace(/\/$/, '')}/v1/events?limit=100&delivery_success=false&${window}${ofTypes}`,
    requestHeaders: { authorization: `Bearer ${token}` },
    items: 'response.body.data',
    id: 'item.id',
    time: 'item.created',
    nextQuery: {
      starting_after: 'response.body.has_more ? response.body.data[size(response.body.data) - 1].id : ""',
    },
  });
}
