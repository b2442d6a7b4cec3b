import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import type { Credentials } from '../../src/config/credentials.ts';
import { startDashboard, type TestDashboard } from './fixture.ts';

export const api = '/flows/api';
export const SHOP_ID = '3f4c1a5e-0b7d-4c12-9e61-1a2b3c4d5e6f';
// Sorts before the other id, so that the record of a delivery to both flows is this flow's.
export const TWIN_ID = '1a5b6c7d-1c8e-4d23-8f72-2b3c4d5e6f7a';
export const CANARY_ID = '9d8c7b6a-2d9f-4e34-a083-3c4d5e6f7a8b';
const KEY = 'key-of-a-shop-4f1c9d7ab2e8';

const hook = (webhookSlug: string) => ({
  type: 'webhook',
  inputs: { webhookSlug, webhookSignatureScheme: 'github', webhookHmacKey: KEY, webhookEnforcementMode: 'Enforce' },
});
const shared = (webhookSlug: string) => ({
  type: 'webhook',
  inputs: { ...hook(webhookSlug).inputs, webhookShared: true },
});

const SHOP = {
  id: SHOP_ID,
  name: 'orders-shop',
  version: '1',
  // Names the flow by its id, which is not secret; its name is.
  onFailure: TWIN_ID,
  triggers: {
    byHand: { type: 'manual' },
    nightly: { type: 'cron', inputs: { cronExpression: '0 3 * * *' } },
    shop: { ...hook('shop'), searchKeys: { order: 'body.order' } },
    common: shared('common'),
  },
  steps: {
    first: { type: 'NoOp' },
    lines: { type: 'ForEach', forEach: ['a'], concurrencyLimit: 1, steps: { pack: { type: 'NoOp' } } },
  },
};
/** The other flow that the flows in sight refer to. */
const TWIN = {
  id: TWIN_ID,
  name: 'canary-twin',
  version: '1',
  triggers: { byHand: { type: 'manual' }, canaryCommon: shared('common') },
  steps: { canaryStep: { type: 'NoOp' } },
};
export const CANARY = {
  id: CANARY_ID,
  name: 'canary-flow',
  version: 'canary-1',
  triggers: {
    byHand: { type: 'manual' },
    canaryNight: { type: 'cron', inputs: { cronExpression: '0 4 * * *' } },
    canaryHook: { ...hook('canary-slug'), searchKeys: { order: 'body.order' } },
  },
  steps: { canaryStep: { type: 'NoOp' } },
};

