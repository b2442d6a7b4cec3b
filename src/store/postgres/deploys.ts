import { isSame } from '../../manifest/diff.ts';
import { isGuarded, isIdle, isMarkedRetired } from '../../manifest/retired.ts';
import type { Callers, LiveFlow, LiveRun } from '../../model/finding.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { Graph } from '../../model/manifest.ts';
import { asking, decide } from '../decisions/decision.ts';
import { cycleOf, type SubFlowReads, subFlowsOfDeploys } from '../decisions/sub-runs.ts';
import type { DeployedRevision, DeployResult, FlowRecord, PlannedDeploy, RevisionSummary } from '../store.ts';
import { findFlow, findRevision, hasHash, insertRevision, listFlows, lockFlows } from './flows.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { revisionOf } from './revisions.ts';
import type { Sql } from './sql.ts';

export const deployOperations: Operations<
  'readLiveFlow' | 'applyDeploys' | 'findSuperseded' | 'listRevisions' | 'listDeployed'
> = {
  readLiveFlow: { lane: 'read', run: readLiveFlow },
  applyDeploys: { lane: 'write', run: applyDeploys },
  findSuperseded: { lane: 'read', run: findSuperseded },
  listRevisions: { lane: 'read', run: listRevisions },
  listDeployed: { lane: 'read', run: listDeployed },
};

/** Counts the runs of one revision up to this number. */
const COUNTED_RUNS = 10_000;
/** Names at most so many runs in flight; a person would not read more. */
const NAMED_RUNS = 200;
/** Runs of one revision that are searched for a step, newest first. */
const ASKED_RUNS = 1000;
/** Manifests that are read at a time. */
const READ_SNAPSHOTS = 20;

async function applyDeploys(sql: Sql, deploys: readonly PlannedDeploy[]): Promise<DeployResult> {
  const flows = await lockFlows(
    sql,
    deploys.map(({ id }) => id),
  );
  const plans = [];
  for (const deploy of deploys) {
    const deployed = flows.get(deploy.id);
    const same = deployed !== undefined && (await hasHash(sql, deployed, deploy.hash)) ? deployed : undefined;
    const objection = same === undefined ? await objectionTo(sql, deploy, deployed) : undefined;
    if (objection !== undefined) return objection;
    plans.push({ deploy, same });
  }
  const changed = plans.flatMap(({ deploy, same }) => (same === undefined ? [deploy] : []));
  const cycle = await cycleThrough(sql, subFlowsOfDeploys(changed));
  if (cycle !== undefined) return { kind: 'outdated', flowId: cycle[0], cycle };
  const applied = [];
  for (const { deploy, same } of plans) applied.push(same ?? (await apply(sql, deploy)));
  for (const [at, flow] of applied.entries()) await adopt(sql, flow, deploys[at]?.source);
  return { kind: 'applied', flows: applied };
}

/** Of two halves of a cycle that are deployed at once, the second sees the first: both run flows, so one waits here. */
async function cycleThrough(sql: Sql, deploys: ReadonlyMap<string, readonly string[]>) {
  if ([...deploys.values()].every((subFlows) => subFlows.length === 0)) return undefined;
  await sql.run("SELECT pg_advisory_xact_lock(hashtextextended('sluice flows that run others', sluice_lock_scope))");
  const rows = asking<SubFlowReads>({
    findFlow: (flowId) => findFlow(sql, flowId),
    revisionOf: (flowId, revision) => revisionOf(sql, flowId, revision),
  });
  return decide(cycleOf(rows, deploys));
}

/** Why a deploy of another manifest than the newest cannot be applied, under the lock of its flow. */
async function objectionTo(
  sql: Sql,
  { id: flowId, basedOn, needsIdle, withoutHistory }: PlannedDeploy,
  deployed: FlowRecord | undefined,
): Promise<DeployResult | undefined> {
  if ((deployed?.revision ?? null) !== basedOn) return { kind: 'outdated', flowId };
  const lastRuns = await lastRunsOf(sql, flowId, new Set(withoutHistory));
  if (lastRuns.size > 0) return { kind: 'outdated', flowId };
  const callers = needsIdle ? await findCallers(sql, flowId) : undefined;
  const runsInFlight = needsIdle ? (await countInFlight(sql, flowId)) + (callers?.runsInFlight ?? 0) : 0;
  return runsInFlight > 0 ? { kind: 'busy', flowId, runsInFlight } : undefined;
}

