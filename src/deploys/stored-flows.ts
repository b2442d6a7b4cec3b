import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Catalog, DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { storedFlow } from '../manifest/stored.ts';
import type { Clock } from '../model/clock.ts';
import type { DeployOutcome } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { DeployedRevision, FlowRecord, RevisionRecord, Store } from '../store/store.ts';
import { accessChangeOf } from '../webhooks/access.ts';
import type { EntranceGates } from '../webhooks/access-rules.ts';
import type { ServiceSettings } from './changes/index.ts';
import { gatesUnder, routesOf, withAccess } from './deploy-access.ts';
import { type NeedsReader, secretFindings } from './needs.ts';

export interface StoredServices {
  readonly store: Pick<Store, 'findFlow' | 'findRevision' | 'listDeployed' | 'renewNeeds'>;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'prepare' | 'put' | 'remove'>;
  /** The rules for stored revisions, by their origin. */
  readonly rules: Readonly<Record<ManifestSource, Parameters<typeof storedFlow>[1]>>;
  readonly needs: NeedsReader;
  /** Prepares the triggers of manifests and of stored revisions, for comparing access. */
  readonly gates: EntranceGates['preparer'];
  readonly settings: ServiceSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when the catalog has changed, to update triggers and schedules. */
  readonly onDeployed: () => void;
}

/** This process' last manifest of each flow: it can contain secrets that could not be stored. */
type Offered = ReadonlyMap<string, LoadedFlow>;

/** A problem of a stored revision. */
export interface StoredProblem {
  readonly flowId: string;
  readonly message: string;
}

export interface Restored {
  /** One line per problem. */
  readonly problems: readonly StoredProblem[];
  /** Flows that accept more than when they were last put in force, through other settings or values of secrets. */
  readonly outcomes: readonly DeployOutcome[];
  /** Replaced stored needs, to put back if the start fails before the outcomes are stored. */
  readonly replaced: readonly Renewal[];
  readonly count: number;
}

type Renewal = Parameters<Store['renewNeeds']>[0];

/**
 * Activates the deployed revisions: the given manifest if it is the same, or else the stored revision, so that a flow
 * whose change is refused or whose manifest is gone keeps working.
 */
export async function restoreFlows(
  { flows, offered }: { readonly flows: readonly LoadedFlow[]; readonly offered: Offered },
  services: StoredServices,
): Promise<Restored> {
  const { store, catalog, needs } = services;
  const deployed = await store.listDeployed();
  const manifests = new Map(flows.map((flow) => [flow.manifest.id, flow]));
  const problems: StoredProblem[] = [];
  const restored: Pick<DeployedFlow, 'record' | 'loaded'>[] = [];
  const stale: (Stale & { readonly former: RevisionRecord['needs'] })[] = [];
  const taken = new Map<string, boolean>();
  for (const { flow: record, revision } of deployed.sort(byClaim)) {
    const manifest = manifests.get(record.id);
    const isSame =
      manifest?.hash === revision.hash &&
      !needs.lacksScheme(revision, manifest) &&
      !(await needs.compare(revision, manifest)).isForeign;
    const { flow, problems: lines } =
      isSame && manifest !== undefined
        ? { flow: manifest, problems: [] }
        : await openRevision({ name: record.name, revision }, services, manifest ?? offered.get(record.id));
    const loaded = withoutNames(flow, taken);
    restored.push({ record, loaded });
    for (const [name, isShared] of claimsOf(loaded)) taken.set(name, isShared);
    problems.push(...lines.map((message) => ({ flowId: record.id, message: `warning ${message}` })));
    const found = await staleNeeds({ record, revision, loaded: flow }, services);
    if (found !== undefined) stale.push({ ...found, former: revision.needs });
  }
  for (const flow of restored) catalog.put(flow);
  for (const { renewal } of stale) if (renewal !== undefined) await store.renewNeeds(renewal);
  const replaced = stale.flatMap(({ renewal, former, outcome }) =>
    renewal === undefined || former === null || outcome === undefined ? [] : [{ ...renewal, needs: former }],
  );
  return { problems, outcomes: stale.flatMap(({ outcome }) => outcome ?? []), replaced, count: deployed.length };
}

