import { type PublisherRow, publisherSpec } from './row.ts';

/** Id and timestamp are signed with the body. Adopters whose keys begin with whsec_ are aliases. */
export const STANDARD_WEBHOOKS: PublisherRow = {
  name: 'StandardWebhooks',
  title: 'Standard Webhooks, Svix',
  aliases: [
    'Svix',
    'Brex',
    'Clerk',
    'Etsy',
    'Gemini',
    'IncidentIo',
    'Loops',
    'OpenAI',
    'Render',
    'Replicate',
    'Resend',
    'Stytch',
    'Supabase',
    'Vanta',
  ],
  header: 'webhook-signature',
  form: 'v1,{signature} ...',
  signs: '{id}.{timestamp}.{body}',
  encoding: 'base64',
  keyEncoding: 'whsec',
  keyIsChosen: true,
  timestamp: 'webhook-timestamp',
  id: 'webhook-id',
  otherHeaders: [{ signature: 'svix-signature', timestamp: 'svix-timestamp', deliveryId: 'svix-id' }],
  others: { ed25519: { valueKey: 'v1a', publicKeyPrefix: 'whpk_', privateKeyPrefix: 'whsk_' } },
  eventType: '{field:type}',
  eventId: ['{header:webhook-id}', '{header:svix-id}'],
  eventIdSource:
    'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (webhook-id: the same when sent again), read 2026-11',
  logs: "{has(trigger.body.type) ? trigger.body.type : 'a test'} arrived",
  clickPath: [
    "Many services sign like this: those that send with Svix (Clerk, Resend and others), OpenAI, GitLab's signing tokens, and your own senders with a Standard Webhooks library. You recognise it by the headers `webhook-id` or `svix-id`.",
    'Add an endpoint in the settings of the service: `{URL}`. Copy its signing secret (`whsec_…`).',
  ],
  retries: {
    none: 'the sender decides; the specification suggests some over a day or more',
    source: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11',
  },
  trigger: {
    webhookSlug: 'standard',
    webhookHmacKey: 'env:STANDARD_WEBHOOK_SECRET',
  },
  source: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11',
  certainty: 'package',
};

/** Sluice itself signs with this scheme too. */
export const standardWebhooks = publisherSpec(STANDARD_WEBHOOKS);
