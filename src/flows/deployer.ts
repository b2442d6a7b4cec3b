import type { Logger } from 'pino';
import { flowIdChanged } from '../manifest/changes/index.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { StoredRules } from '../manifest/stored.ts';
import type { Clock } from '../model/clock.ts';
import type { DeployOutcome, Finding, FindingClass } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { Store } from '../store/store.ts';
import type { Catalog, DeployedFlow } from './catalog.ts';
import { type DeployFolder, folderOf, type ReplacedFlow } from './deploy-folder.ts';
import { busyRefusal, type DeployPlan, planDeploy } from './deploy-plan.ts';
import { type Doubt, restoreFlows } from './restore-flows.ts';
import { takenNames, withoutNames } from './webhook-names.ts';

/** Puts manifests in force, one flow at a time, without hurting runs in flight. */
export interface Deployer {
  /** What a deploy would do now; changes nothing. */
  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Deploys each flow as a whole or not at all; a flow that is refused goes on with the revision that it has. What was
   * deployed is in force when it resolves, also where it rejects with `StoreUnavailableError` on the way.
   */
  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Puts in force what the last process had deployed: the manifests given where they are the same, else the stored
   * revisions, with what those lack.
   */
  restore(flows: readonly LoadedFlow[]): Promise<Doubt[]>;
}

export interface DeployOptions {
  readonly allow: readonly FindingClass[];
  /** All flows that there are to be: a deployed one without a manifest may be the old id of a new one. */
  readonly isWholeFolder: boolean;
  readonly source: ManifestSource;
}

export interface DeployerServices {
  readonly store: Pick<Store, 'findFlow' | 'findRevision' | 'readLiveFlow' | 'applyDeploy' | 'listDeployed'>;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'put'>;
  /** What stored revisions are judged by, by where they came from. */
  readonly rules: Readonly<Record<ManifestSource, StoredRules>>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retentionDays: number;
  /** The catalog has changed: triggers and schedules are to follow. */
  readonly onDeployed: () => void;
}

/** What stands in the way may change while it is judged; after so many times somebody else has to decide. */
const TRIES = 5;

export function createDeployer(services: DeployerServices): Deployer {
  return new FlowDeployer(services);
}

class FlowDeployer implements Deployer {
  readonly #services: DeployerServices;
  /** Deploys go one after the other: each is judged against what the one before has left. */
  #working: Promise<unknown> = Promise.resolve();

  constructor(services: DeployerServices) {
    this.#services = services;
  }

  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    return this.#inTurn(async () => {
      const folder = folderOf(flows, this.#services.catalog, options);
      const outcomes: DeployOutcome[] = [];
      for (const flow of flows) outcomes.push((await this.#plan(flow, folder, options)).outcome);
      return outcomes;
    });
  }

  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    const { catalog, logger, onDeployed } = this.#services;
    return this.#inTurn(async () => {
      const folder = folderOf(flows, catalog, options);
      const outcomes = new Map<LoadedFlow, DeployOutcome>();
      try {
        for (const flow of folder.inOrder()) outcomes.set(flow, await this.#deploy(flow, folder, options));
      } finally {
        onDeployed();
      }
      for (const outcome of outcomes.values()) tell(outcome, logger);
      return flows.flatMap((flow) => outcomes.get(flow) ?? []);
    });
  }

  restore(flows: readonly LoadedFlow[]): Promise<Doubt[]> {
    return this.#inTurn(() => restoreFlows(flows, this.#services));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#working.then(work);
    this.#working = turn.catch(() => {});
    return turn;
  }

  async #plan(loaded: LoadedFlow, folder: DeployFolder, { allow, source }: DeployOptions): Promise<DeployPlan> {
    const { store, clock, retentionDays } = this.#services;
    const { id } = loaded.manifest;
    const flow = await store.findFlow(id);
    const revision = flow && (await store.findRevision(id, flow.revision));
    const live = await store.readLiveFlow(id);
    const replaced = flow === undefined ? folder.replacedBy(loaded) : undefined;
    const objections = replaced === undefined ? [] : [await this.#objection(replaced, loaded)];
    const plan = planDeploy({
      ...{ loaded, live, objections, retentionDays, allow, source, at: clock.now() },
      deployed: flow && revision && { flow, revision },
    });
    const clash = folder.clashOf(loaded, replaced?.id);
    if (clash === undefined) return plan;
    const refusal = [clash, ...(plan.outcome.refusal === null ? [] : [plan.outcome.refusal])].join('\n');
    return { outcome: { ...plan.outcome, action: 'refused', revision: flow?.revision ?? null, refusal } };
  }

  async #objection({ id, name, because }: ReplacedFlow, { manifest: next }: LoadedFlow): Promise<Finding> {
    const live = await this.#services.store.readLiveFlow(id);
    return flowIdChanged({ replaced: { id, name }, next, because, live });
  }

  async #deploy(loaded: LoadedFlow, folder: DeployFolder, options: DeployOptions): Promise<DeployOutcome> {
    for (let left = TRIES; ; left -= 1) {
      const { outcome, deploy } = await this.#plan(loaded, folder, options);
      if (deploy === undefined) return outcome;
      const result = await this.#services.store.applyDeploy(deploy);
      if (result.kind === 'applied' || result.kind === 'unchanged') {
        this.#putInForce({ record: result.flow, loaded }, folder);
        return { ...outcome, revision: result.flow.revision };
      }
      if (left > 1) continue;
      const runsInFlight = result.kind === 'busy' ? result.runsInFlight : outcome.runsInFlight;
      const refusal = busyRefusal(loaded.manifest.id, { runsInFlight, runs: [] });
      return { ...outcome, action: 'refused', revision: deploy.basedOn, runsInFlight, refusal };
    }
  }

  /** Where a deploy under another id was allowed, what led to the old flow leads to the new one from now on. */
  #putInForce(flow: DeployedFlow, folder: DeployFolder): void {
    const { catalog } = this.#services;
    const replaced = folder.replacedBy(flow.loaded);
    const old = replaced && catalog.find(replaced.id);
    if (old !== undefined) catalog.put({ ...old, loaded: withoutNames(old.loaded, takenNames([flow.loaded])) });
    catalog.put(flow);
  }
}

function tell({ flowId, name, action, revision, class: gravest, findings, refusal }: DeployOutcome, logger: Logger) {
  const about = {
    flowId,
    name,
    revision,
    class: gravest,
    findings: findings.map(({ rule, path }) => `${rule} ${path}`),
  };
  if (action === 'refused') logger.warn({ ...about, refusal }, 'a deploy was refused; the flow goes on as it was');
  else if (action !== 'unchanged') logger.info({ ...about, action }, 'a flow was deployed');
}
