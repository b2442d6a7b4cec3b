import { relative, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import pino, { type Logger } from 'pino';
import { type AlertWatch, createAlertWatch, noAlerts } from './alerts/watch.ts';
import { databaseTarget, isPostgres } from './config/database.ts';
import { type Extensions, type PreparedExtensions, prepareExtensions } from './config/extensions.ts';
import { createFingerprint, haveStepType } from './config/fingerprint.ts';
import { type Environment, readSettings, settingsWarnings } from './config/settings.ts';
import type { Settings, SettingsInput } from './config/settings-schema.ts';
import { thisMachineOr, watchConnections } from './connections.ts';
import { createActivityRetention } from './dashboard/activity.ts';
import { listAttention } from './dashboard/api/attention.ts';
import { unreadiness } from './dashboard/api/service.ts';
import type { DashboardServices } from './dashboard/services.ts';
import { createDeployment, type Deployment } from './deploys/deployment.ts';
import { createFlowSwitch } from './deploys/flow-switch.ts';
import { createHolding } from './deploys/holding.ts';
import { ManifestsError } from './errors.ts';
import { type Catalog, createCatalog } from './flows/catalog.ts';
import { followChanges, syncSchedules } from './flows/changes.ts';
import type { Engine } from './flows/engine.ts';
import { createIdSource } from './flows/ids.ts';
import type { Sweeper } from './flows/retention.ts';
import { createRuntime, type Runtime } from './flows/runtime.ts';
import type { Scheduler } from './flows/scheduler.ts';
import { listen } from './listening.ts';
import { formatIssue } from './manifest/issues.ts';
import { type LoadedFlow, loadManifests } from './manifest/load.ts';
import type { Clock } from './model/clock.ts';
import { createKeyKeeper } from './review/keys.ts';
import { createPayloadWatch } from './review/payload-watch.ts';
import { createServer } from './server.ts';
import { openStore, type StoreBounds } from './store/open-store.ts';
import { type BodySealer, bodySealer } from './store/sealed-body.ts';
import type { Store } from './store/store.ts';
import { createLiveEvents } from './telemetry/events.ts';
import { createMetrics } from './telemetry/metrics.ts';
import { version } from './version.ts';
import { createKeyNames } from './webhooks/key-names.ts';
import { createLearnedKeys } from './webhooks/learned-keys.ts';
import { createLogRetention } from './webhooks/log-retention.ts';
import { clientAddressReader } from './webhooks/read-delivery.ts';
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
  /** A store that is already open; closed with the app. Opened from the settings if not given. */
  readonly store?: Store;
  /** Called with the server before it gets any route, to add hooks. */
  readonly prepareServer?: (fastify: FastifyInstance) => void;
  /** Replaces some of what the dashboard works with, such as its waiting time after wrong logins. */
  readonly dashboard?: Partial<DashboardServices>;
  /** Called when the store is lost for good: Sluice can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
}

export interface SluiceApp {
  readonly fastify: FastifyInstance;
  readonly store: Store;
  readonly catalog: Catalog;
  /** Starts runs by hand. Their steps run once the app listens. */
  readonly engine: Engine;
  readonly scheduler: Scheduler;
  /** One line for each warning about the manifests and the settings. */
  readonly warnings: readonly string[];
  triggers(): TriggerTable;
  /** Reads the folder of manifests again and deploys what changed. Never rejects: the log says what went wrong. */
  reload(): Promise<void>;
  /**
   * Listens, then continues the work that the last process left; yields the address as a URL. Rejects with `ListenError`
   * where the address or the port cannot be had.
   */
  listen(): Promise<string>;
  /** Stops accepting, answers open requests, lets steps finish within the grace period, closes the store. Idempotent. */
  close(): Promise<void>;
}

// Bound, not wrapped: every delivery asks several times.
const SYSTEM_CLOCK: Clock = { now: Date.now, monotonic: performance.now.bind(performance) };

/**
 * Builds a service from its settings: loads and deploys the manifests, opens the store, wires the rooms. Throws
 * `SettingsError`, `ManifestsError` or `StoreUnavailableError`, and leaves nothing open when it does.
 */
export async function buildApp(options: AppOptions = {}): Promise<SluiceApp> {
  const { extensions: given = {}, environment = {}, folder = process.cwd(), clock = SYSTEM_CLOCK } = options;
  const settings = readSettings(environment, options.settings);
  const logger = options.logger ?? pino({ level: settings.logLevel });
  const learnedKeys = createLearnedKeys(clock);
  const sealer = settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey);
  const nameKey = createKeyNames(sealer?.digest);
  const cluster = { replicas: 1 };
  const preparing = { settings, extensions: given, environment, clock, learnedKeys, nameKey, folder, cluster };
  const extensions = prepareExtensions(preparing);
  const manifestFolder = relative(process.cwd(), resolve(folder, settings.manifests)) || '.';
  const { flows, warnings } = await load(manifestFolder, extensions);
  const { onFatal } = options;
  const store = options.store ?? (await openStoreOf(settings, { folder, logger, onFatal, sealer }));
  const logRetention = createLogRetention({ store, clock, logger, retentionDays: settings.deliveryRetentionDays });
  try {
    await learnedKeys.open(store);
    const parts = {
      options,
      settings,
      logger,
      clock,
      extensions,
      manifestFolder,
      flows,
      warnings,
      store,
      logRetention,
      learnedKeys,
      cluster,
      sealer,
    };
    return await assemble(parts);
  } catch (error) {
    await store.close();
    throw error;
  }
}

