import type { Logger } from 'pino';
import type { Catalog, DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { storedFlow } from '../manifest/stored.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { DeployedRevision, Store } from '../store/store.ts';

export interface StoredServices {
  readonly store: Pick<Store, 'findFlow' | 'findRevision' | 'listDeployed'>;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'put'>;
  /** What stored revisions are judged by, by where they came from. */
  readonly rules: Readonly<Record<ManifestSource, Parameters<typeof storedFlow>[1]>>;
  readonly logger: Logger;
  /** The catalog has changed: triggers and schedules are to follow. */
  readonly onDeployed: () => void;
}

/** What a stored revision lacks. */
export interface StoredProblem {
  readonly flowId: string;
  readonly message: string;
}

/**
 * Activates the deployed revisions: the given manifest if it is the same, or else the stored revision, so that a flow
 * whose change is refused or whose manifest is gone keeps working. Yields a line for each problem.
 */
export async function restoreFlows(flows: readonly LoadedFlow[], services: StoredServices): Promise<StoredProblem[]> {
  const { store, catalog, rules } = services;
  const known = await store.listDeployed();
  const knownIds = new Set(known.map(({ flow }) => flow.id));
  const earlier: DeployedRevision[] = [];
  for (const { manifest } of flows) {
    // What an earlier release deployed counts only where it has a manifest still.
    const flow = knownIds.has(manifest.id) ? undefined : await store.findFlow(manifest.id);
    const revision = flow && (await store.findRevision(flow.id, flow.revision));
    if (flow !== undefined && revision !== undefined) earlier.push({ flow, revision });
  }
  const manifests = new Map(flows.map((flow) => [flow.manifest.id, flow]));
  const deployed = [...known, ...earlier];
  const warnings: StoredProblem[] = [];
  const restored: Pick<DeployedFlow, 'record' | 'loaded'>[] = [];
  for (const { flow, revision } of deployed.sort(byClaim(manifests))) {
    const loaded = manifests.get(flow.id);
    if (loaded?.hash === revision.hash) {
      restored.push({ record: flow, loaded });
      continue;
    }
    const stored = storedFlow({ ...revision, name: flow.name }, rules[revision.source ?? 'folder'], loaded);
    restored.push({ record: flow, loaded: withoutNames(stored.flow, takenNames(restored.map((one) => one.loaded))) });
    warnings.push(...stored.problems.map((message) => ({ flowId: flow.id, message: `warning ${message}` })));
  }
  for (const flow of restored) catalog.put(flow);
  return warnings;
}

/** Puts in force what another process did to a flow: deployed, enabled, disabled, drained or resumed it. */
export async function refreshFlow(flowId: string, services: StoredServices): Promise<void> {
  const { store, catalog, rules, logger, onDeployed } = services;
  const known = catalog.find(flowId);
  const record = await store.findFlow(flowId);
  const revision = record && (await store.findRevision(flowId, record.revision));
  if (record === undefined || revision === undefined) return;
  // It was switched here while it was read.
  if (catalog.find(flowId) !== known) return refreshFlow(flowId, services);
  // What an earlier release deployed is only served where it has a manifest still.
  if (known === undefined && revision.source === null) return;
  if (known?.record.revision === record.revision) {
    catalog.put({ record, loaded: known.loaded });
    return;
  }
  // A secret that is written out in the manifest that this process has is not taken over: the one in force may differ.
  const stored = storedFlow({ ...revision, name: record.name }, rules[revision.source ?? 'folder'], undefined);
  const taken = takenNames([stored.flow]);
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

/** Of two that have one slug the flow with a manifest keeps it, or the one deployed last: it was given the slug on purpose. */
function byClaim(manifests: ReadonlyMap<string, LoadedFlow>) {
  return (one: DeployedRevision, other: DeployedRevision): number =>
    Number(manifests.has(other.flow.id)) - Number(manifests.has(one.flow.id)) ||
    other.revision.createdAt - one.revision.createdAt;
}

/** Slugs, in lower case: no two flows may have one name. */
export function takenNames(flows: readonly LoadedFlow[]): Set<string> {
  return new Set(
    flows.flatMap(({ webhooks }) => webhooks.flatMap(({ inputs }) => inputs.webhookSlug?.toLowerCase() ?? [])),
  );
}

/** The flow without the webhook triggers that answer to names of others. */
export function withoutNames(flow: LoadedFlow, names: ReadonlySet<string>): LoadedFlow {
  const webhooks = flow.webhooks.filter(({ inputs }) => !names.has(inputs.webhookSlug?.toLowerCase() ?? ''));
  return webhooks.length === flow.webhooks.length ? flow : { ...flow, webhooks };
}
