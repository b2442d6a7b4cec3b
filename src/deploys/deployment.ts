import type { Logger } from 'pino';
import type { PreparedExtensions } from '../config/extensions.ts';
import { DeploysRefusedError } from '../errors.ts';
import type { Catalog } from '../flows/catalog.ts';
import { formatIssue, type ManifestIssue, withIdsOfNames } from '../manifest/issues.ts';
import { withLiterals } from '../manifest/literals.ts';
import {
  type LoadedFlow,
  loadManifests,
  type ManifestFolder,
  parseManifest,
  parseManifests,
  type UnreadableManifest,
} from '../manifest/load.ts';
import { namedManifest } from '../manifest/parse.ts';
import type { Manifest } from '../manifest/schema.ts';
import { DEPLOY_ACTIONS, type DeployOutcome, type Override } from '../model/finding.ts';
import { ALERT_FLOW_ID } from '../model/manifest.ts';
import { serially } from '../model/serially.ts';
import type { RevisionRecord } from '../store/store.ts';
import type { TriggersInForce } from '../webhooks/triggers.ts';
import { createDeployer, ITSELF, type ToldDeploy } from './deployer.ts';
import { watchFiles } from './folder-watch.ts';
import type { NeedsReader } from './needs.ts';
import { isStale } from './stored-flows.ts';
import { logUnreadable, whatUnreadable } from './unreadable.ts';

/** The manifests in force, and how to replace them while the service runs. */
export interface Deployment {
  /**
   * Puts the manifests of a start in force. A flow whose change is refused, or whose manifest cannot be read, stays as
   * it was deployed, unless the settings make the start fail: then it rejects with `DeploysRefusedError`. Yields one
   * line per problem, including refusals.
   */
  start(folder: Pick<ManifestFolder, 'flows' | 'unreadable'>): Promise<readonly string[]>;
  /** Applies what another process did to a flow; see `Deployer`. Resolves once all followers are done too. */
  refresh(flowId: string): Promise<void>;
  /**
   * Looks up in the store to which flows a name (an id or a slug) leads by now, in one query for all concurrent
   * callers, and applies other processes' changes to them; yields whether that changed nothing here.
   */
  confirm(name: string): Promise<boolean>;
  /** Calls back before each reload, except for a plan, to read references again. Returns one line per mistake. */
  onReload(readAgain: () => readonly string[]): void;
  /** Calls back after each refresh of a flow; the refresh waits. */
  onRefreshed(follow: (flowId: string) => Promise<void>): void;
  /**
   * Calls back with deploys that were refused, that widen access, or whose secrets have new values: with earlier ones
   * before it resolves, then with later ones; the deploy waits.
   */
  onTold(tell: (outcomes: readonly ToldDeploy[]) => Promise<void>): Promise<void>;
  /**
   * Reads the folder again, deploys what changed, and reads the needs of revisions in force again. A manifest that
   * cannot be read only affects its flow, unless the settings make a start fail with it: then nothing changes.
   */
  reload(options?: ReloadOptions): Promise<Reload>;
  /** Never rejects: successes and failures go to the log. */
  reloadAndLog(): Promise<void>;
  /** Reloads whenever something changes that a reload reads, from now on until the returned function is called. */
  watch(): Promise<() => void>;
  /** Deletes a flow without a manifest in the folder, or says why not. */
  delete(flowId: string): Promise<Deletion>;
  /** Reads one manifest from outside the folder; `name` is the flow's if the manifest has none. */
  parse(text: string, name: string): ParsedFlow;
  /** Reads a stored revision as if the API received it again; an unavailable secret is an error. */
  parseRevision(revision: Pick<RevisionRecord, 'flowId' | 'snapshot' | 'needs'>): Promise<ParsedFlow>;
  /** Reads several manifests from one JSON array; a flow without a name keeps its deployed name. */
  parseAll(text: string): Promise<{ flows: readonly LoadedFlow[]; issues: readonly ManifestIssue[] }>;
  /** Deploys manifests from outside the folder together, or reports what that would do. */
  deploy(flows: readonly LoadedFlow[], options: DeployRequest): Promise<DeployOutcome[]>;
}

