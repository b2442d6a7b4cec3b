import { watch } from 'node:fs';
import type { Logger } from 'pino';
import { ALERT_FLOW_ID } from '../alerts/plan.ts';
import type { PreparedExtensions } from '../config/extensions.ts';
import { DeploysRefusedError } from '../errors.ts';
import { formatPath } from '../expressions/json-path.ts';
import type { Catalog } from '../flows/catalog.ts';
import { formatIssue, type ManifestIssue } from '../manifest/issues.ts';
import { type LoadedFlow, loadManifests, parseManifest, parseManifests } from '../manifest/load.ts';
import { forbiddenReferences, storedManifest } from '../manifest/stored.ts';
import { DEPLOY_ACTIONS, type DeployOutcome, type Override } from '../model/finding.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { createTurns } from '../model/turns.ts';
import type { RevisionRecord } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import { createTriggerTable, type TriggerTable } from '../webhooks/triggers.ts';
import { createDeployer } from './deployer.ts';

/** The manifests in force, and how others come in their place while the service runs. */
export interface Deployment {
  /** The table in force; a delivery keeps the one that it began with. */
  triggers(): TriggerTable;
  /**
   * Puts the manifests that a start has loaded in force; a flow whose change is refused goes on as it was deployed, unless
   * the start is to fail with it: then it rejects with `DeploysRefusedError`. Yields a line for each problem.
   */
  start(flows: readonly LoadedFlow[]): Promise<string[]>;
  /** Puts in force what another process did to a flow; see `Deployer`. */
  refresh(flowId: string): Promise<void>;
  /** Reads the folder again and deploys what changed; where any manifest has an error, nothing changes. */
  reload(options?: ReloadOptions): Promise<Reload>;
  /** Never rejects: the log has what was done and what went wrong. */
  reloadAndLog(): Promise<void>;
  /** Reloads whenever the folder changes, until the function that it yields is called. */
  watch(): () => void;
  /** Reads one manifest that did not come from the folder; `name` is the flow's where the manifest gives none. */
  parse(text: string, name: string): ParsedFlow;
  /**
   * Reads a stored revision as if it were sent over the API again. Plain-text secrets are not stored: they are taken
   * from the deployed manifest, and a secret that is not there is an error.
   */
  parseRevision(revision: Pick<RevisionRecord, 'flowId' | 'snapshot'>): ParsedFlow;
  /** Reads several that came in one JSON array; a flow that has no name keeps the one that it is deployed with. */
  parseAll(text: string): { flows: readonly LoadedFlow[]; issues: readonly ManifestIssue[] };
  /** Deploys manifests that did not come from the folder together, or says what that would do. */
  deploy(flows: readonly LoadedFlow[], options: DeployRequest): Promise<DeployOutcome[]>;
}

interface ParsedFlow {
  readonly flow: LoadedFlow | undefined;
  readonly issues: readonly ManifestIssue[];
}

interface ReloadOptions {
  /** What is deployed although it would be refused. */
  readonly allow?: readonly Override[];
  /** Says what would happen and changes nothing. */
  readonly isPlan?: boolean;
}

interface DeployRequest extends ReloadOptions {
  /** They are all that there are to be: a deployed one without a manifest may be the old id of a new one. */
  readonly isWholeFolder?: boolean;
}

interface Reload {
  /** Whether the folder could be read; else `issues` says why not. */
  readonly isValid: boolean;
  readonly issues: readonly ManifestIssue[];
  readonly outcomes: readonly DeployOutcome[];
  /**
   * A line for each manifest older than the deployed revision, for each deployed flow without a manifest, and for each
   * secret that a flow may no longer reference.
   */
  readonly warnings: readonly string[];
}

type Deployer = ReturnType<typeof createDeployer>;

interface DeploymentServices extends Omit<Parameters<typeof createDeployer>[0], 'rules' | 'onDeployed' | 'catalog'> {
  readonly catalog: Catalog;
  readonly extensions: PreparedExtensions;
  /** Path of the folder of manifests. */
  readonly folder: string;
  readonly defaultMode: EnforcementMode;
  readonly holdDeliveries: boolean;
  /** A start fails where a change is refused. */
  readonly failsWhenRefused?: boolean | undefined;
  /** The triggers in force have changed. */
  readonly onDeployed: () => void;
}

