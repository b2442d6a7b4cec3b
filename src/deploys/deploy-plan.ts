import type { LoadedFlow } from '../manifest/load.ts';
import type { DeployOutcome, Finding, FindingClass, LiveFlow, Override } from '../model/finding.ts';
import type { Json } from '../model/json.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { FlowRecord, PlannedDeploy, RevisionRecord } from '../store/store.ts';
import { compareRevisions, findRenamedTriggers, gravest } from './changes/index.ts';

/** The effect of deploying one flow, and the store operations that carry it out. */
interface DeployPlan {
  readonly outcome: DeployOutcome;
  /** Absent where the deploy is refused. */
  readonly deploy?: PlannedDeploy;
}

interface PlanRequest {
  readonly loaded: LoadedFlow;
  /** Undefined where the flow is not deployed. */
  readonly deployed: { readonly flow: FlowRecord; readonly revision: RevisionRecord } | undefined;
  readonly live: LiveFlow;
  /** Objections to the deploy other than differences, such as a flow that it replaces. */
  readonly objections: readonly Finding[];
  /** The earlier revision that the manifest is, and the deployed one. */
  readonly superseded: { readonly revision: number; readonly newest: number } | undefined;
  readonly allow: readonly Override[];
  readonly source: ManifestSource;
  readonly retentionDays: number;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
}

/**
 * Judges a change: what is safe applies, a caution applies while no run of the flow is in flight, what breaks is
 * refused, and so is an earlier revision. Each of the latter three may be allowed, by its name. Pure.
 */
export function planDeploy(request: PlanRequest): DeployPlan {
  const { loaded, deployed, live, objections, superseded, allow, source, at } = request;
  const { id, name, version } = loaded.manifest;
  const { snapshot, hash } = loaded;
  const isUnchanged = deployed !== undefined && deployed.revision.hash === hash;
  const findings = isUnchanged ? [] : [...objections, ...differences(request)];
  const has = (wanted: FindingClass) => findings.some((finding) => finding.class === wanted);
  const isAllowed = (wanted: Override) => allow.includes(wanted);
  const runsInFlight = live.runsInFlight + (live.callers?.runsInFlight ?? 0);
  const isBusy = has('caution') && runsInFlight > 0;
  const rollbackTo = isUnchanged ? undefined : superseded?.revision;
  const refusals = [
    ...(superseded !== undefined && rollbackTo !== undefined && !isAllowed('rollback')
      ? [rollbackRefusal(superseded)]
      : []),
    ...(has('breaking') && !isAllowed('breaking') ? [breakingRefusal(findings)] : []),
    ...(isBusy && !isAllowed('caution') ? [busyRefusal(id, live)] : []),
  ];
  const revision = deployed?.flow.revision ?? null;
  const about = {
    flowId: id,
    name,
    version,
    runsInFlight,
    findings,
    class: gravest(findings),
    rollbackTo,
  };
  if (refusals.length > 0) {
    return { outcome: { ...about, action: 'refused', revision, refusal: refusals.join('\n') } };
  }
  const action = isUnchanged ? 'unchanged' : deployed === undefined ? 'created' : 'updated';
  return {
    outcome: { ...about, action, revision: isUnchanged ? revision : (revision ?? 0) + 1, refusal: null },
    deploy: {
      id,
      name,
      version,
      hash,
      snapshot,
      at,
      source,
      findings,
      basedOn: revision,
      needsIdle: has('caution') && !isAllowed('caution'),
      triggers: { keys: Object.keys(loaded.manifest.triggers), renamed: isUnchanged ? [] : renames(request) },
      withoutHistory: isAllowed('breaking') ? [] : stepsWithoutHistory(deployed?.revision.snapshot, live),
      overrides: [
        ...(has('breaking') ? (['breaking'] as const) : []),
        ...(isBusy ? (['caution'] as const) : []),
        ...(rollbackTo === undefined ? [] : (['rollback'] as const)),
      ],
    },
  };
}

function differences({ loaded, deployed, live, retentionDays }: PlanRequest): readonly Finding[] {
  if (deployed === undefined) return [];
  return compareRevisions({ before: deployed.revision.snapshot, after: loaded.snapshot, live, retentionDays });
}

function renames({ loaded, deployed, live, retentionDays }: PlanRequest): { from: string; to: string }[] {
  if (deployed === undefined) return [];
  return findRenamedTriggers({ before: deployed.revision.snapshot, after: loaded.snapshot, live, retentionDays });
}

/** Steps that may go as long as no run knows them; asked again when the revision is written. */
function stepsWithoutHistory(snapshot: Json | undefined, { stepsWithHistory }: LiveFlow): string[] {
  const { steps = {} } = (snapshot ?? {}) as { readonly steps?: Readonly<Record<string, Json>> };
  return Object.keys(steps).filter((key) => !stepsWithHistory.includes(key));
}

const NAMED_RUNS = 5;

/** How to go on where runs in flight are in the way. */
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

function rollbackRefusal({ revision, newest }: { revision: number; newest: number }): string {
  return (
    `The manifest is revision ${revision}, older than revision ${newest}, which is deployed. To go back on purpose, ` +
    'allow it with `--allow rollback` (over HTTP `allow=rollback`), or change its version.'
  );
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
