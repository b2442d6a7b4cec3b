import { relative, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import pino, { type Logger } from 'pino';
import type { AlertSettings } from './alerts/targets.ts';
import type { Extensions } from './config/api.ts';
import { credentialsOf, listCredentials } from './config/credentials.ts';
import { databaseTarget, isPostgres, maskedPlace } from './config/database.ts';
import { type PreparedExtensions, prepareExtensions } from './config/extensions.ts';
import { accessSettings, createFingerprint, haveStepType } from './config/fingerprint.ts';
import { type Environment, readSettings, SettingsError, settingsWarnings } from './config/settings.ts';
import type { Settings, SettingsInput } from './config/settings-schema.ts';
import { thisMachineOr, watchConnections } from './connections.ts';
import { type DashboardServices, type Host, knownBaseUrl, type RunningPart } from './dashboard/services.ts';
import { createDeployment, type Deployment } from './deploys/deployment.ts';
import { createFlowSwitch } from './deploys/flow-switch.ts';
import { createHolding } from './deploys/holding.ts';
import { createNeedsReader, type NeedsReader } from './deploys/needs.ts';
import { levelOfRetry, ManifestsError, StoreUnavailableError, untilStored } from './errors.ts';
import { serviceParts } from './features/service.ts';
import { type Catalog, createCatalog } from './flows/catalog.ts';
import { followChanges, syncSchedules } from './flows/changes.ts';
import type { Engine } from './flows/engine.ts';
import { createRuntime, type Persist, type Runtime } from './flows/runtime.ts';
import type { Scheduler } from './flows/scheduler.ts';
import { listen } from './listening.ts';
import { formatIssue } from './manifest/issues.ts';
import { loadManifests, type ManifestFolder } from './manifest/load.ts';
import { type Clock, createServiceClock, type ServiceClock } from './model/clock.ts';
import type { Override } from './model/finding.ts';
import { createIdSource } from './model/ids.ts';
import { createServer } from './server.ts';
import { openStore, type StoreBounds } from './store/open-store.ts';
import { type BodySealer, bodySealer } from './store/sealed-body.ts';
import type { Store } from './store/store.ts';
import { type StoreKeys, storeKeys } from './store/store-keys.ts';
import type { Sweeper } from './sweeper.ts';
import { createLiveEvents, logEvent } from './telemetry/events.ts';
import { createMetrics, type Metrics } from './telemetry/metrics.ts';
import { version } from './version.ts';
import { createKeyNames } from './webhooks/key-names.ts';
import { createLearnedKeys } from './webhooks/learned-keys.ts';
import { clientAddressReader } from './webhooks/read-delivery.ts';
import type { NewKey } from './webhooks/schemes/standards/key-sets.ts';
import { createTriggersInForce, type TriggersInForce, type TriggerTable } from './webhooks/triggers.ts';

export interface AppOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Where settings and `env:` secrets are read from; empty where not given, never the process' own. */
  readonly environment?: Environment;
  /** Called before each reload: brings the environment up to date. Where it throws `SettingsError`, it stays as it is. */
  readonly readVariables?: () => void;
  /** Relative paths start here; the working directory where not given. */
  readonly folder?: string;
  /** Clocks of the machine; one of a service is taken as it is. */
  readonly clock?: Clock | ServiceClock;
  readonly logger?: Logger;
  /** A store that is already open; closed with the app. Opened from the settings if not given. */
  readonly store?: Store;
  /** Called with the server before it gets any route, to add hooks. */
  readonly prepareServer?: (fastify: FastifyInstance) => void;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean;
  /** What starts, reloads and watched changes deploy although it would be refused; nothing where not given. */
  readonly allow?: readonly Override[] | undefined;
  /** Replaces some of what the dashboard works with, such as its waiting time after wrong logins. */
  readonly dashboard?: Partial<DashboardServices>;
  /** Called when the store is lost for good: Sluice can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
  /** Called while the database is away, before each further try. Without it the build rejects. */
  readonly onAway?: ((error: Error) => Promise<void>) | undefined;
  /** Awaited before the schema of an existing database is changed, which may take long. */
  readonly onMigrating?: ((names: readonly string[]) => Promise<void>) | undefined;
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
  /**
   * Reads variables, credentials of the dashboard, targets of alerts and the folder of manifests again, and deploys what
   * changed. Never rejects: the log says what went wrong.
   */
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
export function buildApp(options: AppOptions = {}): Promise<SluiceApp> {
  return untilBack(() => build(options), options);
}

function untilBack<Value>(work: () => Promise<Value>, { onAway }: Pick<AppOptions, 'onAway'>): Promise<Value> {
  return untilStored(work, async (error) => {
    if (onAway === undefined || !error.isAway) return false;
    await onAway(error);
    return true;
  });
}

async function build(options: AppOptions): Promise<SluiceApp> {
  const { extensions: given = {}, environment = {}, folder = process.cwd() } = options;
  const settings = readSettings(environment, options.settings);
  const logger = options.logger ?? pino({ level: settings.logLevel });
  const clock = clockOf(options, logger);
  const learnedKeys = createLearnedKeys(clock);
  const sealer = settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey);
  const nameKey = createKeyNames(sealer?.digest);
  const cluster = { replicas: 1 };
  const alerts = { current: () => settings.alerts };
  const onNewKey = (key: NewKey) => logEvent(logger, 'WebhookKeySetChanged', { ...key });
  const extensions = prepareExtensions({
    settings,
    extensions: given,
    environment,
    clock,
    learnedKeys,
    nameKey,
    onNewKey,
    folder,
    cluster,
    alerts: () => alerts.current(),
  });
  const manifestFolder = relative(process.cwd(), resolve(folder, settings.manifests)) || '.';
  const manifests = await load(manifestFolder, { extensions, settings });
  const metrics = createMetrics();
  const database = isPostgres(settings.databaseUrl) ? 'postgres' : 'sqlite';
  metrics.buildInfo.set({ version, node: process.version, database, service: settings.serviceName }, 1);
  const open = () => openStoreOf(settings, { ...options, folder, logger, sealer, metrics });
  const store = options.store ?? (await untilBack(open, options));
  try {
    // Before anything that has a time is stored.
    const sentAt = clock.monotonic();
    clock.follow(await store.keepTime({ now: clock.now() }), sentAt);
    await learnedKeys.open(store);
    await store.changeActivityKey({ id: createIdSource(clock.now)(), at: clock.now() });
    const parts = {
      options,
      settings,
      logger,
      clock,
      extensions,
      manifestFolder,
      manifests,
      store,
      learnedKeys,
      cluster,
      alerts,
      sealer,
      metrics,
      storeKeys: storeKeys(options.store === undefined ? databaseTarget(settings, folder) : IN_MEMORY, {
        sealer,
        onMade: (path) => logger.info(`made ${path}, the key to secrets in manifests; keep it with every backup`),
      }),
    };
    return await assemble(parts);
  } catch (error) {
    await store.close();
    throw error;
  }
}

