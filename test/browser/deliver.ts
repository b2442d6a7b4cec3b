import { FLOW_ID, GITHUB_SECRET, githubManifest, pushHeaders } from '../e2e/service.ts';

export const MANUAL_ID = '2d9a4166-8e3f-4b20-9c73-51b20f3e4c32';

/** A flow with an enforced GitHub webhook, and one with a schedule and a start by hand. */
export const MANIFESTS = {
  'push.json': githubManifest({ inputs: { webhookEnforcementMode: 'Enforce' } }),
  'report.json': {
    id: MANUAL_ID,
    name: 'report',
    version: '2',
    triggers: {
      now: { type: 'manual' },
      nightly: { type: 'cron', inputs: { cronExpression: '0 2 * * *', timeZone: 'Europe/Berlin' } },
    },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of a manifest.
    steps: { gather: { type: 'Transform', inputs: { value: '${trigger.body}' } } },
  },
};

interface DeliveryOptions {
  readonly body?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly slug?: string;
}

let sent = 0;

/** Sends a delivery to the GitHub webhook, correctly signed unless a key is given; returns the status. */
export async function deliver(url: string, options: DeliveryOptions = {}): Promise<number> {
  sent += 1;
  const { body = JSON.stringify({ number: sent }), key = GITHUB_SECRET, headers, slug = 'push' } = options;
  const response = await fetch(`${url}/flows/api/webhook/${slug}`, {
    method: 'POST',
    headers: { ...pushHeaders(body, { key, id: `delivery-${sent}` }), ...headers },
    body,
  });
  await response.arrayBuffer();
  return response.status;
}

export async function switchFlow(url: string, verb: 'enable' | 'disable'): Promise<void> {
  const response = await fetch(`${url}/flows/api/flows/${FLOW_ID}/${verb}`, { method: 'POST' });
  if (!response.ok) throw new Error(`${verb}: ${response.status}`);
}
