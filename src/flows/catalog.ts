import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { withLiterals } from '../manifest/literals.ts';
import type { LoadedFlow, UnreadableManifest } from '../manifest/load.ts';
import type { Manifest } from '../manifest/schema.ts';
import type { Clock } from '../model/clock.ts';
import type { ManifestSource } from '../model/manifest.ts';
import { whyClosed } from '../model/planner.ts';
import type { Claim, FlowRecord, RevisionRecord, Store } from '../store/store.ts';
import { type PreparedInputs, type PreparedRevision, prepareRevision } from './prepared-revision.ts';

/** A flow as it is deployed now. */
export interface DeployedFlow {
  readonly record: FlowRecord;
  readonly loaded: LoadedFlow;
  readonly prepared: PreparedRevision;
}

/** The deployed flows, in memory and ready to run; older revisions are read from the store. */
export interface Catalog {
  /** Makes a loaded flow the newest revision, unless it already is. */
  deploy(loaded: LoadedFlow): Promise<DeployedFlow>;
  /** Prepares the object for a later `put`; can take some ms. */
  prepare(loaded: LoadedFlow): void;
  /** Adds or replaces a stored flow and prepares it. An unchanged `loaded` is prepared only once. */
  put(flow: Omit<DeployedFlow, 'prepared'>): void;
  /** Removes a deleted flow; its runs in flight go on. */
  remove(flowId: string): void;
  find(flowId: string): DeployedFlow | undefined;
  list(): readonly DeployedFlow[];
  /** Replaces the list of the folder's manifests that are not deployed as they are. */
  noteUnreadable(manifests: readonly UnreadableManifest[]): void;
  unreadable(): readonly UnreadableManifest[];
  /**
   * Durable, and in force, when it resolves; yields undefined for an unknown flow. `holdsDeliveries` applies while the
   * flow is disabled; if undefined, its triggers decide.
   */
  setEnabled(flowId: string, isEnabled: boolean, holdsDeliveries?: boolean): Promise<FlowRecord | undefined>;
  /** Like `setEnabled`; a draining flow starts no runs. */
  setDraining(flowId: string, isDraining: boolean, holdsDeliveries?: boolean): Promise<FlowRecord | undefined>;
  /** The revision that a run is pinned to; a promise only if the store must be asked, which is rare. */
  pinned(flowId: string, revision: number): PreparedRevision | Promise<PreparedRevision>;
  /**
   * The inputs of a step of a run that is pinned to `revision`: those of the newest revision, so that a deploy repairs
   * runs in flight, or the pinned ones if that revision says so or the newest lacks the step. A promise as for
   * `pinned`. The newest may be one that another process deployed, of which this one has not heard.
   */
  inputsOf(step: InputsQuery): SourcedInputs | Promise<SourcedInputs>;
}

type InputsQuery = Pick<Claim, 'flowId' | 'stepKey' | 'revision' | 'newestRevision'>;

/** The inputs of a step, and the origin of their manifest, which decides which secrets they can name. */
interface SourcedInputs {
  readonly inputs: PreparedInputs;
  readonly source: ManifestSource;
  readonly revision: number;
}

/** A flow as in a new deployment with an empty database, for reading its triggers. */
export function deployedAnew(loaded: LoadedFlow): DeployedFlow {
  const { manifest, source } = loaded;
  const { id, name, version } = manifest;
  const record = { id, name, version, revision: 1, isEnabled: true, createdAt: 0, updatedAt: 0 };
  return { record, loaded, prepared: prepareRevision(manifest, source, loaded.files) };
}

/** Whether a flow can start runs now. */
export const startsRuns = (flow: FlowRecord): boolean => whyClosed(flow) === undefined;

/** Why an open flow cannot be started here by hand or by a schedule; undefined if it can. */
export function whyUnreadable(
  flowId: string,
  { find, unreadable }: Pick<Catalog, 'find' | 'unreadable'>,
): string | undefined {
  const flow = find(flowId);
  if (flow !== undefined) return flow.loaded.unreadable;
  return unreadable().find((manifest) => manifest.flowId === flowId)?.why;
}

interface NumberedRevision {
  readonly revision: number;
  readonly prepared: PreparedRevision;
}

function inputsIn(
  prepared: PreparedRevision,
  { stepKey, revision }: { readonly stepKey: string; readonly revision: number },
): SourcedInputs | undefined {
  const step = prepared.step(stepKey);
  return step && { inputs: step.inputs(), source: prepared.source, revision };
}

/** How many older revisions stay prepared: enough for every flow of a large installation to drain one. */
const KEPT_REVISIONS = 500;

/** Yields the plain-text secrets of a revision, by their places, as far as they are stored and readable. */
type ReadLiterals = (revision: RevisionRecord) => Promise<ReadonlyMap<string, string>>;

