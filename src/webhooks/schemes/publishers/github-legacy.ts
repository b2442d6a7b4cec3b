import type { SignatureSpec } from '../spec.ts';
import { gitHub } from './github.ts';

export const gitHubLegacy: SignatureSpec = {
  name: 'GitHubLegacy',
  headers: [{ signature: 'X-Hub-Signature', deliveryId: 'X-GitHub-Delivery' }],
  algorithm: 'sha1',
  encoding: 'hexLower',
  prefix: 'sha1=',
  payload: { strategy: 'RawBody' },
  eventType: { headers: ['X-GitHub-Event'] },
  sample: gitHub.sample,
  source: 'https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers, read 2026-11',
};