export function createDeployment(services: DeploymentServices): Deployment {
  const { catalog, extensions, logger, folder } = services;
  const { rules } = extensions;
  const announceConflicts = conflictAnnouncer(logger);
  const tableOf = () =>
    createTriggerTable({
      flows: catalog.list(),
      defaultMode: services.defaultMode,
      preparer: extensions.gates,
      holdDeliveries: services.holdDeliveries,
    });
  let table = tableOf();
  const onDeployed = () => {
    try {
      table = tableOf();
    } catch (error) {
      // Deliveries go on to the triggers that they went to: better than to none, and never to those of another flow.
      logger.error({ err: error }, 'deployed triggers conflict with each other; keeping the previous ones');
      return;
    }
    announceConflicts(table);
    services.onDeployed();
  };
  const deployer = createDeployer({ ...services, rules, onDeployed });
  // A folder that was read earlier must not be deployed later.
  const reloads = createTurns();
  const reload = (options: ReloadOptions = {}) =>
    reloads.take(() => reloadFolder(options, { folder, extensions, deployer, catalog }));
  const reloadAndLog = async () => {
    try {
      logReload(await reload(), logger);
    } catch (error) {
      logger.error({ err: error }, 'the manifests could not be reloaded; deployed flows are unchanged');
    }
  };
  return {
    triggers: () => table,
    reload,
    reloadAndLog,
    refresh: (flowId) => deployer.refresh(flowId),
    watch: () => watchFolder(folder, () => void reloadAndLog(), logger),
    async start(flows) {
      extensions.useFolder(flows);
      const { refused, warnings } = await startFrom(flows, deployer, catalog);
      const lines = refused.map(({ name, refusal }) => `refused ${name}: ${refusal}`);
      if (lines.length > 0 && services.failsWhenRefused === true) throw new DeploysRefusedError(lines);
      return [...lines, ...warnings];
    },
    parse: (text, name) => parseManifest(text, `${name}.json`, rules.api),
    parseRevision({ flowId, snapshot }) {
      const deployed = catalog.find(flowId);
      const { manifest, lost } = storedManifest(snapshot, rules.api, deployed?.loaded);
      const file = `${manifest.name}.json`;
      const message =
        'was in plain text in the manifest and is not stored, nor is it in the deployed manifest; deploy the manifest with it, ' +
        'or name it by env:NAME or file:PATH';
      const issues = lost.map((path) => ({ severity: 'error' as const, file, path: formatPath(path), message }));
      return lost.length > 0 ? { flow: undefined, issues } : parseManifest(JSON.stringify(manifest), file, rules.api);
    },
    parseAll: (text) => parseManifests(text, (id) => catalog.find(id)?.record.name ?? id, rules.api),
    deploy(flows, { allow = [], isPlan = false, isWholeFolder = false }) {
      const options = { allow, isWholeFolder, source: 'api' } as const;
      return deployer[isPlan ? 'plan' : 'deploy'](flows, options);
    },
  };
}

async function startFrom(flows: readonly LoadedFlow[], deployer: Deployer, catalog: Catalog) {
  const warnings = await deployer.restore(flows);
  const outcomes = await deployer.deploy(flows, { allow: [], isWholeFolder: true, source: 'folder' });
  const refused = outcomes.filter(({ action }) => action === 'refused');
  const kept = outcomes.filter(({ warning }) => warning !== undefined);
  // What a stored revision lacked matters no more where a manifest has come in its place.
  const stored = new Set([...refused, ...kept].map(({ flowId }) => flowId));
  const isServed = ({ flowId }: { flowId: string }) =>
    stored.has(flowId) || !flows.some(({ manifest }) => manifest.id === flowId);
  const lines = [...warningsOf(outcomes), ...orphansOf(flows, catalog)];
  return { refused, warnings: [...lines, ...warnings.filter(isServed).map(({ message }) => message)] };
}

