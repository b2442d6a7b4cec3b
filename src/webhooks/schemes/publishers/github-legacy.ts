import { type PublisherSpec, part } from '../spec.ts';
import { gitHub } from './github.ts';

export const gitHubLegacy: PublisherSpec = {
  name: 'GitHubLegacy',
  keyIsChosen: true,
  headers: [{ signature: 'X-Hub-Signature', deliveryId: 'X-GitHub-Delivery' }],
  algorithm: 'sha1',
  encoding: 'hexLower',
  prefix: 'sha1=',
  signs: [part.body],
  eventType: { headers: ['X-GitHub-Event'] },
  eventId: gitHub.eventId,
  sample: gitHub.sample,
  source: 'https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers, read 2026-11',
};
