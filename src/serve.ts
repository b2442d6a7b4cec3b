import closeWithGrace from 'close-with-grace';
import type { Logger } from 'pino';
import { buildApp, type SluiceApp } from './app.ts';
import { loadConfigModule } from './config/config-module.ts';
import { type EnvFile, readEnvFile } from './config/env-file.ts';
import { ownerOfStray } from './config/extensions.ts';
import { fewOpenFiles, openFileLimit } from './config/open-files.ts';
import {
  configPath,
  type Environment,
  processEnvironment,
  readSettings,
  retiredSettings,
  SettingsError,
  setVariables,
  tracingSettings,
} from './config/settings.ts';
import type { EarlyAnswers } from './early-answers.ts';
import { DeploysRefusedError, ManifestsError, StoreUnavailableError } from './errors.ts';
import { ListenError } from './listening.ts';
import { maskUrl } from './manifest/mask.ts';
import { readable, writable } from './model/error-kind.ts';
import type { Override } from './model/finding.ts';
import { balanceYoungGeneration } from './prepare-node.ts';
import { createLogger } from './telemetry/service-log.ts';
import { print, printError } from './telemetry/terminal.ts';
import { startTracing } from './telemetry/tracing.ts';
import { commandHere } from './version.ts';
import { webhookLines } from './webhooks/webhook-lines.ts';

/** Time for a stop after the grace period of steps: closing sockets, the store and the trace exporter. */
const STOP_MARGIN_MS = 15_000;

/**
 * Signals that arrive together are one request: a terminal or a supervisor signals the whole process group, and npm,
 * which is in it, passes the signal on. Only a later signal ends the process at once.
 */
const SAME_SIGNAL_MS = 1000;

interface ServeOptions {
  /** Variables that win over those of the environment. */
  readonly overrides?: Environment;
  /** The file that set some of the environment's variables; `.env` is read if it is not given. */
  readonly envFile?: EnvFile | undefined;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean | undefined;
  /** Refused changes that the start, reloads and watched changes deploy anyway. */
  readonly allow?: readonly Override[] | undefined;
}

/**
 * Runs the service until a signal stops it. A wrong setting or manifest, or an unavailable address or database, ends
 * the start with one line per error and code 1.
 */
export async function serve(options: ServeOptions = {}): Promise<void> {
  try {
    await start(options);
  } catch (error) {
    const expected = [SettingsError, ManifestsError, DeploysRefusedError, StoreUnavailableError, ListenError];
    const isExpected = expected.some((kind) => error instanceof kind);
    printError(`${isExpected && error instanceof Error ? error.message : textOf(error)}\n`);
    process.exit(1);
  }
}