function openStoreOf(
  settings: Settings,
  {
    folder,
    logger,
    onFatal,
    sealer,
  }: { folder: string; logger: Logger; onFatal: AppOptions['onFatal']; sealer: BodySealer | undefined },
): Promise<Store> {
  const target = databaseTarget(settings, folder);
  const bounds = storeBounds(settings);
  if (target.kind === 'postgres') {
    return openStore({
      ...target,
      ...bounds,
      sealer,
      // PostgreSQL keeps 63 bytes, the purpose after it included.
      applicationName: `sluice/${target.replica.slice(0, 48)}`,
      onFatal,
      // At debug: what an outage leads to is said once, below.
      onEngineLine: (line) => logger.debug({ engine: 'graphile-worker' }, line),
      onAway: (error) =>
        logger.error({ err: error }, 'the database is unavailable; deliveries get 503 until it is back'),
      onBack: (awayMs) => logger.warn({ awayMs: Math.round(awayMs) }, 'the database is back'),
    });
  }
  return openStore({
    ...target,
    ...bounds,
    sealer,
    ...(onFatal === undefined ? {} : { onFatal }),
    // The process goes on: while it runs, an operator can still rescue the lost file.
    onLost: (error) => logger.fatal({ err: error }, 'the database file is gone; every delivery gets 503'),
  });
}

function storeBounds(settings: Settings): StoreBounds {
  const inMemory = settings.deliveryStore === 'memory';
  const maxRows = inMemory ? settings.deliveryRingSize : settings.refusedDeliveryRows;
  return {
    log: { inMemory, maxRows, maxBytes: settings.refusedDeliveryBytes },
    held: { maxRows: settings.heldDeliveryRows, maxBytes: settings.heldDeliveryBytes },
  };
}

interface Parts {
  readonly options: Pick<AppOptions, 'prepareServer' | 'dashboard'>;
  readonly settings: Settings;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly extensions: PreparedExtensions;
  readonly manifestFolder: string;
  readonly flows: readonly LoadedFlow[];
  readonly warnings: readonly string[];
  readonly store: Store;
  readonly logRetention: Sweeper;
  readonly learnedKeys: ReturnType<typeof createLearnedKeys>;
  /** What the last heartbeat found. */
  readonly cluster: { replicas: number };
  readonly sealer: BodySealer | undefined;
}

async function load(folder: string, extensions: PreparedExtensions) {
  const { flows, issues } = await loadManifests(folder, extensions.rules.folder);
  const errors = issues.filter((issue) => issue.severity === 'error');
  if (errors.length > 0) throw new ManifestsError(errors.map(formatIssue));
  return { flows, warnings: issues.map(formatIssue) };
}

async function assemble(parts: Parts): Promise<SluiceApp> {
  const { settings, logger, clock, store } = parts;
  const metrics = createMetrics();
  const newId = createIdSource();
  const catalog = createCatalog(store, clock);
  let follow = () => {};
  const refresh = async (flowId: string) => {
    await deployment.refresh(flowId);
    await holding.refresh(flowId);
  };
  const stops: (() => unknown)[] = [];
  const live = createLiveEvents(isPostgres(settings.databaseUrl) ? eventsOfOthers(store) : {});
  const links: Links = {};
  const alerts = alertsOf(parts, { catalog, newId, live, links });
  const deployment = deploymentOf(parts, catalog, { onDeployed: () => follow(), onRefused: alerts.deployRefused });
  const warnings = [...settingsWarnings(settings), ...parts.warnings, ...(await deployment.start(parts.flows))];
  const { triggers } = deployment;
  const keyKeeper = createKeyKeeper({ ...parts, triggers });
  const payloadWatch = createPayloadWatch({ ...parts, triggers });
  const sweepers = [parts.logRetention, createActivityRetention(parts), payloadWatch, keyKeeper];
  const runtime = runtimeOf(parts, { catalog, metrics, newId, live, refresh, sweepers });
  const { engine, scheduler } = runtime;
  links.announce = engine.announce;
  const holding = createHolding({ store, catalog, engine, clock, logger, metrics });
  const flowSwitch = createFlowSwitch({ store, catalog, holding });
  let closing: Promise<void> | undefined;
  const drainMs = isPostgres(settings.databaseUrl) ? settings.drainSeconds * 1000 : 0;
  const running = { metrics, newId, live, catalog, deployment, runtime, holding, flowSwitch, refresh };
  const phase = { isLeaving: false, isStopping: false };
  const { prepareServer, dashboard } = parts.options;
  const fastify = createServer({
    ...parts,
    ...running,
    phase,
    prepareServer,
    dashboard,
    onServices: (services) => {
      links.services = services;
    },
  });
  const connections = watchSockets(fastify, parts);
  const stop = async () => {
    phase.isLeaving = true;
    // Other replicas go on, so a balancer gets the time to see that this one is not ready, while it still accepts.
    if (drainMs > 0 && fastify.server.listening) await wait(drainMs);
    phase.isStopping = true;
    follow = () => {};
    await Promise.all([...stops.map((each) => each()), alerts.stop()]);
    await connections.sweepUntil(fastify.close());
    await holding.stop();
    await runtime.stop(settings.shutdownGraceSeconds * 1000);
    await store.close();
  };
  return {
    fastify,
    store,
    catalog,
    engine,
    scheduler,
    warnings,
    triggers,
    reload: deployment.reloadAndLog,
    async listen() {
      // Before any step runs: a step that ends every process must not keep deliveries out.
      const url = await listen(fastify, settings);
      // Before any step runs, so that failures of steps left by the last process are reported too.
      await alerts.prepare();
      await runtime.start();
      await holding.start();
      follow = () => {
        keyKeeper.note();
        void syncSchedules(scheduler, logger);
      };
      keyKeeper.note();
      stops.push(followChanges({ ...parts, changes: store.changes, refresh, scheduler, live }));
      if (settings.watchManifests) stops.push(deployment.watch());
      alerts.start();
      return url;
    },
    close() {
      closing ??= stop();
      return closing;
    },
  };
}

