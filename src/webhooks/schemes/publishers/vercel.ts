import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the secret of the webhook; of an integration, its client secret. SHA-1 is the only algorithm. */
export const vercel: PublisherSpec = {
  name: 'Vercel',
  headers: [{ signature: 'X-Vercel-Signature' }],
  algorithm: 'sha1',
  encoding: 'hexLower',
  signs: [part.body],
  eventType: { path: ['type'] },
  eventId: { path: ['id'] },
  sample: jsonSample({
    id: 'uev_01H3Q2W5',
    type: 'deployment.succeeded',
    createdAt: 1700000000000,
    payload: { deployment: { id: 'dpl_2bNq', name: 'shop', url: 'shop-2bnq.vercel.app' } },
  }),
  unconfirmed: 'all of it: the signature is as published verifiers of third parties have it',
  source: 'https://trigger.dev/docs/webhooks/providers/vercel and published verifiers, read 2026-11',
};
