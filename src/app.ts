import type { AddressInfo } from 'node:net';
import { relative, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Fastify, { type FastifyInstance } from 'fastify';
import pino, { type Logger } from 'pino';
import { createToolbox, type Extensions, type Toolbox } from './config/extensions.ts';
import {
  dashboardAccess,
  databasePath,
  type Environment,
  isLoopbackHost,
  readSettings,
  settingsWarnings,
} from './config/settings.ts';
import type { Settings, SettingsInput } from './config/settings-schema.ts';
import { watchConnections } from './connections.ts';
import { dashboard } from './dashboard/dashboard.ts';
import { createDeployment, type Deployment } from './deploys/deployment.ts';
import { createFlowSwitch, type FlowSwitch } from './deploys/flow-switch.ts';
import { createHolding, type Holding } from './deploys/holding.ts';
import { errorHandler, ManifestsError } from './errors.ts';
import { type Catalog, createCatalog } from './flows/catalog.ts';
import { createIdSource } from './flows/ids.ts';
import { createRuntime, type Runtime } from './flows/runtime.ts';
import type { Scheduler } from './flows/scheduler.ts';
import { formatIssue } from './manifest/issues.ts';
import { type LoadedFlow, loadManifests } from './manifest/load.ts';
import type { Clock } from './model/clock.ts';
import { createReviewer } from './review/reviewer.ts';
import { type OpenStoreOptions, openStore } from './store/open-store.ts';
import { bodySealer } from './store/sealed-body.ts';
import type { Store } from './store/store.ts';
import { createLiveEvents, type LiveEvents } from './telemetry/events.ts';
import { createMetrics, type Metrics } from './telemetry/metrics.ts';
import { version } from './version.ts';
import { clientAddressReader } from './webhooks/client-address.ts';
import { ingress } from './webhooks/ingress.ts';
import { openLearnedKeys } from './webhooks/learned-keys.ts';
import { createLogRetention, type LogRetention } from './webhooks/log-retention.ts';
import { describeSchemes } from './webhooks/schemes/description.ts';
import type { TriggerTable } from './webhooks/triggers.ts';

/** The schema library that handlers describe their inputs with, so that a config module needs no packages of its own. */
export { z } from 'zod';
export type { Extensions } from './config/extensions.ts';
export type { Settings, SettingsInput } from './config/settings-schema.ts';
export { defineHandler, type HandlerResult, type StepContext, type StepHandler } from './flows/handlers/handler.ts';
export type { Gate, GatePlugin, Verdict } from './webhooks/gate.ts';
export type { NamedSignatureSpec } from './webhooks/schemes/resolve.ts';
export type {
  PayloadBuilder,
  SignatureSpec,
  SignatureVerifier,
  VerificationRequest,
  VerificationResult,
} from './webhooks/schemes/spec.ts';

/** What a config module exports as its default: options of the settings by name, and extensions. */
export type Config = SettingsInput & Extensions;

/** Types a config module. */
export function defineConfig(config: Config): Config {
  return config;
}

export interface AppOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Where settings and `env:` secrets are read from; empty where not given, never the process' own. */
  readonly environment?: Environment;
  /** Relative paths start here; the working directory where not given. */
  readonly folder?: string;
  readonly clock?: Clock;
  readonly logger?: Logger;
  /** Called once when the store is lost for good; nothing can be taken any more. */
  readonly onFatal?: (error: Error) => void;
}

export interface SluiceApp {
  readonly fastify: FastifyInstance;
  /** One line for each doubt that the manifests raised at load. */
  readonly warnings: readonly string[];
  triggers(): TriggerTable;
  /** Reads the folder of manifests anew and deploys what changed; never rejects, the log has what went wrong. */
  reload(): Promise<void>;
  /** Listens, then takes up what the last process left; yields the address as a URL. */
  listen(): Promise<string>;
  /** Stops accepting, answers what was taken, lets steps finish for the grace period, closes the store. Idempotent. */
  close(): Promise<void>;
}

const SYSTEM_CLOCK: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * All bodies in flight together. Each may be as large as its own cap, so that a few hundred slow senders would
 * otherwise hold gigabytes.
 */
const BODIES_IN_FLIGHT_BYTES = 268_435_456;

