import { type PublisherSpec, part } from '../spec.ts';

/** The name of GitHub's old header, the algorithm of its new one. */
export const bitbucket: PublisherSpec = {
  name: 'Bitbucket',
  keyIsChosen: true,
  headers: [{ signature: 'X-Hub-Signature', deliveryId: 'X-Request-UUID' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  signs: [part.body],
  eventType: { headers: ['X-Event-Key'] },
  eventId: { headers: ['X-Request-UUID'] },
  source: 'https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/, read 2026-11',
};
