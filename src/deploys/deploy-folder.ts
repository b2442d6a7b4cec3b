import { formatPath } from '../expressions/json-path.ts';
import type { DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { chainText, refusedChain, startedFlowsIn } from '../manifest/sub-flows.ts';
import { subFlowsOf } from '../model/manifest.ts';
import type { FlowRecord } from '../store/store.ts';
import { accessChangeOf } from '../webhooks/access.ts';
import type { AccessChange, Routes } from '../webhooks/access-rules.ts';
import { sharingBy, type WhyApart } from '../webhooks/sharing.ts';
import { findReplaced } from './changes/index.ts';
import { knownRoutes, routesOf } from './deploy-access.ts';
import { claimsOf, type StoredServices, takenNames } from './stored-flows.ts';

/** The effect of the flows of one deploy on deployed flows. */
export interface DeployFolder {
  /** The flow that this one replaces under a new id. */
  replacedBy(flow: LoadedFlow): ReplacedFlow | undefined;
  /** The state after these flows are deployed. */
  after(deploying: readonly LoadedFlow[]): FlowsAfter;
  /** How access changes if the flow replaces its revision in force. */
  accessOf(flow: LoadedFlow, inForce: LoadedFlow | undefined): AccessChange;
}

interface FlowsAfter {
  /** Why the flow cannot have its slugs; undefined if it can. Ignores the flow that it replaces. */
  clashOf(flow: LoadedFlow, replacedId: string | undefined): string | undefined;
  /** Why a flow that its runs start is missing, or starts this one in turn; undefined if all is well. */
  lackOf(flow: LoadedFlow): string | undefined;
}

/** A deployed flow that another one replaces. */
export interface ReplacedFlow {
  readonly id: string;
  readonly name: string;
  readonly because: 'slug' | 'name';
}

export interface FolderOptions {
  /** Whether the list is complete: then a deployed flow without a manifest may be the old id of a new one. */
  readonly isWholeFolder: boolean;
  /** Ids of other flows that have a manifest, which cannot be read. */
  readonly unreadable?: ReadonlySet<string> | undefined;
  readonly former: Routes;
}

export function folderOf(
  flows: readonly LoadedFlow[],
  { catalog, gates, settings }: Pick<StoredServices, 'catalog' | 'gates' | 'settings'>,
  { isWholeFolder, unreadable = new Set(), former }: FolderOptions,
): DeployFolder {
  const ids = new Set([...unreadable, ...flows.map(({ manifest }) => manifest.id)]);
  const before = catalog.list();
  const deployed = before.map(({ loaded }) => identityOf(loaded));
  // A single manifest does not show which flows are gone, but a disabled one may be there to be replaced.
  const gone = before.filter(({ record }) => !ids.has(record.id) && (isWholeFolder || !record.isEnabled));
  const goneIds = new Set(gone.map(({ record }) => record.id));
  const known = knownRoutes(before, former);
  const entrances = { preparer: gates, defaultMode: settings.enforcementMode };
  return {
    accessOf(after, revision) {
      // A name of a deleted flow is compared with the one that had it last, which may be another flow.
      const isInForce = catalog.find(after.manifest.id) !== undefined;
      const own = revision && new Map([...routesOf(revision)].filter(([name]) => isInForce || !known.has(name)));
      return accessChangeOf({ after: routesOf(after), before: own, known, gates: entrances });
    },
    replacedBy(flow) {
      const found = findReplaced({ next: identityOf(flow), deployed, goneIds });
      const name = deployed.find(({ id }) => id === found?.id)?.name;
      return found && name !== undefined ? { ...found, name } : undefined;
    },
    after: (deploying) => flowsAfter(deploying, { before: catalog.list(), whyApart: sharingBy(entrances) }),
  };
}

/** Maps by name and id, because each of perhaps thousands of flows asks. */
function flowsAfter(
  deploying: readonly LoadedFlow[],
  { before, whyApart }: { readonly before: readonly DeployedFlow[]; readonly whyApart: WhyApart },
): FlowsAfter {
  const former = new Map(before.map(({ record, loaded }) => [record.id, loaded]));
  const next = new Map([...former, ...deploying.map((flow) => [flow.manifest.id, flow] as const)]);
  const owners = new Map<string, FlowRecord[]>();
  for (const { record } of before) {
    const flow = next.get(record.id);
    for (const name of flow === undefined ? [] : takenNames([flow])) listed(owners, name).push(record);
  }
  const subFlows = onceEach((flowId) => subFlowsOf(next.get(flowId)?.manifest.steps ?? {}));
  const callers = new Map<string, string[]>();
  for (const id of next.keys()) for (const flowId of subFlows(id)) listed(callers, flowId).push(id);
  /** A chain that became too long because the flow now runs more flows; a flow above it need not have changed. */
  const lengthenedChain = (flowId: string) => {
    const steps = former.get(flowId)?.manifest.steps;
    // A new flow has no callers.
    if (steps === undefined || isSubset(subFlows(flowId), subFlowsOf(steps))) return undefined;
    const above = new Set([flowId]);
    for (const id of above) for (const caller of callers.get(id) ?? []) above.add(caller);
    for (const id of above) {
      const chain = former.has(id) ? refusedChain(id, subFlows) : undefined;
      if (chain?.flowIds.includes(flowId) === true) return chain;
    }
    return undefined;
  };
  return {
    clashOf(flow, replacedId) {
      const isOther = ({ id }: FlowRecord) => id !== flow.manifest.id && id !== replacedId;
      for (const [name, isShared] of claimsOf(flow)) {
        for (const owner of owners.get(name)?.filter(isOther) ?? []) {
          const other = next.get(owner.id);
          if (!isShared || other === undefined || claimsOf(other).get(name) !== true) {
            return (
              `The slug "${name}" belongs to the deployed flow "${owner.name}" (${owner.id}); remove it there, ` +
              'before or in the same deploy, or disable that flow first.'
            );
          }
          const [one, another] = [flow, other].map((each) => triggerAt(each, name));
          const why = one === undefined || another === undefined ? undefined : whyApart(one, another);
          if (why === undefined) continue;
          return (
            `The slug "${name}" ${why}. The other is the deployed flow "${owner.name}" (${owner.id}); ` +
            'deploy both together, by PUT flows, so that their gates stay the same.'
          );
        }
      }
      return undefined;
    },
    lackOf({ manifest }) {
      const { id } = manifest;
      const lacking = startedFlowsIn(manifest).find(({ flowId }) => !next.has(flowId));
      if (lacking !== undefined) {
        const { path, flowId } = lacking;
        const place = path.length === 1 ? `Its ${path[0]}` : `\`${formatPath(path)}\``;
        return `${place} names the flow ${flowId}, which is not deployed; deploy that flow before or in the same deploy.`;
      }
      const chain = refusedChain(id, subFlows) ?? lengthenedChain(id);
      return chain && `It ${chainText(chain, (flowId) => next.get(flowId)?.manifest.name ?? flowId)}.`;
    },
  };
}

function listed<Value>(lists: Map<string, Value[]>, key: string): Value[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

function onceEach<Value>(find: (key: string) => Value): (key: string) => Value {
  const found = new Map<string, Value>();
  return (key) => {
    const value = found.get(key) ?? find(key);
    found.set(key, value);
    return value;
  };
}

function isSubset(some: readonly string[], all: readonly string[]): boolean {
  return some.every((each) => all.includes(each));
}

function triggerAt({ webhooks }: LoadedFlow, slug: string) {
  return webhooks.find(({ inputs }) => inputs.webhookSlug?.toLowerCase() === slug);
}

/** A slug that others can share does not show which flow is replaced. */
function identityOf({ manifest: { id, name }, webhooks }: LoadedFlow) {
  const own = webhooks.filter(({ inputs }) => inputs.webhookShared !== true);
  return { id, name, slugs: own.flatMap(({ inputs }) => inputs.webhookSlug ?? []) };
}
