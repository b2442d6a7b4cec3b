import type { SignatureSpec } from '../spec.ts';

export const gitHub: SignatureSpec = {
  name: 'GitHub',
  headers: [{ signature: 'X-Hub-Signature-256', deliveryId: 'X-GitHub-Delivery' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  payload: { strategy: 'RawBody' },
  source: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries, read 2026-11',
};
