import type { Logger } from 'pino';
import { formatPath } from '../expressions/json-path.ts';
import type { Catalog, DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { chainText, refusedChain, subFlowsIn } from '../manifest/sub-flows.ts';
import type { Clock } from '../model/clock.ts';
import type { DeployOutcome, Finding, Override } from '../model/finding.ts';
import { type ManifestSource, subFlowsOf } from '../model/manifest.ts';
import { createTurns } from '../model/turns.ts';
import type { Store } from '../store/store.ts';
import { findReplaced, flowIdChanged } from './changes/index.ts';
import { busyRefusal, planDeploy } from './deploy-plan.ts';
import {
  refreshFlow,
  restoreFlows,
  type StoredProblem,
  type StoredServices,
  takenNames,
  withoutNames,
} from './stored-flows.ts';

/** Puts manifests in force without hurting runs in flight. */
export interface Deployer {
  /** What a deploy would do now; changes nothing. */
  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Deploys the flows together: a flow that is refused goes on with the revision that it has, all others change in one
   * transaction and are in force when it resolves. Where it rejects nothing has changed.
   */
  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Puts in force what the last process had deployed: the manifests given where they are the same, else the stored
   * revisions, with what those lack.
   */
  restore(flows: readonly LoadedFlow[]): Promise<StoredProblem[]>;
  /**
   * Puts in force what another process did to a flow: deployed, enabled, disabled, drained or resumed it. What this
   * process was doing to it when it was asked is in force too when it resolves. Rejects as the store does.
   */
  refresh(flowId: string): Promise<void>;
}

interface DeployOptions {
  readonly allow: readonly Override[];
  /** All flows that there are to be: a deployed one without a manifest may be the old id of a new one. */
  readonly isWholeFolder: boolean;
  readonly source: ManifestSource;
}

interface DeployerServices extends StoredServices {
  /** Called with those that a deploy refused; the deploy waits for it. */
  readonly onRefused?: ((refused: readonly DeployOutcome[]) => Promise<void>) | undefined;
  readonly store: StoredServices['store'] & Pick<Store, 'readLiveFlow' | 'applyDeploys' | 'findSuperseded'>;
  readonly clock: Clock;
  readonly retentionDays: number;
  /** A manifest of the folder is deployed also where it is an earlier revision; false by default. */
  readonly manifestsWin?: boolean;
}

/** What is to become of one flow. */
interface Planned extends ReturnType<typeof planDeploy> {
  readonly flow: LoadedFlow;
  /** The revision that is deployed; null where none is. */
  readonly current: number | null;
  readonly replaced: ReplacedFlow | undefined;
}

/** Obstacles may change while they are judged; after this many tries an operator has to decide. */
const TRIES = 5;

export function createDeployer(services: DeployerServices): Deployer {
  return new FlowDeployer(services);
}

class FlowDeployer implements Deployer {
  readonly #services: DeployerServices;
  /** Each deploy is judged against what the one before has left. */
  readonly #turns = createTurns();
  /** Refreshes that have not begun to read: one of them serves all who ask until then. */
  readonly #refreshes = new Map<string, Promise<void>>();

  constructor(services: DeployerServices) {
    this.#services = services;
  }

  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    return this.#turns.take(async () => (await this.#planAll(flows, options)).map(({ outcome }) => outcome));
  }

  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    const { store, logger, catalog } = this.#services;
    return this.#turns.take(async () => {
      const tries = new Map<string, number>();
      const stuck = new Map<string, number>();
      for (;;) {
        const folder = folderOf(flows, catalog, options);
        const planned = await this.#planAll(flows, options, stuck);
        const deploying = planned.flatMap((each) =>
          each.deploy === undefined ? [] : [{ ...each, deploy: each.deploy }],
        );
        const result = await store.applyDeploys(deploying.map(({ deploy }) => deploy));
        if (result.kind !== 'applied') {
          const tried = (tries.get(result.flowId) ?? 0) + 1;
          tries.set(result.flowId, tried);
          // What another process deployed is not in force here yet.
          const others = result.kind === 'outdated' ? (result.cycle ?? []) : [];
          for (const flowId of others) await refreshFlow(flowId, this.#services);
          if (tried === TRIES) stuck.set(result.flowId, result.kind === 'busy' ? result.runsInFlight : 0);
          continue;
        }
        const records = new Map(result.flows.map((record) => [record.id, record]));
        this.#putInForce(
          deploying.flatMap(({ flow }) => {
            const record = records.get(flow.manifest.id);
            return record === undefined ? [] : [{ record, loaded: flow }];
          }),
          folder,
        );
        const outcomes = planned.map(({ flow, deploy, outcome }) => ({
          ...outcome,
          ...(deploy && { revision: records.get(flow.manifest.id)?.revision ?? outcome.revision }),
        }));
        for (const outcome of outcomes) logOutcome(outcome, logger);
        const refused = outcomes.filter(({ action }) => action === 'refused');
        if (refused.length > 0) await this.#services.onRefused?.(refused);
        return outcomes;
      }
    });
  }

  restore(flows: readonly LoadedFlow[]): Promise<StoredProblem[]> {
    return this.#turns.take(() => restoreFlows(flows, this.#services));
  }

  refresh(flowId: string): Promise<void> {
    const waiting = this.#refreshes.get(flowId);
    if (waiting !== undefined) return waiting;
    const refreshing = this.#turns.take(async () => {
      this.#refreshes.delete(flowId);
      await refreshFlow(flowId, this.#services);
    });
    this.#refreshes.set(flowId, refreshing);
    return refreshing;
  }

  /** Flows that are `stuck` are refused: so many runs of them are always in the way. */
  async #planAll(
    flows: readonly LoadedFlow[],
    options: DeployOptions,
    stuck: ReadonlyMap<string, number> = new Map(),
  ): Promise<Planned[]> {
    const folder = folderOf(flows, this.#services.catalog, options);
    let planned: Planned[] = [];
    for (const flow of flows) {
      const plan = await this.#plan(flow, folder, options);
      const runsInFlight = stuck.get(flow.manifest.id);
      planned.push(
        runsInFlight === undefined ? plan : refused(plan, busyRefusal(flow.manifest.id, { runsInFlight, runs: [] })),
      );
    }
    // A flow that is refused keeps its slugs, and so is in the way of another that wants one of them.
    const clashing = new Set<LoadedFlow>();
    for (let found = -1; found !== clashing.size; ) {
      found = clashing.size;
      const deploying = planned.filter(({ deploy }) => deploy !== undefined).map(({ flow }) => flow);
      planned = planned.map((each) => {
        const { flow, replaced, outcome } = each;
        if (clashing.has(flow) || outcome.warning !== undefined) return each;
        const clash = folder.clashOf(flow, deploying, replaced?.id) ?? folder.lackOf(flow, deploying);
        if (clash === undefined) return each;
        clashing.add(flow);
        return refused(each, clash);
      });
    }
    return planned;
  }

  async #plan(loaded: LoadedFlow, folder: DeployFolder, { allow, source }: DeployOptions): Promise<Planned> {
    const { store, clock, retentionDays } = this.#services;
    const { id } = loaded.manifest;
    const flow = await store.findFlow(id);
    const revision = flow && (await store.findRevision(id, flow.revision));
    const live = await store.readLiveFlow(id);
    const replaced = flow === undefined ? folder.replacedBy(loaded) : undefined;
    const objections = replaced === undefined ? [] : [await this.#objection(replaced, loaded)];
    const superseded = flow === undefined ? undefined : await this.#supersededBy(loaded, { source });
    const plan = planDeploy({
      loaded,
      live,
      objections,
      superseded,
      retentionDays,
      allow,
      source,
      at: clock.now(),
      deployed: flow && revision && { flow, revision },
    });
    const planned = { ...plan, flow: loaded, current: flow?.revision ?? null, replaced };
    const { rollbackTo } = plan.outcome;
    if (source !== 'folder' || flow === undefined || rollbackTo === undefined || allow.includes('rollback')) {
      return planned;
    }
    // What was deployed on purpose is not taken back by a folder that is older: that of a replica that starts again.
    const { version, name } = flow;
    const kept = { name, version, action: 'unchanged', revision: flow.revision, refusal: null } as const;
    const warning =
      `${loaded.manifest.name} (${id}): the manifest in the folder is revision ${rollbackTo}, older than revision ` +
      `${flow.revision}, which stays deployed. To go back, deploy it with \`sluice deploy --to URL --allow rollback\`, ` +
      'change its version, or set SLUICE_MANIFESTS_WIN=true';
    const outcome = { ...plan.outcome, ...kept, class: 'safe' as const, findings: [], warning };
    return { outcome, flow: loaded, current: flow.revision, replaced };
  }

  /** The earlier revision that a manifest is. The settings may let the folder go back without asking. */
  async #supersededBy(
    { manifest, snapshot, isNamedByFile }: LoadedFlow,
    { source }: Pick<DeployOptions, 'source'>,
  ): Promise<Awaited<ReturnType<Store['findSuperseded']>>> {
    const { store, manifestsWin = false } = this.#services;
    if (source === 'folder' && manifestsWin) return undefined;
    return store.findSuperseded({ id: manifest.id, snapshot, isNamedByFile: isNamedByFile === true });
  }

  async #objection({ id, name, because }: ReplacedFlow, { manifest: next }: LoadedFlow): Promise<Finding> {
    const live = await this.#services.store.readLiveFlow(id);
    return flowIdChanged({ replaced: { id, name }, next, because, live });
  }

  /** Where a deploy under another id was allowed, what led to the old flow leads to the new one from now on. */
  #putInForce(flows: readonly Pick<DeployedFlow, 'record' | 'loaded'>[], folder: DeployFolder): void {
    const { catalog, onDeployed } = this.#services;
    for (const flow of flows) {
      const replaced = folder.replacedBy(flow.loaded);
      const old = replaced && catalog.find(replaced.id);
      if (old !== undefined) catalog.put({ ...old, loaded: withoutNames(old.loaded, takenNames([flow.loaded])) });
      catalog.put(flow);
    }
    onDeployed();
  }
}

