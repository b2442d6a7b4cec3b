import type { Logger } from 'pino';
import type { Catalog, DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { storedFlow } from '../manifest/stored.ts';
import type { Clock } from '../model/clock.ts';
import type { DeployOutcome } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { DeployedRevision, FlowRecord, RevisionRecord, Store } from '../store/store.ts';
import type { ServiceSettings } from './changes/index.ts';
import { accessChangeOf, type EntranceGates, gatesUnder, withAccess } from './deploy-access.ts';
import { type NeedsReader, secretFindings } from './needs.ts';

export interface StoredServices {
  readonly store: Pick<Store, 'findFlow' | 'findRevision' | 'listDeployed' | 'renewNeeds'>;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'prepare' | 'put' | 'remove'>;
  /** What stored revisions are judged by, by where they came from. */
  readonly rules: Readonly<Record<ManifestSource, Parameters<typeof storedFlow>[1]>>;
  readonly needs: NeedsReader;
  /** Prepares the triggers of manifests and of stored revisions, so that who gets in can be compared. */
  readonly gates: EntranceGates['preparer'];
  readonly settings: ServiceSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The catalog has changed: triggers and schedules are to follow. */
  readonly onDeployed: () => void;
}

/** The last manifest that this process had of each flow: it may hold secrets that could not be stored. */
type Offered = ReadonlyMap<string, LoadedFlow>;

/** What a stored revision lacks. */
export interface StoredProblem {
  readonly flowId: string;
  readonly message: string;
}

export interface Restored {
  /** A line for each problem. */
  readonly problems: readonly StoredProblem[];
  /** Of flows into which others get than when they were last put in force: by other settings, or other values of secrets. */
  readonly outcomes: readonly DeployOutcome[];
  /** Needs that others were stored for: to be put back where the start fails before the outcomes are kept. */
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
 * Puts the revisions of the flows that are in force, except some, in force with what they need as it is now: another value
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
    // What the service deploys itself needs nothing.
    if (revision?.snapshot === undefined || revision.source === null) continue;
    const opened = await openRevision({ name, revision }, services, offered.get(id));
    const given = takenNames([before]);
    const loaded = withoutNames(
      opened.flow,
      new Map([...takenNames([opened.flow])].filter((slug) => !given.has(slug)).map((slug) => [slug, false])),
    );
    problems.push(...opened.problems.map((message) => ({ flowId: id, message: `warning ${message}` })));
    const { renewal, outcome } = (await staleNeeds({ record, revision, loaded }, services)) ?? {};
    if (renewal !== undefined) await store.renewNeeds(renewal);
    if (outcome !== undefined) outcomes.push(outcome);
    // It may have been switched meanwhile.
    catalog.put({ record: catalog.find(id)?.record ?? record, loaded });
  }
  onDeployed();
  return { problems, outcomes };
}

/** A revision in force as this process can serve it, with a line for each problem; `offered` may have secrets that were not stored. */
export async function openRevision(
  { name, revision }: { readonly name: string; readonly revision: RevisionRecord },
  { rules, needs }: Pick<StoredServices, 'rules' | 'needs'>,
  offered: LoadedFlow | undefined,
): Promise<ReturnType<typeof storedFlow>> {
  const opened = await needs.open(revision, offered);
  return storedFlow({ ...revision, name }, rules[revision.source ?? 'folder'], opened);
}

/** A revision whose needs are others than those that are stored. */
interface Stale {
  /** Absent where this process lacks something of the revision: what is stored may be all that is left of it. */
  readonly renewal: Renewal | undefined;
  /** Absent where there is nothing to tell. */
  readonly outcome?: DeployOutcome;
}

/** Compares the secrets, settings and code that a revision is put in force with to those of the last time. */
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
  const change = accessChangeOf({
    before: loaded,
    after: loaded,
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

/** Puts in force what another process did to a flow: deployed, enabled, disabled, drained, resumed or deleted it. */
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
  // It was switched here while it was read.
  if (catalog.find(flowId) !== known) return refreshFlow(flowId, services, offered);
  if (record.deletedAt !== undefined) {
    if (known === undefined) return;
    catalog.remove(flowId);
    onDeployed();
    logger.info({ flowId, name: record.name }, 'another process deleted a flow');
    return;
  }
  // Of its own flows a process serves those that it deployed itself.
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

/** Of two that have one slug the one deployed last has it, which was given it on purpose, whatever the folder says. */
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

/** Slugs, in lower case: no two flows may have one name, and no other flow gets what is sent to a trigger that is not served. */
export function takenNames(flows: readonly LoadedFlow[]): Set<string> {
  const slugs = flows.flatMap(({ webhooks, unserved = [] }) => [
    ...webhooks.map(({ inputs }) => inputs.webhookSlug),
    ...unserved.map(({ slug }) => slug),
  ]);
  return new Set(slugs.flatMap((slug) => slug?.toLowerCase() ?? []));
}

/**
 * The flow without the webhook triggers that answer to names of others: those that either does not share. Whether gates of
 * those that do are the same is asked again of those in force.
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
