import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the whole `whsec_…` text. Segments `v0` are of test mode and never count. */
export const stripe: PublisherSpec = {
  name: 'Stripe',
  headers: [{ signature: 'Stripe-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ',', keyValueSeparator: '=', valueKeys: ['v1'], acceptsMultiple: true },
  signs: [part.timestamp, '.', part.body],
  timestamp: { in: 'signature', valueKey: 't', unit: 'seconds' },
  eventType: { path: ['type'] },
  eventId: { path: ['id'] },
  eventIdSource: 'https://docs.stripe.com/webhooks#handle-duplicate-events, read 2026-11',
  sample: jsonSample({
    id: 'evt_1Pgc76DZ',
    object: 'event',
    type: 'payment_intent.succeeded',
    livemode: false,
    data: { object: { id: 'pi_3Pgc75', object: 'payment_intent', amount: 4200, currency: 'eur', status: 'succeeded' } },
  }),
  source: 'https://docs.stripe.com/webhooks#verify-manually, read 2026-11',
};
