import type { Logger } from 'pino';
import type { DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { startedFlowsIn } from '../manifest/sub-flows.ts';
import { type DeployOutcome, type Finding, type Override, widest } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import { serially } from '../model/serially.ts';
import { inTurns } from '../model/turns.ts';
import type { DeployedRevision, Store } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import type { Route } from '../webhooks/access-rules.ts';
import { flowIdChanged } from './changes/index.ts';
import { formerRoute, gatesUnder, NO_CHANGE, routesOf } from './deploy-access.ts';
import { type DeployFolder, type FolderOptions, folderOf, type ReplacedFlow } from './deploy-folder.ts';
import { busyRefusal, earlierText, planDeploy } from './deploy-plan.ts';
import {
  claimsOf,
  isStale,
  openRevision,
  type Restored,
  refreshFlow,
  reopenFlows,
  restoreFlows,
  type StoredProblem,
  type StoredServices,
  takenNames,
  withoutNames,
} from './stored-flows.ts';

/** Puts manifests in force without hurting runs in flight. */
export interface Deployer {
  /** The results that a deploy would have now; changes nothing. */
  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Deploys the flows together: a refused flow keeps its revision; all others change in one transaction and are in
   * force when it resolves. If it rejects, nothing has changed.
   */
  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]>;
  /**
   * Restores what the last process had deployed: the given manifests if unchanged, otherwise the stored revisions and
   * the secrets and files that those lack. `count` is the number of restored flows. Drafts are not deployed, but can
   * contain plain-text secrets of stored revisions.
   */
  restore(flows: readonly LoadedFlow[], drafts?: readonly LoadedFlow[]): Promise<Omit<Restored, 'outcomes'>>;
  /**
   * Reads the needs of the other flows' revisions in force again, because secrets of the process may have changed.
   * Yields one line per problem.
   */
  reopen(options: Deployed & { readonly besides: ReadonlySet<string> }): Promise<readonly StoredProblem[]>;
  /** Deletes a flow, or says why not: see the store. It is out of force when it resolves. */
  delete(flowId: string): ReturnType<Store['deleteFlow']>;
  /**
   * Applies what another process did to a flow: deployed, enabled, disabled, drained, resumed or deleted it. This
   * process' own earlier changes to it are in force too when it resolves. Rejects as the store does.
   */
  refresh(flowId: string): Promise<void>;
}

/** A deploy to report, and its author. */
export interface ToldDeploy extends DeployOutcome, Omit<Deployed, 'isFirst'> {}

/** The author of a deploy, and the reason. */
interface Deployed {
  readonly actor: string;
  readonly reason?: string | null | undefined;
  /** Nothing was deployed before: new flows and routes are not reported. */
  readonly isFirst?: boolean | undefined;
}

/** Outcomes to report: changed or refused flows, wider access, or secrets with new values. */
function toldOf(outcomes: readonly DeployOutcome[], { actor, reason, isFirst }: Deployed): ToldDeploy[] {
  return outcomes
    .filter(
      ({ action, access, findings }) =>
        (action !== 'unchanged' && isFirst !== true) ||
        action === 'refused' ||
        access === 'wider' ||
        findings.some(isChangedSecret),
    )
    .map((outcome) => ({ ...outcome, actor, reason }));
}

interface DeployOptions extends Deployed, Omit<FolderOptions, 'former'> {
  readonly allow: readonly Override[];
  readonly source: ManifestSource;
}

/** The author of the folder's deploys at a start, on a signal, or after a changed file. */
export const ITSELF = 'sluice';

interface DeployerServices extends StoredServices {
  /** Called with changed, refused and access-widening deploys; the deploy waits for it. */
  readonly onTold?: ((outcomes: readonly ToldDeploy[]) => Promise<void>) | undefined;
  readonly store: StoredServices['store'] &
    Pick<Store, 'readLiveFlow' | 'applyDeploys' | 'deleteFlow' | 'findSuperseded' | 'listFlows' | 'listRoutes'>;
}

