import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Parts } from './app-parts.ts';
import { isPostgres } from './config/database.ts';
import { settingsWarnings } from './config/settings.ts';
import { thisMachineOr, watchConnections } from './connections.ts';
import { type Host, knownBaseUrl, type RunningPart, type ServicePart } from './dashboard/services.ts';
import { createDeployment, type Deployment } from './deploys/deployment.ts';
import { accessSettings, createNeedsReader, type NeedsReader } from './deploys/needs.ts';
import { untilStored } from './errors.ts';
import { type Catalog, createCatalog } from './flows/catalog.ts';
import { followChanges } from './flows/changes.ts';
import type { Engine } from './flows/engine.ts';
import { createRuntime, type Persist, type ReplicaReports, type Runtime } from './flows/runtime.ts';
import { listen } from './listening.ts';
import { formatIssue } from './manifest/issues.ts';
import { createIdSource } from './model/ids.ts';
import { createServer } from './server.ts';
import { noteCredentials, readSettingsAgain } from './settings-again.ts';
import type { Store } from './store/store.ts';
import type { Sweeper } from './sweeper.ts';
import { createLiveEvents } from './telemetry/events.ts';
import { version } from './version.ts';
import { holdsNothing } from './webhooks/holding.ts';
import { clientAddressReader } from './webhooks/read-delivery.ts';
import { createTriggersInForce, type TriggersInForce, type TriggerTable } from './webhooks/triggers.ts';

export interface SluiceApp {
  readonly fastify: FastifyInstance;
  readonly store: Store;
  readonly catalog: Catalog;
  /** Starts runs by hand. Their steps run once the app listens. */
  readonly engine: Engine;
  /** One line for each warning about the manifests and the settings. */
  readonly warnings: readonly string[];
  triggers(): TriggerTable;
  /**
   * Reads variables, dashboard credentials, alert targets and the manifest folder again, and deploys what changed.
   * Never rejects: errors go to the log.
   */
  reload(): Promise<void>;
  /**
   * Listens, then continues the work of the last process; yields the address as a URL. Rejects with `ListenError` if
   * the address or the port is not available.
   */
  listen(): Promise<string>;
  /** Stops accepting, answers open requests, gives steps the grace period, closes the store. Idempotent. */
  close(): Promise<void>;
}

/** Connects the rooms of a service whose store is open. The resulting app does not listen yet. */
export async function assemble(parts: Parts): Promise<SluiceApp> {
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
  const senders = new Map<string, Socket>();
  const host: Host = {
    ...{ ...parts, newId, live, triggers, catalog, refresh, senders },
    engine: () => runtime.engine,
    holding: () => running.holding,
    dashboard: () => services,
    pageUrl: () => knownBaseUrl(fastify, services),
  };
  const running = startParts(parts.serviceParts, host);
  const { sweepers, replica, holding, runAnswers } = running;
  const runtime = runtimeOf(parts, { ...replica, catalog, metrics, newId, live, refresh, sweepers });
  const { engine } = runtime;
  deployment.onRefreshed(holding.refresh);
  const phase = { isStarting: false, isLeaving: false, isStopping: false };
  const persist = persistUnless(() => phase.isLeaving, logger);
  const { prepareServer, dashboard } = parts.options;
  const working = { newId, live, catalog, triggers, deployment, runtime, holding, runAnswers, refresh };
  const { fastify, services } = createServer({ ...parts, ...working, senders, phase, prepareServer, dashboard });
  const connections = watchSockets(fastify, parts);
  deployment.onReload(() => readSettingsAgain(parts, { logins: services.logins, onSettings: running.onSettings }));
  await Promise.all([deployment.onTold(running.onDeploys), noteCredentials(parts, services.logins)]);
  const stops: (() => unknown)[] = [];
  const stop = async () => {
    phase.isLeaving = true;
    // Other replicas continue: keep accepting while a balancer finds out that this one is not ready.
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
    warnings: [...settingsWarnings(settings), ...parts.manifests.issues.map(formatIssue), ...warnings],
    triggers,
    reload: () => deployment.reloadAndLog(),
    async listen() {
      // Before any step runs: a step that crashes every process must not keep deliveries out.
      phase.isStarting = true;
      const url = await listen(fastify, settings);
      // Before any step runs, so that failures of steps left by the last process are reported too.
      await running.prepare(persist);
      await runtime.start(persist);
      await persist(holding.start);
      stops.push(inForce.onRenewed(running.onTriggers));
      running.onTriggers();
      stops.push(followChanges({ ...parts, changes: store.changes, refresh, onChange: running.onChange, live }));
      if (parts.options.watch === true) {
        const watching = deployment.watch();
        stops.push(async () => (await watching)());
        await watching;
      }
      await running.begin(persist);
      phase.isStarting = false;
      return url;
    },
    close() {
      closing ??= stop();
      return closing;
    },
  };
}

