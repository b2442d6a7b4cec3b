import type { Callers, LiveRun } from '../../model/finding.ts';
import { flowsStartedBy, type Graph, type RunnableManifest, subFlowsOf } from '../../model/manifest.ts';
import { isGuarded, isIdle, isMarkedRetired } from '../../model/retired.ts';
import type { DeployResult, FlowRecord, PlannedDeploy } from '../store.ts';
import type { Decision } from './decision.ts';
import { findFlow, flowsAt, insertRevision, listFlows, lockFlows } from './flows.ts';
import { holding } from './placing.ts';
import { fixed, type Port, sql } from './port.ts';
import { inFlight, newestRevision, revisionOf, runsByStatus } from './revisions.ts';
import { keepFormerTriggers, keepRoutes, listHandovers, slugsOf } from './routes.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** How many runs in flight are named; a person would not read more. */
const NAMED_RUNS = 200;
/** How many runs of one revision are searched for a step, newest first. */
const ASKED_RUNS = 1000;

function* applyDeploys(port: Port, deploys: readonly PlannedDeploy[]): Decision<DeployResult> {
  const handovers = yield* listHandovers(port, deploys);
  const flows = yield* lockFlows(port, [...deploys.map(({ id }) => id), ...handovers.map(({ from }) => from.flowId)]);
  const plans = [];
  for (const deploy of deploys) {
    const deployed = flows.get(deploy.id);
    const isGone = deploy.isUnchanged && deployed?.deletedAt !== undefined;
    if (isGone || (deployed?.revision ?? null) !== deploy.basedOn) return { kind: 'outdated', flowId: deploy.id };
    const same = deploy.isUnchanged ? deployed : undefined;
    const objection = same === undefined ? yield* objectionTo(port, deploy) : undefined;
    if (objection !== undefined) return objection;
    plans.push({ deploy, same });
  }
  const changed = plans.flatMap(({ deploy, same }) => (same === undefined ? [deploy] : []));
  if (changed.length > 0) yield* lockDeploys(port);
  const outdated = (yield* unknownAt(port, changed)) ?? (yield* deletedAmong(port, changed));
  if (outdated !== undefined) return outdated;
  const cycle = yield* cycleThrough(port, changed);
  if (cycle !== undefined) return { kind: 'outdated', flowId: cycle[0], others: cycle };
  const at = Math.max(0, ...deploys.map((deploy) => deploy.at));
  yield* keepFormerTriggers(port, changed, { flows, handovers, at });
  const applied = [];
  for (const { deploy, same } of plans) {
    const flow = same ?? (yield* insertRevision(port, deploy.basedOn ?? 0, deploy));
    keepRoutes(port, deploy, flow.revision);
    applied.push(flow);
  }
  return { kind: 'applied', flows: applied };
}

/** Only one transaction at a time changes which flows start which, and where slugs lead. */
function lockDeploys(port: Port) {
  return port.run(
    sql`SELECT pg_advisory_xact_lock(hashtextextended('sluice flows that run others', sluice_lock_scope))`,
  );
}

type Outdated = Extract<DeployResult, { readonly kind: 'outdated' }>;

/** If two processes deploy to one slug at once, the second sees the deploy of the first. */
function* unknownAt(port: Port, deploys: readonly PlannedDeploy[]): Decision<Outdated | undefined> {
  const ids = new Set(deploys.map(({ id }) => id));
  for (const { id: flowId, snapshot, known } of deploys) {
    const bySlug = known && (yield* flowsAt(port, [...slugsOf(snapshot).keys()]));
    const others = [...(bySlug?.values() ?? [])].flat().filter(({ id }) => !ids.has(id));
    const unknown = others.filter(({ id, revision, deletedAt }) => !deletedAt && known?.get(id) !== revision);
    if (unknown.length > 0) return { kind: 'outdated', flowId, others: unknown.map(({ id }) => id) };
  }
  return undefined;
}

/** A deleted flow that one of the deploys starts, unless it is deployed together with it. */
function* deletedAmong(port: Port, deploys: readonly PlannedDeploy[]): Decision<Outdated | undefined> {
  const ids = new Set(deploys.map(({ id }) => id));
  const starts = deploys.flatMap(({ id: flowId, snapshot }) =>
    flowsStartedBy(snapshot as unknown as RunnableManifest).map((started) => ({ flowId, started })),
  );
  if (starts.length === 0) return undefined;
  const others = [...new Set(starts.map(({ started }) => started))].filter((id) => !ids.has(id));
  const deleted = yield* port.get<{ id: string }>(
    sql`SELECT id FROM sluice.flows WHERE id = ANY (${others}) AND deleted_at IS NOT NULL ORDER BY id LIMIT 1`,
  );
  const found = starts.find(({ started }) => started === deleted?.id);
  return found && { kind: 'outdated', flowId: found.flowId, others: [found.started] };
}

