import { createHmac, randomUUID } from 'node:crypto';

/** A delivery of GitHub to the slug `push`, as `inject` takes it. */
export function signedPush({ key, body }: { readonly key: string; readonly body: string }) {
  return {
    method: 'POST' as const,
    url: '/flows/api/webhook/push',
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
      'x-github-delivery': randomUUID(),
    },
    payload: body,
  };
}
