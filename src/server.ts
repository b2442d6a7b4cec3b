import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { dashboardAccess } from './config/credentials.ts';
import { isPostgres } from './config/database.ts';
import type { PreparedExtensions } from './config/extensions.ts';
import type { SettingsInForce } from './config/settings-in-force.ts';
import type { Settings } from './config/settings-schema.ts';
import { answerExpectations, answerUnreadable, unreadableNotes } from './connections.ts';
import type { ActivityList } from './dashboard/activity.ts';
import { dashboard } from './dashboard/dashboard.ts';
import { createLogins } from './dashboard/logins.ts';
import type { DashboardServices } from './dashboard/services.ts';
import type { Deployment } from './deploys/deployment.ts';
import { errorHandler } from './errors.ts';
import type { Catalog } from './flows/catalog.ts';
import type { RefreshFlow } from './flows/engine.ts';
import type { Runtime } from './flows/runtime.ts';
import type { ServiceClock } from './model/clock.ts';
import { INERT_HEADERS } from './model/inert-content.ts';
import { openSimulationStore } from './store/offline.ts';
import type { Store } from './store/store.ts';
import type { LiveEvents } from './telemetry/events.ts';
import type { Metrics } from './telemetry/metrics.ts';
import { version } from './version.ts';
import type { Holding } from './webhooks/holding.ts';
import { ingress } from './webhooks/ingress.ts';
import { clientAddressReader } from './webhooks/read-delivery.ts';
import type { RunAnswers } from './webhooks/receive.ts';
import type { TriggerTable } from './webhooks/triggers.ts';

/**
 * Limit of all bodies in flight together. Each can be as large as its own cap, so a few hundred slow senders would
 * otherwise hold gigabytes.
 */
const BODIES_IN_FLIGHT_BYTES = 268_435_456;

/** The progress of a stop. It changes in place, because every delivery reads it. */
interface Phase {
  /** The service listens and continues the work of the last process: it is not ready. */
  isStarting: boolean;
  /** A stop has begun: the service is not ready. */
  isLeaving: boolean;
  /** Nothing new is accepted any more. */
  isStopping: boolean;
}

/** The input of the HTTP server, which answers publishers' deliveries and the dashboard. */
interface ServerParts {
  readonly serviceParts: DashboardServices['parts'];
  /** Called with the server before it gets any route. */
  readonly prepareServer: ((fastify: FastifyInstance) => void) | undefined;
  /** Replaces some of the dashboard's services. */
  readonly dashboard: Partial<DashboardServices> | undefined;
  readonly settings: Settings;
  readonly logger: Logger;
  readonly clock: ServiceClock;
  readonly extensions: PreparedExtensions;
  readonly store: Store;
  readonly activity: ActivityList;
  readonly metrics: Metrics;
  readonly newId: () => string;
  readonly live: LiveEvents;
  readonly catalog: Catalog;
  readonly triggers: () => TriggerTable;
  readonly deployment: Deployment;
  readonly runtime: Runtime;
  readonly holding: Holding;
  readonly runAnswers: RunAnswers | undefined;
  /** The sockets of deliveries in flight, by id. */
  readonly senders: Map<string, Socket>;
  readonly refresh: RefreshFlow;
  readonly phase: Readonly<Phase>;
  readonly inForce: SettingsInForce;
}

/** Yields the server, and the dashboard's services for features that report what it shows, such as alerts. */
export function createServer(parts: ServerParts): { fastify: FastifyInstance; services: DashboardServices } {
  const { settings, logger, clock, store, metrics, catalog, triggers, extensions, deployment, holding } = parts;
  const { engine, control, heartbeat } = parts.runtime;
  const fastify = bareServer(parts);
  parts.prepareServer?.(fastify);
  const receiving = {
    store,
    engine,
    catalog,
    holding,
    clock,
    logger,
    metrics,
    triggers,
    refresh: parts.refresh,
    confirm: isPostgres(settings.databaseUrl) ? deployment.confirm : undefined,
    newId: parts.newId,
    defaultMode: settings.enforcementMode,
    live: parts.live,
    runAnswers: parts.runAnswers,
    clientAddress: clientAddressReader(settings),
  };
  // A sender that bypasses the proxies chooses what the depth counts, so the depth must not tell senders apart here.
  const senderAddress = clientAddressReader({ trustedProxies: settings.trustedProxies, forwardedHeaderDepth: 0 });
  const access = parts.dashboard?.access ?? dashboardAccess(settings);
  void fastify.register(ingress, {
    ...receiving,
    senders: parts.senders,
    senderAddress,
    phase: parts.phase,
    maxBodyBytes: settings.maxBodyBytes,
    maxBodyBytesInFlight: Math.max(BODIES_IN_FLIGHT_BYTES, 4 * settings.maxBodyBytes),
  });
  const services: DashboardServices = {
    parts: parts.serviceParts,
    settings,
    store,
    activity: parts.activity,
    engine,
    control,
    catalog,
    metrics,
    heartbeat: isPostgres(settings.databaseUrl) ? heartbeat : undefined,
    clock,
    logger,
    newId: parts.newId,
    version,
    keySets: extensions.keySets,
    live: parts.live,
    triggers,
    deployment,
    holding,
    receiver: receiving,
    openSimulationStore,
    extensions,
    senderAddress,
    wait: (ms) => wait(ms, undefined, { ref: false }),
    isStopping: () => parts.phase.isStopping,
    isLeaving: () => parts.phase.isLeaving,
    isStarting: () => parts.phase.isStarting,
    kept: keptBy(settings),
    access,
    logins: access.kind === 'credentials' ? createLogins(access, { store, clock }) : undefined,
    listener: settings,
    publicUrl: settings.publicUrl,
    handlers: [...extensions.handlers.values()],
    inForce: parts.inForce.current,
    serviceName: settings.serviceName,
    ...parts.dashboard,
  };
  for (const { prepareServer } of services.parts) prepareServer?.(fastify, services);
  void fastify.register(dashboard(services));
  return { fastify, services };
}

function bareServer({ logger, ...parts }: Pick<ServerParts, 'logger' | 'clock' | 'metrics'>): FastifyInstance {
  const onUnreadable = unreadableNotes({ logger, ...parts });
  const fastify = Fastify({
    loggerInstance: logger,
    logController: new Fastify.LogController({ disableRequestLogging: true }),
    // Cuts off requests that trickle in: Fastify's own limits would let them hold their sockets for ever.
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 2000 },
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    // During a stop, the ingress itself answers and records deliveries, and the dashboard answers too.
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: 512 },
    // Requests that the router cannot read, such as those with a malformed URL, get an answer of the usual shape.
    frameworkErrors: (error, request, reply) => void errorHandler(error, request, reply.headers(INERT_HEADERS)),
    clientErrorHandler: answerUnreadable(onUnreadable),
  }) as unknown as FastifyInstance;
  fastify.setErrorHandler(errorHandler);
  answerExpectations(fastify.server, onUnreadable);
  return fastify;
}

function keptBy({ deliveryStore, deliveryRetentionDays, runRetentionDays }: Settings): DashboardServices['kept'] {
  const days = Math.min(deliveryRetentionDays, runRetentionDays);
  return { hasLog: deliveryStore === 'database', days, runDays: runRetentionDays };
}
