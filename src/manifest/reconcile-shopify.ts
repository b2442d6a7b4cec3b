import { z } from 'zod';
import { type ReconcileRule, reconcileFields, secret } from './reconcile-fields.ts';

/** Topics whose deliveries hold what a list of the Admin API holds, once each. */
export const SHOPIFY_TOPICS = ['orders/create', 'customers/create', 'products/create'] as const;

/** What a Shopify store has made, for topics that tell of it. */
export const shopifySchema = z.strictObject({
  from: z.literal('shopify').describe('What was made in a Shopify store.'),
  shop: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]*\.myshopify\.com$/, {
      error: 'is not the domain of a shop, such as example.myshopify.com',
    })
    .describe('Domain of the shop, such as example.myshopify.com.'),
  topic: z.enum(SHOPIFY_TOPICS).describe(`Topic that the webhook is subscribed to: ${SHOPIFY_TOPICS.join(', ')}.`),
  token: secret.describe('Access token of the Admin API that may read the resource: env:NAME or file:PATH.'),
  version: z
    .string()
    .regex(/^\d{4}-(01|04|07|10)$/, { error: 'is not a version of the Admin API, such as 2026-10' })
    .describe('Version of the Admin API, such as 2026-10: that of the webhook, so that bodies have the same fields.'),
  ...reconcileFields,
});

export const shopifyRule: ReconcileRule = {
  secrets: ['token'],
  isUnsigned: true,
  // What was made is made once. For other topics of the same URL, each event has an id of its own.
  eventId:
    'headers["x-shopify-topic"].endsWith("/create") ? headers["x-shopify-topic"] + " " + body.admin_graphql_api_id : headers["x-shopify-event-id"]',
};
