import type { LoadedFlow } from '../manifest/load.ts';
import { varsIn } from '../manifest/vars.ts';
import type { DeployOutcome, Finding, FindingClass, LiveFlow, Override } from '../model/finding.ts';
import type { Json } from '../model/json.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { FlowRecord, PlannedDeploy, RevisionNeeds, RevisionRecord } from '../store/store.ts';
import type { AccessChange } from '../webhooks/access-rules.ts';
import { compareRevisions, findMovedRoutes, gravest, type ServiceSettings } from './changes/index.ts';
import { isOpened, isOpening, withAccess } from './deploy-access.ts';
import { type ChangedSecrets, secretFindings } from './needs.ts';

/** The effect of deploying one flow, and the store operations that carry it out. */
interface DeployPlan {
  readonly outcome: DeployOutcome;
  /** Absent if the deploy is refused. */
  readonly deploy?: PlannedDeploy;
}

interface PlanRequest {
  readonly loaded: LoadedFlow;
  /** Undefined if the flow was never deployed; a deleted one is judged by its last revision. */
  readonly deployed: { readonly flow: FlowRecord; readonly revision: RevisionRecord } | undefined;
  readonly live: LiveFlow;
  /** How the deploy changes access. */
  readonly access: AccessChange;
  /** Objections to the deploy other than differences, such as a flow that it replaces. */
  readonly objections: readonly Finding[];
  /** The earlier revision with this manifest, and the deployed one. */
  readonly superseded: { readonly revision: number; readonly newest: number; readonly isRemoved: boolean } | undefined;
  readonly allow: readonly Override[];
  readonly source: ManifestSource;
  readonly actor: string;
  readonly reason: string | null;
  /** Whether the deployed revision has the same manifest, files and secrets. */
  readonly isUnchanged: boolean;
  /** Secrets whose value changed, or cannot be compared. */
  readonly changedSecrets: ChangedSecrets;
  /** Needs to store with it; null if they are stored. */
  readonly needs: RevisionNeeds | null;
  readonly settings: ServiceSettings;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
}

/**
 * Judges a change: a safe one applies, a caution applies while no run of the flow is in flight, a breaking one is
 * refused, and so are an earlier revision and a route that accepts more, whatever is in flight. Each of the latter four
 * can be allowed by its name. Pure.
 */
export function planDeploy(request: PlanRequest): DeployPlan {
  const { loaded, deployed, live, access, objections, superseded, allow, source, at, isUnchanged } = request;
  const { id, name, version } = loaded.manifest;
  const { snapshot, hash } = loaded;
  const { actor, reason, changedSecrets, needs } = request;
  const isDeleted = deployed?.flow.deletedAt !== undefined;
  const different = isUnchanged ? [] : [...objections, ...differences(request)];
  const findings = withAccess([...different, ...secretFindings(changedSecrets)], access);
  const has = (wanted: FindingClass) => findings.some((finding) => finding.class === wanted);
  const isAllowed = (wanted: Override) => allow.includes(wanted);
  const runsInFlight = live.runsInFlight + (live.callers?.runsInFlight ?? 0);
  const isBusy = has('caution') && runsInFlight > 0;
  const isOlder = !isUnchanged && superseded !== undefined && superseded.revision < superseded.newest;
  const rollbackTo = isOlder ? superseded.revision : undefined;
  const refusals = [
    ...(isOlder && !isAllowed('rollback') ? [rollbackRefusal(superseded, isDeleted)] : []),
    ...(has('breaking') && !isAllowed('breaking') ? [breakingRefusal(findings)] : []),
    ...(isOpened(access) && !isAllowed('access') ? [accessRefusal(access)] : []),
    ...(isBusy && !isAllowed('caution') ? [busyRefusal(id, live)] : []),
  ];
  const newest = deployed?.flow.revision ?? null;
  const revision = isDeleted ? null : newest;
  const about = {
    flowId: id,
    name,
    version,
    runsInFlight,
    findings,
    class: gravest(findings),
    access: access.access,
    routes: access.routes,
    rollbackTo,
  };
  if (refusals.length > 0) {
    return { outcome: { ...about, action: 'refused', revision, refusal: refusals.join('\n') } };
  }
  const action = isUnchanged ? 'unchanged' : revision === null ? 'created' : 'updated';
  return {
    outcome: { ...about, action, revision: isUnchanged ? revision : (newest ?? 0) + 1, refusal: null },
    deploy: {
      id,
      name,
      version,
      hash,
      snapshot,
      at,
      source,
      actor,
      reason,
      access: access.access,
      isUnchanged,
      needs,
      findings,
      basedOn: newest,
      needsIdle: has('caution') && !isAllowed('caution'),
      triggers: { keys: Object.keys(loaded.manifest.triggers), moved: isUnchanged ? [] : moves(request) },
      withoutHistory: isAllowed('breaking') ? [] : stepsWithoutHistory(deployed?.revision.snapshot, live),
      overrides: [
        ...(has('breaking') ? (['breaking'] as const) : []),
        ...(isBusy ? (['caution'] as const) : []),
        ...(rollbackTo === undefined ? [] : (['rollback'] as const)),
        ...(isOpened(access) ? (['access'] as const) : []),
      ],
    },
  };
}