async function reloadFolder(
  { allow = [], isPlan = false }: ReloadOptions,
  {
    folder,
    extensions,
    deployer,
    catalog,
  }: {
    readonly folder: string;
    readonly extensions: PreparedExtensions;
    readonly deployer: Deployer;
    readonly catalog: Catalog;
  },
): Promise<Reload> {
  const { flows, issues } = await loadManifests(folder, extensions.rules.folder);
  if (issues.some(({ severity }) => severity === 'error'))
    return { isValid: false, issues, outcomes: [], warnings: [] };
  const options = { allow, isWholeFolder: true, source: 'folder' } as const;
  if (!isPlan) extensions.useFolder(flows);
  const outcomes = await deployer[isPlan ? 'plan' : 'deploy'](flows, options);
  const shut = isPlan ? [] : forbiddenLines(catalog, extensions);
  return {
    isValid: true,
    issues,
    outcomes,
    warnings: [...warningsOf(outcomes), ...orphansOf(flows, catalog), ...shut],
  };
}

/** Of flows in force that came in over the API: what they reference may be allowed no longer. Their steps fail from now on. */
function forbiddenLines(catalog: Catalog, { rules }: PreparedExtensions): string[] {
  return catalog
    .list()
    .filter(({ loaded }) => loaded.source === 'api')
    .flatMap(({ record, loaded }) =>
      forbiddenReferences(loaded.manifest, rules.api).map(
        ({ path, message }) => `warning ${record.name} ${formatPath(path)}: ${message}`,
      ),
    );
}

function warningsOf(outcomes: readonly DeployOutcome[]): string[] {
  return outcomes.flatMap(({ warning }) => (warning === undefined ? [] : [`warning ${warning}`]));
}

function orphansOf(flows: readonly LoadedFlow[], catalog: Catalog): string[] {
  const ids = new Set(flows.map(({ manifest }) => manifest.id));
  const gone = catalog.list().filter(({ record }) => !ids.has(record.id) && record.id !== ALERT_FLOW_ID);
  return gone.map(
    ({ record }) =>
      `warning ${record.name} (${record.id}): has no manifest in the folder; it stays deployed until it is disabled`,
  );
}

/** Once per flow: that a legacy key is ignored matters at the first delivery as much as at the last. */
function conflictAnnouncer(logger: Logger): (triggers: TriggerTable) => void {
  const announced = new Set<string>();
  return (triggers) => {
    for (const { trigger } of triggers.list()) {
      if (!trigger.hasConflictingKeys || announced.has(trigger.flowId)) continue;
      announced.add(trigger.flowId);
      const { flowId, triggerKey } = trigger;
      logEvent(logger, 'WebhookConflictingKeyFields', { flowId, triggerKey });
    }
  };
}

/** What a reload did, for the log. */
function logReload({ isValid, issues, outcomes, warnings }: Reload, logger: Logger): void {
  const lines = issues.map(formatIssue);
  if (!isValid) {
    logger.error({ issues: lines }, 'the manifests cannot be loaded; deployed flows are unchanged');
    return;
  }
  const counts = Object.fromEntries(
    DEPLOY_ACTIONS.map((action) => [action, outcomes.filter((outcome) => outcome.action === action).length]),
  );
  logger.info({ ...counts, warnings: [...lines, ...warnings] }, 'the manifests were reloaded');
}

/** An editor or a checkout writes files in several goes: so long nothing may have happened before they are read. */
const QUIET_MS = 200;

/** Calls back when manifests in the folder have changed; yields how to stop. */
function watchFolder(folder: string, onChange: () => void, logger: Logger): () => void {
  let timer: NodeJS.Timeout | undefined;
  const watcher = watch(folder, (_event, name) => {
    // Where the system does not say which file it was, it may have been a manifest.
    if (name !== null && !name.endsWith('.json')) return;
    clearTimeout(timer);
    timer = setTimeout(onChange, QUIET_MS).unref();
  });
  watcher.on('error', (error) => {
    logger.error({ err: error, folder }, 'Sluice no longer watches the folder of manifests; changes need a reload');
  });
  return () => {
    clearTimeout(timer);
    watcher.close();
  };
}
