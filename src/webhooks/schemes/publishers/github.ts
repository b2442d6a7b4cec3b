import { jsonSample, type PublisherSpec, part } from '../spec.ts';

export const gitHub: PublisherSpec = {
  name: 'GitHub',
  keyIsChosen: true,
  headers: [{ signature: 'X-Hub-Signature-256', deliveryId: 'X-GitHub-Delivery' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  signs: [part.body],
  eventType: { headers: ['X-GitHub-Event'] },
  eventId: { headers: ['X-GitHub-Delivery'] },
  sample: jsonSample(
    {
      ref: 'refs/heads/main',
      before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
      after: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5',
      repository: { id: 186853002, name: 'hello-world', full_name: 'octocat/hello-world', private: false },
      sender: { login: 'octocat' },
      pusher: { name: 'octocat', email: 'octocat@example.com' },
      commits: [
        { id: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5', message: 'Update README', author: { name: 'octocat' } },
      ],
    },
    { 'x-github-event': 'push' },
  ),
  source: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries, read 2026-11',
};
