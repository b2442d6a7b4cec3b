import { jsonSample, type PublisherSpec } from '../spec.ts';
import { standardWebhooks } from './standard-webhooks.ts';

const sample = jsonSample(
  {
    object_kind: 'push',
    ref: 'refs/heads/main',
    checkout_sha: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
    project: { id: 15, name: 'Diaspora', path_with_namespace: 'mike/diaspora' },
  },
  { 'x-gitlab-event': 'Push Hook' },
);

/** A webhook with a signing token, which GitLab shows as `whsec_…`: Standard Webhooks. */
const signed: PublisherSpec = {
  ...standardWebhooks,
  name: 'GitLab',
  aliases: [],
  headers: standardWebhooks.headers.slice(0, 1),
  ed25519: undefined,
  eventType: { headers: ['X-Gitlab-Event'] },
  eventId: { headers: ['webhook-id'] },
  sample,
  source: 'https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944, read 2026-11',
};

/** A webhook with a secret token, which is sent as it is, signs nothing. The two are told apart by the key. */
export const gitLab: PublisherSpec = {
  name: 'GitLab',
  keyIsChosen: true,
  headers: [{ signature: 'X-Gitlab-Token', deliveryId: 'Idempotency-Key' }],
  algorithm: 'token',
  encoding: 'hexLower',
  signs: [],
  eventType: { headers: ['X-Gitlab-Event'] },
  eventId: { headers: ['Idempotency-Key'] },
  keyForm: { prefix: 'whsec_', spec: signed },
  sample,
  source:
    'https://docs.gitlab.com/user/project/integrations/webhooks/ and https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944, read 2026-11',
};