/** Once the service listens, a failing store ends nothing: the rest of the start waits for it. */
function persistUnless(isLeaving: () => boolean, logger: Logger): Persist {
  return (work) =>
    untilStored(work, (error) => {
      if (error.isForGood || isLeaving()) return false;
      logger.warn({ err: error }, 'the start waits for the store; trying again');
      return true;
    });
}

/** The messages about runs that replicas send each other. */
function eventsOfOthers(store: Store): Parameters<typeof createLiveEvents>[0] {
  return {
    onRun: (runId) => store.runChanged(runId),
    onWatched: (isWatched) => store.watchRuns(isWatched),
  };
}

function runtimeOf(
  parts: Parts,
  running: ReplicaReports &
    Pick<Parameters<typeof createRuntime>[0], 'catalog' | 'metrics' | 'newId' | 'live' | 'refresh' | 'sweepers'>,
): Runtime {
  const { settings } = parts;
  const { handlers, rules, steps } = parts.extensions;
  return createRuntime({
    ...parts,
    ...running,
    handlers,
    atWork: steps.atWork,
    waits: steps.waits,
    runRetentionDays: settings.runRetentionDays,
    readSecret: (reference, source) => rules[source].readSecret(reference),
    concurrency: settings.stepConcurrency,
    version,
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
    unreadable: catalog.unreadable,
  });
}

function needsOf({ settings, extensions: { rules, gates }, storeKeys: keys }: Parts): NeedsReader {
  return createNeedsReader({ keys, rules, gates, settings: accessSettings(settings) });
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
    onRefused: (address) =>
      logger.warn({ cause: `sockets of ${address}`, address }, 'too many open sockets from one address; refusing more'),
  });
}

interface RunningParts extends Required<Omit<RunningPart, 'sweeper' | 'prepare' | 'begin' | 'runAnswers'>> {
  readonly sweepers: readonly Sweeper[];
  readonly runAnswers: RunningPart['runAnswers'];
  prepare(persist: Persist): Promise<void>;
  begin(persist: Persist): Promise<void>;
}

/** Starts the background work of all parts, in their order. */
function startParts(parts: readonly ServicePart[], host: Host): RunningParts {
  const started = parts.map(({ start }): RunningPart => start?.(host) ?? {});
  return {
    sweepers: started.flatMap(({ sweeper = [] }) => sweeper),
    async prepare(persist) {
      for (const { prepare } of started) await persist(async () => prepare?.());
    },
    onTriggers() {
      for (const { onTriggers } of started) onTriggers?.();
    },
    async begin(persist) {
      for (const { begin } of started) await persist(async () => begin?.());
    },
    async onChange(change) {
      for (const { onChange } of started) await onChange?.(change);
    },
    async onDeploys(deploys) {
      for (const { onDeploys } of started) await onDeploys?.(deploys);
    },
    holding: started.flatMap(({ holding }) => holding ?? [])[0] ?? holdsNothing,
    replica: started.flatMap(({ replica }) => replica ?? [])[0] ?? {},
    runAnswers: started.flatMap(({ runAnswers }) => runAnswers ?? [])[0],
    onSettings(settings) {
      for (const { onSettings } of started) onSettings?.(settings);
    },
    async stop() {
      await Promise.all(started.map(({ stop }) => stop?.()));
    },
  };
}