/** What replicas tell each other of runs. */
function eventsOfOthers(store: Store): Parameters<typeof createLiveEvents>[0] {
  return {
    onRun: (runId) => store.runChanged(runId),
    onWatched: (isWatched) => store.watchRuns(isWatched),
  };
}

/** What those who tell people of failures need of rooms that are built after them. */
interface Links {
  announce?: Engine['announce'];
  services?: DashboardServices;
}

function alertsOf(
  parts: Parts,
  { links, ...running }: Pick<Parameters<typeof createAlertWatch>[0], 'catalog' | 'newId' | 'live'> & { links: Links },
): AlertWatch {
  const { settings, extensions, store } = parts;
  const { alerts, publicUrl } = settings;
  if (alerts === undefined || alerts.targets.length === 0) return noAlerts(store);
  return createAlertWatch({
    ...parts,
    ...running,
    // Replicas tell each other of every run while one of them has such a listener.
    live: isPostgres(settings.databaseUrl) ? undefined : running.live,
    alerts,
    send: extensions.sendAlert,
    rules: extensions.rules.folder,
    announce: (run) => links.announce?.(run),
    pageUrl: alerts.pageUrl ?? publicUrl?.replace(/\/\/[^/]*@/, '//') ?? `http://${settings.host}:${settings.port}`,
    concerns: async () => (links.services === undefined ? [] : listAttention(links.services)),
    unready: async () => (links.services === undefined ? undefined : unreadiness(links.services)),
    replica: isPostgres(settings.databaseUrl) ? `The replica ${store.replica}` : 'Sluice',
  });
}

function runtimeOf(
  parts: Parts,
  running: Pick<Parameters<typeof createRuntime>[0], 'catalog' | 'metrics' | 'newId' | 'live' | 'refresh' | 'sweepers'>,
): Runtime {
  const { settings, store, clock } = parts;
  const { handlers, rules, hosts } = parts.extensions;
  return createRuntime({
    ...parts,
    ...running,
    handlers,
    hosts,
    runRetentionDays: settings.runRetentionDays,
    readSecret: (reference, source) => rules[source].readSecret(reference),
    concurrency: settings.stepConcurrency,
    maxDueSteps: settings.maxBacklog,
    version,
    // A process that has its store for itself has nothing to compare.
    fingerprint: isPostgres(settings.databaseUrl)
      ? createFingerprint({ ...parts, catalog: running.catalog })
      : undefined,
    isServedElsewhere: async (stepType) =>
      haveStepType(await store.listReplicas({ now: clock.now() }), { stepType, besides: store.replica }),
    onReplicas: (count) => {
      parts.cluster.replicas = count;
    },
  });
}

function deploymentOf(
  parts: Parts,
  catalog: Catalog,
  events: Pick<Parameters<typeof createDeployment>[0], 'onDeployed' | 'onRefused'>,
): Deployment {
  const { settings } = parts;
  return createDeployment({
    ...parts,
    catalog,
    folder: parts.manifestFolder,
    defaultMode: settings.enforcementMode,
    holdDeliveries: settings.holdDeliveries,
    retentionDays: settings.runRetentionDays,
    manifestsWin: settings.manifestsWin,
    failsWhenRefused: settings.refusedDeploys === 'fail',
    ...events,
  });
}

function watchSockets(fastify: FastifyInstance, { settings, logger }: Pick<Parts, 'settings' | 'logger'>) {
  const { isTrustedPeer } = clientAddressReader(settings);
  return watchConnections(fastify.server, {
    isShared: thisMachineOr(isTrustedPeer),
    onRefused: (address) => logger.warn({ address }, 'too many open sockets from one address; refusing more'),
  });
}
