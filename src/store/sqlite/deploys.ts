import type { Database } from 'better-sqlite3';
import { isSame } from '../../manifest/diff.ts';
import { isGuarded, isIdle, isMarkedRetired } from '../../manifest/retired.ts';
import type { Callers, LiveRun } from '../../model/finding.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { asking, decideNow } from '../decisions/decision.ts';
import { cycleOf, type SubFlowReads, subFlowsOfDeploys } from '../decisions/sub-runs.ts';
import type { DeployResult, FlowRecord, PlannedDeploy, RevisionSummary } from '../store.ts';
import { prepareKeepFormerKeys } from './acceptance.ts';
import type { SqlValue } from './columns.ts';
import { flowOperations, prepareFindFlow } from './flows.ts';
import type { Member } from './messages.ts';
import { prepareRevisionOf } from './revisions.ts';

export const deployOperations = {
  readLiveFlow: { thread: 'reader', prepare: prepareReadLiveFlow },
  applyDeploys: { thread: 'writer', prepare: prepareApplyDeploys },
  findSuperseded: { thread: 'reader', prepare: prepareFindSuperseded },
  listRevisions: { thread: 'reader', prepare: prepareListRevisions },
  listDeployed: { thread: 'reader', prepare: prepareListDeployed },
  setFlowDraining: { thread: 'writer', prepare: prepareSetFlowDraining },
} as const;

/** Counts the runs of one revision up to this number. */
const countedRuns = 10_000;