function refused({ outcome, deploy, ...rest }: Planned, why: string): Planned {
  const refusal = [why, ...(outcome.refusal === null ? [] : [outcome.refusal])].join('\n');
  return { ...rest, outcome: { ...outcome, action: 'refused', revision: rest.current, refusal } };
}

function logOutcome(outcome: DeployOutcome, logger: Logger) {
  const { flowId, name, action, revision, class: gravest, findings, refusal, warning } = outcome;
  const about = {
    flowId,
    name,
    revision,
    class: gravest,
    findings: findings.map(({ rule, path }) => `${rule} ${path}`),
  };
  if (action === 'refused') logger.warn({ ...about, refusal }, 'a deploy was refused; the flow is unchanged');
  else if (warning !== undefined) logger.warn(about, warning);
  else if (action !== 'unchanged') logger.info({ ...about, action }, 'a flow was deployed');
}

/** What the flows of one deploy mean for those that are deployed. */
interface DeployFolder {
  /** The flow that this one replaces under a new id. */
  replacedBy(flow: LoadedFlow): ReplacedFlow | undefined;
  /**
   * Why the flow cannot have the slugs that it wants once those of `deploying` are deployed; undefined where it can.
   * Ignores the flow it replaces.
   */
  clashOf(flow: LoadedFlow, deploying: readonly LoadedFlow[], replacedId: string | undefined): string | undefined;
  /**
   * Why a flow that its runs start is missing once `deploying` are deployed, or starts this one in turn; undefined where
   * all is well.
   */
  lackOf(flow: LoadedFlow, deploying: readonly LoadedFlow[]): string | undefined;
}

