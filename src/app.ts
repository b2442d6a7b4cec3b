import { relative, resolve } from 'node:path';
import pino, { type Logger } from 'pino';
import type { AppOptions, Parts } from './app-parts.ts';
import { assemble, type SluiceApp } from './assembly.ts';
import { databaseTarget, isPostgres } from './config/database.ts';
import { prepareExtensions } from './config/extensions.ts';
import { readSettings } from './config/settings.ts';
import { settingsInForce } from './config/settings-in-force.ts';
import { noActivity } from './dashboard/activity.ts';
import { ManifestsError, untilStored } from './errors.ts';
import { serviceParts } from './features/service.ts';
import { formatIssue } from './manifest/issues.ts';
import { loadManifests, type ManifestFolder } from './manifest/load.ts';
import { type Clock, createServiceClock, type ServiceClock } from './model/clock.ts';
import { createIdSource } from './model/ids.ts';
import { bodySealer } from './store/sealed-body.ts';
import { storeKeys } from './store/store-keys.ts';
import { openStoreOf } from './store-of-settings.ts';
import { logEvent } from './telemetry/events.ts';
import { createMetrics } from './telemetry/metrics.ts';
import { limitFaults } from './telemetry/service-log.ts';
import { version } from './version.ts';
import { createKeyNames } from './webhooks/key-names.ts';
import type { NewKey } from './webhooks/schemes/standards/key-sets.ts';

export type { AppOptions } from './app-parts.ts';
export type { SluiceApp } from './assembly.ts';

// Bound, not wrapped: every delivery reads the clock several times.
const SYSTEM_CLOCK: Clock = { now: Date.now, monotonic: performance.now.bind(performance) };

/**
 * Builds a service from its settings: loads and deploys the manifests, opens the store, connects the rooms. Throws
 * `SettingsError`, `ManifestsError` or `StoreUnavailableError`, and then leaves nothing open.
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
  const logger = options.logger ?? pino({ level: settings.logLevel, hooks: limitFaults() });
  const clock = clockOf(options, logger);
  const sealer = settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey);
  const [learnedKeys] = serviceParts.flatMap((part) => part.learnedKeys?.({ clock, sealer }) ?? []);
  const nameKey = createKeyNames(sealer?.digest);
  const cluster = { replicas: 1 };
  const inForce = settingsInForce(settings);
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
    inForce: inForce.current,
  });
  const manifestFolder = relative(process.cwd(), resolve(folder, settings.manifests)) || '.';
  const manifests = await load(manifestFolder, { extensions, settings });
  const metrics = createMetrics();
  const database = isPostgres(settings.databaseUrl) ? 'postgres' : 'sqlite';
  metrics.buildInfo.set({ version, node: process.version, database, service: settings.serviceName }, 1);
  const open = () => openStoreOf(settings, { ...options, folder, logger, sealer, metrics });
  const store = options.store ?? (await untilBack(open, options));
  try {
    // The clock must be right before we store the first time.
    const sentAt = clock.monotonic();
    clock.follow(await store.keepTime({ now: clock.now() }), sentAt);
    await learnedKeys?.open(store);
    const activity = serviceParts.flatMap((part) => part.activity?.(store) ?? [])[0] ?? noActivity;
    await activity.open({ id: createIdSource(clock.now)(), at: clock.now() });
    const parts: Parts = {
      serviceParts,
      options,
      settings,
      logger,
      clock,
      extensions,
      manifestFolder,
      manifests,
      store,
      activity,
      learnedKeys,
      cluster,
      inForce,
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

/** The caller keeps its own store; nothing is written next to it. */
const IN_MEMORY = { kind: 'sqlite', path: ':memory:' } as const;

/** An unreadable manifest affects only its flow; an unreadable folder is a wrong setting. */
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