async function apply(sql: Sql, deploy: PlannedDeploy): Promise<FlowRecord> {
  const { basedOn, findings, overrides } = deploy;
  const flow = await insertRevision(sql, basedOn ?? 0, deploy);
  await sql.run('UPDATE sluice.revisions SET findings = $3, overrides = $4 WHERE flow_id = $1 AND revision = $2', [
    flow.id,
    flow.revision,
    JSON.stringify(findings),
    JSON.stringify(overrides),
  ]);
  await keepFormerKeys(sql, deploy);
  return flow;
}

/** Says where a revision came from, unless that is known. */
async function adopt(
  sql: Sql,
  { id, revision }: FlowRecord,
  source: PlannedDeploy['source'] | undefined,
): Promise<void> {
  await sql.run('UPDATE sluice.revisions SET source = $3 WHERE flow_id = $1 AND revision = $2 AND source IS NULL', [
    id,
    revision,
    source ?? null,
  ]);
}

/**
 * Keeps the keys that triggers had before this deploy. A former key that another trigger takes counts for what was
 * accepted under it so far: every nonce of the flow until now has a number that is given out, every later one a greater.
 */
async function keepFormerKeys(sql: Sql, { id: flowId, triggers, at }: PlannedDeploy): Promise<void> {
  const { keys, renamed } = triggers;
  await sql.run(
    `UPDATE sluice.former_trigger_keys SET reused_at = $1,
      last_seq = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM sluice.nonces_seq_seq)
    WHERE flow_id = $2 AND former_key = ANY($3) AND last_seq IS NULL`,
    [at, flowId, keys],
  );
  for (const { from, to } of renamed) {
    await sql.run(
      `INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_key) VALUES ($1, $2, $3)
      ON CONFLICT (flow_id, trigger_key, former_key) DO UPDATE SET last_seq = NULL, reused_at = NULL`,
      [flowId, to, from],
    );
    await sql.run(
      `INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_key, last_seq, reused_at)
      SELECT flow_id, $2, former_key, last_seq, reused_at FROM sluice.former_trigger_keys
      WHERE flow_id = $1 AND trigger_key = $3 AND former_key <> $2
      ON CONFLICT DO NOTHING`,
      [flowId, to, from],
    );
  }
}

async function findSuperseded(
  sql: Sql,
  { id, snapshot, isNamedByFile }: Given<'findSuperseded'>,
): Promise<Answer<'findSuperseded'>> {
  const named = (stored: JsonObject) => (isNamedByFile ? { ...stored, name: (snapshot as JsonObject).name } : stored);
  let newest: number | undefined;
  for await (const { revision, manifest } of manifestsOf(sql, { flowId: id })) {
    newest ??= revision;
    if (!isSame(named(manifest) as Json, snapshot)) continue;
    return revision < newest ? { revision, newest } : undefined;
  }
  return undefined;
}

interface AskedRevisions {
  readonly flowId: string;
  /** Only earlier ones. */
  readonly before?: number;
  /** Only those whose manifest has this text somewhere. */
  readonly text?: string;
}

/** The manifests of a flow, newest first. */
async function* manifestsOf(sql: Sql, { flowId, before = Number.MAX_SAFE_INTEGER, text = '' }: AskedRevisions) {
  for (let last = before; ; ) {
    const rows = await sql.all<{ revision: number; snapshot: string }>(
      `SELECT revision, snapshot FROM sluice.revisions
      WHERE flow_id = $1 AND revision < $2::bigint AND strpos(snapshot, $3) > 0
      ORDER BY revision DESC LIMIT ${READ_SNAPSHOTS}`,
      [flowId, last, text],
    );
    for (const { revision, snapshot } of rows) {
      yield { revision, manifest: JSON.parse(snapshot) as JsonObject };
      last = revision;
    }
    if (rows.length < READ_SNAPSHOTS) return;
  }
}

interface RevisionRow extends Omit<RevisionSummary, 'findings' | 'overrides'> {
  readonly findings: string | null;
  readonly overrides: string | null;
}

async function listRevisions(
  sql: Sql,
  { flowId, skip, take, since = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER }: Given<'listRevisions'>,
): Promise<Answer<'listRevisions'>> {
  if ((await findFlow(sql, flowId)) === undefined) return undefined;
  const isListed = 'flow_id = $1 AND created_at >= $2 AND created_at < $3';
  const rows = await sql.all<RevisionRow>(
    `WITH in_flight AS (
      SELECT revision, count(*) AS count FROM sluice.runs WHERE status = 'Running' AND flow_id = $1 GROUP BY revision
    )
    SELECT flow_id AS "flowId", own.revision, version, hash, created_at AS "createdAt", source, findings, overrides,
      (SELECT count(*) FROM (
        SELECT FROM sluice.runs AS r WHERE r.flow_id = $1 AND r.revision = own.revision LIMIT ${COUNTED_RUNS}
      ) AS counted) AS runs,
      coalesce((SELECT count FROM in_flight WHERE in_flight.revision = own.revision), 0) AS "runsInFlight"
    FROM (
      SELECT * FROM sluice.revisions WHERE ${isListed} ORDER BY revision DESC LIMIT $4 OFFSET $5
    ) AS own ORDER BY own.revision DESC`,
    [flowId, since, until, take, skip],
  );
  const counted = await sql.get<{ total: number }>(`SELECT count(*) AS total FROM sluice.revisions WHERE ${isListed}`, [
    flowId,
    since,
    until,
  ]);
  const items = rows.map((row) => ({
    ...row,
    findings: JSON.parse(row.findings ?? '[]'),
    overrides: JSON.parse(row.overrides ?? '[]'),
  }));
  return { items, total: counted?.total ?? 0 };
}