type Deletion =
  | Awaited<ReturnType<Deployer['delete']>>
  | { readonly kind: 'inFolder'; readonly file: string }
  /** Whether the folder has a manifest of it is unknown. */
  | { readonly kind: 'unreadable'; readonly issues: readonly ManifestIssue[] };

interface ParsedFlow {
  readonly flow: LoadedFlow | undefined;
  readonly issues: readonly ManifestIssue[];
}

interface ReloadOptions {
  /** Refused changes to deploy anyway. */
  readonly allow?: readonly Override[];
  /** Only reports what would happen; changes nothing. */
  readonly isPlan?: boolean;
  /** The author; defaults to the service itself. */
  readonly actor?: string;
  /** The reason. */
  readonly reason?: string | null | undefined;
}

interface DeployRequest extends ReloadOptions {
  /** Whether the list is complete: then a deployed flow without a manifest may be the old id of a new one. */
  readonly isWholeFolder?: boolean;
}

interface Reload {
  /** Whether anything could be deployed; if not, `issues` says why. */
  readonly isValid: boolean;
  readonly issues: readonly ManifestIssue[];
  /** Manifests that were not deployed because they cannot be read. */
  readonly unreadable: readonly UnreadableManifest[];
  readonly outcomes: readonly DeployOutcome[];
  /**
   * One line for each manifest older than the deployed revision, each deployed flow without a manifest, and each secret
   * that a flow may no longer reference.
   */
  readonly warnings: readonly string[];
  /** If not, the former settings and credentials stay in force, and `warnings` has the mistakes. */
  readonly areSettingsRead: boolean;
}

type Deployer = ReturnType<typeof createDeployer>;

interface DeploymentServices
  extends Omit<Parameters<typeof createDeployer>[0], 'rules' | 'gates' | 'onDeployed' | 'onTold' | 'catalog'> {
  readonly catalog: Catalog;
  readonly triggers: Pick<TriggersInForce, 'current' | 'renew'>;
  readonly extensions: PreparedExtensions;
  /** Path of the folder of manifests. */
  readonly folder: string;
  /** Refused changes that starts, reloads and changes of a watched folder deploy anyway; none by default. */
  readonly allow?: readonly Override[] | undefined;
  /** A start fails if a change is refused, or a manifest cannot be read. */
  readonly failsWhenRefused?: boolean | undefined;
}

/** The form of slugs and flow ids; other names lead nowhere. */
const NAME = /^[\w.~-]{1,128}$/;
/** Pause between two queries, which refusals wait for: at most 50 a second, whatever strangers send. */
const PAUSE_MS = 20;

/** One query at a time, for all waiting names: guesses of names or signatures by strangers cannot load the database. */
function confirming({
  store,
  catalog,
  refresh,
}: Pick<DeploymentServices, 'store' | 'catalog'> & Pick<Deployment, 'refresh'>): Deployment['confirm'] {
  const questions = serially();
  let next: { readonly names: Set<string>; readonly isCurrent: Promise<boolean> } | undefined;
  const confirmAll = async (names: ReadonlySet<string>) => {
    next = undefined;
    const stored = (await store.listFlows([...names])).map((record) => ({ record, flow: catalog.find(record.id) }));
    const stale = stored.filter(isStale);
    for (const { record } of stale) await refresh(record.id);
    return stale.every(({ record, flow }) => catalog.find(record.id) === flow);
  };
  const ask = () => {
    const names = new Set<string>();
    const isCurrent = questions.run(() => confirmAll(names));
    void questions.run(() => new Promise<void>((end) => setTimeout(end, PAUSE_MS).unref()));
    return { names, isCurrent };
  };
  return async (name) => {
    if (!NAME.test(name)) return true;
    next ??= ask();
    next.names.add(name.toLowerCase());
    return next.isCurrent;
  };
}

