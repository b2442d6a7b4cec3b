import { LRUCache } from 'lru-cache';
import type { LoadedFlow } from '../manifest/load.ts';
import type { Clock } from '../model/clock.ts';
import type { JsonObject } from '../model/json.ts';
import type { Graph, ManifestSource } from '../model/manifest.ts';
import type { FlowRecord, Store } from '../store/store.ts';
import { stepAt } from './runtime-keys.ts';

/** A flow as it is deployed now. */
export interface DeployedFlow {
  readonly record: FlowRecord;
  readonly loaded: LoadedFlow;
}

/** The deployed flows, in memory; older revisions are read from the store. */
export interface Catalog {
  /** Makes a loaded flow the newest revision, unless it is already. */
  deploy(loaded: LoadedFlow): Promise<DeployedFlow>;
  /** Takes a flow as the store has it. */
  put(flow: DeployedFlow): void;
  find(flowId: string): DeployedFlow | undefined;
  list(): readonly DeployedFlow[];
  /** Durable, and in force, when it resolves; yields undefined for an unknown flow. */
  setEnabled(flowId: string, isEnabled: boolean): Promise<FlowRecord | undefined>;
  /** As `setEnabled`; a flow that is drained starts no runs. */
  setDraining(flowId: string, isDraining: boolean): Promise<FlowRecord | undefined>;
  /** The steps of a revision, which never change. */
  graph(flowId: string, revision: number): Promise<Graph>;
  /**
   * The inputs of a step of a run that is pinned to `revision`: those of the newest revision, so that a deploy mends runs
   * in flight, and the pinned one's where the newest has no such step.
   */
  inputsOf(flowId: string, stepKey: string, revision: number): Promise<WrittenInputs>;
}

/** The inputs of a step as a manifest has them, and where that manifest came from: it decides which secrets they may name. */
export interface WrittenInputs {
  readonly inputs: JsonObject;
  readonly source: ManifestSource;
}

/** Whether a flow may start runs now. */
export function startsRuns({ isEnabled, drainingSince }: FlowRecord): boolean {
  return isEnabled && drainingSince === undefined;
}

/** The steps of a revision, and where they came from. */
interface SourcedGraph {
  readonly steps: Graph;
  readonly source: ManifestSource;
}

/** Graphs of older revisions that are kept parsed: enough for every flow of a large installation to drain one. */
const KEPT_GRAPHS = 500;

export function createCatalog(
  store: Pick<Store, 'deployFlow' | 'setFlowEnabled' | 'setFlowDraining' | 'findFlow' | 'findRevision'>,
  clock: Clock,
): Catalog {
  const deployed = new Map<string, DeployedFlow>();
  const olderGraphs = new LRUCache<string, SourcedGraph>({ max: KEPT_GRAPHS });

  const setRecord = (record: FlowRecord) => {
    const flow = deployed.get(record.id);
    if (flow !== undefined) deployed.set(record.id, { ...flow, record });
  };

  const sourcedGraph = async (flowId: string, revision: number): Promise<SourcedGraph> => {
    const newest = deployed.get(flowId);
    if (newest?.record.revision === revision) return graphOf(newest);
    const key = `${flowId}:${revision}`;
    const kept = olderGraphs.get(key);
    if (kept !== undefined) return kept;
    const found = await store.findRevision(flowId, revision);
    if (found === undefined) throw new Error(`revision ${revision} of the flow ${flowId} is not in the store`);
    const { steps } = found.snapshot as unknown as { readonly steps: Graph };
    const older = { steps, source: found.source ?? 'folder' };
    olderGraphs.set(key, older);
    return older;
  };

  /** A flow whose manifest is no longer loaded still has its newest revision in the store. */
  const newestGraph = async (flowId: string): Promise<SourcedGraph> => {
    const newest = deployed.get(flowId);
    if (newest !== undefined) return graphOf(newest);
    const record = await store.findFlow(flowId);
    if (record === undefined) throw new Error(`the flow ${flowId} is not in the store`);
    return sourcedGraph(flowId, record.revision);
  };

  return {
    graph: async (flowId, revision) => (await sourcedGraph(flowId, revision)).steps,
    put: (flow) => deployed.set(flow.record.id, flow),
    find: (flowId) => deployed.get(flowId),
    list: () => [...deployed.values()],
    async deploy(loaded) {
      const { manifest, snapshot, hash } = loaded;
      const { id, name, version } = manifest;
      const record = await store.deployFlow({ id, name, version, hash, snapshot, at: clock.now() });
      const flow = { record, loaded };
      deployed.set(id, flow);
      return flow;
    },
    async setEnabled(flowId, isEnabled) {
      const record = await store.setFlowEnabled({ flowId, isEnabled, at: clock.now() });
      if (record !== undefined) setRecord(record);
      return record;
    },
    async setDraining(flowId, isDraining) {
      const record = await store.setFlowDraining({ flowId, isDraining, at: clock.now() });
      if (record !== undefined) setRecord(record);
      return record;
    },
    async inputsOf(flowId, stepKey, revision) {
      for (const { steps, source } of [await newestGraph(flowId), await sourcedGraph(flowId, revision)]) {
        const step = stepAt(steps, stepKey);
        if (step !== undefined) return { inputs: step.inputs, source };
      }
      throw new Error(`revision ${revision} of the flow ${flowId} has no step "${stepKey}"`);
    },
  };
}

function graphOf({ loaded }: DeployedFlow): SourcedGraph {
  return { steps: loaded.manifest.steps, source: loaded.source };
}