/** The flows whose newest revisions start a flow, read under the lock of `lockDeploys`. */
function* listCallers(port: Port, flowId: string): Decision<Pick<FlowRecord, 'id' | 'name'>[]> {
  const naming = yield* port.all<Pick<FlowRecord, 'id' | 'name'> & { readonly snapshot: string }>(sql`
    SELECT f.id, f.name, r.snapshot
    FROM sluice.flows AS f JOIN sluice.revisions AS r ON r.flow_id = f.id AND r.revision = f.revision
    WHERE f.deleted_at IS NULL AND f.id <> ${flowId} AND strpos(lower(r.snapshot), ${flowId}) > 0 ORDER BY f.name, f.id`);
  const callers = naming.filter(({ snapshot }) => flowsStartedBy(JSON.parse(snapshot)).includes(flowId));
  return callers.map(({ id, name }) => ({ id, name }));
}

function* deleteFlow(port: Port, { flowId, at }: Given<'deleteFlow'>): Decision<Answer<'deleteFlow'>> {
  const flow = (yield* lockFlows(port, [flowId])).get(flowId);
  if (flow === undefined || flow.deletedAt !== undefined) return { kind: 'unknown' };
  const held = yield* holding.count(port, flowId);
  if (held > 0) return { kind: 'holding', held };
  yield* lockDeploys(port);
  const callers = yield* listCallers(port, flowId);
  if (callers.length > 0) return { kind: 'needed', callers };
  port.later(sql`
    UPDATE sluice.flows SET deleted_at = ${at}, draining_since = NULL, updated_at = ${at} WHERE id = ${flowId}`);
  return { kind: 'deleted' };
}

/**
 * The cycle of flows that would exist if these flows were deployed together with those already deployed. If two halves
 * of a cycle are deployed at once, the second sees the first: both run flows, so one has waited.
 */
function* cycleThrough(
  port: Port,
  deploys: readonly PlannedDeploy[],
): Decision<readonly [string, ...string[]] | undefined> {
  const own = deploys.map(
    ({ id, snapshot }) => [id, subFlowsOf((snapshot as unknown as RunnableManifest).steps)] as const,
  );
  if (own.every(([, subFlows]) => subFlows.length === 0)) return undefined;
  // Each flow is read once, even if several of the deploys lead to it.
  const known = new Map<string, readonly string[]>(own);
  for (const [flowId] of own) {
    const ways = new Map<string, readonly [string, ...string[]]>([[flowId, [flowId]]]);
    for (const [id, way] of ways) {
      const flow = known.has(id) ? undefined : yield* findFlow(port, id);
      const stored = flow && (yield* revisionOf(port, id, flow.revision)).entry.subFlows;
      const subFlows = known.get(id) ?? stored ?? [];
      known.set(id, subFlows);
      for (const next of subFlows) {
        if (next === flowId) return way;
        if (!ways.has(next)) ways.set(next, [...way, next]);
      }
    }
  }
  return undefined;
}

/** Why a deploy of a changed manifest cannot be applied, under the lock of its flow. */
function* objectionTo(
  port: Port,
  { id: flowId, needsIdle, withoutHistory }: PlannedDeploy,
): Decision<DeployResult | undefined> {
  const lastRuns = yield* lastRunsOf(port, flowId, new Set(withoutHistory));
  if (lastRuns.size > 0) return { kind: 'outdated', flowId };
  if (!needsIdle) return undefined;
  const callers = yield* findCallers(port, flowId);
  const runsInFlight = (yield* countInFlight(port, flowId)) + (callers?.runsInFlight ?? 0);
  return runsInFlight > 0 ? { kind: 'busy', flowId, runsInFlight } : undefined;
}

function* countInFlight(port: Port, flowId: string): Decision<number> {
  const row = yield* port.get<{ count: number }>(
    sql`SELECT count(*) AS count FROM ${runsByStatus} WHERE ${inFlight} AND flow_id = ${flowId}`,
  );
  return row?.count ?? 0;
}

