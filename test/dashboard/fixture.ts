import { createHmac } from 'node:crypto';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import pino from 'pino';
import { beforeAll, beforeEach } from 'vitest';
import type { DashboardServices } from '../../src/dashboard/services.ts';
import type { Catalog } from '../../src/flows/catalog.ts';
import type { Engine } from '../../src/flows/engine.ts';
import { createServiceClock, type ServiceClock } from '../../src/model/clock.ts';
import type { StepResult, Store } from '../../src/store/store.ts';
import { buildApp } from '../database.ts';
import { openForFile } from '../ending.ts';
import { temporaryFolder } from '../temporary.ts';

/** 2026-11-21 noon. */
export const NOW = Date.UTC(2026, 10, 21, 12);
export const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';
export const ORDERS_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
export const HOOK_ONLY_ID = '1c8f3055-7d2e-4a1f-8b62-40109e2d3b21';

/** Values that no answer may contain. */
export const CANARIES = {
  key: 'canary-literal-webhook-key',
  stepSecret: 'canary-literal-step-secret',
  authorization: 'canary-authorization-value',
  cookie: 'canary-cookie-value',
} as const;

export const ORDERS = {
  id: ORDERS_ID.toUpperCase(),
  name: 'orders',
  version: '1.2.0',
  triggers: {
    byHand: { type: 'manual' },
    hourly: { type: 'cron', inputs: { cronExpression: '0 * * * *' } },
    shop: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'orders',
        webhookSignatureScheme: 'github',
        webhookHmacKey: CANARIES.key,
        webhookEnforcementMode: 'Enforce',
      },
    },
    unreachable: { type: 'webhook', inputs: {} },
  },
  steps: {
    validate: { type: 'NoOp' },
    announce: { type: 'LogMessage', inputs: { message: 'order' }, runAfter: { validate: ['Succeeded'] } },
    charge: {
      type: 'HttpRequest',
      inputs: { url: 'https://example.com/charge', headers: { authorization: CANARIES.stepSecret } },
      runAfter: { validate: ['Succeeded'] },
    },
  },
};

const HOOK_ONLY = {
  id: HOOK_ONLY_ID,
  name: 'hook only',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSignatureScheme: 'no-such-scheme' } } },
  steps: { only: { type: 'NoOp' } },
};

export interface TestDashboard {
  readonly app: FastifyInstance;
  readonly store: Store;
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly clock: ServiceClock & { advance(ms: number): void };
  /** As `GET /flows/api/runs/:id`; HEAD goes with GET. */
  readonly routes: readonly string[];
  /** Log lines, parsed. */
  readonly logged: Record<string, unknown>[];
  close(): Promise<void>;
}

/**
 * The complete service with a test clock and a store in memory. It does not listen, so steps do not run. It closes with
 * the test or file that started it. `overrides` replaces what the dashboard works with; a reload reads `folder`.
 */