function clockOf({ clock = SYSTEM_CLOCK }: Pick<AppOptions, 'clock'>, logger: Logger): ServiceClock {
  if ('follow' in clock) return clock;
  return createServiceClock(clock, (aheadMs) =>
    logger.warn({ aheadMs: Math.round(aheadMs) }, 'the clock of this machine was set and stays so; going by it'),
  );
}

function openStoreOf(
  settings: Settings,
  {
    folder,
    logger,
    onFatal,
    onMigrating,
    sealer,
    metrics,
  }: Pick<AppOptions, 'onFatal' | 'onMigrating'> & Pick<Parts, 'logger' | 'sealer' | 'metrics'> & { folder: string },
): Promise<Store> {
  const target = databaseTarget(settings, folder);
  const bounds = storeBounds(settings);
  // Bound, not wrapped: every delivery has it called.
  const onCommitted: (seconds: number) => void = metrics.commitSeconds.observe.bind(metrics.commitSeconds);
  const { variable, place } = maskedPlace(settings);
  // Who expected an old one learns it before publishers do.
  const onCreated = () => {
    const schema = target.kind === 'postgres' ? `, schema ${target.schema}` : '';
    logger.info(`made a new, empty database: ${place}${schema} (${variable})`);
  };
  if (target.kind === 'postgres') {
    return openStore({
      ...target,
      ...bounds,
      sealer,
      onCreated,
      onCommitted,
      onMigrating,
      onBlocked: (error) => logger.warn({ err: error }, 'others hold what a migration has to lock; trying again'),
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
  const opened = openStore({
    ...target,
    ...bounds,
    sealer,
    onCreated,
    onMigrating,
    onCommitted,
    ...(onFatal === undefined ? {} : { onFatal }),
    // The process goes on: while it runs, an operator can still rescue the lost file.
    onLost: (error) => logger.fatal({ err: error }, 'the database file is gone or damaged; every delivery gets 503'),
  });
  return opened.catch((error: unknown) => {
    if (!(error instanceof StoreUnavailableError)) throw error;
    throw new StoreUnavailableError(`${error.message} (${variable})`, { cause: error, isForGood: error.isForGood });
  });
}

/**
 * What refused deliveries may take, and what held ones: no flood fills the disk. A row counts as 1 KiB at least, so that
 * this bounds rows too.
 */
const MAX_DELIVERY_BYTES = 268_435_456;

function storeBounds({ deliveryStore, deliveryRingSize }: Settings): StoreBounds {
  const inMemory = deliveryStore === 'memory';
  const unbounded = Number.POSITIVE_INFINITY;
  return {
    log: { inMemory, maxRows: inMemory ? deliveryRingSize : unbounded, maxBytes: MAX_DELIVERY_BYTES },
    held: { maxRows: unbounded, maxBytes: MAX_DELIVERY_BYTES },
  };
}

/** A store that is given is the caller's to keep; nothing is written next to it. */
const IN_MEMORY = { kind: 'sqlite', path: ':memory:' } as const;

interface Parts {
  readonly options: Pick<
    AppOptions,
    'prepareServer' | 'dashboard' | 'watch' | 'allow' | 'settings' | 'environment' | 'readVariables'
  >;
  readonly settings: Settings;
  readonly logger: Logger;
  readonly clock: ServiceClock;
  readonly extensions: PreparedExtensions;
  readonly manifestFolder: string;
  readonly manifests: ManifestFolder;
  readonly store: Store;
  readonly learnedKeys: ReturnType<typeof createLearnedKeys>;
  /** What the last heartbeat found. */
  readonly cluster: { replicas: number };
  /** Who is told of alerts now. */
  readonly alerts: { current: () => AlertSettings | undefined };
  readonly sealer: BodySealer | undefined;
  readonly metrics: Metrics;
  readonly storeKeys: StoreKeys;
}

/** A manifest that cannot be read concerns its flow alone; a folder that cannot is a wrong setting. */
async function load(
  folder: string,
  { extensions, settings }: Pick<Parts, 'extensions' | 'settings'>,
): Promise<ManifestFolder> {
  const loaded = await loadManifests(folder, extensions.rules.folder);
  const errors = loaded.issues.filter((issue) => issue.severity === 'error');
  const isRefused = !loaded.isThere || settings.refusedDeploys === 'fail';
  if (isRefused && errors.length > 0) throw new ManifestsError(errors.map(formatIssue));
  return loaded;
}

async function assemble(parts: Parts): Promise<SluiceApp> {
  const { settings, logger, clock, store, metrics } = parts;
  const newId = createIdSource(clock.now);
  const live = createLiveEvents(isPostgres(settings.databaseUrl) ? eventsOfOthers(store) : {});
  const needs = needsOf(parts);
  const catalog = createCatalog(store, clock, async (revision) => (await needs.open(revision, undefined)).literals);
  const inForce = triggersOf(parts, catalog);
  const triggers = inForce.current;
  const deployment = deploymentOf(parts, { needs, catalog, triggers: inForce });
  const { refresh } = deployment;
  const warnings = await deployment.start(parts.manifests);
  const host: Host = {
    ...{ ...parts, newId, live, triggers, catalog, refresh },
    engine: () => runtime.engine,
    holding: () => holding,
    dashboard: () => services,
    pageUrl: () => knownBaseUrl(fastify, services),
  };
  const running = startParts(host);
  const runtime = runtimeOf(parts, { catalog, metrics, newId, live, refresh, sweepers: running.sweepers });
  const { engine, scheduler } = runtime;
  const holding = createHolding({ store, catalog, engine, clock, logger, metrics });
  deployment.onRefreshed(holding.refresh);
  const flowSwitch = createFlowSwitch({ store, catalog, holding });
  const phase = { isStarting: false, isLeaving: false, isStopping: false };
  const persist = persistUnless(() => phase.isLeaving, logger);
  const { prepareServer, dashboard } = parts.options;
  const working = { newId, live, catalog, triggers, deployment, runtime, holding, flowSwitch, refresh };
  const { fastify, services } = createServer({ ...parts, ...working, serviceParts, phase, prepareServer, dashboard });
  const connections = watchSockets(fastify, parts);
  deployment.onReload(() => readSettingsAgain(parts, { logins: services.logins, onSettings: running.onSettings }));
  await Promise.all([deployment.onTold(running.onDeploys), noteCredentials(parts, services.logins)]);
  const stops: (() => unknown)[] = [];
  const stop = async () => {
    phase.isLeaving = true;
    // Other replicas go on, so a balancer gets the time to see that this one is not ready, while it still accepts.
    const drainMs = isPostgres(settings.databaseUrl) ? settings.drainSeconds * 1000 : 0;
    if (drainMs > 0 && fastify.server.listening) await wait(drainMs);
    phase.isStopping = true;
    await Promise.all([...stops.map((each) => each()), running.stop()]);
    await connections.sweepUntil(fastify.close());
    await holding.stop();
    await runtime.stop(settings.shutdownGraceSeconds * 1000);
    await store.close();
  };
  let closing: Promise<void> | undefined;
  return {
    fastify,
    store,
    catalog,
    engine,
    scheduler,
    warnings: [...settingsWarnings(settings), ...parts.manifests.issues.map(formatIssue), ...warnings],
    triggers,
    reload: () => deployment.reloadAndLog(),
    async listen() {
      // Before any step runs: a step that ends every process must not keep deliveries out.
      phase.isStarting = true;
      const url = await listen(fastify, settings);
      // Before any step runs, so that failures of steps left by the last process are reported too.
      await persist(running.prepare);
      await runtime.start(persist);
      await persist(holding.start);
      const noteTriggers = () => {
        running.onTriggers();
        void syncSchedules(scheduler, logger);
      };
      stops.push(inForce.onRenewed(noteTriggers));
      running.onTriggers();
      stops.push(followChanges({ ...parts, changes: store.changes, refresh, scheduler, live }));
      if (parts.options.watch === true) stops.push(deployment.watch());
      running.begin();
      phase.isStarting = false;
      return url;
    },
    close() {
      closing ??= stop();
      return closing;
    },
  };
}

/** What all parts do in the background, in the order of the parts. */
function startParts(host: Host): Required<Omit<RunningPart, 'sweeper'>> & { readonly sweepers: readonly Sweeper[] } {
  const started = serviceParts.map(({ start }): RunningPart => start?.(host) ?? {});
  return {
    sweepers: started.flatMap(({ sweeper = [] }) => sweeper),
    async prepare() {
      for (const { prepare } of started) await prepare?.();
    },
    onTriggers() {
      for (const { onTriggers } of started) onTriggers?.();
    },
    begin() {
      for (const { begin } of started) begin?.();
    },
    async onDeploys(deploys) {
      for (const { onDeploys } of started) await onDeploys?.(deploys);
    },
    onSettings(settings) {
      for (const { onSettings } of started) onSettings?.(settings);
    },
    async stop() {
      await Promise.all(started.map(({ stop }) => stop?.()));
    },
  };
}

/** From when on it listens, a store that fails ends nothing: what the start still has to do waits for it. */
function persistUnless(isLeaving: () => boolean, logger: Logger): Persist {
  return (work) =>
    untilStored(work, (error) => {
      if (error.isForGood || isLeaving()) return false;
      logger[levelOfRetry(error, 'warn')]({ err: error }, 'the start waits for the store; trying again');
      return true;
    });
}

/** Those that are gone since the last start are gone although none may be left to log in with. */
function noteCredentials({ store, clock }: Parts, logins: DashboardServices['logins']): Promise<void> {
  return logins?.note() ?? store.noteCredentials({ credentials: [], now: clock.ledger() });
}

/** Who was taken off the list is out at once. A mistake leaves the former credentials and targets of alerts in force. */
function readSettingsAgain(
  { options, logger }: Parts,
  { logins, onSettings }: Pick<DashboardServices, 'logins'> & { readonly onSettings: (settings: Settings) => void },
): void {
  try {
    options.readVariables?.();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    logger.error({ lines: error.lines }, 'the variables could not be read again; they stay as they were');
  }
  try {
    // The service goes on listening where it does. If no credential is left, nobody gets in any more.
    const environment = { ...options.environment, SLUICE_HOST: '127.0.0.1' };
    const settings = readSettings(environment, options.settings);
    onSettings(settings);
    // A dashboard without credentials stays as it is: its routes ask for none.
    if (logins === undefined) return;
    const credentials = credentialsOf(settings);
    logins.credentials.replace(credentials);
    logins.note().catch((error: unknown) => {
      logger.error(
        { err: error },
        'which credentials are in force was not stored; sessions of one that comes back go on',
      );
    });
    logger.info(
      { credentials: listCredentials(credentials).length },
      'the credentials of the dashboard were read again',
    );
  } catch (error) {
    const lines = error instanceof SettingsError ? error.lines : undefined;
    logger.error(
      { err: error, lines },
      'the settings could not be read again; the former credentials and targets of alerts stay in force',
    );
  }
}

/** What replicas tell each other of runs. */
function eventsOfOthers(store: Store): Parameters<typeof createLiveEvents>[0] {
  return {
    onRun: (runId) => store.runChanged(runId),
    onWatched: (isWatched) => store.watchRuns(isWatched),
  };
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
    version,
    // A process that has its store for itself has nothing to compare.
    fingerprint: isPostgres(settings.databaseUrl)
      ? createFingerprint({ ...parts, alerts: () => parts.alerts.current(), catalog: running.catalog })
      : undefined,
    isServedElsewhere: async (stepType) =>
      haveStepType(await store.listReplicas({ now: clock.now() }), { stepType, besides: store.replica }),
    onReplicas: (count) => {
      parts.cluster.replicas = count;
    },
  });
}

function triggersOf({ settings, extensions, logger }: Parts, catalog: Catalog): TriggersInForce {
  return createTriggersInForce({
    catalog,
    logger,
    defaultMode: settings.enforcementMode,
    preparer: extensions.gates,
    holdDeliveries: settings.holdDeliveries,
    unreadable: catalog.unreadable,
  });
}

function needsOf({ settings, extensions: { rules, gates }, storeKeys: keys }: Parts): NeedsReader {
  return createNeedsReader({ keys, rules, isSigned: gates.isSigned, settings: accessSettings(settings) });
}

function deploymentOf(
  parts: Parts,
  working: { readonly needs: NeedsReader; readonly catalog: Catalog; readonly triggers: TriggersInForce },
): Deployment {
  return createDeployment({
    ...parts,
    ...working,
    folder: parts.manifestFolder,
    allow: parts.options.allow,
    failsWhenRefused: parts.settings.refusedDeploys === 'fail',
  });
}

function watchSockets(fastify: FastifyInstance, { settings, logger }: Pick<Parts, 'settings' | 'logger'>) {
  const { isTrustedPeer } = clientAddressReader(settings);
  return watchConnections(fastify.server, {
    isShared: thisMachineOr(isTrustedPeer),
    onRefused: (address) => logger.warn({ address }, 'too many open sockets from one address; refusing more'),
  });
}