/** Builds a service from its settings: loads and deploys the manifests, opens the store, wires the rooms. Throws
 * `SettingsError`, `ManifestsError` or `StoreUnavailableError`; then nothing is left open. */
export async function buildApp(options: AppOptions = {}): Promise<SluiceApp> {
  const { extensions = {}, environment = {}, folder = process.cwd(), clock = SYSTEM_CLOCK } = options;
  const settings = readSettings(environment, options.settings);
  const logger = options.logger ?? pino({ level: settings.logLevel });
  const toolbox = createToolbox({ settings, extensions, environment, clock, folder });
  const manifestFolder = relative(process.cwd(), resolve(folder, settings.manifests)) || '.';
  const { flows, warnings } = await load(manifestFolder, toolbox);
  const sealer = settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey);
  const store = await openStore({
    path: databasePath(settings, folder),
    sealer,
    ...storeBounds(settings),
    ...(options.onFatal === undefined ? {} : { onFatal: options.onFatal }),
    // Not the end of the process: as long as it runs, an operator can still save the lost file.
    onLost: (error) => logger.fatal({ err: error }, 'the database file is lost; every delivery is answered 503'),
  });
  const logRetention = createLogRetention({ store, clock, logger, retentionDays: settings.deliveryRetentionDays });
  try {
    const gateSettings = { ...toolbox.gateSettings, learnedKeys: await openLearnedKeys(store, clock) };
    const learning = { ...toolbox, gateSettings };
    const parts = { settings, logger, clock, toolbox: learning, manifestFolder, flows, warnings, store, logRetention };
    return await assemble(parts);
  } catch (error) {
    await store.close();
    throw error;
  }
}

function storeBounds(settings: Settings): Pick<OpenStoreOptions, 'log' | 'held'> {
  const inMemory = settings.deliveryStore === 'memory';
  const maxRows = inMemory ? settings.deliveryRingSize : settings.refusedDeliveryRows;
  return {
    log: { inMemory, maxRows, maxBytes: settings.refusedDeliveryBytes },
    held: { maxRows: settings.heldDeliveryRows, maxBytes: settings.heldDeliveryBytes },
  };
}

interface Parts {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly toolbox: Toolbox;
  readonly manifestFolder: string;
  readonly flows: readonly LoadedFlow[];
  readonly warnings: readonly string[];
  readonly store: Store;
  readonly logRetention: LogRetention;
}

async function load(folder: string, toolbox: Toolbox) {
  const { flows, issues } = await loadManifests(folder, toolbox.rules.folder);
  const errors = issues.filter((issue) => issue.severity === 'error');
  if (errors.length > 0) throw new ManifestsError(errors.map(formatIssue));
  return { flows, warnings: issues.map(formatIssue) };
}

async function assemble(parts: Parts): Promise<SluiceApp> {
  const { settings, logger, clock, toolbox, store } = parts;
  const metrics = createMetrics();
  const newId = createIdSource();
  const catalog = createCatalog(store, clock);
  let follow = () => {};
  let stopWatching = () => {};
  const deployment = createDeployment({
    ...{ store, catalog, clock, logger, toolbox, folder: parts.manifestFolder },
    defaultMode: settings.enforcementMode,
    holdDeliveries: settings.holdDeliveries,
    retentionDays: settings.runRetentionDays,
    manifestsWin: settings.manifestsWin,
    failsWhenRefused: settings.refusedDeploys === 'fail',
    onDeployed: () => follow(),
  });
  const warnings = [...settingsWarnings(settings), ...parts.warnings, ...(await deployment.start(parts.flows))];
  const { rules } = toolbox;
  const live = createLiveEvents();
  const { handlers } = toolbox;
  const { runRetentionDays } = settings;
  const runtime = createRuntime({
    ...{ store, catalog, handlers, clock, logger, metrics, newId, live, runRetentionDays },
    readSecret: (reference, source) => rules[source].readSecret(reference),
    concurrency: settings.stepConcurrency,
  });
  const { engine, scheduler } = runtime;
  const holding = createHolding({ store, catalog, engine, clock, logger, metrics });
  const flowSwitch = createFlowSwitch({ store, catalog, holding });
  let closing: Promise<void> | undefined;
  const isStopping = () => closing !== undefined;
  const house = { ...parts, metrics, newId, live, catalog, deployment, runtime, holding, flowSwitch, isStopping };
  const fastify = createServer(house);
  const proxies = clientAddressReader(settings);
  const connections = watchConnections(fastify.server, {
    isShared: (address) => isLoopbackHost(address) || proxies.isTrustedPeer(address),
    onRefused: (address) => logger.warn({ address }, 'an address holds too many sockets open; more are refused'),
  });
  const stop = async () => {
    follow = () => {};
    stopWatching();
    await connections.sweepUntil(fastify.close());
    await holding.stop();
    await runtime.stop(settings.shutdownGraceSeconds * 1000);
    await parts.logRetention.stop();
    await store.close();
  };
  return {
    fastify,
    warnings,
    triggers: deployment.triggers,
    reload: deployment.reloadAndTell,
    async listen() {
      // First of all: a step that takes each process down must not keep deliveries out.
      await fastify.listen({ host: settings.host, port: settings.port });
      await runtime.start();
      await holding.start();
      follow = () => void syncSchedules(scheduler, logger);
      if (settings.watchManifests) stopWatching = deployment.watch();
      parts.logRetention.start();
      return urlOf(fastify.server.address() as AddressInfo);
    },
    close() {
      closing ??= stop();
      return closing;
    },
  };
}