/**
 * Puts the revisions in force, except those of `besides`, in force again with their needs as they are now: a new value
 * behind a reference counts from now on, and a flow that lacks one is not served.
 */
export async function reopenFlows(
  { besides, offered }: { readonly besides: ReadonlySet<string>; readonly offered: Offered },
  services: StoredServices,
): Promise<Omit<Restored, 'count' | 'replaced'>> {
  const { store, catalog, onDeployed } = services;
  const problems: StoredProblem[] = [];
  const outcomes: DeployOutcome[] = [];
  for (const { record, loaded: before } of catalog.list()) {
    const { id, name } = record;
    const revision = besides.has(id) ? undefined : await store.findRevision(id, record.revision);
    // The service's own flows need nothing.
    if (revision?.snapshot === undefined || revision.source === null) continue;
    const opened = await openRevision({ name, revision }, services, offered.get(id));
    const given = takenNames([before]);
    const loaded = withoutNames(
      opened.flow,
      new Map([...takenNames([opened.flow])].filter((slug) => !given.has(slug)).map((slug) => [slug, false])),
    );
    problems.push(...opened.problems.map((message) => ({ flowId: id, message: `warning ${message}` })));
    const { renewal, outcome } = (await staleNeeds({ record, revision, loaded: opened.flow }, services)) ?? {};
    if (renewal !== undefined) await store.renewNeeds(renewal);
    if (outcome !== undefined) outcomes.push(outcome);
    // It may have been switched meanwhile.
    catalog.put({ record: catalog.find(id)?.record ?? record, loaded });
  }
  onDeployed();
  return { problems, outcomes };
}

/** A deployed revision as this process can serve it, with its problems; `offered` can have unstored secrets. */
export async function openRevision(
  { name, revision }: { readonly name: string; readonly revision: RevisionRecord },
  { rules, needs }: Pick<StoredServices, 'rules' | 'needs'>,
  offered: LoadedFlow | undefined,
): Promise<ReturnType<typeof storedFlow>> {
  const opened = await needs.open(revision, offered);
  return storedFlow({ ...revision, name }, rules[revision.source ?? 'folder'], opened);
}

/** A revision whose needs differ from the stored ones. */
interface Stale {
  /** Absent if this process lacks a part of the revision: the stored needs may be the last copy. */
  readonly renewal: Renewal | undefined;
  /** Absent if there is nothing to report. */
  readonly outcome?: DeployOutcome;
}

/** Compares the current secrets, settings and code of a revision with those from when it was last put in force. */
async function staleNeeds(
  { record, revision, loaded }: { record: FlowRecord; revision: RevisionRecord; loaded: LoadedFlow },
  { needs, gates, settings }: StoredServices,
): Promise<Stale | undefined> {
  const { changed } = await needs.compare(revision, loaded);
  const judges = needs.formerJudges(revision, loaded);
  if (changed.size === 0 && judges === undefined) return undefined;
  const { id, name, version } = record;
  const isWhole = loaded.lost === undefined && loaded.unreadable === undefined && (loaded.unserved ?? []).length === 0;
  const renewal = isWhole ? { flowId: id, revision: record.revision, needs: await needs.needsOf(loaded) } : undefined;
  const now = { preparer: gates, defaultMode: settings.enforcementMode };
  const own = routesOf(loaded);
  const change = accessChangeOf({
    before: own,
    after: own,
    known: new Map(),
    gates: now,
    gatesBefore: judges === undefined ? now : gatesUnder(judges, now),
  });
  const findings = withAccess(secretFindings(changed), change);
  if (findings.length === 0 && change.access !== 'wider') return { renewal };
  const { access, routes } = change;
  const about = {
    flowId: id,
    name,
    version,
    action: 'unchanged',
    class: 'safe',
    refusal: null,
    runsInFlight: 0,
  } as const;
  return { renewal, outcome: { ...about, revision: record.revision, access, routes, findings } };
}

/** Whether another process did something to a flow that is not applied here yet; `flow` is what is in force. */
export function isStale({ record, flow }: { record: FlowRecord; flow: DeployedFlow | undefined }): boolean {
  return flow === undefined ? record.deletedAt === undefined : !isDeepStrictEqual(flow.record, record);
}