export function createCatalog(
  store: Pick<Store, 'deployFlow' | 'setFlowEnabled' | 'setFlowDraining' | 'findFlow' | 'findRevision'>,
  clock: Clock,
  readLiterals: ReadLiterals = async () => new Map(),
): Catalog {
  const deployed = new Map<string, DeployedFlow>();
  let unreadable: readonly UnreadableManifest[] = [];
  const older = new LRUCache<string, PreparedRevision>({ max: KEPT_REVISIONS });
  const ready = new WeakMap<LoadedFlow, Pick<DeployedFlow, 'loaded' | 'prepared'>>();

  const prepare = (loaded: LoadedFlow) => {
    const known = deployed.get(loaded.manifest.id);
    if (known !== undefined && isDeepStrictEqual(known.loaded, loaded)) return known;
    const { manifest, source, files } = loaded;
    const made = ready.get(loaded) ?? { loaded, prepared: prepareRevision(manifest, source, files) };
    ready.set(loaded, made);
    return made;
  };
  const put = (record: FlowRecord, given: LoadedFlow): DeployedFlow => {
    const known = deployed.get(record.id);
    const { loaded, prepared } = prepare(given);
    if (known?.loaded === loaded && isDeepStrictEqual(known.record, record)) return known;
    const flow = { record, loaded, prepared };
    deployed.set(record.id, flow);
    return flow;
  };
  const setRecord = (record: FlowRecord) => {
    const flow = deployed.get(record.id);
    if (flow !== undefined) deployed.set(record.id, { ...flow, record });
  };

  const pinned = (flowId: string, revision: number): PreparedRevision | Promise<PreparedRevision> => {
    const flow = deployed.get(flowId);
    if (flow?.record.revision === revision) return flow.prepared;
    return older.get(`${flowId}:${revision}`) ?? stored(flowId, revision);
  };
  const stored = async (flowId: string, revision: number): Promise<PreparedRevision> => {
    const found = await store.findRevision(flowId, revision);
    if (found?.snapshot === undefined)
      throw new Error(`revision ${revision} of the flow ${flowId} is not in the store`);
    const manifest = withLiterals(found.snapshot as unknown as Manifest, await readLiterals(found));
    const prepared = prepareRevision(manifest, found.source ?? 'folder', found.needs?.files);
    older.set(`${flowId}:${revision}`, prepared);
    return prepared;
  };

  /** The newest revision; the store still has it if the flow's manifest is no longer loaded. */
  const newest = async (flowId: string, heard: number): Promise<NumberedRevision> => {
    const known = deployed.get(flowId)?.record;
    const record = heard > (known?.revision ?? 0) ? { revision: heard } : (known ?? (await store.findFlow(flowId)));
    if (record === undefined) throw new Error(`the flow ${flowId} is not in the store`);
    return { revision: record.revision, prepared: await pinned(flowId, record.revision) };
  };

  const olderInputs = async ({ flowId, stepKey, revision, newestRevision }: InputsQuery): Promise<SourcedInputs> => {
    const own = await pinned(flowId, revision);
    const newer = own.pinsInputs ? undefined : await newest(flowId, newestRevision ?? 0);
    const found = (newer && inputsIn(newer.prepared, { ...newer, stepKey })) ?? inputsIn(own, { revision, stepKey });
    if (found === undefined) throw new Error(`revision ${revision} of the flow ${flowId} has no step "${stepKey}"`);
    return found;
  };
  return {
    pinned,
    inputsOf(step) {
      const { flowId, revision, newestRevision } = step;
      const flow = deployed.get(flowId);
      const isNewest = flow?.record.revision === revision && (newestRevision ?? 0) <= revision;
      return (isNewest && inputsIn(flow.prepared, step)) || olderInputs(step);
    },
    prepare: (loaded) => void prepare(loaded),
    put: ({ record, loaded }) => void put(record, loaded),
    remove(flowId) {
      const flow = deployed.get(flowId);
      // Only here are its plain-text secrets.
      if (flow !== undefined) older.set(`${flowId}:${flow.record.revision}`, flow.prepared);
      deployed.delete(flowId);
    },
    find: (flowId) => deployed.get(flowId),
    list: () => [...deployed.values()],
    noteUnreadable(manifests) {
      unreadable = manifests;
    },
    unreadable: () => unreadable,
    async deploy(loaded) {
      const { manifest, snapshot, hash } = loaded;
      const { id, name, version } = manifest;
      return put(await store.deployFlow({ id, name, version, hash, snapshot, at: clock.now() }), loaded);
    },
    async setEnabled(flowId, isEnabled, holdsDeliveries) {
      const record = await store.setFlowEnabled({ flowId, isEnabled, holdsDeliveries, at: clock.now() });
      if (record !== undefined) setRecord(record);
      return record;
    },
    async setDraining(flowId, isDraining, holdsDeliveries) {
      const record = await store.setFlowDraining({ flowId, isDraining, holdsDeliveries, at: clock.now() });
      if (record !== undefined) setRecord(record);
      return record;
    },
  };
}
