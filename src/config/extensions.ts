import { AsyncLocalStorage } from 'node:async_hooks';
import { resolve } from 'node:path';
import { createGuardedGet } from '../flows/handlers/guarded-get.ts';
import { type HandlerTable, handlerTable } from '../flows/handlers/index.ts';
import { operatorHandler } from '../flows/operator-handler.ts';
import { stepChecks } from '../flows/step-checks.ts';
import type { LoadedFlow, ManifestRules } from '../manifest/load.ts';
import { stampOfSync } from '../manifest/read-file.ts';
import { secretAllowance, secretReader } from '../manifest/read-secret.ts';
import { referencesIn } from '../manifest/secrets.ts';
import type { Clock } from '../model/clock.ts';
import { readable } from '../model/error-kind.ts';
import type { ManifestSource } from '../model/manifest.ts';
import { webhookChecks } from '../webhooks/checks.ts';
import type { GatePlugin, LearnedKeys } from '../webhooks/gate.ts';
import { type GatePreparer, gateChain, gatePreparer } from '../webhooks/gates/index.ts';
import { answerInTime } from '../webhooks/gates/operator-gate.ts';
import type { SignatureSettings } from '../webhooks/gates/signature.ts';
import type { NameKey } from '../webhooks/key-names.ts';
import { createCertificates } from '../webhooks/schemes/certificates.ts';
import { createSchemeRegistry } from '../webhooks/schemes/resolve.ts';
import { createKeySets, type KeySets, type NewKey } from '../webhooks/schemes/standards/key-sets.ts';
import { sharingBy } from '../webhooks/sharing.ts';
import type { Extensions } from './api.ts';
import { isPostgres } from './database.ts';
import { type Environment, SettingsError } from './settings.ts';
import type { Settings } from './settings-schema.ts';
import type { StepPart } from './step-part.ts';
import { type PreparedSteps, prepareSteps } from './steps.ts';

/** Everything needed to read and judge manifests, before anything runs. */
export interface PreparedExtensions {
  readonly handlers: HandlerTable;
  readonly gates: GatePreparer;
  /** The same without fetching what the gates need from publishers: they cannot verify. */
  readonly offlineGates: GatePreparer;
  /** Background work of step types, and the reasons why steps wait for hosts. */
  readonly steps: Pick<PreparedSteps, 'atWork' | 'hostWaits' | 'waits'>;
  /** What a part's step types provide to other features. */
  of<Made>(part: StepPart<Made>): Made;
  /** State of the publishers' key sets. */
  readonly keySets: KeySets;
  /** By source: the folder belongs to the operator; the API's manifests can reference only what it is allowed to. */
  readonly rules: Readonly<Record<ManifestSource, ManifestRules>>;
  /** Files that the folder's manifests name, by their paths, with the stamps from before they were first read. */
  readonly namedFiles: ReadonlyMap<string, string>;
  /** By default, allows the API's manifests to use the references of the folder's manifests. */
  useFolder(flows: readonly Pick<LoadedFlow, 'manifest'>[]): void;
}

interface PrepareExtensionsOptions {
  readonly settings: Settings;
  readonly extensions: Extensions;
  readonly environment: Environment;
  readonly clock: Clock;
  /** Absent if no publisher sends its key, as in a command that only reads manifests. */
  readonly learnedKeys?: LearnedKeys | undefined;
  /** Absent if nothing is counted. */
  readonly nameKey?: NameKey | undefined;
  /** Called for each key that appears in a publisher's set. */
  readonly onNewKey?: ((key: NewKey) => void) | undefined;
  /** Relative paths of the settings start here. */
  readonly folder: string;
  /** The number of replicas that the last heartbeat found; defaults to this process alone. */
  readonly cluster?: { readonly replicas: number };
  /** The current settings; defaults to `settings` if they are not read again. */
  readonly inForce?: (() => Settings) | undefined;
}