/** A deployed flow that another one replaces. */
interface ReplacedFlow {
  readonly id: string;
  readonly name: string;
  readonly because: 'slug' | 'name';
}

function folderOf(
  flows: readonly LoadedFlow[],
  catalog: Pick<Catalog, 'list'>,
  { isWholeFolder }: Pick<DeployOptions, 'isWholeFolder'>,
): DeployFolder {
  const ids = new Set(flows.map(({ manifest }) => manifest.id));
  const before = catalog.list();
  const deployed = before.map(({ loaded }) => identityOf(loaded));
  // Of one manifest alone it cannot be told which others are gone, but a disabled flow may be there to be replaced.
  const gone = before.filter(({ record }) => !ids.has(record.id) && (isWholeFolder || !record.isEnabled));
  const goneIds = new Set(gone.map(({ record }) => record.id));
  /** A chain that is too long because the flow now runs one that it did not run: of a flow above it, which may not change. */
  const lengthenedChain = (flowId: string, subFlows: (flowId: string) => readonly string[]) => {
    const former = before.find(({ record }) => record.id === flowId)?.loaded.manifest.steps;
    // Nothing runs a flow that was not deployed.
    if (former === undefined || isSubset(subFlows(flowId), subFlowsOf(former))) return undefined;
    return before
      .map(({ record }) => refusedChain(record.id, subFlows))
      .find((chain) => chain?.flowIds.includes(flowId) === true);
  };
  const othersOf = (flow: LoadedFlow) => catalog.list().filter(({ record }) => record.id !== flow.manifest.id);
  return {
    replacedBy(flow) {
      const found = findReplaced({ next: identityOf(flow), deployed, goneIds });
      const name = deployed.find(({ id }) => id === found?.id)?.name;
      return found && name !== undefined ? { ...found, name } : undefined;
    },
    clashOf(flow, deploying, replacedId) {
      for (const { record, loaded } of othersOf(flow)) {
        const next = deploying.find(({ manifest }) => manifest.id === record.id) ?? loaded;
        const shared = record.id === replacedId ? undefined : sharedName(flow, takenNames([next]));
        if (shared === undefined) continue;
        return (
          `The slug "${shared}" belongs to the deployed flow "${record.name}" (${record.id}); remove it there, ` +
          'before or in the same deploy, or disable that flow first.'
        );
      }
      return undefined;
    },
    lackOf({ manifest: { id, onFailure, steps } }, deploying) {
      const manifestOf = (flowId: string) =>
        deploying.find(({ manifest }) => manifest.id === flowId)?.manifest ??
        before.find(({ record }) => record.id === flowId)?.loaded.manifest;
      const missing = (flowId: string | undefined) => flowId !== undefined && manifestOf(flowId) === undefined;
      const lack = (what: string, flowId: string) =>
        `${what} the flow ${flowId}, which is not deployed; deploy that flow before or in the same deploy.`;
      if (onFailure !== undefined && missing(onFailure)) return lack('Its onFailure names', onFailure);
      const lacking = subFlowsIn(steps).find(({ flowId }) => missing(flowId));
      if (lacking !== undefined) return lack(`\`${formatPath(lacking.path)}\` names`, lacking.flowId);
      const subFlows = (flowId: string) => subFlowsOf(manifestOf(flowId)?.steps ?? {});
      const chain = refusedChain(id, subFlows) ?? lengthenedChain(id, subFlows);
      return chain && `It ${chainText(chain, (flowId) => manifestOf(flowId)?.name ?? flowId)}.`;
    },
  };
}

function isSubset(some: readonly string[], all: readonly string[]): boolean {
  return some.every((each) => all.includes(each));
}

function identityOf({ manifest: { id, name }, webhooks }: LoadedFlow) {
  return { id, name, slugs: webhooks.flatMap(({ inputs }) => inputs.webhookSlug ?? []) };
}

function sharedName(flow: LoadedFlow, names: ReadonlySet<string>): string | undefined {
  return [...takenNames([flow])].find((name) => names.has(name));
}