async function listDeployed(sql: Sql): Promise<DeployedRevision[]> {
  const rows = await sql.all<{ id: string }>(
    `SELECT f.id FROM sluice.flows AS f JOIN sluice.revisions AS r ON r.flow_id = f.id AND r.revision = f.revision
    WHERE r.source IS NOT NULL`,
  );
  const ours = new Set(rows.map(({ id }) => id));
  const deployed = [];
  for (const flow of await listFlows(sql)) {
    const revision = ours.has(flow.id) ? await findRevision(sql, flow.id, flow.revision) : undefined;
    if (revision !== undefined) deployed.push({ flow, revision });
  }
  return deployed;
}

/**
 * What a change of a flow has to know. Cheap however long the history is: it reads the newest runs of each revision.
 */
async function readLiveFlow(sql: Sql, flowId: string): Promise<LiveFlow> {
  const lastRuns = await lastRunsOf(sql, flowId);
  const callers = await findCallers(sql, flowId);
  return {
    ...(callers && { callers }),
    runsInFlight: await countInFlight(sql, flowId),
    runs: await listInFlight(sql, flowId),
    stepsWithHistory: [...lastRuns.keys()],
    lastRunOfStep: Object.fromEntries(lastRuns),
  };
}

async function countInFlight(sql: Sql, flowId: string): Promise<number> {
  const row = await sql.get<{ count: number }>(
    `SELECT count(*) AS count FROM sluice.runs WHERE status = 'Running' AND flow_id = $1`,
    [flowId],
  );
  return row?.count ?? 0;
}

/** Undefined where there are none. */
async function findCallers(sql: Sql, flowId: string): Promise<Callers | undefined> {
  // Most flows are pinned by none: then the runs in flight are not read.
  const pinned = await sql.get('SELECT FROM sluice.run_pins WHERE flow_id = $1 LIMIT 1', [flowId]);
  if (pinned === undefined) return undefined;
  const rows = await sql.all<Callers['runs'][number] & { runsInFlight: number }>(
    `SELECT r.id, r.flow_id AS "flowId", r.flow_name AS "flowName", r.started_at AS "startedAt",
      count(*) OVER () AS "runsInFlight"
    FROM sluice.runs r JOIN sluice.run_pins p ON p.run_id = r.id AND p.flow_id = $1
    LEFT JOIN sluice.sub_runs s ON s.run_id = r.id
    WHERE r.status = 'Running' AND coalesce(s.root_started_at, r.started_at) <
      coalesce((SELECT draining_since FROM sluice.flows WHERE id = $1), ${Number.MAX_SAFE_INTEGER})
    ORDER BY r.started_at, r.id LIMIT ${NAMED_RUNS}`,
    [flowId],
  );
  const [first] = rows;
  return first && { runsInFlight: first.runsInFlight, runs: rows.map(({ runsInFlight, ...run }) => run) };
}

async function listInFlight(sql: Sql, flowId: string): Promise<LiveRun[]> {
  const runs = await sql.all<Omit<LiveRun, 'steps'>>(
    `SELECT id, revision, trigger_key AS "triggerKey", started_at AS "startedAt"
    FROM sluice.runs WHERE status = 'Running' AND flow_id = $1 ORDER BY started_at, id LIMIT ${NAMED_RUNS}`,
    [flowId],
  );
  const named = await Promise.all(
    [...new Set(runs.map(({ revision }) => revision))].map(async (revision) => {
      const stepKeys = Object.keys((await revisionOf(sql, flowId, revision)).graph);
      const ids = runs.filter((run) => run.revision === revision).map(({ id }) => id);
      return sql.all<{ runId: string; stepKey: string } & LiveRun['steps'][string]>(
        // By key, because a run may also have thousands of children of loops.
        `SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.status,
          s.status = 'Pending' AND (s.wait IS NOT NULL OR s.attempt_count > 0) AS "isWaiting"
        FROM unnest($1::uuid[]) AS r (id) CROSS JOIN unnest($2::text[]) AS k (step_key)
        JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = k.step_key ORDER BY s.run_id, s.step_key`,
        [ids, stepKeys],
      );
    }),
  );
  const steps = new Map(runs.map(({ id }) => [id, {} as Record<string, LiveRun['steps'][string]>]));
  for (const { runId, stepKey, status, isWaiting } of named.flat()) {
    const ofRun = steps.get(runId);
    if (ofRun !== undefined) ofRun[stepKey] = { status, isWaiting };
  }
  return runs.map((run) => ({ ...run, steps: steps.get(run.id) ?? {} }));
}