async function start({ overrides = {}, envFile = readEnvFile(), watch = false, allow }: ServeOptions): Promise<void> {
  setVariables(overrides);
  // Not copied: secrets are read from it whenever they are needed, and on Windows it finds variables in any case.
  const environment = processEnvironment();
  // Before any operator code runs, including steps that this start continues.
  const strays = watchStrays();
  const { options, extensions } = await loadConfigModule(configPath(environment), process.cwd());
  const settings = readSettings(environment, options);
  const logger = createLogger(settings.logLevel);
  for (const line of retiredSettings(environment, options)) logger.warn(line);
  const openFiles = fewOpenFiles(openFileLimit());
  if (openFiles !== undefined) logger.warn(openFiles);
  strays.onOwned = (owner, error) =>
    logger.error({ err: error, owner }, `${owner} did not catch an error; the process continues`);
  const stopTracing = await startTracing(tracingSettings(environment), logger);
  // Before the folder is read: otherwise the signal would end the process, or we would miss a change made meanwhile.
  let isReloadWanted = false;
  let reload = () => {
    isReloadWanted = true;
  };
  process.on('SIGHUP', () => reload());
  // A start has nothing to finish: the next one continues from here.
  let stop = (_signal: NodeJS.Signals): void => process.exit(0);
  onStopSignal((signal) => stop(signal));
  let early: EarlyAnswers | undefined;
  const answerEarly = async () => {
    // Loaded only here: Node's HTTP module also loads its client, which a start seldom needs.
    early ??= (await import('./early-answers.ts')).createEarlyAnswers({ settings, logger });
    return early;
  };
  const app = await buildApp({
    // The environment overrides these at each reload too: a variable that was removed no longer counts.
    settings: options,
    extensions,
    environment,
    readVariables() {
      envFile.readAgain();
      setVariables(overrides);
    },
    logger,
    watch,
    allow,
    onFatal: (error) => die(error, logger),
    onAway: async (error) => (await answerEarly()).tell(error),
    onMigrating: async (names) => (await answerEarly()).migrating(names),
  });
  let failure: unknown;
  let isStopping = false;
  let stopSignal: NodeJS.Signals | undefined;
  const { close } = closeWithGrace(
    {
      delay: (settings.drainSeconds + settings.shutdownGraceSeconds) * 1000 + STOP_MARGIN_MS,
      logger: false,
      skip: ['SIGHUP', ...STOP_SIGNALS, 'uncaughtException', 'unhandledRejection'],
    },
    async () => {
      isStopping = true;
      if (failure === undefined) logger.info({ signal: stopSignal }, 'stopping');
      await app.close();
      await stopTracing();
      logger.info('stopped');
      if (failure !== undefined) process.exit(1);
    },
  );
  stop = (signal) => {
    stopSignal = signal;
    if (!isStopping) void close();
  };
  strays.onFault = (error) => {
    logger.fatal({ err: error }, 'stopping after an uncaught error');
    failure = error ?? new Error('a rejection without a reason');
    if (!isStopping) return close();
    process.exit(1);
  };
  await early?.close();
  const address = await app.listen().catch((error: unknown) => {
    // The next start does what was left when the stop came.
    if (!isStopping) throw error;
  });
  if (address === undefined) return;
  balanceYoungGeneration();
  reload = () => void app.reload();
  if (isReloadWanted) reload();
  // Last: a program that reads that the service listens can stop it at once.
  if (envFile.name() !== undefined) print(`Read variables from ${envFile.name()}\n`);
  print(`${greeting(app, { address, publicUrl: settings.publicUrl }).join('\n')}\n`);
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Calls `stop` for the first signal; a later one ends the process with code 1. */
function onStopSignal(stop: (signal: NodeJS.Signals) => void): void {
  let firstAt: number | undefined;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      const now = performance.now();
      if (firstAt !== undefined && now - firstAt > SAME_SIGNAL_MS) process.exit(1);
      if (firstAt !== undefined) return;
      firstAt = now;
      stop(signal);
    });
  }
}

/** Handles uncaught errors; its methods can be replaced. */
interface Strays {
  onOwned(owner: string, error: unknown): void;
  onFault(error: unknown): void;
}

/**
 * Handles uncaught errors. Those of the operator's code are logged under its name, and the process goes on: nothing
 * awaits the failed code, and one bad delivery must not stop all others, nor every restart after it. Any other error is
 * a fault of ours, after which no state can be trusted.
 */
function watchStrays(): Strays {
  const strays: Strays = {
    onOwned: (owner, error) => printError(`${owner} did not catch an error: ${textOf(error)}\n`),
    onFault(error) {
      printError(`${textOf(error)}\n`);
      process.exit(1);
    },
  };
  const onStray = (thrown: unknown) => {
    const owner = ownerOfStray();
    if (owner === undefined) strays.onFault(readable(thrown));
    else strays.onOwned(owner, writable(thrown));
  };
  process.on('uncaughtException', onStray);
  process.on('unhandledRejection', onStray);
  return strays;
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

// Without its store the process cannot accept anything; a supervisor restarts it, and recovery continues from the file.
function die(error: Error, logger: Logger): void {
  logger.fatal({ err: error }, 'the store stopped; exiting');
  process.exit(1);
}

/** What the service prints at start: its addresses, warnings, each webhook, and how to try one. */
function greeting(
  app: SluiceApp,
  { address, publicUrl }: { address: string; publicUrl: string | undefined },
): string[] {
  const triggers = app.triggers();
  const places = [`Sluice listens on ${address}`, `The page is at ${address}/flows`];
  const lines = [...places, ...app.warnings, ...webhookLines(triggers, maskUrl(publicUrl ?? address))];
  const sample = triggers.list().find(({ canBeSigned }) => canBeSigned);
  if (sample !== undefined) {
    const to = address === 'http://127.0.0.1:3000' ? '' : ` --to ${address}`;
    const name = sample.trigger.inputs.webhookSlug ?? sample.trigger.flowId;
    lines.push('Send it a signed sample delivery:', `  ${commandHere()} send ${name}${to}`);
  }
  return lines;
}