function prepareApplyDeploys(db: Database): Member<'applyDeploys'> {
  const find = prepareFindFlow(db);
  const findHash = db.prepare<[string, number], { hash: string }>(
    'SELECT hash FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const countInFlight = prepareCountInFlight(db);
  const findCallers = prepareFindCallers(db);
  const hasHistory = prepareHasHistory(db);
  const deployFlow = flowOperations.deployFlow.prepare(db);
  const adopt = db.prepare('UPDATE revisions SET source = ? WHERE flow_id = ? AND revision = ? AND source IS NULL');
  const annotate = db.prepare('UPDATE revisions SET findings = ?, overrides = ? WHERE flow_id = ? AND revision = ?');
  const keepFormerKeys = prepareKeepFormerKeys(db);
  const rows = asking<SubFlowReads>({ findFlow: find, revisionOf: prepareRevisionOf(db) });

  const deployedSame = ({ id, hash }: PlannedDeploy): FlowRecord | undefined => {
    const deployed = find(id);
    return deployed !== undefined && findHash.get(id, deployed.revision)?.hash === hash ? deployed : undefined;
  };
  const objectionTo = (deploy: PlannedDeploy): DeployResult | undefined => {
    const { id: flowId, basedOn, needsIdle, withoutHistory } = deploy;
    if (deployedSame(deploy) !== undefined) return undefined;
    if ((find(flowId)?.revision ?? null) !== basedOn) return { kind: 'outdated', flowId };
    if (withoutHistory.some((stepKey) => hasHistory(flowId, stepKey))) return { kind: 'outdated', flowId };
    const runsInFlight = needsIdle ? countInFlight(flowId) + (findCallers(flowId)?.runsInFlight ?? 0) : 0;
    return runsInFlight > 0 ? { kind: 'busy', flowId, runsInFlight } : undefined;
  };
  const apply = (planned: PlannedDeploy): FlowRecord => {
    const { source, basedOn, needsIdle, withoutHistory, findings, overrides, triggers, ...deploy } = planned;
    const same = deployedSame(planned);
    const flow = same ?? deployFlow(deploy);
    adopt.run(source, flow.id, flow.revision);
    if (same === undefined) {
      keepFormerKeys({ flowId: flow.id, triggerKeys: triggers.keys, renamed: triggers.renamed, at: deploy.at });
      annotate.run(JSON.stringify(findings), JSON.stringify(overrides), flow.id, flow.revision);
    }
    return flow;
  };

  return (deploys) => {
    for (const deploy of deploys) {
      const objection = objectionTo(deploy);
      if (objection !== undefined) return objection;
    }
    const changed = deploys.filter((deploy) => deployedSame(deploy) === undefined);
    const cycle = decideNow(cycleOf(rows, subFlowsOfDeploys(changed)));
    if (cycle !== undefined) return { kind: 'outdated', flowId: cycle[0], cycle };
    return { kind: 'applied', flows: deploys.map(apply) };
  };
}

function prepareFindSuperseded(db: Database): Member<'findSuperseded'> {
  const list = db.prepare<[string], { revision: number; snapshot: string }>(
    'SELECT revision, snapshot FROM revisions WHERE flow_id = ? ORDER BY revision DESC',
  );
  return ({ id, snapshot, isNamedByFile }) => {
    const named = (stored: JsonObject) => (isNamedByFile ? { ...stored, name: (snapshot as JsonObject).name } : stored);
    let newest: number | undefined;
    for (const { revision, snapshot: stored } of list.iterate(id)) {
      newest ??= revision;
      if (!isSame(named(JSON.parse(stored)) as Json, snapshot)) continue;
      return revision < newest ? { revision, newest } : undefined;
    }
    return undefined;
  };
}

function prepareSetFlowDraining(db: Database): Member<'setFlowDraining'> {
  const find = prepareFindFlow(db);
  const drain = db.prepare('UPDATE flows SET draining_since = coalesce(draining_since, ?) WHERE id = ?');
  const resume = db.prepare('UPDATE flows SET draining_since = NULL WHERE id = ?');
  return ({ flowId, isDraining, at }) => {
    if (isDraining) drain.run(at, flowId);
    else resume.run(flowId);
    return find(flowId);
  };
}

interface RevisionRow extends Omit<RevisionSummary, 'findings' | 'overrides' | 'runs' | 'runsInFlight'> {
  readonly findings: string | null;
  readonly overrides: string | null;
}

function prepareListRevisions(db: Database): Member<'listRevisions'> {
  const find = prepareFindFlow(db);
  const isListed = 'flow_id = ? AND created_at >= ? AND created_at < ?';
  const list = db.prepare<SqlValue[], RevisionRow>(`
    SELECT flow_id AS flowId, revision, version, hash, created_at AS createdAt, source, findings, overrides
    FROM revisions WHERE ${isListed} ORDER BY revision DESC LIMIT ? OFFSET ?`);
  const count = db.prepare<SqlValue[], { total: number }>(`SELECT count(*) AS total FROM revisions WHERE ${isListed}`);
  const countRuns = db.prepare<[string, number, number], { count: number }>(`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM runs INDEXED BY runs_by_revision WHERE flow_id = ? AND revision = ? LIMIT ?)`);
  const countInFlight = db.prepare<[string], { revision: number; count: number }>(`
    SELECT revision, count(*) AS count FROM runs INDEXED BY runs_by_status
    WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ? GROUP BY revision`);
  return ({ flowId, skip, take, since = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER }) => {
    if (find(flowId) === undefined) return undefined;
    const inFlight = new Map(countInFlight.all(flowId).map((row) => [row.revision, row.count]));
    const items = list.all(flowId, since, until, take, skip).map((row) => ({
      ...row,
      findings: JSON.parse(row.findings ?? '[]'),
      overrides: JSON.parse(row.overrides ?? '[]'),
      runs: countRuns.get(flowId, row.revision, countedRuns)?.count ?? 0,
      runsInFlight: inFlight.get(row.revision) ?? 0,
    }));
    return { items, total: count.get(flowId, since, until)?.total ?? 0 };
  };
}

function prepareListDeployed(db: Database): Member<'listDeployed'> {
  const listFlows = flowOperations.listFlows.prepare(db);
  const findRevision = flowOperations.findRevision.prepare(db);
  const isOurs = db.prepare('SELECT 1 FROM revisions WHERE flow_id = ? AND revision = ? AND source IS NOT NULL');
  return () =>
    listFlows().flatMap((flow) => {
      if (isOurs.get(flow.id, flow.revision) === undefined) return [];
      const revision = findRevision(flow.id, flow.revision);
      return revision === undefined ? [] : [{ flow, revision }];
    });
}

/** Names at most so many runs in flight; a person would not read more. */
const namedRuns = 200;
/** Runs of one revision that are searched for a step, newest first. */
const askedRuns = 1000;

/**
 * What a change of a flow has to know. Cheap however long the history is: it reads the newest runs of each revision.
 */
function prepareReadLiveFlow(db: Database): Member<'readLiveFlow'> {
  const runsInFlight = prepareCountInFlight(db);
  const listInFlight = prepareListInFlight(db);
  const lastRuns = prepareLastRuns(db);
  const findCallers = prepareFindCallers(db);
  return (flowId) => {
    const lastRunOfStep = lastRuns(flowId);
    const callers = findCallers(flowId);
    return {
      ...(callers && { callers }),
      runsInFlight: runsInFlight(flowId),
      runs: listInFlight(flowId),
      stepsWithHistory: Object.keys(lastRunOfStep),
      lastRunOfStep,
    };
  };
}

// The index of all statuses but one is only used where the statement says so in the index's own words.
function prepareCountInFlight(db: Database): (flowId: string) => number {
  const count = db.prepare<[string], { count: number }>(
    "SELECT count(*) AS count FROM runs INDEXED BY runs_by_status WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ?",
  );
  return (flowId) => count.get(flowId)?.count ?? 0;
}

/** Undefined where there are none. */
function prepareFindCallers(db: Database): (flowId: string) => Callers | undefined {
  // Most flows are pinned by none: then the runs in flight are not read.
  const isPinned = db.prepare('SELECT 1 FROM run_pins WHERE flow_id = ? LIMIT 1');
  const calling = `
    FROM runs r INDEXED BY runs_by_status CROSS JOIN run_pins p ON p.run_id = r.id AND p.flow_id = :flowId
    LEFT JOIN sub_runs s ON s.run_id = r.id
    WHERE r.status = 'Running' AND r.status <> 'Succeeded' AND coalesce(s.root_started_at, r.started_at) <
      coalesce((SELECT draining_since FROM flows WHERE id = :flowId), ${Number.MAX_SAFE_INTEGER})`;
  const count = db.prepare<[{ flowId: string }], { count: number }>(`SELECT count(*) AS count ${calling}`);
  const list = db.prepare<[{ flowId: string }], Callers['runs'][number]>(`
    SELECT r.id, r.flow_id AS flowId, r.flow_name AS flowName, r.started_at AS startedAt ${calling}
    ORDER BY r.started_at LIMIT ${namedRuns}`);
  return (flowId) => {
    const runsInFlight = isPinned.get(flowId) === undefined ? 0 : (count.get({ flowId })?.count ?? 0);
    return runsInFlight === 0 ? undefined : { runsInFlight, runs: list.all({ flowId }) };
  };
}

function prepareListInFlight(db: Database): (flowId: string) => LiveRun[] {
  const list = db.prepare<[string, number], Omit<LiveRun, 'steps'>>(`
    SELECT id, revision, trigger_key AS triggerKey, started_at AS startedAt
    FROM runs INDEXED BY runs_by_status WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ? ORDER BY started_at LIMIT ?`);
  const listSteps = db.prepare<[string, string], { stepKey: string; status: string; isWaiting: number }>(`
    SELECT step_key AS stepKey, status, status = 'Pending' AND (wait IS NOT NULL OR attempt_count > 0) AS isWaiting
    FROM steps WHERE run_id = ? AND step_key IN (SELECT value FROM json_each(?)) ORDER BY step_key`);
  const revisionOf = prepareRevisionOf(db);
  // By key, because a run may also have thousands of children of loops.
  const stepsOf = (runId: string, keys: readonly string[]): LiveRun['steps'] => {
    const rows = listSteps.all(runId, JSON.stringify(keys));
    return Object.fromEntries(
      rows.map(({ stepKey, status, isWaiting }) => [stepKey, { status, isWaiting: isWaiting === 1 }]),
    );
  };
  return (flowId) =>
    list
      .all(flowId, namedRuns)
      .map((run) => ({ ...run, steps: stepsOf(run.id, Object.keys(revisionOf(flowId, run.revision).graph)) }));
}

/** When the newest kept run that did anything in a step was started, by top-level step key. */
function prepareLastRuns(db: Database): (flowId: string) => Record<string, number> {
  const listRevisions = prepareListRunRevisions(db);
  const revisionOf = prepareRevisionOf(db);
  const lastRunOf = prepareLastRunOf(db);
  const isRetired = prepareIsRetired(db);
  return (flowId) => {
    const lastRuns = new Map<string, number>();
    for (const revision of listRevisions(flowId)) {
      for (const stepKey of Object.keys(revisionOf(flowId, revision).graph)) {
        if (lastRuns.has(stepKey) || isRetired({ flowId, revision, stepKey })) continue;
        const startedAt = lastRunOf({ flowId, revision, stepKey });
        if (startedAt !== undefined) lastRuns.set(stepKey, startedAt);
      }
    }
    return Object.fromEntries(lastRuns);
  };
}

/** Whether a kept run did anything in the step: only runs of a revision that has the step can. */
function prepareHasHistory(db: Database): (flowId: string, stepKey: string) => boolean {
  const listRevisions = prepareListRunRevisions(db);
  const revisionOf = prepareRevisionOf(db);
  const lastRunOf = prepareLastRunOf(db);
  const isRetired = prepareIsRetired(db);
  return (flowId, stepKey) =>
    listRevisions(flowId).some(
      (revision) =>
        Object.hasOwn(revisionOf(flowId, revision).graph, stepKey) &&
        !isRetired({ flowId, revision, stepKey }) &&
        lastRunOf({ flowId, revision, stepKey }) !== undefined,
    );
}

/**
 * Whether a revision keeps a step only for the sake of its records. Its own runs still write a row, which says that
 * they skipped the step or did nothing; if that counted as history, a retired step could never be removed.
 */
function prepareIsRetired(db: Database): (place: { flowId: string; revision: number; stepKey: string }) => boolean {
  const revisionOf = prepareRevisionOf(db);
  const findOtherType = db.prepare<[string, number, string], unknown>(`
    SELECT 1 FROM revisions WHERE flow_id = ? AND revision < ? AND json_extract(snapshot, ?) <> 'NoOp' LIMIT 1`);
  return ({ flowId, revision, stepKey }) => {
    const graph = revisionOf(flowId, revision).graph;
    const step = graph[stepKey];
    if (step === undefined) return false;
    if (isGuarded(step)) return true;
    if (!isIdle(graph, stepKey)) return false;
    // A step that was a NoOp all along was never retired, unless it says so.
    return isMarkedRetired(step) || findOtherType.get(flowId, revision, `$.steps."${stepKey}".type`) !== undefined;
  };
}

/** Revisions that kept runs are pinned to, newest first: one jump through the index for each. */
function prepareListRunRevisions(db: Database): (flowId: string) => number[] {
  const list = db.prepare<[string, string], { revision: number }>(`
    WITH RECURSIVE pinned (revision) AS (
      SELECT max(revision) FROM runs INDEXED BY runs_by_revision WHERE flow_id = ?
      UNION ALL
      SELECT (SELECT max(r.revision) FROM runs r INDEXED BY runs_by_revision WHERE r.flow_id = ? AND r.revision < pinned.revision)
      FROM pinned WHERE pinned.revision IS NOT NULL
    ) SELECT revision FROM pinned WHERE revision IS NOT NULL`);
  return (flowId) => list.all(flowId, flowId).map(({ revision }) => revision);
}

/**
 * When the newest run of a revision that has a row of the step was started. A run that ends has rows of all its steps,
 * unless it failed or was stopped on the way, so the first one read usually has the answer. If a thousand have none, it
 * assumes that an older one has: a step wrongly kept costs less than history wrongly lost.
 */
function prepareLastRunOf(db: Database) {
  const find = db.prepare<[string, number, number, string], { startedAt: number }>(`
    SELECT r.started_at AS startedAt
    FROM (
      SELECT id, started_at, rowid AS age FROM runs INDEXED BY runs_by_revision
      WHERE flow_id = ? AND revision = ? ORDER BY rowid DESC LIMIT ?
    ) r CROSS JOIN steps s ON s.run_id = r.id AND s.step_key = ?
    ORDER BY r.age DESC LIMIT 1`);
  const findFurther = db.prepare<[string, number, number], { startedAt: number }>(`
    SELECT started_at AS startedAt FROM runs INDEXED BY runs_by_revision
    WHERE flow_id = ? AND revision = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?`);
  return ({ flowId, revision, stepKey }: { flowId: string; revision: number; stepKey: string }): number | undefined =>
    (find.get(flowId, revision, askedRuns, stepKey) ?? findFurther.get(flowId, revision, askedRuns))?.startedAt;
}