function differences({ loaded, deployed, live, settings }: PlanRequest): readonly Finding[] {
  if (deployed === undefined) return [];
  const [before, after] = [varsIn(deployed.revision.needs?.files ?? {}), varsIn(loaded.files)];
  const changed = Object.keys(after).filter((name) => Object.hasOwn(before, name) && before[name] !== after[name]);
  const ofVars = changed.map(
    (name): Finding => ({
      path: `vars.${name}`,
      rule: 'var-changed',
      class: 'safe',
      before: before[name],
      after: after[name],
      message: `The value of \`vars.${name}\` changed.`,
      consequence: 'Steps that start from now on read the new one. Conditions of runs in flight keep the former one.',
    }),
  );
  return [
    ...compareRevisions({ before: deployed.revision.snapshot, after: loaded.snapshot, live, settings }),
    ...ofVars,
  ];
}

function moves({ loaded, deployed }: PlanRequest): ReturnType<typeof findMovedRoutes> {
  if (deployed === undefined) return [];
  return findMovedRoutes({ before: deployed.revision.snapshot, after: loaded.snapshot });
}

/** Steps that can be removed while no run knows them; checked again when the revision is written. */
function stepsWithoutHistory(snapshot: Json | undefined, { stepsWithHistory }: LiveFlow): string[] {
  const { steps = {} } = (snapshot ?? {}) as { readonly steps?: Readonly<Record<string, Json>> };
  return Object.keys(steps).filter((key) => !stepsWithHistory.includes(key));
}

const NAMED_RUNS = 5;

/** What to do about runs in flight that block the deploy. */
export function busyRefusal(
  flowId: string,
  { runsInFlight, runs, callers }: Pick<LiveFlow, 'runsInFlight' | 'runs' | 'callers'>,
): string {
  const calling = callers?.runsInFlight ?? 0;
  const own = `${countedRuns(runsInFlight)} in flight${namesOf(runs, runsInFlight)}`;
  const flows = [...new Set(callers?.runs.map(({ flowName }) => flowName))].join(', ');
  const others = `${countedRuns(calling)} in flight of flows that run this one (${flows})${namesOf(callers?.runs ?? [], calling)}`;
  const inTheWay = [...(runsInFlight > 0 || calling === 0 ? [own] : []), ...(calling > 0 ? [others] : [])].join(
    ', and ',
  );
  return (
    `${inTheWay} and the change has cautions. Drain the flow first: ` +
    `\`sluice drain ${flowId} --deploy FOLDER --resume\`, or POST /flows/api/flows/${flowId}/drain, wait until GET says ` +
    'that it is done, deploy, and DELETE the drain. Or allow cautions with `--allow caution`.'
  );
}

function countedRuns(count: number): string {
  return count === 1 ? '1 run is' : `${count} runs are`;
}

function namesOf(runs: readonly { readonly id: string }[], count: number): string {
  const named = runs.slice(0, NAMED_RUNS).map(({ id }) => id);
  if (named.length === 0) return '';
  return ` (${[...named, ...(count > named.length ? [`${count - named.length} more`] : [])].join(', ')})`;
}

/** The earlier revision with this manifest, in words. */
export function earlierText({ revision, newest, isRemoved }: NonNullable<PlanRequest['superseded']>): string {
  const removed = isRemoved ? ' (no longer kept)' : '';
  return `revision ${revision}${removed}, older than revision ${newest}, which`;
}

function rollbackRefusal(superseded: NonNullable<PlanRequest['superseded']>, isDeleted: boolean): string {
  return (
    `The manifest is ${earlierText(superseded)} ${isDeleted ? 'was deployed last' : 'is deployed'}. To go back on purpose, ` +
    'allow it with `--allow rollback` (over HTTP `allow=rollback`), or change its version.'
  );
}

function accessRefusal({ routes }: AccessChange): string {
  const opened = routes.filter(isOpening);
  return [
    'More deliveries would pass than before. If that is intended, allow it with `--allow access` (over HTTP `allow=access`).',
    ...opened.map(({ route, reasons }) => `- ${route}: ${reasons.join(' ')}`),
  ].join('\n');
}

function breakingRefusal(findings: readonly Finding[]): string {
  const breaking = findings.filter((finding) => finding.class === 'breaking');
  const recipes = breaking.flatMap(({ recipe }) =>
    recipe === undefined ? [] : [`${recipe.title}:`, ...recipe.steps.map((step, at) => `  ${at + 1}. ${step}`)],
  );
  return [
    'The change breaks what is stored. Follow the recipe of each finding, or allow it with `--allow breaking`.',
    ...breaking.map(({ message }) => `- ${message}`),
    ...recipes,
  ].join('\n');
}
