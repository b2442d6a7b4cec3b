import type { Database } from 'better-sqlite3';
import type {
  DeployedRevision,
  DeployResult,
  DeployStore,
  FlowRecord,
  PlannedDeploy,
  RevisionPage,
  RevisionSummary,
} from '../store.ts';
import { prepareDeployFlow, prepareFindFlow, prepareFindRevision, prepareListFlows } from './flows.ts';
import { prepareKeepFormerKeys } from './former-keys.ts';
import { prepareCountInFlight, prepareHasHistory } from './live-flow.ts';

/** Runs of one revision are counted up to here. */
const countedRuns = 10_000;

export function prepareApplyDeploy(db: Database): (deploy: PlannedDeploy) => DeployResult {
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

  return ({ source, basedOn, needsIdle, withoutHistory, findings, overrides, triggers, ...deploy }) => {
    const deployed = find(deploy.id);
    if (deployed !== undefined && findHash.get(deploy.id, deployed.revision)?.hash === deploy.hash) {
      adopt.run(source, deploy.id, deployed.revision);
      return { kind: 'unchanged', flow: deployed };
    }
    if ((deployed?.revision ?? null) !== basedOn) return { kind: 'outdated' };
    if (withoutHistory.some((stepKey) => hasHistory(deploy.id, stepKey))) return { kind: 'outdated' };
    const runsInFlight = needsIdle ? countInFlight(deploy.id) : 0;
    if (runsInFlight > 0) return { kind: 'busy', runsInFlight };
    const flow = deployFlow(deploy);
    keepFormerKeys({ flowId: flow.id, triggerKeys: triggers.keys, renamed: triggers.renamed, at: deploy.at });
    adopt.run(source, flow.id, flow.revision);
    annotate.run(JSON.stringify(findings), JSON.stringify(overrides), flow.id, flow.revision);
    return { kind: 'applied', flow };
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
): (query: Parameters<DeployStore['listRevisions']>[0]) => RevisionPage | undefined {
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
