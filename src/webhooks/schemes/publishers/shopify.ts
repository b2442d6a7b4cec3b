import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** X-Shopify-Triggered-At is not signed, so it is not read as a timestamp. Events deliveries have names without X-. */
export const shopify: PublisherSpec = {
  name: 'Shopify',
  headers: [
    { signature: 'X-Shopify-Hmac-SHA256', deliveryId: 'X-Shopify-Webhook-Id' },
    { signature: 'Shopify-Hmac-SHA256', deliveryId: 'Shopify-Webhook-Id' },
  ],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.body],
  eventType: { headers: ['X-Shopify-Topic', 'Shopify-Topic'] },
  eventId: { headers: ['X-Shopify-Webhook-Id', 'Shopify-Webhook-Id'] },
  sample: jsonSample(
    { id: 820982911946154, name: '#9999', currency: 'USD', total_price: '403.00', line_items: [] },
    { 'x-shopify-topic': 'orders/create', 'x-shopify-shop-domain': 'example.myshopify.com' },
  ),
  source:
    'https://shopify.dev/docs/apps/build/webhooks/verify-deliveries and @shopify/shopify-api 13.1.0, read 2026-11',
};