/** Applies what another process did to a flow: deployed, enabled, disabled, drained, resumed or deleted it. */
export async function refreshFlow(
  flowId: string,
  services: StoredServices,
  offered: LoadedFlow | undefined,
): Promise<void> {
  const { store, catalog, logger, onDeployed } = services;
  const known = catalog.find(flowId);
  const record = await store.findFlow(flowId);
  const revision = record && (await store.findRevision(flowId, record.revision));
  if (record === undefined || revision?.snapshot === undefined) return;
  // This process switched it while it was read.
  if (catalog.find(flowId) !== known) return refreshFlow(flowId, services, offered);
  if (record.deletedAt !== undefined) {
    if (known === undefined) return;
    catalog.remove(flowId);
    onDeployed();
    logger.info({ flowId, name: record.name }, 'another process deleted a flow');
    return;
  }
  // Each process only serves those of the service's own flows that it deployed itself.
  if (known === undefined && revision.source === null) return;
  if (known?.record.revision === record.revision) {
    catalog.put({ record, loaded: known.loaded });
    return;
  }
  const stored = await openRevision({ name: record.name, revision }, services, offered);
  const taken = claimsOf(stored.flow);
  for (const other of catalog.list()) {
    // The other process has given the slug to this flow.
    const loser = other.record.id === flowId ? other.loaded : withoutNames(other.loaded, taken);
    if (loser !== other.loaded) catalog.put({ ...other, loaded: loser });
  }
  catalog.put({ record, loaded: stored.flow });
  onDeployed();
  const about = { flowId, name: record.name, revision: record.revision };
  logger.info(about, 'switched to a revision that another process deployed');
  for (const problem of stored.problems) logger.warn(about, problem);
}

/** Of two flows with one slug, the last deployed one has it: it got it on purpose, whatever the folder says. */
function byClaim(one: DeployedRevision, other: DeployedRevision): number {
  return other.revision.createdAt - one.revision.createdAt;
}

/** Slugs of a flow, in lower case, and whether it shares each. */
export function claimsOf({ manifest, ...flow }: LoadedFlow): Map<string, boolean> {
  const claims = new Map<string, boolean>();
  const triggers = [
    ...flow.webhooks.map(({ triggerKey, inputs }) => ({ triggerKey, slug: inputs.webhookSlug })),
    ...(flow.unserved ?? []),
  ];
  for (const { triggerKey, slug } of triggers) {
    const trigger = manifest.triggers[triggerKey];
    const isShared = trigger?.type === 'webhook' && trigger.inputs.webhookShared === true;
    if (slug !== undefined) claims.set(slug.toLowerCase(), isShared);
  }
  return claims;
}

/** Slugs, in lower case: no two flows can have one name, and a trigger that is not served keeps its name. */
export function takenNames(flows: readonly LoadedFlow[]): Set<string> {
  const slugs = flows.flatMap(({ webhooks, unserved = [] }) => [
    ...webhooks.map(({ inputs }) => inputs.webhookSlug),
    ...unserved.map(({ slug }) => slug),
  ]);
  return new Set(slugs.flatMap((slug) => slug?.toLowerCase() ?? []));
}

/**
 * The flow without the webhook triggers whose slugs other flows have, unless both share them. For shared ones, the
 * gates of triggers in force are compared again.
 */
export function withoutNames(flow: LoadedFlow, taken: ReadonlyMap<string, boolean>): LoadedFlow {
  const claims = claimsOf(flow);
  const isOwn = (given = '') => {
    const slug = given.toLowerCase();
    return !taken.has(slug) || (taken.get(slug) === true && claims.get(slug) === true);
  };
  const webhooks = flow.webhooks.filter(({ inputs }) => isOwn(inputs.webhookSlug));
  const unserved = flow.unserved?.filter(({ slug }) => isOwn(slug));
  const isWhole = webhooks.length === flow.webhooks.length && unserved?.length === flow.unserved?.length;
  return isWhole ? flow : { ...flow, webhooks, unserved };
}
