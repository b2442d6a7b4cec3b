import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** Paddle Billing. Several `h1` are sent while a secret is rotated; Paddle's own package reads the last one alone. */
export const paddle: PublisherSpec = {
  name: 'Paddle',
  headers: [{ signature: 'Paddle-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ';', keyValueSeparator: '=', valueKeys: ['h1'], acceptsMultiple: true },
  signs: [part.timestamp, ':', part.body],
  timestamp: { in: 'signature', valueKey: 'ts', unit: 'seconds' },
  eventType: { path: ['event_type'] },
  eventId: { path: ['event_id'] },
  eventIdSource:
    'https://developer.paddle.com/webhooks/about/how-webhooks-work (event_id as the key against duplicates), read 2026-11',
  sample: jsonSample({
    event_id: 'evt_01hv8x2acma2gz7he8kg2s0hna',
    event_type: 'transaction.completed',
    notification_id: 'ntf_01hv8x2af22vrrz5k7bx4ms6kx',
    data: { id: 'txn_01hv8wptq8987qeep44cyrewp9', status: 'completed', currency_code: 'USD' },
  }),
  source: '@paddle/paddle-node-sdk 3.10.0, read 2026-11',
};