/** Runs of other flows that have pinned this one and may start it now; undefined if there are none. */
function* findCallers(port: Port, flowId: string): Decision<Callers | undefined> {
  // Most flows are pinned by no run: then runs in flight are not read.
  const pinned = yield* port.get(sql`SELECT 1 FROM sluice.run_pins WHERE flow_id = ${flowId} LIMIT 1`);
  if (pinned === undefined) return undefined;
  const rows = yield* port.all<Callers['runs'][number] & { runsInFlight: number }>(sql`
    SELECT r.id, r.flow_id AS "flowId", r.flow_name AS "flowName", r.started_at AS "startedAt",
      count(*) OVER () AS "runsInFlight"
    FROM (SELECT id, flow_id, flow_name, started_at FROM ${runsByStatus} WHERE ${inFlight}) AS r
    JOIN sluice.run_pins AS p ON p.run_id = r.id AND p.flow_id = ${flowId}
    LEFT JOIN sluice.sub_runs AS s ON s.run_id = r.id
    WHERE coalesce(s.root_started_at, r.started_at) <
      coalesce((SELECT draining_since FROM sluice.flows WHERE id = ${flowId}), ${fixed(`${Number.MAX_SAFE_INTEGER}`)})
    ORDER BY r.started_at, r.id LIMIT ${NAMED_RUNS}`);
  const [first] = rows;
  return first && { runsInFlight: first.runsInFlight, runs: rows.map(({ runsInFlight, ...run }) => run) };
}

function* listInFlight(port: Port, flowId: string): Decision<LiveRun[]> {
  const runs = yield* port.all<Omit<LiveRun, 'steps'>>(sql`
    SELECT id, revision, trigger_key AS "triggerKey", started_at AS "startedAt"
    FROM ${runsByStatus} WHERE ${inFlight} AND flow_id = ${flowId} ORDER BY started_at, id LIMIT ${NAMED_RUNS}`);
  const steps = new Map(runs.map(({ id }) => [id, {} as Record<string, LiveRun['steps'][string]>]));
  for (const revision of new Set(runs.map((run) => run.revision))) {
    const stepKeys = Object.keys((yield* revisionOf(port, flowId, revision)).graph);
    const ids = runs.filter((run) => run.revision === revision).map(({ id }) => id);
    const rows = yield* port.all<{ runId: string; stepKey: string } & LiveRun['steps'][string]>(
      // By key, because a run may also have thousands of children of loops.
      sql`
        SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.status,
          (s.status = 'Pending' AND (s.wait IS NOT NULL OR s.attempt_count > 0))::boolean AS "isWaiting"
        FROM unnest(${ids}::uuid[]) AS r (id) CROSS JOIN unnest(${stepKeys}::text[]) AS k (step_key)
        JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = k.step_key ORDER BY s.run_id, s.step_key`,
    );
    for (const { runId, stepKey, status, isWaiting } of rows) {
      const ofRun = steps.get(runId);
      if (ofRun !== undefined) ofRun[stepKey] = { status, isWaiting };
    }
  }
  return runs.map((run) => ({ ...run, steps: steps.get(run.id) ?? {} }));
}

/**
 * When the newest kept run that did anything in a step was started, by top-level step key; for the given keys or all.
 * Only runs of a revision with the step can have done anything in it.
 */
function* lastRunsOf(port: Port, flowId: string, wanted?: ReadonlySet<string>): Decision<Map<string, number>> {
  const lastRuns = new Map<string, number>();
  if (wanted?.size === 0) return lastRuns;
  for (const revision of yield* listRunRevisions(port, flowId)) {
    const graph = (yield* revisionOf(port, flowId, revision)).graph;
    const stepKeys = [];
    for (const stepKey of Object.keys(graph)) {
      if (lastRuns.has(stepKey) || wanted?.has(stepKey) === false) continue;
      if (!(yield* isRetired(port, graph, { flowId, revision, stepKey }))) stepKeys.push(stepKey);
    }
    const found = stepKeys.length === 0 ? [] : yield* lastRunsIn(port, { flowId, revision, stepKeys });
    for (const { stepKey, startedAt } of found) lastRuns.set(stepKey, startedAt);
  }
  return lastRuns;
}

/**
 * Whether a revision keeps a step only for the sake of its records. Its own runs still write a row, which says that
 * they skipped the step or did nothing; if that counted as history, a retired step could never be removed.
 */
function* isRetired(
  port: Port,
  graph: Graph,
  { flowId, revision, stepKey }: { flowId: string; revision: number; stepKey: string },
): Decision<boolean> {
  const step = graph[stepKey];
  if (step === undefined) return false;
  if (isGuarded(step)) return true;
  if (!isIdle(graph, stepKey)) return false;
  if (isMarkedRetired(step)) return true;
  // A step that was always a NoOp was never retired, unless it is marked as retired.
  const acting = yield* port.get(sql`
    SELECT 1 FROM sluice.revisions
    WHERE flow_id = ${flowId} AND revision < ${revision} AND strpos(acting_steps, ${JSON.stringify(stepKey)}) > 0
    LIMIT 1`);
  return acting !== undefined;
}

