import { type PublisherSpec, part } from '../spec.ts';

/** Svix, GitLab's signing tokens, OpenAI, Clerk, Resend and others. Id and timestamp are signed with the body. */
export const standardWebhooks: PublisherSpec = {
  name: 'StandardWebhooks',
  keyIsChosen: true,
  aliases: ['Svix'],
  headers: [
    { signature: 'webhook-signature', timestamp: 'webhook-timestamp', deliveryId: 'webhook-id' },
    { signature: 'svix-signature', timestamp: 'svix-timestamp', deliveryId: 'svix-id' },
  ],
  algorithm: 'sha256',
  encoding: 'base64',
  multiValue: { delimiter: ' ', keyValueSeparator: ',', valueKeys: ['v1'], acceptsMultiple: true },
  ed25519: { valueKey: 'v1a', publicKeyPrefix: 'whpk_', privateKeyPrefix: 'whsk_' },
  signs: [part.deliveryId, '.', part.timestamp, '.', part.body],
  timestamp: { in: 'header', unit: 'seconds' },
  keyEncoding: 'whsec',
  eventType: { path: ['type'] },
  eventId: { headers: ['webhook-id', 'svix-id'] },
  eventIdSource:
    'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (webhook-id: the same when sent again), read 2026-11',
  source: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11',
};