/** The plan for one flow. */
interface Planned extends ReturnType<typeof planDeploy> {
  readonly flow: LoadedFlow;
  /** The deployed revision; null if there is none. */
  readonly current: number | null;
  readonly replaced: ReplacedFlow | undefined;
}

/** A former revision, and the gates and mode that judged it while it was in force, if they were different. */
interface FormerRevision extends Pick<Route, 'gates'> {
  readonly flow: LoadedFlow;
}

/** Obstacles can change during planning; after this many tries an operator must decide. */
const TRIES = 5;

export function createDeployer(services: DeployerServices): Deployer {
  return new FlowDeployer(services);
}

class FlowDeployer implements Deployer {
  readonly #services: DeployerServices;
  /** Each deploy is judged against the result of the one before. */
  readonly #queue = serially();
  /** Refreshes that have not begun to read: each serves all callers until then. */
  readonly #refreshes = new Map<string, Promise<void>>();
  /** This process' last manifest of each flow: it can contain secrets that could not be stored. */
  readonly #offered = new Map<string, LoadedFlow>();

  constructor(services: DeployerServices) {
    this.#services = services;
  }

  plan(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    return this.#queue.run(async () => (await this.#planAll(flows, options)).map(({ outcome }) => outcome));
  }

  deploy(flows: readonly LoadedFlow[], options: DeployOptions): Promise<DeployOutcome[]> {
    const { store, logger } = this.#services;
    this.#offer(flows);
    return this.#queue.run(async () => {
      const tries = new Map<string, number>();
      const stuck = new Map<string, number>();
      for (;;) {
        const known = new Map(this.#services.catalog.list().map(({ record }) => [record.id, record.revision]));
        const planned = await this.#planAll(flows, options, stuck);
        const deploying = planned.flatMap(({ deploy, ...each }) =>
          deploy === undefined ? [] : [{ ...each, deploy: { ...deploy, known } }],
        );
        // Prepared in turns here, because all of it is put in force at once below.
        const turn = inTurns();
        for (const { flow } of deploying) {
          await turn();
          this.#services.catalog.prepare(flow);
        }
        const result = await store.applyDeploys(deploying.map(({ deploy }) => deploy));
        if (result.kind !== 'applied') {
          const tried = (tries.get(result.flowId) ?? 0) + 1;
          tries.set(result.flowId, tried);
          // This process has not yet applied another process' deploys.
          for (const flowId of (result.kind === 'outdated' && result.others) || [])
            await refreshFlow(flowId, this.#services, this.#offered.get(flowId));
          if (tried === TRIES) stuck.set(result.flowId, result.kind === 'busy' ? result.runsInFlight : 0);
          continue;
        }
        const records = new Map(result.flows.map((record) => [record.id, record]));
        this.#putInForce(
          deploying.flatMap(({ flow, replaced }) => {
            const record = records.get(flow.manifest.id);
            return record === undefined ? [] : [{ record, loaded: flow, replaced }];
          }),
        );
        const outcomes = planned.map(({ flow, deploy, outcome }) => ({
          ...outcome,
          ...(deploy && { revision: records.get(flow.manifest.id)?.revision ?? outcome.revision }),
        }));
        for (const { deploy, current: revision } of deploying) {
          const { id: flowId, isUnchanged, needs } = deploy;
          if (isUnchanged && needs !== null && revision !== null) await store.renewNeeds({ flowId, revision, needs });
        }
        for (const outcome of outcomes) logOutcome(outcome, logger);
        await this.#tell(options.isFirst ? outcomes.map(withoutNewRoutes) : outcomes, options);
        return outcomes;
      }
    });
  }

  delete(flowId: string): ReturnType<Store['deleteFlow']> {
    const { store, catalog, clock, logger, onDeployed } = this.#services;
    return this.#queue.run(async () => {
      const deletion = await store.deleteFlow({ flowId, at: clock.now() });
      if (deletion.kind !== 'deleted') return deletion;
      logger.info({ flowId, name: catalog.find(flowId)?.record.name }, 'a flow was deleted');
      catalog.remove(flowId);
      onDeployed();
      return deletion;
    });
  }

  restore(flows: readonly LoadedFlow[], drafts: readonly LoadedFlow[] = []): ReturnType<Deployer['restore']> {
    this.#offer(drafts);
    this.#offer(flows);
    return this.#queue.run(async () => {
      const { outcomes, ...restored } = await restoreFlows({ flows, offered: this.#offered }, this.#services);
      await this.#tell(outcomes, { actor: ITSELF });
      return restored;
    });
  }

  reopen({ besides, ...deployed }: Parameters<Deployer['reopen']>[0]): ReturnType<Deployer['reopen']> {
    return this.#queue.run(async () => {
      const { outcomes, problems } = await reopenFlows({ besides, offered: this.#offered }, this.#services);
      await this.#tell(outcomes, deployed);
      return problems;
    });
  }

  refresh(flowId: string): Promise<void> {
    const waiting = this.#refreshes.get(flowId);
    if (waiting !== undefined) return waiting;
    const refreshing = this.#queue.run(async () => {
      this.#refreshes.delete(flowId);
      await refreshFlow(flowId, this.#services, this.#offered.get(flowId));
    });
    this.#refreshes.set(flowId, refreshing);
    return refreshing;
  }

  async #tell(outcomes: readonly DeployOutcome[], deployed: Deployed): Promise<void> {
    const told = toldOf(outcomes, deployed);
    for (const outcome of told) logTold(outcome, this.#services.logger);
    if (told.length > 0) await this.#services.onTold?.(told);
  }

  #offer(flows: readonly LoadedFlow[]): void {
    for (const flow of flows) this.#offered.set(flow.manifest.id, flow);
  }

  /** Applies what other processes did to flows that could object: those that these start, and those with their slugs. */
  async #takeUp(flows: readonly LoadedFlow[]): Promise<void> {
    const { store, catalog } = this.#services;
    const names = flows.flatMap((flow) => [
      ...claimsOf(flow).keys(),
      ...startedFlowsIn(flow.manifest).map(({ flowId }) => flowId),
    ]);
    if (names.length === 0) return;
    for (const record of await store.listFlows([...new Set(names)])) {
      const flow = catalog.find(record.id);
      if (isStale({ record, flow })) await refreshFlow(record.id, this.#services, this.#offered.get(record.id));
    }
  }

  /** Flows that are `stuck` are refused, because that number of runs always blocked them. */
  async #planAll(
    flows: readonly LoadedFlow[],
    options: DeployOptions,
    stuck: ReadonlyMap<string, number> = new Map(),
  ): Promise<Planned[]> {
    await this.#takeUp(flows);
    const folder = folderOf(flows, this.#services, { ...options, former: await this.#formerRoutes(flows) });
    const turn = inTurns();
    let planned: Planned[] = [];
    for (const flow of flows) {
      await turn();
      const plan = await this.#plan(flow, folder, options);
      const runsInFlight = stuck.get(flow.manifest.id);
      planned.push(
        runsInFlight === undefined ? plan : refused(plan, busyRefusal(flow.manifest.id, { runsInFlight, runs: [] })),
      );
    }
    // A refused flow keeps its slugs, so it blocks another flow that wants one of them.
    const clashing = new Set<LoadedFlow>();
    for (let found = -1; found !== clashing.size; ) {
      found = clashing.size;
      const { clashOf, lackOf } = folder.after(
        planned.flatMap(({ flow, deploy }) => (deploy === undefined ? [] : [flow])),
      );
      const judged: Planned[] = [];
      for (const each of planned) {
        await turn();
        const { flow, replaced, outcome } = each;
        const isSettled = clashing.has(flow) || outcome.warning !== undefined;
        const clash = isSettled ? undefined : (clashOf(flow, replaced?.id) ?? lackOf(flow));
        if (clash !== undefined) clashing.add(flow);
        judged.push(clash === undefined ? each : refused(each, clash));
      }
      planned = judged;
    }
    return planned;
  }

  async #plan(loaded: LoadedFlow, folder: DeployFolder, options: DeployOptions): Promise<Planned> {
    const { allow, source, actor, reason = null } = options;
    const { store, clock, settings, needs } = this.#services;
    const { id, name: ownName } = loaded.manifest;
    const { deployed, ...live } = await store.readLiveFlow(id);
    const flow = deployed?.flow;
    const replaced = flow === undefined ? folder.replacedBy(loaded) : undefined;
    const objections = replaced === undefined ? [] : [await this.#objection(replaced, loaded)];
    const difference = deployed && (await needs.compare(deployed.revision, loaded));
    const isSame = deployed?.revision.hash === loaded.hash && deployed.flow.deletedAt === undefined;
    const isUnchanged = isSame && difference?.isForeign === false;
    const changedSecrets = difference?.changed ?? new Map();
    // Whoever allows that a known scheme has left allows it for every replica, and for the next start.
    const isRenewed = changedSecrets.size > 0 || (deployed && needs.lacksScheme(deployed.revision, loaded));
    const { snapshot, isNamedByFile = false } = loaded;
    // The manifest in force is not an earlier revision.
    const superseded =
      flow && !isUnchanged ? await store.findSuperseded({ id, name: ownName, snapshot, isNamedByFile }) : undefined;
    const plan = planDeploy({
      loaded,
      live,
      access: folder.accessOf(loaded, deployed && (await this.#inForce(deployed, loaded))),
      isUnchanged,
      changedSecrets,
      needs: isUnchanged && !isRenewed ? null : await needs.needsOf(loaded),
      actor,
      reason,
      objections,
      superseded,
      settings,
      allow,
      source,
      at: clock.now(),
      deployed,
    });
    const isDeleted = flow?.deletedAt !== undefined;
    const current = flow === undefined || isDeleted ? null : flow.revision;
    const planned = { ...plan, flow: loaded, current, replaced };
    const { rollbackTo } = plan.outcome;
    const isOld = rollbackTo !== undefined || isDeleted;
    if (source !== 'folder' || !isOld || allow.includes('rollback') || superseded === undefined || flow === undefined) {
      return planned;
    }
    // An older folder, such as that of a restarted replica, does not undo deploys and deletions that were made on
    // purpose.
    const { version, name } = flow;
    const { access, routes } = NO_CHANGE;
    const kept = {
      name,
      version,
      action: 'unchanged',
      revision: current,
      refusal: null,
      access,
      routes,
    } as const;
    const warning = isDeleted
      ? `${ownName} (${id}): the flow was deleted, and the manifest in the folder is its revision ${superseded.revision}, ` +
        'which is not deployed again. Remove the file; or to bring the flow back, deploy it with `sluice deploy --to URL' +
        `${rollbackTo === undefined ? '' : ' --allow rollback'}\`, or change its version`
      : `${ownName} (${id}): the manifest in the folder is ${earlierText(superseded)} stays deployed. To go back, deploy it ` +
        'with `sluice deploy --to URL --allow rollback`, or change its version';
    const outcome = { ...plan.outcome, ...kept, class: 'safe' as const, findings: [], warning };
    return { outcome, flow: loaded, current, replaced };
  }

  /**
   * The revision as this process serves it or, if another process deployed it a moment ago, will serve it. If it lacked
   * a secret that exists by now, it is compared with that secret.
   */
  async #inForce(deployed: DeployedRevision, offered: LoadedFlow): Promise<LoadedFlow> {
    const known = this.#services.catalog.find(deployed.flow.id);
    const isServed = known?.loaded.unreadable === undefined;
    if (isServed && known?.record.revision === deployed.flow.revision) return known.loaded;
    return (await openRevision({ name: deployed.flow.name, ...deployed }, this.#services, offered)).flow;
  }

  /** Last routes of names that the flows want and that lead nowhere: slugs, and ids of flows without a webhook trigger. */
  async #formerRoutes(flows: readonly LoadedFlow[]): Promise<ReadonlyMap<string, Route>> {
    const { store, catalog } = this.#services;
    const taken = takenNames(catalog.list().map(({ loaded }) => loaded));
    const leads = (id: string, flow: LoadedFlow | undefined) => flow !== undefined && routesOf(flow).has(id);
    const ids = flows.flatMap((flow) => {
      const { id } = flow.manifest;
      return leads(id, flow) && !leads(id, catalog.find(id)?.loaded) ? [id] : [];
    });
    const free = [...ids, ...[...takenNames(flows)].filter((slug) => !taken.has(slug))];
    const former = new Map<string, Route>();
    const revisions = new Map<string, FormerRevision | undefined>();
    for (const { slug, flowId, triggerKey, revision } of free.length === 0 ? [] : await store.listRoutes(free)) {
      const key = `${flowId} ${revision}`;
      if (!revisions.has(key)) revisions.set(key, await this.#readRevision(flowId, revision));
      const { flow, gates } = revisions.get(key) ?? {};
      former.set(slug, { ...formerRoute(slug, triggerKey, flow), gates });
    }
    return former;
  }

  /** The revision as it would be served again; undefined if its manifest is removed. */
  async #readRevision(flowId: string, number: number): Promise<FormerRevision | undefined> {
    const { store, catalog, needs, gates: preparer, settings } = this.#services;
    const revision = await store.findRevision(flowId, number);
    if (revision?.snapshot === undefined) return undefined;
    const name = catalog.find(flowId)?.record.name ?? flowId;
    const { flow } = await openRevision({ name, revision }, this.#services, this.#offered.get(flowId));
    const judges = needs.formerJudges(revision, flow);
    const gates = judges && gatesUnder(judges, { preparer, defaultMode: settings.enforcementMode });
    return { flow, gates };
  }

  async #objection({ id, name, because }: ReplacedFlow, { manifest: next }: LoadedFlow): Promise<Finding> {
    const live = await this.#services.store.readLiveFlow(id);
    return flowIdChanged({ replaced: { id, name }, next, because, live });
  }

  /** If a deploy under another id was allowed, the old flow's names lead to the new one from now on. */
  #putInForce(flows: readonly (Pick<DeployedFlow, 'record' | 'loaded'> & Pick<Planned, 'replaced'>)[]): void {
    const { catalog, onDeployed } = this.#services;
    for (const { record, loaded, replaced } of flows) {
      const old = replaced && catalog.find(replaced.id);
      if (old !== undefined) catalog.put({ ...old, loaded: withoutNames(old.loaded, claimsOf(loaded)) });
      catalog.put({ record, loaded });
    }
    onDeployed();
  }
}

function withoutNewRoutes(outcome: DeployOutcome): DeployOutcome {
  const routes = outcome.routes.filter(({ before }) => before !== null);
  return { ...outcome, routes, access: widest(routes.map(({ access }) => access)) };
}

function isChangedSecret({ rule }: Finding): boolean {
  return rule === 'secret-changed';
}

function refused({ outcome, deploy, ...rest }: Planned, why: string): Planned {
  const refusal = [why, ...(outcome.refusal === null ? [] : [outcome.refusal])].join('\n');
  return { ...rest, outcome: { ...outcome, action: 'refused', revision: rest.current, refusal } };
}

function logOutcome(outcome: DeployOutcome, logger: Logger) {
  const { flowId, name, action, revision, class: gravest, access, findings, refusal, warning } = outcome;
  const about = {
    flowId,
    name,
    revision,
    class: gravest,
    access,
    findings: findings.map(({ rule, path }) => `${rule} ${path}`),
  };
  if (action === 'refused') logger.warn({ ...about, refusal }, 'a deploy was refused; the flow is unchanged');
  else if (warning !== undefined) logger.warn(about, warning);
  else if (action !== 'unchanged') logger.info({ ...about, action }, 'a flow was deployed');
}

function logTold({ flowId, name, action, revision, routes, findings, actor }: ToldDeploy, logger: Logger) {
  if (action === 'refused') return;
  const wider = routes.filter(({ access }) => access === 'wider');
  const about = { flowId, name, revision, actor };
  if (wider.length > 0) logEvent(logger, 'AccessWidened', { ...about, routes: wider });
  for (const { path, message } of findings.filter(isChangedSecret)) logger.warn({ ...about, path }, message);
}
