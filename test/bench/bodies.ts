import { createHmac } from 'node:crypto';
import examples from '@octokit/webhooks-examples/api.github.com/index.json' with { type: 'json' };
import { GITHUB_SECRET } from '../e2e/service.ts';

/** A delivery as GitHub sends it, without its id. */
export interface Delivery {
  /** The event of the example. */
  readonly name: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const bodies = (examples as { name: string; examples: unknown[] }[]).flatMap(({ name, examples: all }) =>
  all.map((example) => ({ name, body: JSON.stringify(example) })),
);

/** The example of @octokit/webhooks-examples closest to this size, signed. */
export function deliveryOf(kibibytes: number): Delivery {
  const distance = ({ body }: { body: string }) => Math.abs(Buffer.byteLength(body) - kibibytes * 1024);
  const { name, body } = bodies.reduce((best, one) => (distance(one) < distance(best) ? one : best));
  const headers = {
    accept: '*/*',
    'content-type': 'application/json',
    'user-agent': 'GitHub-Hookshot/044aadd',
    'x-github-event': name,
    'x-github-hook-id': '292430182',
    'x-github-hook-installation-target-id': '79929171',
    'x-github-hook-installation-target-type': 'repository',
    'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`,
  };
  return { name, headers, body };
}