export function createDeployment(services: DeploymentServices): Deployment {
  const { catalog, extensions, logger, folder, triggers, needs, allow: allowed = [] } = services;
  const { rules } = extensions;
  const followers: ((flowId: string) => Promise<void>)[] = [];
  const listeners: ((outcomes: readonly ToldDeploy[]) => Promise<void>)[] = [];
  const untold: ToldDeploy[] = [];
  let readAgain = (): readonly string[] => [];
  const deployer = createDeployer({
    ...services,
    rules,
    gates: extensions.gates,
    onDeployed: triggers.renew,
    async onTold(outcomes) {
      if (listeners.length === 0) untold.push(...outcomes);
      for (const tell of listeners) await tell(outcomes);
    },
  });
  // An earlier reading of the folder must not be deployed later.
  const reloads = serially();
  const reload = (options: ReloadOptions = {}) =>
    reloads.run(async () => {
      const lines = options.isPlan === true ? [] : readAgain();
      const reloaded = await reloadFolder(
        { ...options, allow: [...allowed, ...(options.allow ?? [])] },
        { ...services, isStrict: services.failsWhenRefused === true, deployer },
      );
      const warnings = [...lines.map((line) => `error ${line}`), ...reloaded.warnings];
      return { ...reloaded, warnings, areSettingsRead: lines.length === 0 };
    });
  const reloadAndLog = async () => {
    try {
      logReload(await reload(), logger);
    } catch (error) {
      logger.error({ err: error }, 'the manifests could not be reloaded; deployed flows are unchanged');
    }
  };
  const deployedNames = () => catalog.list().map(({ record }) => record);
  const refresh = async (flowId: string) => {
    await deployer.refresh(flowId);
    for (const follow of followers) await follow(flowId);
  };
  return {
    reload,
    reloadAndLog,
    refresh,
    confirm: confirming({ ...services, refresh }),
    onReload(given) {
      readAgain = given;
    },
    onRefreshed: (follow) => void followers.push(follow),
    async onTold(tell) {
      listeners.push(tell);
      await tell(untold.splice(0));
    },
    watch: () => watchFiles({ folder, namedFiles: extensions.namedFiles }, reloadAndLog),
    async start({ flows, unreadable }) {
      await useFolder({ flows, unreadable }, services);
      const started = await startFrom({ flows, unreadable }, { ...services, deployer, allow: allowed });
      const lines = started.refused.map(({ name, refusal }) => `refused ${name}: ${refusal}`);
      if (lines.length > 0 && services.failsWhenRefused === true) {
        // Access changes are not recorded yet: the next start must find them again.
        for (const needs of started.replaced) await services.store.renewNeeds(needs);
        throw new DeploysRefusedError(lines);
      }
      return [...lines, ...started.warnings];
    },
    delete: (flowId) => reloads.run(() => deleteFlow(flowId, { ...services, deployer })),
    parse(text, name) {
      const { flow, issues } = parseManifest(text, `${name}.json`, rules.api);
      const unstorable = flow === undefined ? [] : unstorableSecrets(flow, needs);
      const told = withIdsOfNames([...issues, ...unstorable], deployedNames());
      return { flow: unstorable.length > 0 ? undefined : flow, issues: told };
    },
    async parseRevision(revision) {
      const { literals, lost } = await needs.open(revision, catalog.find(revision.flowId)?.loaded);
      const manifest = withLiterals(revision.snapshot as unknown as Manifest, literals);
      const file = `${manifest.name}.json`;
      const message =
        'was in plain text in the manifest and is not stored in a form that can be read; deploy the manifest with it, or ' +
        'name it by env:NAME or file:PATH';
      const issues = lost.map((path) => ({ severity: 'error' as const, file, path, message }));
      return lost.length > 0 ? { flow: undefined, issues } : this.parse(JSON.stringify(manifest), manifest.name);
    },
    async parseAll(text) {
      const { flows, issues } = await parseManifests(text, (id) => catalog.find(id)?.record.name ?? id, rules.api);
      const unstorable = flows.flatMap((flow) => unstorableSecrets(flow, needs));
      return { flows, issues: withIdsOfNames([...issues, ...unstorable], deployedNames()) };
    },
    deploy(flows, { allow = [], isPlan = false, isWholeFolder = false, actor = ITSELF, reason }) {
      const options = { allow, isWholeFolder, source: 'api', actor, reason } as const;
      return deployer[isPlan ? 'plan' : 'deploy'](flows, options);
    },
  };
}

/** Secrets that would be lost with this process: others, and the next one, would refuse deliveries that need them. */
function unstorableSecrets(
  { file, manifest }: LoadedFlow,
  { canSeal, literalPlaces }: Pick<NeedsReader, 'canSeal' | 'literalPlaces'>,
): ManifestIssue[] {
  if (canSeal) return [];
  const message =
    'is a secret in plain text, which can be stored only sealed: set SLUICE_STORE_KEY, the same for all replicas, or name it by env:NAME or ' +
    'file:PATH';
  return literalPlaces(manifest).map((path) => ({ severity: 'error', file, path, message }));
}

