import type { DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { storedFlow } from '../manifest/stored.ts';
import type { DeployedRevision } from '../store/store.ts';
import type { DeployerServices } from './deployer.ts';
import { takenNames, withoutNames } from './webhook-names.ts';

/** What a stored revision lacks. */
export interface Doubt {
  readonly flowId: string;
  readonly message: string;
}

/**
 * Puts in force what is deployed: the manifest given where it is the same, else the stored revision, so that a flow whose
 * change is refused, or whose manifest is gone, goes on. Yields a line for each doubt.
 */
export async function restoreFlows(flows: readonly LoadedFlow[], services: DeployerServices): Promise<Doubt[]> {
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
  const doubts: Doubt[] = [];
  const restored: DeployedFlow[] = [];
  for (const { flow, revision } of deployed.sort(byClaim(manifests))) {
    const loaded = manifests.get(flow.id);
    if (loaded?.hash === revision.hash) {
      restored.push({ record: flow, loaded });
      continue;
    }
    const stored = storedFlow({ ...revision, name: flow.name }, rules[revision.source ?? 'folder'], loaded);
    restored.push({ record: flow, loaded: withoutNames(stored.flow, takenNames(restored.map((one) => one.loaded))) });
    doubts.push(...stored.problems.map((message) => ({ flowId: flow.id, message: `warning ${message}` })));
  }
  for (const flow of restored) catalog.put(flow);
  return doubts;
}

/** Of two that have one slug the flow with a manifest keeps it, or the one deployed last: it was given the slug on purpose. */
function byClaim(manifests: ReadonlyMap<string, LoadedFlow>) {
  return (one: DeployedRevision, other: DeployedRevision): number =>
    Number(manifests.has(other.flow.id)) - Number(manifests.has(one.flow.id)) ||
    other.revision.createdAt - one.revision.createdAt;
}

/** Of a flow whose manifest is gone. */
export function orphanLine(name: string, flowId: string): string {
  return `warning ${name} (${flowId}): has no manifest in the folder; it stays deployed until it is disabled`;
}
