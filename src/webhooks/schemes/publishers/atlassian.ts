import type { SignatureSpec } from '../spec.ts';

/** Jira's admin webhooks. The prefix names the method, which may become a stronger one; a weaker one is never taken. */
export const atlassian: SignatureSpec = {
  name: 'Atlassian',
  headers: [{ signature: 'X-Hub-Signature', deliveryId: 'X-Atlassian-Webhook-Identifier' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  alternatives: [
    { algorithm: 'sha384', prefix: 'sha384=' },
    { algorithm: 'sha512', prefix: 'sha512=' },
  ],
  payload: { strategy: 'RawBody' },
  eventType: { path: ['webhookEvent'] },
  source: 'https://developer.atlassian.com/cloud/jira/platform/webhooks/, read 2026-11',
};