export const ALL = 'all-0f1e2d3c4b5a6978';
export const TOKENS = {
  reader: { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read', 'operate'], flows: ['orders-*'] },
  unlimited: { name: 'unlimited', token: 'unlimited-5d6e7f80', scopes: ['read', 'operate'] },
} as const;
const access: Credentials = { kind: 'credentials', token: ALL, tokens: Object.values(TOKENS) };

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** The body, followed by its decoded base64 texts, as in evidence and forwarded deliveries. */
export function readable(body: string): string {
  const encoded = [...body.matchAll(/"([A-Za-z0-9+/_-]{16,}={0,2})"/g)].map(([, text = '']) => text);
  return [body, ...encoded.map((text) => Buffer.from(text, 'base64').toString('latin1'))].join('\n');
}

/** The fields that tests read of the answer to a delivery. */
interface Accepted {
  readonly deliveryId: string;
  readonly runId: string;
  readonly runs: readonly { readonly flowId: string; readonly runId: string }[];
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** A service with flows inside and outside a token's sight, and functions to use it. */
export interface LimitedService {
  readonly dashboard: TestDashboard;
  ask(token: string, method: Method, url: string, payload?: object): Promise<Answer>;
  asReader(method: Method, url: string, payload?: object): Promise<Answer>;
  /** Sends a delivery in GitHub's form; another key makes it wrong. */
  deliver(slug: string, payload: object, key?: string): Promise<Accepted>;
  /** Starts a run; returns its id. */
  trigger(flowId: string): Promise<string>;
  advance(error?: object): Promise<void>;
  /** Each returns the values of path parameters. */
  populateShop(): Promise<Record<string, string>>;
  populateCanary(): Promise<Record<string, string>>;
}

export async function startLimited(): Promise<LimitedService> {
  const dashboard = await startDashboard({ access }, [SHOP, TWIN]);

  async function ask(token: string, method: Method, url: string, payload?: object): Promise<Answer> {
    const headers = { authorization: `Bearer ${token}` };
    const response = await dashboard.app.inject({ method, url, headers, ...(payload && { payload }) });
    return { status: response.statusCode, body: response.body };
  }

  const asReader = (method: Method, url: string, payload?: object) => ask(TOKENS.reader.token, method, url, payload);

  async function deliver(slug: string, payload: object, key = KEY) {
    const body = JSON.stringify(payload);
    const signature = createHmac('sha256', key).update(body).digest('hex');
    const headers = { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}` };
    return (await dashboard.app.inject({ method: 'POST', url: `${api}/webhook/${slug}`, headers, body })).json();
  }

  const trigger = async (flowId: string): Promise<string> =>
    JSON.parse((await ask(ALL, 'POST', `${api}/flows/${flowId}/trigger`)).body).runId;

  /** Ends every due step; loops begin. */
  async function advance(error?: object): Promise<void> {
    const { store, clock } = dashboard;
    const now = clock.now();
    const { claims } = await store.claimDue({ owner: 'me', now, leasedUntil: now + 1000, limit: 50 });
    for (const { token, runId, stepKey } of claims) {
      const result =
        stepKey === 'lines'
          ? ({ kind: 'loop', items: ['a'], concurrency: 1 } as const)
          : error === undefined
            ? ({ kind: 'succeeded', output: { of: stepKey } } as const)
            : ({ kind: 'failed', error: error as never } as const);
      await store.advance({ token, runId, stepKey, at: now, input: { for: stepKey }, result });
    }
  }

  async function populateShop(): Promise<Record<string, string>> {
    const runId = await trigger(SHOP_ID);
    await advance();
    const { deliveryId, runId: delivered } = await deliver('shop', { order: 'S-1' });
    for (const _ of ['its steps', 'those of its loop']) await advance();
    await deliver('shop', { order: 'S-2' }, 'wrong');
    await ask(ALL, 'PUT', `${api}/webhooks/consumers/shop-laptop`, { flowId: SHOP_ID });
    expect(delivered).toBeTypeOf('string');
    return {
      flow: SHOP_ID,
      run: runId,
      deliveryId,
      jobId: `flow-${SHOP_ID}-nightly`,
      name: 'shop-laptop',
      key: 'first',
      idOrSlug: 'shop',
    };
  }

  /** All that the other flow can have: waiting and failed runs; accepted, refused and held deliveries; a consumer. */
  async function populateCanary(): Promise<Record<string, string>> {
    const deployed = await ask(ALL, 'PUT', `${api}/flows/${CANARY_ID}?reason=canary`, CANARY);
    expect(deployed).toMatchObject({ status: 200 });
    const runId = await trigger(CANARY_ID);
    await trigger(CANARY_ID);
    await advance({ code: 'canary_code', message: 'canary broke', retryable: false, host: 'https://canary.example' });
    const { deliveryId } = await deliver('canary-slug', { order: 'canary-7' });
    await deliver('canary-slug', { order: 'canary-8' }, 'wrong');
    await trigger(CANARY_ID);
    await ask(ALL, 'PUT', `${api}/webhooks/consumers/canary-laptop`, { flowId: CANARY_ID });
    await ask(ALL, 'POST', `${api}/schedules/flow-${CANARY_ID}-canaryNight/pause`, { reason: 'canary' });
    await ask(ALL, 'POST', `${api}/flows/${CANARY_ID}/disable`, { hold: true, reason: 'canary' });
    await deliver('canary-slug', { order: 'canary-9' });
    await deliver('nobody-canary', { order: 'canary-10' });
    return {
      flow: CANARY_ID,
      run: runId,
      deliveryId,
      jobId: `flow-${CANARY_ID}-canaryNight`,
      name: 'canary-laptop',
      key: 'canaryStep',
      idOrSlug: 'canary-slug',
    };
  }

  return { dashboard, ask, asReader, deliver, trigger, advance, populateShop, populateCanary };
}