type Folder = Pick<ManifestFolder, 'flows' | 'unreadable'>;

/** Allows the API's manifests the folder's references, and keeps those of flows with unreadable manifests. */
async function useFolder(
  { flows, unreadable }: Folder,
  { store, extensions }: Pick<DeploymentServices, 'store' | 'extensions'>,
): Promise<void> {
  const own = new Set(flows.map(({ manifest }) => manifest.id));
  const deployed = unreadable.length === 0 ? [] : await store.listDeployed();
  const kept = deployed.flatMap(({ flow, revision: { source, snapshot } }) =>
    own.has(flow.id) || source !== 'folder' ? [] : [{ manifest: snapshot as unknown as Manifest }],
  );
  extensions.useFolder([...flows, ...kept]);
}

/**
 * Notes manifests of the folder that are not in force: unreadable ones, and refused ones of new flows. Their names
 * are not served, unless something else is deployed there.
 */
function noteUnreadable(
  { flows, unreadable }: Folder,
  {
    catalog,
    triggers,
    logger,
    outcomes,
  }: Pick<DeploymentServices, 'catalog' | 'triggers' | 'logger'> & { outcomes: readonly DeployOutcome[] },
): void {
  const refusals = new Map(
    outcomes.flatMap(({ flowId, revision, refusal }) =>
      refusal === null || revision !== null ? [] : [[flowId, refusal] as const],
    ),
  );
  const refused = flows.flatMap((flow) => {
    const why = refusals.get(flow.manifest.id);
    if (why === undefined) return [];
    return [{ ...namedManifest(flow.manifest, flow.file), file: flow.file, why, draft: flow }];
  });
  if (catalog.unreadable().length + unreadable.length + refused.length === 0) return;
  catalog.noteUnreadable([...unreadable, ...refused]);
  triggers.renew();
  logUnreadable(unreadable, { ...inForce({ catalog, triggers }), logger });
}

const inForce = ({ catalog, triggers }: Pick<DeploymentServices, 'catalog' | 'triggers'>) => ({
  find: catalog.find,
  isServed: (slug: string) => triggers.current().find(slug) !== undefined,
});

async function deleteFlow(
  flowId: string,
  {
    catalog,
    triggers,
    folder,
    extensions,
    deployer,
  }: Pick<DeploymentServices, 'catalog' | 'triggers' | 'folder' | 'extensions'> & { readonly deployer: Deployer },
): Promise<Deletion> {
  // Another process may have deployed it.
  if (catalog.find(flowId) === undefined) await deployer.refresh(flowId);
  if (catalog.find(flowId) === undefined) return { kind: 'unknown' };
  const { flows, issues } = await loadManifests(folder, extensions.rules.folder);
  const own = flows.find(({ manifest }) => manifest.id === flowId);
  if (own !== undefined) return { kind: 'inFolder', file: own.file };
  const errors = issues.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) return { kind: 'unreadable', issues: errors };
  const deletion = await deployer.delete(flowId);
  if (deletion.kind !== 'deleted') return deletion;
  // The last reload may have noted a file that is gone now, for which the names of the flow would answer 503.
  catalog.noteUnreadable(catalog.unreadable().filter((noted) => noted.flowId !== flowId));
  triggers.renew();
  return deletion;
}

/** Ids of flows whose manifests cannot be read. */
function idsOf(unreadable: readonly UnreadableManifest[]): Set<string> {
  return new Set(unreadable.flatMap(({ flowId }) => flowId ?? []));
}