async function syncSchedules(scheduler: Scheduler, logger: Logger): Promise<void> {
  try {
    await scheduler.sync();
  } catch (error) {
    // Within a minute the scheduler looks by itself.
    logger.warn({ err: error }, 'what was deployed changes no cron trigger yet');
  }
}

interface ServerParts extends Parts {
  readonly metrics: Metrics;
  readonly newId: () => string;
  readonly live: LiveEvents;
  readonly catalog: Catalog;
  readonly deployment: Deployment;
  readonly runtime: Runtime;
  readonly holding: Holding;
  readonly flowSwitch: FlowSwitch;
  readonly isStopping: () => boolean;
}

function createServer(parts: ServerParts): FastifyInstance {
  const { settings, logger, clock, store, metrics, catalog, toolbox, deployment, holding, flowSwitch } = parts;
  const { triggers } = deployment;
  const { engine, control, scheduler } = parts.runtime;
  const fastify = Fastify({
    loggerInstance: logger,
    logController: new Fastify.LogController({ disableRequestLogging: true }),
    // A request that trickles in is cut: Fastify's own limits would let it hold its socket for ever.
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 2000 },
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    // What arrives during a stop is answered by the ingress, which records it, and by the dashboard.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 256 },
    // What the router itself cannot read, a malformed URL for one, is answered in the same shape as the rest.
    frameworkErrors: errorHandler,
  }) as unknown as FastifyInstance;
  fastify.setErrorHandler(errorHandler);
  const receiving = {
    ...{ store, engine, catalog, holding, clock, logger, metrics, triggers },
    newId: parts.newId,
    defaultMode: settings.enforcementMode,
    live: parts.live,
    clientAddress: clientAddressReader(settings),
  };
  // The depth is a number that a sender gets around by calling directly; it must tell nobody apart here.
  const senderAddress = clientAddressReader({ trustedProxies: settings.trustedProxies, forwardedHeaderDepth: 0 });
  void fastify.register(ingress, {
    ...receiving,
    senderAddress,
    isStopping: parts.isStopping,
    maxBodyBytes: settings.maxBodyBytes,
    traceparent: settings.traceparent,
    maxBodyBytesInFlight: Math.max(BODIES_IN_FLIGHT_BYTES, 4 * settings.maxBodyBytes),
  });
  void fastify.register(
    dashboard({
      ...{ store, engine, control, scheduler, catalog, metrics, clock, version, live: parts.live },
      ...{ triggers, deployment, flowSwitch, holding },
      reviewer: createReviewer({ ...receiving, settings: toolbox.gateSettings }),
      senderAddress,
      wait: (ms) => wait(ms, undefined, { ref: false }),
      isStopping: parts.isStopping,
      stepConcurrency: settings.stepConcurrency,
      access: dashboardAccess(settings),
      listener: settings,
      publicUrl: settings.publicUrl,
      handlers: [...toolbox.handlers.values()],
      schemes: describeSchemes(toolbox.gateSettings.schemes),
    }),
  );
  return fastify;
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}
