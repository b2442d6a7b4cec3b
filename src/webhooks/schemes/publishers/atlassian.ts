import { type PublisherSpec, part } from '../spec.ts';

/** Jira's admin webhooks. The prefix names the method, which may become a stronger one; a weaker one is never taken. */
export const atlassian: PublisherSpec = {
  name: 'Atlassian',
  keyIsChosen: true,
  headers: [{ signature: 'X-Hub-Signature', deliveryId: 'X-Atlassian-Webhook-Identifier' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  alternatives: [
    { algorithm: 'sha384', prefix: 'sha384=' },
    { algorithm: 'sha512', prefix: 'sha512=' },
  ],
  signs: [part.body],
  eventType: { path: ['webhookEvent'] },
  eventId: { headers: ['X-Atlassian-Webhook-Identifier'] },
  source: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/, read 2026-11',
};