async function startFrom(
  { flows, unreadable }: Folder,
  {
    deployer,
    allow,
    ...services
  }: Pick<DeploymentServices, 'catalog' | 'triggers' | 'logger'> & { deployer: Deployer; allow: readonly Override[] },
) {
  const { catalog } = services;
  const drafts = unreadable.flatMap(({ draft }) => draft ?? []);
  const { problems: warnings, replaced, count } = await deployer.restore(flows, drafts);
  // In a new database everything is new, and a start reports for each trigger which deliveries it accepts.
  const options = { allow, isWholeFolder: true, source: 'folder', actor: ITSELF, isFirst: count === 0 } as const;
  const outcomes = await deployer.deploy(flows, { ...options, unreadable: idsOf(unreadable) });
  noteUnreadable({ flows, unreadable }, { ...services, outcomes });
  const refused = outcomes.filter(({ action }) => action === 'refused');
  const kept = outcomes.filter(({ warning }) => warning !== undefined);
  // Problems of a stored revision no longer matter if a manifest has replaced it.
  const stored = new Set([...refused, ...kept].map(({ flowId }) => flowId));
  const isServed = ({ flowId }: { flowId: string }) =>
    stored.has(flowId) || !flows.some(({ manifest }) => manifest.id === flowId);
  const told = unreadable.map((manifest) => `error ${whatUnreadable(manifest, inForce(services))}`);
  const lines = [...told, ...warningsOf(outcomes), ...orphansOf({ flows, unreadable }, catalog)];
  return { refused, replaced, warnings: [...lines, ...warnings.filter(isServed).map(({ message }) => message)] };
}

async function reloadFolder(
  { allow = [], isPlan = false, actor = ITSELF, reason }: ReloadOptions,
  {
    deployer,
    isStrict,
    ...services
  }: Pick<DeploymentServices, 'folder' | 'extensions' | 'store' | 'catalog' | 'triggers' | 'logger'> & {
    readonly deployer: Deployer;
    readonly isStrict: boolean;
  },
): Promise<Omit<Reload, 'areSettingsRead'>> {
  const { folder, extensions, catalog } = services;
  const { flows, unreadable, issues, isThere } = await loadManifests(folder, extensions.rules.folder);
  if (!isThere || (isStrict && unreadable.length > 0))
    return { isValid: false, issues, unreadable, outcomes: [], warnings: [] };
  const options = { allow, isWholeFolder: true, source: 'folder', actor, reason } as const;
  if (!isPlan) await useFolder({ flows, unreadable }, services);
  const outcomes = await deployer[isPlan ? 'plan' : 'deploy'](flows, { ...options, unreadable: idsOf(unreadable) });
  const lines = [...warningsOf(outcomes), ...orphansOf({ flows, unreadable }, catalog)];
  if (isPlan) return { isValid: true, issues, unreadable, outcomes, warnings: lines };
  // Flows that the folder has just put in force have just read their needs.
  const isFromFolder = ({ action, warning }: DeployOutcome) => action !== 'refused' && warning === undefined;
  const besides = new Set(outcomes.filter(isFromFolder).map(({ flowId }) => flowId));
  const problems = await deployer.reopen({ besides, actor, reason });
  noteUnreadable({ flows, unreadable }, { ...services, outcomes });
  const lacking = problems.map(({ message }) => message);
  return { isValid: true, issues, unreadable, outcomes, warnings: [...lines, ...lacking] };
}

function warningsOf(outcomes: readonly DeployOutcome[]): string[] {
  return outcomes.flatMap(({ warning }) => (warning === undefined ? [] : [`warning ${warning}`]));
}

function orphansOf({ flows, unreadable }: Folder, catalog: Catalog): string[] {
  // A file without a readable id may be any flow.
  if (unreadable.some(({ flowId }) => flowId === undefined)) return [];
  const ids = new Set([...idsOf(unreadable), ...flows.map(({ manifest }) => manifest.id)]);
  const gone = catalog.list().filter(({ record }) => !ids.has(record.id) && record.id !== ALERT_FLOW_ID);
  return gone.map(
    ({ record }) =>
      `warning ${record.name} (${record.id}): has no manifest in the folder; it stays deployed until it is deleted (\`sluice flows delete\`)`,
  );
}

/** Logs the result of a reload. */
function logReload({ isValid, issues, unreadable, outcomes, warnings }: Reload, logger: Logger): void {
  const lines = issues.map(formatIssue);
  if (!isValid) {
    logger.error({ issues: lines }, 'the manifests cannot be loaded; deployed flows are unchanged');
    return;
  }
  const counts = Object.fromEntries(
    DEPLOY_ACTIONS.map((action) => [action, outcomes.filter((outcome) => outcome.action === action).length]),
  );
  logger.info(
    { ...counts, unreadable: unreadable.length, warnings: [...lines, ...warnings] },
    'the manifests were reloaded',
  );
}