export async function startDashboard(
  overrides: Partial<DashboardServices> = {},
  manifests: readonly { name: string }[] = [ORDERS, HOOK_ONLY],
  folder?: string,
): Promise<TestDashboard> {
  const own = temporaryFolder('dashboard');
  for (const [index, manifest] of manifests.entries()) {
    writeFileSync(join(own, `${index}-${manifest.name}.json`), JSON.stringify(manifest));
  }
  const clock = fakeClock();
  const logged: Record<string, unknown>[] = [];
  const routes: string[] = [];
  const { fastify: app, ...service } = await buildApp({
    settings: {
      manifests: own,
      databaseUrl: 'sqlite::memory:',
      enforcementMode: 'Audit',
      ...(overrides.publicUrl === undefined ? {} : { publicUrl: overrides.publicUrl }),
    },
    // A given store is closed by its owner.
    ...(overrides.store === undefined ? {} : { store: { ...overrides.store, close: async () => {} } }),
    clock,
    logger: pino({ level: 'info' }, { write: (line) => logged.push(JSON.parse(line)) }),
    prepareServer: (fastify) => {
      fastify.addHook('onRoute', ({ method, url }) => {
        // Paths below the receive endpoint that are not webhooks are unknown.
        if (url === '/flows/api/webhook' || url === '/flows/api/webhook/*') return;
        // The receive endpoint answers other methods with 405.
        const described = url.startsWith('/flows/api/webhook/') ? ['POST', 'GET'] : [method].flat();
        for (const each of described) if (each !== 'HEAD') routes.push(`${each} ${url}`);
      });
    },
    // A service that does not listen has no heartbeat either.
    dashboard: { wait: async () => {}, version: '9.9.9', heartbeat: undefined, ...overrides },
  });
  if (folder !== undefined) {
    rmSync(own, { recursive: true });
    symlinkSync(resolve(folder), own);
  }
  return {
    app,
    store: service.store,
    catalog: service.catalog,
    engine: service.engine,
    clock,
    routes,
    logged,
    close: service.close,
  };
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
// biome-ignore lint/suspicious/noExplicitAny: an answer of any shape, which the test describes.
type Json = any;

/** A dashboard, shared by a suite or new for each test. */
export interface UsedDashboard extends Omit<TestDashboard, 'close'> {
  /** The answer of a path, whatever its status. */
  get(url: string): Promise<Json>;
  /** Returns status and answer. Bodies are sent as JSON, texts unchanged. */
  ask(method: Method, url: string, body?: unknown): Promise<{ readonly status: number; readonly body: Json }>;
}

/** One for all tests of a file or group, or a new one for each. */
export function useDashboard(
  scope: 'all' | 'each' = 'all',
  ...given: Parameters<typeof startDashboard>
): UsedDashboard {
  const ask: UsedDashboard['ask'] = async (method, url, body) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const sent = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: text };
    const response = await dashboard.app.inject({ method, url, ...sent });
    return { status: response.statusCode, body: response.json() };
  };
  const get: UsedDashboard['get'] = async (url) => (await dashboard.app.inject(url)).json();
  // The rest is there when a test begins.
  const dashboard = { ask, get } as UsedDashboard & TestDashboard;
  const start = async () => void Object.assign(dashboard, await startDashboard(...given));
  if (scope === 'all') beforeAll(start);
  else beforeEach(start);
  return dashboard;
}

/** Ends every due step with this result, which may start a loop; returns their claims. */
export async function endDue({ clock, store }: Pick<TestDashboard, 'clock' | 'store'>, result: StepResult) {
  const now = clock.now();
  const { claims } = await store.claimDue({ owner: 'me', now, leasedUntil: now + 60_000, limit: 100 });
  for (const { token, runId, stepKey } of claims) {
    await store.advance({ token, runId, stepKey, at: now, input: {}, result });
  }
  return claims;
}

/** Shares a dashboard between all tests of a file with the same key: starting one takes longer than most tests. */
export function sharedDashboards(): (key: unknown, start: () => Promise<TestDashboard>) => Promise<TestDashboard> {
  const started = new Map<unknown, Promise<TestDashboard>>();
  return (key, start) => {
    const dashboard = started.get(key) ?? openForFile(start);
    started.set(key, dashboard);
    return dashboard;
  };
}

function fakeClock(): TestDashboard['clock'] {
  let passed = 0;
  return {
    ...createServiceClock({ now: () => NOW + passed, monotonic: () => passed }),
    advance: (ms) => {
      passed += ms;
    },
  };
}

/** A delivery to the orders webhook, correctly signed unless a key is given. */
export function orderDelivery(body: string, options: { key?: string; headers?: Record<string, string> } = {}) {
  const { key = CANARIES.key, headers } = options;
  const signature = createHmac('sha256', key).update(body).digest('hex');
  return {
    method: 'POST' as const,
    url: '/flows/api/webhook/orders',
    headers: { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}`, ...headers },
    body,
  };
}