/** Revisions that kept runs are pinned to, newest first: one seek in the index for each. */
function* listRunRevisions(port: Port, flowId: string): Decision<number[]> {
  const rows = yield* port.all<{ revision: number }>(sql`
    WITH RECURSIVE pinned (revision) AS (
      SELECT max(revision) FROM sluice.runs /*sqlite: INDEXED BY runs_by_revision */ WHERE flow_id = ${flowId}
      UNION ALL
      SELECT (
        SELECT max(r.revision) FROM sluice.runs AS r /*sqlite: INDEXED BY runs_by_revision */
        WHERE r.flow_id = ${flowId} AND r.revision < pinned.revision)
      FROM pinned WHERE pinned.revision IS NOT NULL
    ) SELECT revision FROM pinned WHERE revision IS NOT NULL`);
  return rows.map(({ revision }) => revision);
}

/**
 * When the newest run of a revision with a row of the step was started. A run that ends has rows of all its steps,
 * unless it failed or was stopped on the way, so the first one read usually has the answer. If a thousand have none, it
 * assumes that an older one has: keeping a step for nothing costs less than losing history.
 */
function* lastRunsIn(
  port: Port,
  { flowId, revision, stepKeys }: { flowId: string; revision: number; stepKeys: readonly string[] },
): Decision<{ stepKey: string; startedAt: number }[]> {
  const newest = fixed(`FROM sluice.runs /*sqlite: INDEXED BY runs_by_revision */`);
  return yield* port.all(sql`
    SELECT "stepKey", "startedAt" FROM (
      SELECT step_key AS "stepKey", coalesce(
        (SELECT r.started_at FROM (
            SELECT id, started_at ${newest} WHERE flow_id = ${flowId} AND revision = ${revision}
            ORDER BY started_at DESC, id DESC LIMIT ${ASKED_RUNS}
          ) AS r /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = k.step_key
          ORDER BY r.started_at DESC, r.id DESC LIMIT 1),
        (SELECT started_at ${newest} WHERE flow_id = ${flowId} AND revision = ${revision}
          ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ${ASKED_RUNS})
      ) AS "startedAt"
      FROM unnest(${stepKeys}::text[]) AS k (step_key)
    ) AS found WHERE "startedAt" IS NOT NULL`);
}

export const deployVerbs: Verbs<'readLiveFlow' | 'applyDeploys' | 'deleteFlow' | 'listDeployed'> = {
  applyDeploys: {
    access: 'write',
    changes: (deploys) => deploys.map(({ id }) => ({ kind: 'flow', flowId: id })),
    decide: applyDeploys,
  },
  deleteFlow: {
    access: 'write',
    changes: ({ flowId }, { kind }) => (kind === 'deleted' ? [{ kind: 'flow', flowId }] : []),
    decide: deleteFlow,
  },
  /** Cheap for any length of history: it reads the newest runs of each revision. */
  readLiveFlow: {
    access: 'read',
    *decide(port, flowId) {
      const flow = yield* findFlow(port, flowId);
      const revision = flow && (yield* newestRevision(port, flow));
      const lastRuns = yield* lastRunsOf(port, flowId);
      const callers = yield* findCallers(port, flowId);
      return {
        ...(flow && revision && { deployed: { flow, revision } }),
        ...(callers && { callers }),
        runsInFlight: yield* countInFlight(port, flowId),
        runs: yield* listInFlight(port, flowId),
        stepsWithHistory: [...lastRuns.keys()],
        lastRunOfStep: Object.fromEntries(lastRuns),
      };
    },
  },
  listDeployed: {
    access: 'read',
    *decide(port) {
      const rows = yield* port.all<{ id: string }>(sql`
        SELECT f.id FROM sluice.flows AS f JOIN sluice.revisions AS r ON r.flow_id = f.id AND r.revision = f.revision
        WHERE r.source IS NOT NULL AND f.deleted_at IS NULL`);
      const ours = new Set(rows.map(({ id }) => id));
      const deployed = [];
      for (const flow of yield* listFlows(port)) {
        const revision = ours.has(flow.id) ? yield* newestRevision(port, flow) : undefined;
        if (revision !== undefined) deployed.push({ flow, revision });
      }
      return deployed;
    },
  },
};
