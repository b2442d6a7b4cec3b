import { createHmac } from 'node:crypto';
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import pino from 'pino';
import { v7 as uuidV7 } from 'uuid';
import { dashboard } from '../../src/dashboard/dashboard.ts';
import type { DashboardServices } from '../../src/dashboard/services.ts';
import { createDeployment } from '../../src/deploys/deployment.ts';
import { createFlowSwitch } from '../../src/deploys/flow-switch.ts';
import { createHolding } from '../../src/deploys/holding.ts';
import { type Catalog, createCatalog } from '../../src/flows/catalog.ts';
import { createRunControl } from '../../src/flows/control.ts';
import { createEngine, type Engine } from '../../src/flows/engine.ts';
import { builtInHandlers, handlerTable } from '../../src/flows/handlers/index.ts';
import { createReport } from '../../src/flows/report.ts';
import { createScheduler, type Scheduler } from '../../src/flows/scheduler.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { secretReader } from '../../src/manifest/read-secret.ts';
import type { Clock } from '../../src/model/clock.ts';
import { createReviewer } from '../../src/review/reviewer.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { createLiveEvents } from '../../src/telemetry/events.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { clientAddressReader } from '../../src/webhooks/client-address.ts';
import { gateChain } from '../../src/webhooks/gates/index.ts';
import { ingress } from '../../src/webhooks/ingress.ts';
import { openLearnedKeys } from '../../src/webhooks/learned-keys.ts';
import { describeSchemes } from '../../src/webhooks/schemes/description.ts';
import { createSchemeRegistry } from '../../src/webhooks/schemes/resolve.ts';

/** 2026-11-21 noon. */
export const NOW = Date.UTC(2026, 10, 21, 12);
export const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';
export const ORDERS_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
export const HOOK_ONLY_ID = '1c8f3055-7d2e-4a1f-8b62-40109e2d3b21';

/** Values that no answer may ever hold. */
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
  readonly scheduler: Scheduler;
  readonly clock: Clock & { advance(ms: number): void };
  /** As `GET /flows/api/runs/:id`; HEAD goes with GET. */
  readonly routes: readonly string[];
  /** Log lines, parsed. */
  readonly logged: Record<string, unknown>[];
  close(): Promise<void>;
}

/** The dashboard with everything behind it and the receive endpoint beside it: real, but for the clock. A reload reads `folder`. */
export async function startDashboard(
  overrides: Partial<DashboardServices> = {},
  manifests: readonly { name: string }[] = [ORDERS, HOOK_ONLY],
  folder = '.',
): Promise<TestDashboard> {
  const store = overrides.store ?? (await openSqliteStore({ path: ':memory:' }));
  const clock = fakeClock();
  const metrics = createMetrics();
  const logged: Record<string, unknown>[] = [];
  const logger = pino({ level: 'info' }, { write: (line) => logged.push(JSON.parse(line)) });
  const handlers = handlerTable(builtInHandlers({ egressAllow: [] }));
  const registry = createSchemeRegistry();
  const catalog = createCatalog(store, clock);
  await deploy(catalog, handlers, manifests);
  const settings = {
    clock,
    replayToleranceSeconds: 0,
    nonceTtlSeconds: 86_400,
    rateLimitPermitsPerSecond: undefined,
    rateLimitBurstSize: undefined,
    rateLimitPerIp: undefined,
    allowLegacySha1: false,
    publicUrl: undefined,
    schemes: registry,
    learnedKeys: await openLearnedKeys(store, clock),
  };
  const plugins = gateChain();
  const readSecret = secretReader({ env: {}, baseFolder: '.' });
  const rules = { strict: false, handlers, readSecret, checks: [] };
  const deployment = createDeployment({
    ...{ store, catalog, clock, logger, folder, defaultMode: 'Audit', holdDeliveries: false, retentionDays: 30 },
    extensions: {
      handlers,
      gateSettings: settings,
      gates: plugins,
      rules: { folder: rules, api: { ...rules, source: 'api' } },
      useFolder: () => {},
    },
    onDeployed: () => {},
  });
  const { triggers } = deployment;
  const live = createLiveEvents();
  const report = createReport({ logger, metrics, live });
  const dispatcher = { nudge: () => {}, stopRun: () => {} };
  const engine = createEngine({ store, catalog, dispatcher, clock, newId: uuidV7, report });
  const control = createRunControl({ store, catalog, dispatcher, clock, report });
  const scheduler = createScheduler({ store, catalog, engine, clock, newId: uuidV7, logger, report, metrics });
  const holding = createHolding({ store, catalog, engine, clock, logger, metrics });
  const receiving = {
    ...{ store, engine, catalog, holding, newId: uuidV7, clock, logger, metrics, live, triggers },
    defaultMode: 'Audit' as const,
    clientAddress: clientAddressReader({ forwardedHeaderDepth: 0, trustedProxies: [] }),
  };
  const loggerInstance: FastifyBaseLogger = logger;
  const app = Fastify({ loggerInstance });
  const routes: string[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    // GET of the receive endpoint is for handshakes alone.
    const described = url.startsWith('/flows/api/webhook/') ? ['POST'] : [method].flat();
    for (const each of described) if (each !== 'HEAD') routes.push(`${each} ${url}`);
  });
  await app.register(
    dashboard({
      store,
      catalog,
      engine,
      control,
      scheduler,
      live,
      reviewer: createReviewer({ ...receiving, settings }),
      metrics,
      clock,
      senderAddress: receiving.clientAddress,
      wait: async () => {},
      isStopping: () => false,
      stepConcurrency: 64,
      access: { kind: 'loopback' },
      listener: { host: '127.0.0.1', port: 3000 },
      publicUrl: undefined,
      ...{ triggers, deployment, holding },
      flowSwitch: createFlowSwitch({ store, catalog, holding }),
      handlers: [...handlers.values()],
      schemes: describeSchemes(registry),
      version: '9.9.9',
      ...overrides,
    }),
  );
  await app.register(ingress, {
    ...receiving,
    senderAddress: receiving.clientAddress,
    isStopping: () => false,
    maxBodyBytes: 1_048_576,
    maxBodyBytesInFlight: 16_777_216,
    traceparent: 'continue',
  });
  return {
    app,
    store,
    catalog,
    engine,
    scheduler,
    clock,
    routes,
    logged,
    async close() {
      await app.close();
      await store.close();
    },
  };
}

async function deploy(
  catalog: Catalog,
  handlers: ReturnType<typeof handlerTable>,
  manifests: readonly { name: string }[],
): Promise<void> {
  const readSecret = secretReader({ env: {}, baseFolder: '.' });
  for (const manifest of manifests) {
    const { flow, issues } = parseManifest(JSON.stringify(manifest), `${manifest.name}.json`, {
      handlers,
      readSecret,
      strict: false,
      checks: [],
    });
    if (flow === undefined) throw new Error(JSON.stringify(issues));
    await catalog.deploy(flow);
  }
}

function fakeClock(): TestDashboard['clock'] {
  let passed = 0;
  return {
    now: () => NOW + passed,
    monotonic: () => passed,
    advance: (ms) => {
      passed += ms;
    },
  };
}

/** A delivery of the orders webhook; right unless a key is given. */
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
