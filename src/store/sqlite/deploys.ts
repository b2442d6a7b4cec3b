import type { Database } from 'better-sqlite3';
import { isSame } from '../../manifest/diff.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type {
  DeployedRevision,
  DeployResult,
  FlowRecord,
  PlannedDeploy,
  RevisionPage,
  RevisionSummary,
  Store,
  SupersededRevision,
} from '../store.ts';
import { prepareDeployFlow, prepareFindFlow, prepareFindRevision, prepareListFlows } from './flows.ts';
import { prepareKeepFormerKeys } from './former-keys.ts';
import { prepareCountInFlight, prepareHasHistory } from './live-flow.ts';

/** Runs of one revision are counted up to here. */
const countedRuns = 10_000;

export function prepareApplyDeploys(db: Database): (deploys: readonly PlannedDeploy[]) => DeployResult {
  const find = prepareFindFlow(db);
  const findHash = db.prepare<[string, number], { hash: string }>(
    'SELECT hash FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const countInFlight = prepareCountInFlight(db);
  const hasHistory = prepareHasHistory(db);
  const deployFlow = prepareDeployFlow(db);
  const adopt = db.prepare('UPDATE revisions SET source = ? WHERE flow_id = ? AND revision = ? AND source IS NULL');
  const annotate = db.prepare('UPDATE revisions SET findings = ?, overrides = ? WHERE flow_id = ? AND revision = ?');
  const keepFormerKeys = prepareKeepFormerKeys(db);

  const deployedSame = ({ id, hash }: PlannedDeploy): FlowRecord | undefined => {
    const deployed = find(id);
    return deployed !== undefined && findHash.get(id, deployed.revision)?.hash === hash ? deployed : undefined;
  };
  const objectionTo = (deploy: PlannedDeploy): DeployResult | undefined => {
    const { id: flowId, basedOn, needsIdle, withoutHistory } = deploy;
    if (deployedSame(deploy) !== undefined) return undefined;
    if ((find(flowId)?.revision ?? null) !== basedOn) return { kind: 'outdated', flowId };
    if (withoutHistory.some((stepKey) => hasHistory(flowId, stepKey))) return { kind: 'outdated', flowId };
    const runsInFlight = needsIdle ? countInFlight(flowId) : 0;
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
    return { kind: 'applied', flows: deploys.map(apply) };
  };
}

export function prepareFindSuperseded(
  db: Database,
): (manifest: Parameters<Store['findSuperseded']>[0]) => SupersededRevision | undefined {
  const findNewest = db.prepare<[string], { apiRevision: number | null }>(
    "SELECT max(revision) AS apiRevision FROM revisions WHERE flow_id = ? AND source = 'api'",
  );
  const list = db.prepare<[string], { revision: number; snapshot: string }>(
    'SELECT revision, snapshot FROM revisions WHERE flow_id = ? ORDER BY revision DESC',
  );
  return ({ id, snapshot, isNamedByFile }) => {
    const apiRevision = findNewest.get(id)?.apiRevision ?? null;
    if (apiRevision === null) return undefined;
    const named = (stored: JsonObject) => (isNamedByFile ? { ...stored, name: (snapshot as JsonObject).name } : stored);
    for (const { revision, snapshot: stored } of list.iterate(id)) {
      if (!isSame(named(JSON.parse(stored)) as Json, snapshot)) continue;
      return revision < apiRevision ? { revision, apiRevision } : undefined;
    }
    return undefined;
  };
}

export function prepareSetFlowDraining(
  db: Database,
): (change: { flowId: string; isDraining: boolean; at: number }) => FlowRecord | undefined {
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

export function prepareListRevisions(
  db: Database,
): (query: Parameters<Store['listRevisions']>[0]) => RevisionPage | undefined {
  const find = prepareFindFlow(db);
  const list = db.prepare<[string, number, number], RevisionRow>(`
    SELECT flow_id AS flowId, revision, version, hash, created_at AS createdAt, source, findings, overrides
    FROM revisions WHERE flow_id = ? ORDER BY revision DESC LIMIT ? OFFSET ?`);
  const count = db.prepare<[string], { total: number }>('SELECT count(*) AS total FROM revisions WHERE flow_id = ?');
  const countRuns = db.prepare<[string, number, number], { count: number }>(`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM runs INDEXED BY runs_by_revision WHERE flow_id = ? AND revision = ? LIMIT ?)`);
  const countInFlight = db.prepare<[string], { revision: number; count: number }>(`
    SELECT revision, count(*) AS count FROM runs INDEXED BY runs_by_status
    WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ? GROUP BY revision`);
  return ({ flowId, skip, take }) => {
    if (find(flowId) === undefined) return undefined;
    const inFlight = new Map(countInFlight.all(flowId).map((row) => [row.revision, row.count]));
    const items = list.all(flowId, take, skip).map((row) => ({
      ...row,
      findings: JSON.parse(row.findings ?? '[]'),
      overrides: JSON.parse(row.overrides ?? '[]'),
      runs: countRuns.get(flowId, row.revision, countedRuns)?.count ?? 0,
      runsInFlight: inFlight.get(row.revision) ?? 0,
    }));
    return { items, total: count.get(flowId)?.total ?? 0 };
  };
}

export function prepareListDeployed(db: Database): () => DeployedRevision[] {
  const listFlows = prepareListFlows(db);
  const findRevision = prepareFindRevision(db);
  const isOurs = db.prepare('SELECT 1 FROM revisions WHERE flow_id = ? AND revision = ? AND source IS NOT NULL');
  return () =>
    listFlows().flatMap((flow) => {
      if (isOurs.get(flow.id, flow.revision) === undefined) return [];
      const revision = findRevision(flow.id, flow.revision);
      return revision === undefined ? [] : [{ flow, revision }];
    });
}
