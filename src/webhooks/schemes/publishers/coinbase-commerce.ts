import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the webhook shared secret. */
export const coinbaseCommerce: PublisherSpec = {
  name: 'CoinbaseCommerce',
  headers: [{ signature: 'X-CC-Webhook-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.body],
  eventType: { path: ['event', 'type'] },
  eventId: { path: ['event', 'id'] },
  sample: jsonSample({
    id: 1,
    attempt_number: 1,
    event: { id: '24934862-d980-46cb-9402-43c81b0cdba6', type: 'charge:created', data: { code: '66BEOV2A' } },
  }),
  source: 'https://docs.cdp.coinbase.com/commerce/api-arcitecture/webhooks-security, read 2026-11',
};