/**
 * When the newest kept run that did anything in a step was started, by top-level step key; of the given keys or all. Only
 * runs of a revision that has the step can have done anything in it.
 */
async function lastRunsOf(sql: Sql, flowId: string, wanted?: ReadonlySet<string>): Promise<Map<string, number>> {
  const lastRuns = new Map<string, number>();
  if (wanted?.size === 0) return lastRuns;
  for (const revision of await listRunRevisions(sql, flowId)) {
    const graph = (await revisionOf(sql, flowId, revision)).graph;
    const stepKeys = [];
    for (const stepKey of Object.keys(graph)) {
      if (lastRuns.has(stepKey) || wanted?.has(stepKey) === false) continue;
      if (!(await isRetired(sql, graph, { flowId, revision, stepKey }))) stepKeys.push(stepKey);
    }
    const found = stepKeys.length === 0 ? [] : await lastRunsIn(sql, { flowId, revision, stepKeys });
    for (const { stepKey, startedAt } of found) lastRuns.set(stepKey, startedAt);
  }
  return lastRuns;
}

/**
 * Whether a revision keeps a step only for the sake of its records. Its own runs still write a row, which says that
 * they skipped the step or did nothing; if that counted as history, a retired step could never be removed.
 */
async function isRetired(
  sql: Sql,
  graph: Graph,
  { flowId, revision, stepKey }: { flowId: string; revision: number; stepKey: string },
): Promise<boolean> {
  const step = graph[stepKey];
  if (step === undefined) return false;
  if (isGuarded(step)) return true;
  if (!isIdle(graph, stepKey)) return false;
  if (isMarkedRetired(step)) return true;
  // A step that was a NoOp all along was never retired, unless it says so.
  const text = JSON.stringify(stepKey);
  for await (const { manifest } of manifestsOf(sql, { flowId, before: revision, text })) {
    const former = (manifest.steps as unknown as Graph)[stepKey];
    if (former !== undefined && former.type !== 'NoOp') return true;
  }
  return false;
}

/** Revisions that kept runs are pinned to, newest first: one jump through the index for each. */
async function listRunRevisions(sql: Sql, flowId: string): Promise<number[]> {
  const rows = await sql.all<{ revision: number }>(
    `WITH RECURSIVE pinned (revision) AS (
      SELECT max(revision) FROM sluice.runs WHERE flow_id = $1
      UNION ALL
      SELECT (SELECT max(r.revision) FROM sluice.runs AS r WHERE r.flow_id = $1 AND r.revision < pinned.revision)
      FROM pinned WHERE pinned.revision IS NOT NULL
    ) SELECT revision FROM pinned WHERE revision IS NOT NULL`,
    [flowId],
  );
  return rows.map(({ revision }) => revision);
}

/**
 * When the newest run of a revision that has a row of the step was started. A run that ends has rows of all its steps,
 * unless it failed or was stopped on the way, so the first one read usually has the answer. If a thousand have none, it
 * assumes that an older one has: a step wrongly kept costs less than history wrongly lost.
 */
async function lastRunsIn(
  sql: Sql,
  { flowId, revision, stepKeys }: { flowId: string; revision: number; stepKeys: readonly string[] },
): Promise<{ stepKey: string; startedAt: number }[]> {
  const newest = `SELECT id, started_at FROM sluice.runs WHERE flow_id = $1 AND revision = $2
    ORDER BY started_at DESC, id DESC`;
  return sql.all(
    `SELECT "stepKey", "startedAt" FROM (
      SELECT step_key AS "stepKey", coalesce(
        (SELECT r.started_at FROM (${newest} LIMIT ${ASKED_RUNS}) AS r
          JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = k.step_key
          ORDER BY r.started_at DESC, r.id DESC LIMIT 1),
        (SELECT started_at FROM (${newest} LIMIT 1 OFFSET ${ASKED_RUNS}) AS further)
      ) AS "startedAt"
      FROM unnest($3::text[]) AS k (step_key)
    ) AS found WHERE "startedAt" IS NOT NULL`,
    [flowId, revision, stepKeys],
  );
}