export function prepareExtensions({
  settings,
  extensions,
  environment,
  clock,
  learnedKeys,
  nameKey,
  onNewKey,
  folder,
  cluster,
  inForce = () => settings,
}: PrepareExtensionsOptions): PreparedExtensions {
  const steps = prepareSteps({
    settings,
    clock,
    cluster,
    readSecret: secretReader({ env: environment, baseFolder: process.cwd() }),
    inForce,
  });
  const { handlers, schemes, chain, fetchFromPublisher } = register(steps, extensions);
  const sealsLearnedKeys = settings.storeKey !== undefined;
  // URLs from deliveries are fetched as by a step: only public addresses, and others that the operator allowed.
  const get = fetchFromPublisher ?? createGuardedGet(settings);
  const keySets = createKeySets({ fetch: get, clock, onNewKey });
  const fetched = { certificates: createCertificates({ fetch: get, clock }), keySets, visit: get };
  const gates = gatePreparer(chain, {
    ...settings,
    ...fetched,
    clock,
    schemes,
    learnedKeys,
    nameKey,
    sealsLearnedKeys,
    cluster,
  });
  const none = () => Promise.reject(new Error('nothing is fetched here'));
  const offlineGates = gates.under({
    certificates: createCertificates({ fetch: none, clock }),
    keySets: createKeySets({ fetch: none, clock }),
    visit: none,
  });
  const baseFolder = resolve(folder, settings.manifests);
  const readSecret = secretReader({ env: environment, baseFolder });
  const namedFiles = new Map<string, string>();
  const onFile = (path: string) => void (namedFiles.has(path) || namedFiles.set(path, stampOfSync(path)));
  const readNamed = secretReader({ env: environment, baseFolder, onFile });
  const allowance = secretAllowance({ entries: settings.manifestSecrets, readSecret, baseFolder });
  const checks = [webhookChecks(gates, settings.enforcementMode), stepChecks, ...steps.checks];
  // SQLite has a key in a file next to the database.
  const sealsSecrets = settings.storeKey !== undefined || !isPostgres(settings.databaseUrl);
  const whyApart = sharingBy({ preparer: gates, defaultMode: settings.enforcementMode });
  const common = { strict: settings.strictManifests, handlers, checks, sealsSecrets, whyApart, vars: settings.vars };
  const secretInputs = (stepType: string) => handlers.get(stepType)?.secretInputs ?? [];
  return {
    handlers,
    gates,
    offlineGates,
    steps,
    of: steps.of,
    keySets,
    rules: {
      folder: { ...common, source: 'folder', readSecret: readNamed },
      api: { ...common, source: 'api', readSecret: allowance.readSecret },
    },
    namedFiles,
    useFolder: (flows) =>
      allowance.useFolder(
        flows.flatMap(({ manifest }) => referencesIn(manifest, secretInputs).map(({ text }) => text)),
      ),
  };
}

/** Throws `SettingsError` for extensions that clash or are invalid: the operator must change the config module. */
function register(steps: PreparedSteps, given: Extensions) {
  try {
    const extensions = withOwners(given);
    return {
      handlers: handlerTable([...steps.handlers, ...(extensions.handlers ?? [])]),
      schemes: createSchemeRegistry({
        verifiers: extensions.verifiers,
        specs: extensions.signatureSpecs,
        payloadBuilders: extensions.payloadStrategies,
      }),
      chain: gateChain(extensions.gates),
      fetchFromPublisher: extensions.fetchFromPublisher,
    };
  } catch (error) {
    throw new SettingsError([error instanceof Error ? error.message : String(error)], { cause: error });
  }
}

/** The same extensions; each piece of code runs under its own name. */
function withOwners(given: Extensions): Extensions {
  const { handlers, verifiers, payloadStrategies, gates, fetchFromPublisher: fetch, ...others } = given;
  return {
    ...others,
    ...(fetch === undefined
      ? {}
      : { fetchFromPublisher: (url) => fetchedText(() => runAs('fetchFromPublisher', () => fetch(url))) }),
    handlers:
      handlers?.map((handler) =>
        operatorHandler(owned(handler, `handler "${handler.type}"`, ['run', 'waitsFor', 'calls'])),
      ) ?? [],
    verifiers: verifiers?.map((verifier) => owned(verifier, `verifier "${verifier.name}"`, ['verify'])) ?? [],
    payloadStrategies: Object.fromEntries(
      Object.entries(payloadStrategies ?? {}).map(([name, build]): [string, typeof build] => [
        name,
        (request) => runAs(`payload strategy "${name}"`, () => build(request)),
      ]),
    ),
    gates: gates?.map(withOwner) ?? [],
  };
}

/** Rejects if no text arrives in time: otherwise this caller and all later ones would wait for ever. */
async function fetchedText(ask: () => Promise<unknown>): Promise<string> {
  const text = await answerInTime(ask).catch((error: unknown) => {
    throw readable(error);
  });
  if (typeof text !== 'string') throw new TypeError('fetchFromPublisher yielded no text');
  return text;
}

function withOwner(plugin: GatePlugin<SignatureSettings>): GatePlugin<SignatureSettings> {
  const owner = `gate "${plugin.name}"`;
  return {
    name: plugin.name,
    prepare(trigger, settings) {
      const gate = runAs(owner, () => plugin.prepare(trigger, settings));
      // Plain JavaScript can return anything; the chain refuses anything but a gate.
      return typeof gate === 'object' && gate !== null ? owned(gate, owner, ['check', 'dryRun']) : gate;
    },
  };
}

/**
 * The owner of the running code, through every promise, timer and callback that it starts, to distinguish uncaught
 * errors of operators' code from our own. Costs nothing without extensions.
 */
const owners = new AsyncLocalStorage<string>();

/** Runs an operator's code under the name that is logged with its errors. */
export function runAs<Result>(owner: string, run: () => Result): Result {
  return owners.run(owner, run);
}

/** In a handler of `uncaughtException` or `unhandledRejection`: the owner of the failed code; undefined for our own. */
export function ownerOfStray(): string | undefined {
  return owners.getStore();
}

/** A proxy of the object that runs the given methods under the owner's name; everything else is unchanged. */
function owned<Owned extends object>(object: Owned, owner: string, methods: readonly (keyof Owned)[]): Owned {
  return new Proxy(object, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || !methods.includes(name as keyof Owned)) return value;
      return (...given: unknown[]) => runAs(owner, () => Reflect.apply(value, target, given));
    },
  });
}
